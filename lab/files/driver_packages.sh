#!/bin/bash
# Runs inside a container of the bare host's image: fetches two versions of Debian's packages of the NVIDIA driver, that of the
# release and that of its security updates, each as a repository of its own with all that a bare host lacks.
# What cannot work without a GPU is replaced in them by the lab's stand-ins: three programs, and the headers of the running kernel,
# with which dkms "builds" the lab's module. What only a compiled module and a card read is empty, which saves each installation
# the unpacking and copying of 130 MB. All else is Debian's: libraries, maintainer scripts, dkms and its sources.
# usage: driver_packages.sh OUT RELEASE PACKAGE...
set -euo pipefail
out=$1
release=$2
shift 2
export DEBIAN_FRONTEND=noninteractive

archive=$(grep -rhoE 'https?://[^] ]+' /etc/apt/sources.list /etc/apt/sources.list.d | grep -v security | head -n 1)
archive=${archive%/}
security=${archive%/debian}/debian-security
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
apt_sources() {
  for source in "$@"; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $source main contrib non-free non-free-firmware"
  done > /etc/apt/sources.list
  apt-get update -q
}

# A package as it is, but for some files: PACKAGE FILE=STAND-IN... Without a stand-in a file is empty.
replace() {
  local file
  file=$(echo "$1"_*.deb)
  dpkg-deb -R "$file" unpacked
  for pair in "${@:2}"; do
    mkdir -p "unpacked/$(dirname "${pair%%=*}")"
    if [ -n "${pair##*=}" ]; then
      sed "s/@VERSION@/$version/g" "/sim/${pair##*=}" > "unpacked/${pair%%=*}"
    else
      rm "unpacked/${pair%%=*}"
      touch "unpacked/${pair%%=*}"
    fi
  done
  chmod -f 0755 unpacked/usr/bin/* unpacked/usr/lib/nvidia/* unpacked/usr/lib/nvidia/current/* || true
  if [ -e unpacked/lib/systemd/system/lab-nvidia-module.service ]; then
    mkdir unpacked/lib/systemd/system/sysinit.target.wants
    ln -s ../lab-nvidia-module.service unpacked/lib/systemd/system/sysinit.target.wants/
  fi
  rm -f unpacked/DEBIAN/md5sums
  dpkg-deb --root-owner-group -Zgzip -z1 -b unpacked "$file" > /dev/null
  rm -r unpacked
}

kernel_headers() {
  local kernel package
  kernel=$(uname -r)
  package=linux-headers-$kernel
  mkdir -p "headers/DEBIAN" "headers/usr/src/$package/include" "headers/lib/modules/$kernel"
  ln -s "/usr/src/$package" "headers/lib/modules/$kernel/build"
  touch "headers/usr/src/$package/.config"
  cp /lab/kernel_headers.mk "headers/usr/src/$package/Makefile"
  printf '%s\n' "Package: $package" "Version: 1" "Architecture: amd64" "Maintainer: baremetal.llm lab <lab@localhost>" \
    "Description: stand-in for the headers of the running kernel" > headers/DEBIAN/control
  dpkg-deb --root-owner-group -b headers "${package}_1_amd64.deb" > /dev/null
  rm -r headers
}

for name in older newer; do
  if [ "$name" = older ]; then
    apt_sources "$archive $release"
  else
    apt_sources "$archive $release" "$security $release-security"
  fi
  apt-get clean
  apt-get install -q -y --no-install-recommends --download-only "$@"
  mkdir -p "$out/$name"
  cd "$out/$name"
  cp /var/cache/apt/archives/*.deb .
  version=$(dpkg-deb --field nvidia-smi_*.deb Version)
  version=${version%%-*}
  echo "$name: $version" >> "$out/versions.yml"
  replace nvidia-smi usr/lib/nvidia/current/nvidia-smi=nvidia-smi
  replace nvidia-persistenced usr/bin/nvidia-persistenced=nvidia-persistenced
  replace nvidia-modprobe usr/bin/nvidia-modprobe=nvidia-modprobe usr/lib/nvidia/lab-load-module=load-module \
    lib/systemd/system/lab-nvidia-module.service=nvidia-module.service
  replace nvidia-kernel-dkms "usr/src/nvidia-current-$version/nvidia/nv-kernel.o_binary=" \
    "usr/src/nvidia-current-$version/nvidia-modeset/nv-modeset-kernel.o_binary="
  replace firmware-nvidia-gsp "lib/firmware/nvidia/$version/gsp_ga10x.bin=" "lib/firmware/nvidia/$version/gsp_tu10x.bin="
  kernel_headers
done
apt-get install -q -y --no-install-recommends apt-utils
for name in older newer; do
  (cd "$out/$name" && apt-ftparchive packages . > Packages)
done
if [ "$(cut -d ' ' -f 2 "$out/versions.yml" | sort -u | wc -l)" != 2 ]; then
  echo "the archive and its security updates hold the same version of the driver: $(cat "$out/versions.yml")" >&2
  exit 1
fi
