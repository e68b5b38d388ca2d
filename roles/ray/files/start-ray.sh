#!/usr/bin/env bash
# Starts the Ray node of this host with the arguments given, as the only task of a container or of a unit.
# A worker waits for the head, however long that takes, so hosts may boot in any order.
set -euo pipefail

# Variables of the inventory that may be secrets: neither 'docker inspect' nor the journal shows them.
if [ -n "${LLM_ENVIRONMENT_FILE:-}" ]; then
  set -a
  # shellcheck source=/dev/null
  . "$LLM_ENVIRONMENT_FILE"
  set +a
fi

for argument in "$@"; do
  case $argument in
    --address=*)
      head=${argument#--address=}
      # Where packets are dropped the kernel would try for two minutes, with ever longer pauses.
      until timeout 5 bash -c "exec 3<>/dev/tcp/${head%:*}/${head##*:}" 2>/dev/null; do
        echo "waiting for the Ray head at $head"
        sleep 2
      done
      ;;
  esac
done

# What earlier starts left: Ray makes a new session each time and never removes one. First of all, for the disk may be full.
rm -rf "${TMPDIR:-/tmp}/ray" # as Ray itself finds it (python/ray/_common/utils.py)

mkdir -p ~
# Without this file the head asks addresses of three clouds which of them it runs in, even with usage statistics off
# (ray/_common/usage/usage_lib.py, get_cluster_config_to_report).
[ -s ~/ray_bootstrap_config.yaml ] || printf 'provider: {type: local}\n' >~/ray_bootstrap_config.yaml
# With usage statistics off, the head still wants to tell Ray's makers that they are (ray/dashboard/modules/usage_stats/usage_stats_head.py,
# _report_disabled_usage_sync), and looks up usage-stats.ray.io for that. Without an address it neither asks nor sends.
if [ "${RAY_USAGE_STATS_ENABLED:-}" = 0 ]; then
  export RAY_USAGE_STATS_REPORT_URL=
fi
exec ray start "$@"
