#!/bin/sh
# check_includes_test.sh: the repository's includes follow the arrows, and a tree that breaks them is refused.
set -eu
repo=$(cd "$(dirname "$0")/../.." && pwd)
check=$repo/scripts/check_includes.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

"$check" "$repo" || { echo "the repository breaks its own arrows"; exit 1; }

# expect STATUS FILE TARGET: an include of TARGET in FILE, alone in a tree, gives that exit status.
expect() {
    rm -rf "$tree/src" "$tree/include"
    mkdir -p "$tree/src" "$tree/include" "$tree/$(dirname "$2")"
    printf '/* x */\n  #  include "%s"\n' "$3" >"$tree/$2"
    status=0
    "$check" "$tree" 2>"$tree/said" || status=$?
    [ "$status" = "$1" ] || { echo "$2 with $3: exit status $status, wanted $1"; cat "$tree/said"; exit 1; }
    [ "$1" = 0 ] || grep -q "^$2:2: \"$3\"" "$tree/said" || { echo "$2: not named in:"; cat "$tree/said"; exit 1; }
}

expect 0 src/model/gguf.c base/bytes.h
expect 0 src/qnn/lower.c model/model.h        # through soc and graph
expect 0 src/runtime/chat.h soc/soc.h         # through bundle
expect 0 src/cpu/dot.c dot.h                  # beside it
expect 0 src/main.c deploy/adb.h              # a command
expect 0 src/graph/dump.c spillway/error.h    # public headers are open to all
expect 0 include/spillway/model.h spillway/error.h

expect 1 src/base/file.c model/model.h        # upwards
expect 1 src/model/gguf.c text/bpe.h          # sideways
expect 1 src/quant/weights.c soc/soc.h
expect 1 src/deploy/adb.c runtime/session.h
expect 1 src/cpu/ops.inc qnn/api.h
expect 1 src/graph/dump.c ../cpu/dot.h        # by another way
expect 1 src/graph/dump.c nowhere/dot.h
expect 1 src/extra/new.c base/file.h          # a folder without a row
expect 1 include/spillway/model.h base/file.h # users don't have it

# A wrong folder has no includes: that is no success.
rm -rf "$tree/src" "$tree/include" && mkdir "$tree/src" "$tree/include"
if "$check" "$tree" 2>/dev/null; then echo "an empty tree passed"; exit 1; fi
