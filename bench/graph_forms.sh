#!/usr/bin/env bash
# Compiles SmolLM2-135M for SM8750 in several forms and prints a table of what Qualcomm's compiler says of each graph.
# usage: bench/graph_forms.sh [BUILD_FOLDER] > docs/graph-forms.tsv        (about 16 minutes on two cores)
set -euo pipefail
cd "$(dirname "$0")/.."
spillway=${1:-build/release}/spillway
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf 'recipe\tAR\tcontext\tVTCM MB\tattention\tgraph\tops\tspill-fill B\tspill B\tfill B\twrite B\tread B\tfinalize s\n'
measure() { # recipe, AR, context, VTCM, form
    "$spillway" compile -m SM8750 --decoder_model smollm2_135m --quant "$1" --prefill_ar_len "$2" \
        --max_seq_len "$3" --vtcm_mb "$4" --attention "$5" --calib_samples 2 --artifact "$work/bundle" \
        --log_level error
    "$spillway" inspect --json "$work/bundle" | python3 -c '
import json, sys
manifest = json.load(sys.stdin)
for g in manifest["graphs"]:
    ddr = g["ddr"]
    print(*sys.argv[1:], g["name"], sum(g["ops"].values()), g["spill_fill_bytes"], ddr["spill"], ddr["fill"],
          ddr["write"], ddr["read"], "%.1f" % g["finalize_seconds"], sep="\t")' "$@"
}
measure 16a8w 32 128 8 grouped
measure 16a8w 32 128 8 per_kv_head
measure 8a8w 32 128 8 grouped
measure f16 32 128 8 grouped
measure 16a4w 32 128 8 grouped
measure 16a4w_block32 32 128 8 grouped
measure f16a8w 32 128 8 grouped
measure f16a8w_block32 32 128 8 grouped
measure f16a4w_block32 32 128 8 grouped
measure 16a8w 128 1024 8 grouped
measure 16a8w 128 1024 8 per_kv_head
measure 16a8w 128 1024 2 grouped
measure 16a8w 128 1024 2 per_kv_head
