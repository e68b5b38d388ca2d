#!/bin/bash
# Runs inside a container of the bare host's image: fetches Debian's packages of Prometheus and its companions with all that a bare host lacks.
# usage: monitoring_packages.sh OUT PACKAGE...
set -euo pipefail
packages=$1/os_packages/debian-12
shift
export DEBIAN_FRONTEND=noninteractive

apt-get clean
apt-get update -q
mkdir -p "$packages"
apt-get install -q -y --no-install-recommends --download-only "$@"
cp /var/cache/apt/archives/*.deb "$packages"
apt-get install -q -y --no-install-recommends apt-utils
(cd "$packages" && apt-ftparchive packages . > Packages)
