#!/usr/bin/env bash
# Fetches wheels of vLLM and torch from the package index that pip uses, and reads them. usage: check_wheels.sh FOLDER
set -euo pipefail
folder=${1:?usage: check_wheels.sh FOLDER}
here=$(dirname "$0")

fetch() {
  compgen -G "$folder/$1-$2-*.whl" > /dev/null && return
  python -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 \
    --platform manylinux1_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_31_x86_64 --platform manylinux_2_35_x86_64 \
    --dest "$folder" "$1==$2"
}

mkdir -p "$folder"
for release in 0.8.5.post1 0.19.1 0.20.0; do fetch vllm "$release"; done
for release in 2.6.0 2.8.0 2.11.0; do fetch torch "$release"; done
python "$here/inspect_images.py" "$folder"/*.whl
