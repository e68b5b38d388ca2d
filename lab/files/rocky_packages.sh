#!/bin/bash
# Runs inside a container of the bare host's image: packs programs of Debian's packages under the names, versions and paths that they have for EL 9, with
# rpmbuild. Two repositories of a driver with the packages of NVIDIA's own (the programs are the lab's stand-ins, dkms is real), and one of the rest.
# usage: rocky_packages.sh OUT TOOLKIT_VERSION OLDER_DRIVER NEWER_DRIVER
set -euo pipefail
out=$1 toolkit=$2 older=$3 newer=$4
export DEBIAN_FRONTEND=noninteractive
kernel=$(uname -r)
apt-get update -q
apt-get install -q -y --no-install-recommends rpm createrepo-c > /dev/null

# Debian's packages that bring what a package of EL 9 brings, and under which name; every other one keeps its name.
declare -A names=(
  [docker.io]=docker-ce [containerd]=containerd.io [libdevmapper1.02.1]=device-mapper-libs [libseccomp2]=libseccomp [iptables]=iptables-nft
)
declare -A provides=([iptables-nft]=iptables)

# NAME VERSION RELEASE REQUIRES ROOT: packs the folder ROOT. A script that runs after the installation is in ROOT.post, one that runs before the removal
# in ROOT.preun.
pack() {
  local name=$1 version=$2 release=$3 requires=$4 root=$5 epoch=""
  # Names of the files of a system whose /bin, /lib and /sbin are links.
  for folder in bin lib sbin lib64; do
    if [ -d "$root/$folder" ]; then
      mkdir -p "$root/usr/$folder"
      cp -a "$root/$folder/." "$root/usr/$folder/"
      rm -r "${root:?}/$folder"
    fi
  done
  rm -rf "$root/usr/share/doc" "$root/usr/share/man"
  case "$version" in *:*) epoch=${version%%:*} version=${version#*:} ;; esac
  {
    printf '%s\n' "Name: $name" "Version: $version" "Release: $release" "Summary: $name, for the lab" "License: of its package in Debian" "AutoReqProv: no"
    [ -z "$epoch" ] || echo "Epoch: $epoch"
    [ -z "${provides[$name]:-}" ] || echo "Provides: ${provides[$name]}"
    for one in $requires; do echo "Requires: ${one/=/ = }"; done
    printf '%s\n' "%description" "$name, for the lab." "%files"
    (cd "$root" && find . ! -type d -printf '"/%P"\n' -o -type d -empty -printf '%%dir "/%P"\n')
    for script in post preun; do
      [ ! -e "$root.$script" ] || printf '%%%s\n%s\n' "$script" "$(cat "$root.$script")"
    done
  } > "$root.spec"
  rpmbuild -bb --quiet --noclean --buildroot "$root" --define "_rpmdir $packages" --define '_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm' \
    --define '__os_install_post %{nil}' --define '_build_id_links none' --define 'debug_package %{nil}' --target x86_64 "$root.spec" 2> "$root.log" ||
    { cat "$root.log" >&2; exit 1; }
}

work=$(mktemp -d)
chmod 0755 "$work"

# -- the engine, the toolkit, and what they need -----------------------------------------------------------------------

