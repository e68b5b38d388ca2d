# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian that all light hosts share, made once by debootstrap and kept beside what the lab keeps."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from lab.config import CACHE, Config, digest
from lab.engine import apt_install
from lab.locks import lock
from lab.progress import LabError

# What this machine needs, by the package that it is in.
PROGRAMS = {"debootstrap": "debootstrap", "ip": "iproute2", "ssh": "openssh-client", "unshare": "util-linux"}
# What a server of Debian has (lab/images/host/Dockerfile) ...
SYSTEM = (
    *("systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-apt", "iproute2", "kmod", "procps"),
    *("ca-certificates", "xz-utils"),
)
# ... and what the roles install from Debian. It is there already: dpkg is the hosts' work, and they share this machine's cores.
INSTALLED = ("iptables", "libdevmapper1.02.1", "libseccomp2", "nftables", "python3-requests")
# Units that are of no use to a light host, or would reach through to this machine.
MASKED = (
    *("getty.target", "systemd-logind.service", "systemd-modules-load.service", "systemd-sysctl.service"),
    *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount", "dev-hugepages.mount"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer"),
)
# The session log of sshd is what counts the remote calls.
SSH_LOG = "/var/log/sshd.log"
SSH_OPTIONS = f'SSHD_OPTS="-E {SSH_LOG} -o LogLevel=VERBOSE"\n'


def ensure_base(config: Config) -> Path:
    """The folder, made if it is not there: minutes the first time, and only then a mirror of Debian is needed. Raises LabError."""
    missing = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    if missing:
        apt_install(*missing)
    folder = CACHE / f"scale-{digest(config.debian_release, SYSTEM, INSTALLED, MASKED, SSH_OPTIONS)}"
    with lock(folder.name):
        if not folder.exists():
            unfinished = folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            print(
                "making the Debian of the light hosts with debootstrap (about 350 MB, a minute or two) ...", flush=True
            )
            _debootstrap(config.debian_release, unfinished)
            unfinished.rename(folder)
    return folder


def _debootstrap(release: str, root: Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(SYSTEM + INSTALLED)}", release, str(root)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise LabError(f"{' '.join(command)} failed:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for name in MASKED:
        unit = root / "etc/systemd/system" / name
        unit.unlink(missing_ok=True)
        unit.symlink_to("/dev/null")
    (root / "etc/default/ssh").write_text(SSH_OPTIONS)
