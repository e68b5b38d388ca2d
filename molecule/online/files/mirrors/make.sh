#!/bin/bash
# Makes in /state what start.sh serves: certificates, and the package repositories from Debian's packages in /engine and /driver.
# usage: make.sh ADDRESS USER PASSWORD
set -euo pipefail
shopt -s extglob
address=$1
user=$2
password=$3
export GNUPGHOME=/tmp/gnupg

mkdir -p /state/tls
cd /state/tls
for kind in site stranger; do
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=authority of $kind" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout "$kind-ca.key" -out "$kind-ca.crt"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$address" -keyout "$kind.key" -out "$kind.csr"
  openssl x509 -req -in "$kind.csr" -CA "$kind-ca.crt" -CAkey "$kind-ca.key" -CAcreateserial -days 30 -out "$kind.crt" \
    -extfile <(printf 'subjectAltName=IP:%s\nextendedKeyUsage=serverAuth\n' "$address")
done 2> /state/tls/openssl.log
htpasswd -Bbc htpasswd "$user" "$password"

mkdir -m 0700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-generate-key "Packages of the site" ed25519 sign never
mkdir -p /state/packages
gpg --armor --export > /state/packages/site.asc

sign() {
  gpg --batch --quiet --yes --clearsign --output InRelease Release
}

# A repository without suites: FOLDER PACKAGE...
flat() {
  mkdir -p "$1"
  # Two of them hold the same packages of Debian, some.
  for package in "${@:2}"; do cp "$package" "$1"; done
  cd "$1"
  apt-ftparchive packages . > Packages
  apt-ftparchive release . > /tmp/Release
  mv /tmp/Release Release
  sign
}

flat /state/packages/debian /packages/*.deb /engine/!(*nvidia-container*).deb /driver/!(*nvidia*).deb
flat /state/packages/driver /driver/*@(nvidia|libcuda)*.deb
cp /state/packages/site.asc /state/packages/driver/
flat /state/packages/libnvidia-container/stable/deb/amd64 /engine/*nvidia-container*.deb
cp /state/packages/site.asc /state/packages/libnvidia-container/gpgkey

# Docker's own packages are not to be had here: these have their names and layout, and Debian's programs.
docker=/state/packages/docker/linux/debian
pool=$docker/dists/bookworm/pool/stable/amd64
mkdir -p "$pool" "$docker/dists/bookworm/stable/binary-amd64"
dpkg-deb -R /engine/docker.io_*.deb /tmp/docker-ce
dpkg-deb -R /engine/containerd_*.deb /tmp/containerd.io
dpkg-deb -x /engine/runc_*.deb /tmp/containerd.io
mkdir -p /tmp/docker-ce-cli/{DEBIAN,usr/bin}
mv /tmp/docker-ce/usr/bin/docker /tmp/docker-ce-cli/usr/bin/
rename() {
  local folder=/tmp/$1
  rm -f "$folder/DEBIAN/md5sums" "$folder/DEBIAN/shlibs" "$folder/DEBIAN/symbols" "$folder/DEBIAN/triggers"
  printf '%s\n' "Package: $1" "Version: $2" "Architecture: amd64" "Maintainer: baremetal.llm lab <lab@localhost>" ${3:+"Depends: $3"} \
    "Description: stand-in for Docker's package" > "$folder/DEBIAN/control"
  dpkg-deb --root-owner-group -Zgzip -z1 -b "$folder" "$pool" > /dev/null
}
rename containerd.io 1.6.20-1 "libc6, libseccomp2"
rename docker-ce-cli 5:20.10.24-1~debian.12~bookworm libc6
rename docker-ce 5:20.10.24-1~debian.12~bookworm "containerd.io, docker-ce-cli, iptables, libdevmapper1.02.1, libsystemd0, tini, adduser"
cd "$docker"
apt-ftparchive packages dists/bookworm/pool > dists/bookworm/stable/binary-amd64/Packages
cd dists/bookworm
apt-ftparchive -o APT::FTPArchive::Release::Suite=bookworm -o APT::FTPArchive::Release::Codename=bookworm \
  -o APT::FTPArchive::Release::Components=stable -o APT::FTPArchive::Release::Architectures=amd64 release . > /tmp/Release
mv /tmp/Release Release
sign
cp /state/packages/site.asc "$docker/gpg"
chmod -R a+rX /state
