#!/bin/sh
# build_peers.sh: llama.cpp's llama-bench and llama-quantize for this machine, and SmolLM2-135M in the forms that they
# are measured in, all under external/peers/. What is there is not built again.
#
# The model's file has 4-bit blocks; it is widened to F16 first, and Q8_0 and Q4_0 are made from that, so that every
# form has the same weights as near as it can hold them.
set -eu
cd "$(dirname "$0")/.."
scripts/fetch.sh --peers

model=external/models/SmolLM2-135M-Instruct.Q4_1.gguf
peers=external/peers
bin=$peers/build/bin

if [ ! -x $bin/llama-bench ] || [ ! -x $bin/llama-quantize ]; then
    cmake -S $peers/llama.cpp -B $peers/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF \
        -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF \
        -DCMAKE_PROJECT_llama.cpp_INCLUDE="$PWD/scripts/peers.cmake" >$peers/configure.log
    nice cmake --build $peers/build --target llama-bench llama-quantize
fi

# quantize TYPE FROM: written under another name first, so that a killed run leaves nothing that counts as there.
quantize() {
    to=$peers/SmolLM2-135M-$1.gguf
    if [ -f "$to" ]; then return; fi
    $bin/llama-quantize --allow-requantize "$2" "$to.partial" "$1" >"$peers/quantize-$1.log" 2>&1 || {
        cat "$peers/quantize-$1.log" >&2
        exit 1
    }
    mv "$to.partial" "$to"
}
quantize F16 $model
quantize Q8_0 $peers/SmolLM2-135M-F16.gguf
quantize Q4_0 $peers/SmolLM2-135M-F16.gguf