packages=$out/os_packages/rocky-9
mkdir -p "$packages" "$work/deb"
apt-get clean
apt-get install -q -y --no-install-recommends --download-only docker.io iptables make nftables haproxy python3-requests > /dev/null
# dkms without a compiler: the headers of the lab's kernel need none.
(cd "$work/deb" && mv /var/cache/apt/archives/*.deb . && apt-get download -q dkms libdevmapper1.02.1 libseccomp2 > /dev/null)
there=$(for file in "$work"/deb/*.deb; do dpkg-deb --field "$file" Package; done)
for file in "$work"/deb/*.deb; do
  package=$(dpkg-deb --field "$file" Package)
  name=${names[$package]:-$package}
  version=$(dpkg-deb --field "$file" Version | sed 's/^[0-9]*://; s/[+~-].*//')
  requires=""
  for needed in $(dpkg-deb --field "$file" Depends | tr ',' '\n' | sed 's/|.*//; s/(.*//; s/:any//'); do
    if grep -qxF -- "$needed" <<< "$there"; then requires+=" ${names[$needed]:-$needed}"; fi
  done
  dpkg-deb -x "$file" "$work/$name"
  # What other packages or the scripts of Debian's packages bring.
  case "$package" in
    runc) continue ;; # containerd.io brings it
    containerd) dpkg-deb -x "$(echo "$work"/deb/runc_*.deb)" "$work/$name" ;;
    docker.io)
      requires+=" docker-ce-cli"
      engine=$version
      echo "getent group docker > /dev/null || groupadd --system docker" > "$work/$name.post"
      ;;
    iptables) for link in iptables ip6tables; do ln -s xtables-nft-multi "$work/$name/usr/sbin/$link"; done ;;
    haproxy) echo "getent passwd haproxy > /dev/null || useradd --system --user-group --home-dir /var/lib/haproxy haproxy" > "$work/$name.post" ;;
  esac
  pack "$name" "$version" 1.el9 "${requires/ runc/}" "$work/$name"
done
mkdir "$work/docker-ce-cli"
pack docker-ce-cli "$engine" 1.el9 "" "$work/docker-ce-cli"

# NAME REQUIRES PROGRAM...: a package of the lab's stand-ins.
stand_in() {
  local name=$1 requires=$2 root=$work/$1
  shift 2
  for program in "$@"; do
    mkdir -p "$root/usr/bin"
    sed "s/@VERSION@/$toolkit/g" "/sim/$program" > "$root/usr/bin/$program"
    chmod 0755 "$root/usr/bin/$program"
  done
  mkdir -p "$root"
  pack "$name" "$toolkit" 1 "$requires" "$root"
}
stand_in libnvidia-container1 ""
stand_in libnvidia-container-tools libnvidia-container1 nvidia-container-cli
stand_in nvidia-container-toolkit-base "" nvidia-container-runtime nvidia-ctk
stand_in nvidia-container-toolkit "nvidia-container-toolkit-base libnvidia-container-tools" nvidia-container-runtime-hook

apt-get download -q dnf-plugins-core > /dev/null
dpkg-deb -x dnf-plugins-core_*.deb "$work/plugins"
versionlock=$work/python3-dnf-plugin-versionlock
mkdir -p "$versionlock"
for file in etc/dnf/plugins/versionlock.conf etc/dnf/plugins/versionlock.list usr/lib/python3/dist-packages/dnf-plugins/versionlock.py; do
  (cd "$work/plugins" && cp --parents "$file" "$versionlock")
done
pack python3-dnf-plugin-versionlock 4.3.1 1.el9 "" "$versionlock"

