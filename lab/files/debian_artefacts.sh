#!/bin/bash
# Runs inside a container of the bare host's image: fetches what such a host lacks, with everything it depends on, and
# repacks Debian's Docker Engine in the layout of Docker's own static archive (which no package registry carries).
# usage: debian_artefacts.sh OUT PACKAGE...
set -euo pipefail
out=$1
shift
apt-get clean
apt-get update -q
packages=$out/os_packages/debian-12
mkdir -p "$packages" "$out/docker"
apt-get install -q -y --no-install-recommends --download-only "$@"
cp /var/cache/apt/archives/*.deb "$packages"
apt-get install -q -y --no-install-recommends apt-utils
(cd "$packages" && apt-ftparchive packages . > Packages)

work=$(mktemp -d)
cd "$work"
apt-get download -q docker.io containerd runc tini
version=$(dpkg-deb --field docker.io_*.deb Version | sed 's/[+~-].*//')
for package in *.deb; do dpkg-deb -x "$package" root; done
mkdir docker
cp -L root/usr/bin/{docker,containerd,containerd-shim-runc-v2,ctr} root/usr/sbin/{dockerd,docker-proxy,runc} docker/ 2>/dev/null ||
  for binary in docker containerd containerd-shim-runc-v2 ctr dockerd docker-proxy runc; do
    cp -L "$(find root/usr -name "$binary" -type f -path '*bin*' -print -quit)" docker/
  done
cp root/usr/bin/tini-static docker/docker-init
chmod 0755 docker/*
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c docker | gzip -n > "$out/docker/docker-$version.tgz"
