#!/usr/bin/env bash
# vLLM's own benchmark: bash -s -- SECONDS KEY_FILE OPTIONS... with this as standard input. Its figures are all that
# standard output gets. After so many seconds it ends without any.
set -euo pipefail

seconds=$1
key=$2
shift 2

mkdir -p ~
# From a file: neither the process list nor 'docker inspect' shows the key.
if [ -f "$key" ]; then
  OPENAI_API_KEY=$(cat "$key")
  export OPENAI_API_KEY
fi
folder=$(mktemp -d)
timeout --kill-after=10 "$seconds" vllm bench serve "$@" --save-result --result-dir "$folder" --result-filename figures.json </dev/null >&2
cat "$folder/figures.json"
