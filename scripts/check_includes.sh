#!/bin/sh
# check_includes.sh: the arrows between the folders of src/ hold: who may include whose headers.
# Usage: scripts/check_includes.sh [ROOT]   (default: this repository)
#
# Each row of the table is a folder and what it may use; it may also use what those may use. Names the file and
# line of every include that follows no arrow, and fails where there is one.
set -eu
cd "${1:-$(dirname "$0")/..}"

arrows='
base
model    base
text     base
graph    base model
soc      base graph
device   base graph
cpu      device soc
qnn      device soc
quant    graph device
bundle   graph soc
runtime  text bundle device
deploy   bundle
cli      base model text graph soc device cpu qnn quant bundle runtime deploy'

find src include -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) -exec \
    grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' {} + | ARROWS="$arrows" awk '
    BEGIN {
        rows = split(ENVIRON["ARROWS"], row, "\n")
        for (r = 1; r <= rows; r++) {
            n = split(row[r], word, " ")
            if (n == 0) continue
            may[word[1], word[1]] = known[word[1]] = 1
            # Rows stand in the order of the data flow, so that what a row names is already complete.
            for (w = 2; w <= n; w++)
                for (f in known) if ((word[w], f) in may) may[word[1], f] = 1
        }
    }
    {
        split($0, part, ":")
        split($0, quoted, "\"")
        file = part[1]; target = quoted[2]
        n = split(file, path, "/")
        from = path[1] == "include" ? "spillway" : n == 2 ? "cli" : path[2] # src/main.c is of the commands
        to = target ~ /\// ? substr(target, 1, index(target, "/") - 1) : from
        seen++
        if (target ~ /(^|\/)\.\.?\//) why = "is relative; wanted folder/name.h"
        else if (to == "spillway") next
        else if (from == "spillway") why = "is not a public header"
        else if (!(from in known)) why = "stands in a folder that has no row in scripts/check_includes.sh"
        else if (!(to in known)) why = "names no folder of src/"
        else if (!((from, to) in may)) why = "follows no arrow: " from " may not use " to
        else next
        printf "%s:%s: \"%s\" %s\n", file, part[2], target, why > "/dev/stderr"
        bad++
    }
    END {
        if (seen == 0) print "no include found: wrong folder?" > "/dev/stderr"
        exit bad > 0 || seen == 0
    }'
