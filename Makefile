# The commands of the project. Each can be called at any time, from any folder (make -C FOLDER), and does only what is
# still to do. The work itself is CMake's and that of scripts/.
.DEFAULT_GOAL := help
.PHONY: help setup build test test-faults test-gpu test-layouts test-layout-pairs quickstart bench compare compare-data compare-gguf compare-hf compare-tokenizers compare-setup fuzz fuzz-cli format tidy clean

JOBS ?= $(shell nproc)
CONFIGURE = scripts/configure.sh
SOURCES = git ls-files -- '*.h' '*.cc'

help:
	@echo 'Partita trains GPT models from raw text on any number of processors.'
	@awk -F ' *## *' '/^[a-z-]+:.*##/ { sub(/:.*/, "", $$1); printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@echo 'PARTITA_CUDA=1 builds for NVIDIA GPUs, =0 for CPUs alone (default: GPUs where nvcc and a GPU are found).'
	@echo 'PARTITA_TORCH=FOLDER takes an installed torch; JOBS=N says how many compilers run (default: one a core).'

setup: ## installs what is missing: Debian packages by apt, libtorch into .deps/torch
	@scripts/setup.sh

build: ## builds everything into build/; the program is build/partita
	@echo 'Building into build/ with $(JOBS) jobs'
	@$(CONFIGURE)
	@cmake --build build --parallel $(JOBS)

test: ## installs, builds and runs all tests
	@scripts/setup.sh --tests
	@$(MAKE) --no-print-directory build
	@echo 'Running the tests'
	@ctest --preset release --parallel $(JOBS)

test-faults: build ## kills runs at random, fails their file operations one by one, and looks what is lost (an hour)
	@tests/faults/campaign.py --program build/partita --shim build/tests/libfail_io.so

test-gpu: build ## checks on the GPUs of this machine what CPUs cannot (a minute)
	@tests/gpu/run.sh

quickstart: setup ## from nothing to a trained model: installs, builds, trains a small GPT-2 on real text
	@echo 'Building the program into build/ with $(JOBS) jobs'
	@$(CONFIGURE)
	@cmake --build build --parallel $(JOBS) --target partita
	@scripts/quickstart.sh

test-layouts: build ## trains on every layout of 2 to 8 ranks, not only on a part that covers all pairs (hours)
	@scripts/test_layouts.sh

test-layout-pairs: build ## saves on one random layout and resumes on another, 60 times (minutes; PAIRS=N)
	@tests/layout_pairs/campaign.py --program build/partita --load-and-save build/tests/load_and_save --pairs $(or $(PAIRS),60)

bench: build ## times the kernels alone, and shows what recomputation saves and costs
	@for program in build/bench/*_benchmark; do echo "== $$program"; "$$program" || exit; done
	@for model in gpt2 llama; do build/partita bench recompute --model.kind=$$model || exit; done

compare: compare-setup ## times training steps and PyTorch's, interleaved (45 minutes); then compare-*
	@bench/train_cpu.py
	@bench/compare_modules.py
	@bench/compare_adam.py
	@bench/compare_checkpoints.py
	@bench/compare_hf.py
	@bench/compare_gguf.py
	@bench/compare_datasets.py
	@$(MAKE) --no-print-directory compare-tokenizers

compare-data: compare-setup ## checks token files and sample orders against megatron-core, byte for byte
	@bench/compare_datasets.py

compare-hf: compare-setup ## checks weights, losses, training, adapters and texts against transformers and PEFT
	@bench/compare_hf.py

compare-gguf: compare-setup ## checks GGUF files against llama.cpp and its package: tensors, ids, losses, texts
	@bench/compare_gguf.py

compare-tokenizers: compare-setup ## checks ids against tokenizers, tiktoken and sentencepiece, and times them (an hour)
	@bench/compare_tokenizers.py
	@bench/compare_bpe_speed.py
	@bench/compare_tokenize_speed.py
	@PYTHONPATH=.deps/peer bench/compare_sentencepiece.py --build build

compare-setup:
	@scripts/setup.sh --peer
	@$(CONFIGURE)
	@cmake --build build --parallel $(JOBS) --target partita tokenizer_speed module_speed adam_speed

fuzz: ## fuzzes the readers of files that others wrote, 10 minutes each (SECONDS_EACH=N); needs clang
	@tests/fuzz/run.sh

fuzz-cli: ## starts the program with absurd values of every key, in little memory (an hour)
	@tests/fuzz/cli_values.py build/partita --starts

format: ## formats our C++ sources
	@command -v clang-format >/dev/null || { echo 'make format: install clang-format' >&2; exit 1; }
	@$(SOURCES) | xargs -d '\n' clang-format -i

tidy: ## lints our C++ sources; files that use torch take some 20 s each
	@command -v clang-tidy >/dev/null || { echo 'make tidy: install clang-tidy' >&2; exit 1; }
	@$(CONFIGURE)
	@git ls-files -- 'src/*.cc' | xargs -d '\n' -n 1 -P $(JOBS) clang-tidy -p build --quiet

clean: ## removes what was built; .deps/ and runs/ stay
	rm -rf build build-*/
