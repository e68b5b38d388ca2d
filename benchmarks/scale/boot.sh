#!/bin/sh
# Turns the namespaces that it was started in into a host, and starts its systemd: boot.sh BASE DISK FILES NAME ADDRESS
# BASE is Debian, shared by all hosts and never written; what a host writes lies in memory and is gone with it.
set -eu
base=$1 disk=$2 files=$3 name=$4 address=$5
mount --make-rprivate /
hostname "$name"
mount -t tmpfs -o mode=0755 disk "$disk"
mkdir "$disk/upper" "$disk/work" "$disk/root"
mount -t overlay -o "lowerdir=$base,upperdir=$disk/upper,workdir=$disk/work" host "$disk/root"
cd "$disk/root"
cp -a "$files/." .
printf '%s\n' "$name" >etc/hostname
printf '127.0.0.1 localhost\n%s %s\n' "${address%/*}" "$name" >etc/hosts
tr -d - </proc/sys/kernel/random/uuid >etc/machine-id

mount -t proc proc proc
# What a host sets there that is no network setting would be set on this machine.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind /proc/sys/net proc/sys/net
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=0755,nosuid tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777,nosuid,nodev,size=2g tmpfs dev/shm
mount -t tmpfs -o mode=0755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for device in null zero full random urandom tty; do
  : >"dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
# systemd wants its own hierarchy and nothing else. The cgroup namespace makes the one that it was started in the top of it.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs -o mode=0755 tmpfs sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi

ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do
  sleep 0.02 # the other end makes it when it knows this process
done
ip address add "$address" dev eth0
ip link set eth0 up
mkdir -p oldroot
pivot_root . oldroot
umount -l /oldroot
exec env -i container=baremetal-llm-scale PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  /sbin/init --log-target=null --show-status=false </dev/null >/dev/null 2>&1
