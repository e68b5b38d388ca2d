#!/bin/bash
# Runs inside a container of the bare host's image: repacks Debian's Docker Engine in the layout of Docker's own static archive
# (which no package registry carries).
# usage: debian_artefacts.sh OUT
set -euo pipefail
out=$1
mkdir -p "$out/docker"
cd "$(mktemp -d)"
apt-get update -q
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
