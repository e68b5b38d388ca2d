#!/bin/bash
# What a host is like: two answers differ when something was written, installed, started or stopped between them.
set -euo pipefail

# A reboot is another start of process 1, a restart another invocation.
cut -d ' ' -f 22 /proc/1/stat
systemctl show --property=Id,ActiveState,UnitFileState,MainPID,InvocationID \
  containerd.service docker.service nvidia-persistenced.service nftables.service ssh.service
dpkg-query --show --showformat='${db:Status-Abbrev} ${Package} ${Version}\n'
apt-mark showhold

# A file that is written, replaced or given to somebody else has another time of change, whatever it holds. Python compiles what it imports,
# and keeps the result in __pycache__.
find /boot /etc /home /opt /root /srv /usr /var/lib/dpkg /var/spool -xdev \
  \( -name __pycache__ -o -path /root/.ansible \) -prune -o \
  \( -type d -printf '%p %m %u:%g\n' -o -printf '%p %y %m %u:%g %s %C@ %l\n' \) | sort

if [ -e /proc/driver/nvidia/version ]; then
  stat --format '%n %y' /proc/driver/nvidia/version
fi
if command -v docker > /dev/null && systemctl is-active --quiet docker; then
  docker ps --all --no-trunc --format '{{.ID}} {{.Names}} {{.State}}'
  docker image ls --no-trunc --format '{{.ID}} {{.Repository}}:{{.Tag}}'
fi
if command -v nft > /dev/null; then
  nft list ruleset | sed 's/packets [0-9]* bytes [0-9]*//'
fi
