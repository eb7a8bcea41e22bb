#!/bin/sh
# compare_whole.sh [RECIPE...]: SmolLM2-135M on the CPU device and on Qualcomm's emulator, step by step: a prompt of
# 64 tokens, 16 steps behind it, context 128, AR 32. Fails where the likeliest token differs by more than noise, or
# where the logits' SQNR is below the recipe's bound. Bundles stay in build/compare/. Takes minutes a recipe.
set -e
cd "$(dirname "$0")/.."
program=build/release/spillway
text="Sir Walter Elliot, of Kellynch Hall, in Somersetshire, was a man who, for his own amusement, never took up any \
book but the Baronetage; there he found occupation for an idle hour, and consolation in a distressed one; there his \
faculties were roused into admiration and respect"
for recipe in ${@:-16a8w 8a8w}; do
    bundle=build/compare/$recipe
    [ -d "$bundle" ] || $program compile -m SM8750 --decoder_model smollm2_135m --quant "$recipe" --max_seq_len 128 \
        --prefill_ar_len 32 --artifact "$bundle"
    echo "$recipe:"
    $program compare "$bundle" --raw --prompt "$text" --tokens 16 --ops "${OPS:-off}" --least_sqnr 35
done