headers=$work/kernel-devel
mkdir -p "$headers/usr/src/kernels/$kernel/include" "$headers/usr/lib/modules/$kernel"
touch "$headers/usr/src/kernels/$kernel/.config"
cp /lab/kernel_headers.mk "$headers/usr/src/kernels/$kernel/Makefile"
ln -s "/usr/src/kernels/$kernel" "$headers/usr/lib/modules/$kernel/build"
# A release of EL's kernel has no hyphen, and the package is the kernel's name.
provides[kernel-devel]=kernel-devel-$kernel
pack kernel-devel "${kernel%%-*}" "$(tr - _ <<< "${kernel#*-}")" "" "$headers"
mv "$packages"/kernel-devel-*.rpm "$packages/kernel-devel-$kernel.x86_64.rpm"
createrepo_c --quiet "$packages"

# -- two drivers, in packages as NVIDIA makes them for EL 9 ------------------------------------------------------------

all=$packages
for version in "$older" "$newer"; do
  packages=$out/driver/$version
  mkdir -p "$packages"
  root=$work/driver-$version
  mkdir -p "$root-libs/usr/lib64" "$root-cuda/usr/bin" "$root-persistenced/usr/bin" "$root-persistenced/usr/lib/systemd/system" \
    "$root-modprobe/usr/bin" "$root-modprobe/usr/lib/nvidia" "$root-modprobe/usr/lib/systemd/system/sysinit.target.wants" "$root-kmod/usr/src/nvidia-$version"
  for library in libcuda.so libnvidia-ml.so; do
    echo "a stand-in" > "$root-libs/usr/lib64/$library.$version"
    ln -s "$library.$version" "$root-libs/usr/lib64/$library.1"
  done
  echo ldconfig > "$root-libs.post"
  pack nvidia-driver-cuda-libs "3:$version" 1.el9 "" "$root-libs"
  install -m 0755 /sim/nvidia-smi "$root-cuda/usr/bin/nvidia-smi"
  pack nvidia-driver-cuda "3:$version" 1.el9 "nvidia-driver-cuda-libs=3:$version nvidia-kmod-common=3:$version nvidia-persistenced=3:$version" "$root-cuda"
  sed "s/@VERSION@/$version/g" /sim/nvidia-persistenced > "$root-persistenced/usr/bin/nvidia-persistenced"
  chmod 0755 "$root-persistenced/usr/bin/nvidia-persistenced"
  printf '%s\n' '[Unit]' 'Description=NVIDIA Persistence Daemon' '[Service]' 'Type=forking' 'ExecStart=/usr/bin/nvidia-persistenced --verbose' \
    'ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced' '[Install]' 'WantedBy=multi-user.target' \
    > "$root-persistenced/usr/lib/systemd/system/nvidia-persistenced.service"
  pack nvidia-persistenced "3:$version" 1.el9 "" "$root-persistenced"
  install -m 0755 /sim/nvidia-modprobe "$root-modprobe/usr/bin/nvidia-modprobe"
  install -m 0755 /sim/load-module "$root-modprobe/usr/lib/nvidia/lab-load-module"
  cp /sim/nvidia-module.service "$root-modprobe/usr/lib/systemd/system/lab-nvidia-module.service"
  ln -s ../lab-nvidia-module.service "$root-modprobe/usr/lib/systemd/system/sysinit.target.wants/"
  pack nvidia-kmod-common "3:$version" 1.el9 "" "$root-modprobe"
  echo "# What dkms looks for; the lab's kernel builds without sources." > "$root-kmod/usr/src/nvidia-$version/Makefile"
  sed "s/@VERSION@/$version/g" > "$root-kmod/usr/src/nvidia-$version/dkms.conf" << 'CONF'
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="@VERSION@"
AUTOINSTALL="yes"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/extra"
MAKE[0]="make -C ${kernel_source_dir} M=${dkms_tree}/nvidia/${PACKAGE_VERSION}/build modules"
CONF
  echo "dkms add -m nvidia -v $version -q || :; dkms build -m nvidia -v $version -q && dkms install -m nvidia -v $version -q --force || :" > "$root-kmod.post"
  echo "dkms remove -m nvidia -v $version -q --all || :" > "$root-kmod.preun"
  provides[kmod-nvidia-latest-dkms]="nvidia-kmod = 3:$version"
  pack kmod-nvidia-latest-dkms "3:$version" 1.el9 "dkms nvidia-kmod-common=3:$version" "$root-kmod"
  # What a driver of a bundle needs besides is in the same repository: only that is asked.
  cp "$all"/{dkms,make,kernel-devel,python3-dnf-plugin-versionlock}-[0-9]*.rpm "$packages"
  createrepo_c --quiet "$packages"
done
printf 'engine: %s\nolder: %s\nnewer: %s\n' "$engine" "$older" "$newer" > "$out/versions.yml"
