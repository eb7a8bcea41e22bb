# The front door: each target is one or two commands that can also be typed by hand. `make` lists them.

SOC    := SM8750
MODEL  := external/models/SmolLM2-135M-Instruct.Q4_1.gguf
PROMPT := I would like to learn python, could you teach me with a simple example?
ARGS   :=

sources = find $(wildcard src include tests bench fuzz) -name '*.[ch]'

.PHONY: help setup build demo test conformance bench asan clean format lint setup-aarch64 build-aarch64 aarch64

help:
	@echo 'make demo           install what is missing, build, compile SmolLM2-135M for $(SOC) and run it'
	@echo 'make test           install what is missing, build, run all tests'
	@echo 'make conformance    the CPU device against Qualcomm'"'"'s emulator: each op alone, then a whole model'
	@echo 'make bench          speed of the CPU device and of compiles, llama.cpp beside it, on an idle machine; minutes'
	@echo 'make build          build/release/spillway'
	@echo 'make setup          Debian packages, Qualcomm'"'"'s libraries and the model only'
	@echo 'make asan           the quick tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make format, lint   write, check the format of the C; lint checks the include arrows too'
	@echo 'make aarch64        cross build for 64-bit ARM Linux, the quick tests under qemu; then make test runs the'
	@echo '                    tests of the emulated phone too'
	@echo 'make clean          remove build/ and out/; external/ stays'
	@echo 'ARGS="..." adds options: to spillway llama in demo, to ctest in test and asan, to bench/bench.py in bench'

setup:
	@scripts/packages.sh build
	@scripts/fetch.sh

build: setup
	cmake --preset release
	cmake --build --preset release

demo: build
	build/release/spillway llama -m $(SOC) --temperature 0 --model_mode hybrid --max_seq_len 128 \
	    --prefill_ar_len 32 --decoder_model smollm2_135m --model $(MODEL) --use_slc_allocator \
	    --prompt "$(PROMPT)" --artifact out/ $(ARGS)
	build/release/spillway inspect out/

test: build
	@scripts/run_tests.sh build/release $(ARGS)

conformance: build
	build/release/tests/cli_conformance_test
	build/release/tests/cli_weight_forms_slow_test
	scripts/compare_whole.sh

bench: setup
	cmake --preset release -DSPILLWAY_BENCH=ON
	cmake --build --preset release --target spillway bench_cpu_device bench_prepare
	scripts/build_peers.sh
	bench/bench.py $(ARGS)

# Tests that load Qualcomm's libraries or run the whole model have the label slow: they take minutes under the
# sanitizers, whose reports on code without sources help nobody. A size no allocator can give is to be NULL there
# too, not the end: tests ask for such sizes.
asan: setup
	cmake --preset asan
	cmake --build --preset asan
	@ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 scripts/run_tests.sh build/asan -LE slow $(ARGS)

format:
	@scripts/packages.sh format
	$(sources) -exec clang-format -i {} +

lint:
	@scripts/packages.sh format
	$(sources) -exec clang-format --dry-run -Werror {} +
	scripts/check_includes.sh

setup-aarch64:
	@scripts/packages.sh build aarch64
	@scripts/fetch.sh --aarch64

build-aarch64: setup-aarch64
	cmake --preset aarch64
	cmake --build --preset aarch64

aarch64: build-aarch64
	@scripts/run_tests.sh build/aarch64 -LE slow $(ARGS)

clean:
	rm -rf build out
