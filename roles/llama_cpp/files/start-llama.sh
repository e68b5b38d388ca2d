#!/usr/bin/env bash
# Starts llama.cpp's server, as the only task of a container: start-llama.sh KEY KEYS COMMAND...
# KEY is the file of the API key, or empty for an API without one; KEYS is where the server reads all keys that count, and lies in the container.
set -euo pipefail

key=$1 keys=$2
shift 2

# Variables of the inventory that may be secrets: 'docker inspect' shows none of them.
if [ -n "${LLM_ENVIRONMENT_FILE:-}" ]; then
  set -a
  # shellcheck source=/dev/null
  . "$LLM_ENVIRONMENT_FILE"
  set +a
fi

# The server takes a file without a key for an API that is open to everybody.
if [ -n "$key" ]; then
  umask 077
  : >"$keys"
  # The key of clients, and the gateway's.
  for file in "$key" "$key.gateway"; do
    if [ -f "$file" ]; then
      (LC_ALL=C && grep -xE '[!-~]+' "$file" >>"$keys") || true # a file without a key adds none
    fi
  done
  if ! [ -f "$key" ] || ! (LC_ALL=C && grep -qxE '[!-~]+' "$key"); then
    echo "error: $key holds no key; without one the API would be open to everybody" >&2
    exit 1
  fi
fi
exec "$@"
