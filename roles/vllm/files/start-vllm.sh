#!/usr/bin/env bash
# Starts the API server, as the container's only task: start-vllm.sh GPUS COMMAND...
# With GPUS above 0 it first waits until the Ray cluster at RAY_ADDRESS has that many free; a host that is missing may come
# back at any time. What it does is in a file of its own, for the probe: waiting is not loading.
set -euo pipefail

gpus=$1
shift
if [ "$gpus" -gt 0 ]; then
  echo waiting > /tmp/llm-vllm.phase
  until python3 /llm/wait_for_gpus.py "$RAY_ADDRESS" "$gpus"; do
    sleep 5
  done
fi
echo starting > /tmp/llm-vllm.phase
# From a file: neither the process list nor 'docker inspect' shows it.
key=/run/secrets/vllm_api_key
if [ -f "$key" ]; then
  VLLM_API_KEY=$(cat "$key")
  export VLLM_API_KEY
fi
exec "$@"
