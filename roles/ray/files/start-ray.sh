#!/usr/bin/env bash
# Starts the Ray node of this host with the arguments given, as the container's only task.
# A worker waits for the head, however long that takes, so hosts may boot in any order.
set -euo pipefail

for argument in "$@"; do
  case $argument in
    --address=*)
      head=${argument#--address=}
      until (exec 3<>"/dev/tcp/${head%:*}/${head##*:}") 2>/dev/null; do
        echo "waiting for the Ray head at $head"
        sleep 2
      done
      ;;
  esac
done

# Without this file the head asks addresses of three clouds which of them it runs in, even with usage statistics off
# (ray/_common/usage/usage_lib.py, get_cluster_config_to_report).
printf 'provider: {type: local}\n' >~/ray_bootstrap_config.yaml
# What earlier starts left: Ray makes a new session each time and never removes one.
rm -rf /tmp/ray
exec ray start "$@"
