#!/bin/sh
# run_tests.sh: runs a build folder's tests through ctest, then says how many cases there were.
# Usage: scripts/run_tests.sh BUILD_FOLDER [CTEST_OPTION...]
#
# The last line, "N passed, N failed, N skipped", sums cmocka's cases over all tests. A test without cmocka's
# summary counts as one case: passed, skipped, or failed where it crashed, timed out or was not found.
# Fails where a case failed, or where none ran.
set -eu

[ $# -ge 1 ] || { echo "usage: $0 BUILD_FOLDER [CTEST_OPTION...]" >&2; exit 2; }
folder=$(cd "$1" && pwd)
shift
report=$folder/tests.xml
rm -f "$report"

status=0
ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$(nproc)" \
    --output-junit "$report" --test-output-size-passed 10000000 --test-output-size-failed 10000000 \
    "$@" || status=$?
[ -f "$report" ] || { echo "error: ctest wrote no report: $report" >&2; exit 1; }

awk -v status="$status" '
    # The number in a summary line, "[  PASSED  ] 3 test(s)" or "[  FAILED  ] group: 1 test(s), listed below".
    # A test may have left its own text before it on the line.
    function summary(word,    at, rest) {
        at = index($0, "[  " word " ")
        if (at == 0) return 0
        rest = substr($0, at)
        if (!match(rest, /[0-9]+ test\(s\)(\.|, listed below)/)) return 0
        return substr(rest, RSTART) + 0
    }
    /<testcase / {
        p = f = s = 0
        outcome = /status="run"/ ? "run" : /status="fail"/ ? "fail" : "notrun"
    }
    /<skipped message="SKIP_RETURN_CODE/ { outcome = "skip" }
    { p += summary("PASSED"); f += summary("FAILED"); s += summary("SKIPPED") }
    /<\/testcase>/ {
        if (outcome == "run" && p + f + s == 0) p = 1
        if ((outcome == "fail" || outcome == "notrun") && f == 0) f = 1
        if (outcome == "skip" && s == 0) s = 1
        passed += p; failed += f; skipped += s
    }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit status != 0 || failed > 0 || passed == 0
    }' "$report"
