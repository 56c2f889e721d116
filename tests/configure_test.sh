#!/usr/bin/env bash
# What scripts/configure.sh decides to build, by compilers and cards that are made up here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset PARTITA_CUDA PARTITA_TORCH
export CUDA_HOME=$folder/none PATH=$folder/bin:/usr/bin:/bin
mkdir "$folder/bin"
failed=0

program() {  # NAME TEXT: prints the text
  printf '#!/bin/sh\necho "%s"\n' "$2" >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}

expect() {  # WANTED NAME [VARIABLE=VALUE ...]
  local wanted=$1 name=$2 found
  shift 2
  found=$(env "$@" scripts/configure.sh --cuda 2>&1) || true
  if [[ $found != *"$wanted"* ]]; then
    echo "FAILED: $name: expected '$wanted', found '$found'"
    failed=1
  fi
}

program nvcc 'Cuda compilation tools, release 13.0, V13.0.88'
program nvidia-smi 'No devices were found'
expect 0 'nvcc without a GPU'
expect 1 'nvcc, and asked for' PARTITA_CUDA=1
program nvidia-smi 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)'
expect 1 'nvcc and a GPU'
expect 0 'both, and not wanted' PARTITA_CUDA=0
expect 'building for CPUs alone' 'a torch without CUDA packages' PARTITA_TORCH="$folder/torch"
expect "PARTITA_CUDA=yes: 0, 1 or nothing expected" 'another word' PARTITA_CUDA=yes
mkdir -p "$folder/packages/torch/lib" "$folder/packages/nvidia/cudnn/include" "$folder/packages/include"
touch "$folder/packages/torch/lib/libtorch_cuda.so" "$folder/packages/nvidia/cudnn/include/cudnn.h" \
  "$folder/packages/include/cudnn_frontend.h"
expect 1 'a torch with them' PARTITA_TORCH="$folder/packages/torch"
program nvcc 'Cuda compilation tools, release 12.4, V12.4.131'
expect 0 'an old nvcc'
expect 'no nvcc of CUDA 13 or newer' 'an old nvcc, and asked for' PARTITA_CUDA=1
mkdir -p "$folder/toolkit/bin"
program nvcc 'Cuda compilation tools, release 13.1, V13.1.9'
mv "$folder/bin/nvcc" "$folder/toolkit/bin/nvcc"
expect 1 'nvcc in CUDA_HOME' CUDA_HOME="$folder/toolkit"
expect 0 'a GPU without nvcc'

((failed == 0)) && echo 'configure.sh decides as it should'
