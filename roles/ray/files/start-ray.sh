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

# What earlier starts left: Ray makes a new session each time and never removes one.
rm -rf /tmp/ray
exec ray start "$@"
