#!/usr/bin/env bash
# Starts the API server, as the only task of a container or of a unit: start-vllm.sh GPUS COMMAND...
# With GPUS above 0 it first waits until the Ray cluster at RAY_ADDRESS has that many free; a host that is missing may come
# back at any time. As long as this program's name is that of the process, the probe takes it for one that waits: waiting is not loading.
set -euo pipefail

gpus=$1
shift

# Variables of the inventory that may be secrets: neither 'docker inspect' nor the journal shows them.
if [ -n "${LLM_ENVIRONMENT_FILE:-}" ]; then
  set -a
  # shellcheck source=/dev/null
  . "$LLM_ENVIRONMENT_FILE"
  set +a
fi

# A user without a name in the image has no home there, and caches belong into one.
mkdir -p ~ || true # a full disk prevents no start

# A server that ends again and again soon after it began starts later each time. Docker's own pauses begin anew once a container has run for
# 10 s, and loading a model takes longer. The file is the container's: a new one, with other settings, starts at once, and so does one that
# somebody restarts during the pause. A unit has another file, which says LLM_STARTS_FILE, and which a restart keeps.
soon_seconds=600 free_starts=3 most_seconds=300
starts=${LLM_STARTS_FILE:-/var/tmp/llm-vllm.starts}
now=$(cut -d. -f1 /proc/uptime) # neither set nor stopped as the time of day is
in_a_row=0
if [[ -f $starts && -r $starts && $(<"$starts") =~ ^([0-9]{1,6})\ ([0-9]{1,12})$ ]]; then
  age=$((now - BASH_REMATCH[2]))
  if ((age >= 0 && age < soon_seconds)); then
    in_a_row=$((BASH_REMATCH[1] + 1))
  fi
fi
pause=0
if ((in_a_row >= free_starts)); then
  doublings=$((in_a_row - free_starts))
  pause=$((doublings > 5 ? most_seconds : 10 << doublings))
  pause=$((pause > most_seconds ? most_seconds : pause))
fi
echo "$in_a_row $((now + pause))" 2>/dev/null >"$starts" || true # a full disk prevents no start
if ((pause > 0)); then
  echo "$in_a_row starts in a row ended within $soon_seconds s: the next one is in $pause s"
  trap 'exit 143' TERM # the first process of a container would ignore it
  sleep "$pause" &
  wait $!
  trap - TERM
fi

if [ "$gpus" -gt 0 ]; then
  # Since 0.17.0 vLLM gives every worker the NCCL_* and UCX_* of this host, but for the names in this file (vllm/ray/ray_env.py). Each
  # Ray node has its own: an interface may have another name there.
  config=${VLLM_CONFIG_ROOT:-${XDG_CONFIG_HOME:-$HOME/.config}/vllm}
  kept=$config/ray_non_carry_over_env_vars.json
  names=$(printf '"%s",' "${!NCCL_@}" "${!UCX_@}")
  if [ "$(cat "$kept" 2>/dev/null)" != "[${names%,}]" ]; then
    mkdir -p "$config"
    printf '[%s]\n' "${names%,}" >"$kept"
  fi
  until "${LLM_PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/wait_for_gpus.py" "$RAY_ADDRESS" "$gpus"; do
    sleep 5
  done
fi
# From a file: neither the process list nor 'docker inspect' shows it.
# An empty LLM_API_KEY_FILE says that the API is to be open. Everything else that keeps the key from being read keeps the server from starting.
key=${LLM_API_KEY_FILE-/run/secrets/vllm_api_key}
if [ -n "$key" ]; then
  if ! [ -f "$key" ]; then
    echo "error: $key is no file; without a key the API would be open to everybody" >&2
    exit 1
  fi
  VLLM_API_KEY=$(cat "$key")
  # What lies between ! and ~ is another matter in each locale, and images may have one.
  if ! (LC_ALL=C && [[ $VLLM_API_KEY =~ ^[!-~]+$ ]]); then
    echo "error: $key holds no key; without one the API would be open to everybody" >&2
    exit 1
  fi
  export VLLM_API_KEY
fi
# Some models ask for a vocabulary that no hub of models has; their own tokenizer holds it. Without the folder vLLM tries to fetch it.
if [ -n "${LLM_MODEL_DIR-}" ] &&
  ! "${LLM_PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/vocabulary.py" "$LLM_MODEL_DIR" "${TIKTOKEN_ENCODINGS_BASE-}"; then
  unset TIKTOKEN_ENCODINGS_BASE
fi
# llm_api_paths.py, which vLLM loads by name.
PYTHONPATH=$(dirname "${BASH_SOURCE[0]}")/middleware${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH
exec "$@"
