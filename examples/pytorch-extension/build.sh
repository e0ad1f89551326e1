#!/bin/sh
# build.sh [OUT]: the core library as someone else ships it (plain nvcc), then the extension with what PYTORCH_NVCC says.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
out=${1:-$here/../../target/pytorch-extension}
mkdir -p "$out"
cd "$out"
nvcc="${CORE_NVCC:-$CUDA_HOME/bin/nvcc} -arch=sm_90 -Xcompiler -fPIC"
if [ ! -f libcore_nv.a ]; then
  $nvcc -dc "$here/../quickstart/core.cu" -o core.o
  $nvcc -dlink core.o -o core_dlink.o
  g++ -shared -o libcore.so core.o core_dlink.o -L"$CUDA_HOME/lib64" -lcudart
  objcopy -j '.nv*' -j '__nv*' core.o core_nv.o
  ar crs libcore_nv.a core_nv.o
fi
TORCH_CUDA_ARCH_LIST=${TORCH_CUDA_ARCH_LIST:-9.0} CORE=$out python3 "$here/setup.py" -q build_ext --build-temp "$out/tmp" --build-lib "$out"
