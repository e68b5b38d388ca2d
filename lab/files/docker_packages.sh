#!/bin/bash
# Runs inside a container of the bare host's image: fetches Debian's packages of Docker Engine with all that a bare host lacks,
# repacks the engine of the next Debian release in the layout of Docker's static archive, and packs the lab's container toolkit
# as NVIDIA packs its own.
# usage: docker_packages.sh OUT TOOLKIT_VERSION PACKAGE...
set -euo pipefail
out=$1
toolkit=$2
shift 2
export DEBIAN_FRONTEND=noninteractive

apt-get clean
apt-get update -q
packages=$out/os_packages/debian-12
mkdir -p "$packages" "$out/docker"
apt-get install -q -y --no-install-recommends --download-only docker.io "$@"
cp /var/cache/apt/archives/*.deb "$packages"

# Four packages, one version, as NVIDIA has them.
package() {
  local name=$1 depends=$2 folder
  shift 2
  folder=$(mktemp -d)
  chmod 0755 "$folder"
  # dpkg forgets a package that has no file of its own.
  mkdir -p "$folder/DEBIAN" "$folder/usr/bin" "$folder/usr/share/doc/$name"
  echo "See lab/files/docker_packages.sh." > "$folder/usr/share/doc/$name/README"
  for program in "$@"; do
    sed "s/@VERSION@/$toolkit/g" "/sim/$program" > "$folder/usr/bin/$program"
    chmod 0755 "$folder/usr/bin/$program"
  done
  printf '%s\n' "Package: $name" "Version: $toolkit-1" "Architecture: amd64" "Maintainer: baremetal.llm lab <lab@localhost>" \
    ${depends:+"Depends: $depends"} "Description: stand-in for NVIDIA's container toolkit" > "$folder/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$folder" "$packages" > /dev/null
}
package libnvidia-container1 ""
package libnvidia-container-tools libnvidia-container1 nvidia-container-cli
package nvidia-container-toolkit-base "" nvidia-container-runtime nvidia-ctk
package nvidia-container-toolkit "nvidia-container-toolkit-base, libnvidia-container-tools" nvidia-container-runtime-hook

apt-get install -q -y --no-install-recommends apt-utils
(cd "$packages" && apt-ftparchive packages . > Packages)

# The next release's engine runs here: its programs ask for no newer C library. Its runc does, so that stays this release's.
archive=$(grep -rhoE 'https?://[^] ]+' /etc/apt/sources.list /etc/apt/sources.list.d | grep -v security | head -n 1)
cd "$(mktemp -d)"
apt-get download -q runc tini
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive trixie main" > /etc/apt/sources.list.d/next.list
apt-get update -q
apt-get download -q docker.io/trixie docker-cli/trixie containerd/trixie
version=$(dpkg-deb --field docker.io_*.deb Version | sed 's/[+~-].*//')
for package in *.deb; do dpkg-deb -x "$package" root; done
mkdir docker
for binary in docker containerd containerd-shim-runc-v2 ctr dockerd docker-proxy runc; do
  cp -L "$(find root/usr -name "$binary" -type f -path '*bin*' -print -quit)" docker/
done
cp root/usr/bin/tini-static docker/docker-init
chmod 0755 docker/*
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c docker | gzip -n > "$out/docker/docker-$version.tgz"
printf 'older: 20.10.24\nnewer: %s\n' "$version" > "$out/versions.yml"
