#!/usr/bin/env bash
# Makes the two files beside it. CUDA 13 no longer compiles for Volta, hence two compilers:
#   NVCC      nvcc of CUDA 13.0
#   PTXAS_12  ptxas of CUDA 12.8, as in the Python package nvidia-cuda-nvcc-cu12
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Many architectures, each compressed, with both suffixes and PTX.
"$NVCC" -c kernel.cu -o many.o -Xfatbin -compress-all \
  -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
  -gencode arch=compute_100f,code=sm_100f -gencode 'arch=compute_120,code=[sm_120,compute_120]'

# Volta, not compressed, so that the flags of the cubin itself can be read.
"$NVCC" -ptx -arch=compute_75 kernel.cu -o "$work/kernel.ptx"
sed -i 's/^\.version .*/.version 8.7/; s/^\.target .*/.target sm_70/' "$work/kernel.ptx"
"$PTXAS_12" -arch=sm_70 "$work/kernel.ptx" -o "$work/kernel.cubin"
"$(dirname "$(readlink -f "$NVCC")")/fatbinary" --64 --create="$work/kernel.fatbin" --compress=false \
  "--image3=kind=elf,sm=70,file=$work/kernel.cubin"
objcopy --input-target=binary --output-target=elf64-x86-64 --rename-section .data=.nv_fatbin "$work/kernel.fatbin" volta.o
strip --strip-debug many.o
