#!/usr/bin/env bash
# Starts the API server, as the container's only task: start-vllm.sh GPUS COMMAND...
# With GPUS above 0 it first waits until the Ray cluster at RAY_ADDRESS has that many free; a host that is missing may come
# back at any time. What it does is in a file of its own, for the probe: waiting is not loading.
set -euo pipefail

gpus=$1
shift
if [ "$gpus" -gt 0 ]; then
  # Since 0.17.0 vLLM gives every worker the NCCL_* and UCX_* of this host, but for the names in this file (vllm/ray/ray_env.py). Each
  # Ray node has its own: an interface may have another name there.
  config=${VLLM_CONFIG_ROOT:-${XDG_CONFIG_HOME:-$HOME/.config}/vllm}
  mkdir -p "$config"
  names=$(printf '"%s",' "${!NCCL_@}" "${!UCX_@}")
  printf '[%s]\n' "${names%,}" > "$config/ray_non_carry_over_env_vars.json"
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
# llm_api_paths.py, which vLLM loads by name.
export PYTHONPATH=/llm/middleware${PYTHONPATH:+:$PYTHONPATH}
exec "$@"
