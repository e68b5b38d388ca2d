# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and folders of the collection, also in folders where others may write: no link of others is followed, and nothing of theirs is taken over.

Root looks at each part of a path by itself and holds what it found open (openat(2) with O_NOFOLLOW), so that nobody puts something else in its place.
"""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import secrets
import shutil
import stat
from collections.abc import Iterator

from ansible_collections.baremetal.llm.plugins.module_utils._content import digits

# Folders of the system, whose permissions are no business of ours and which are not removed.
SYSTEM = frozenset(
    (
        *(
            "/",
            "/bin",
            "/boot",
            "/dev",
            "/etc",
            "/home",
            "/lib",
            "/lib32",
            "/lib64",
            "/libx32",
            "/media",
            "/mnt",
            "/opt",
        ),
        *(
            "/proc",
            "/root",
            "/run",
            "/sbin",
            "/snap",
            "/srv",
            "/sys",
            "/tmp",
            "/usr",
            "/usr/bin",
            "/usr/lib",
            "/usr/lib64",
        ),
        *("/usr/local", "/usr/local/bin", "/usr/local/lib", "/usr/local/sbin", "/usr/sbin", "/usr/share", "/var"),
        *("/var/cache", "/var/lib", "/var/lib/docker", "/var/log", "/var/run", "/var/spool", "/var/tmp", "/etc/docker"),
        *("/etc/systemd", "/etc/systemd/system"),
    )
)
# Users that are people, as distributions number them (UID_MIN and UID_MAX of login.defs(5)): whatever lies between these belongs to somebody.
PEOPLE = range(1000, 60001)
# As many links as the kernel follows in one path.
MOST_LINKS = 40


class LinkOfOthers(PermissionError):
    """A link that someone else could have put there. ``path`` is the link, ``user`` to whom it belongs."""

    def __init__(self, path: str, user: str) -> None:
        super().__init__(errno.EPERM, os.strerror(errno.EPERM), path)
        self.path = path
        self.user = user


def is_of_system(path: str) -> bool:
    return "/" + os.path.normpath(path).lstrip("/") in SYSTEM


def is_trusted(uid: int) -> bool:
    """Whether a user may say for this process where something lies."""
    return uid in (0, os.geteuid())


def is_anothers(uid: int) -> bool:
    """Whether something belongs to a person, and this process is root: that of services is the collection's business."""
    return os.geteuid() == 0 and uid in PEOPLE and str(uid) != os.environ.get("SUDO_UID", "")


@contextlib.contextmanager
def opened(path: str, mode: int | None = None) -> Iterator[int]:
    """A folder, held open. With ``mode`` what is missing of it is made.

    A link on the way is followed if it belongs to root or to this user, and lies where nobody else could have put it. LinkOfOthers for
    another one, another OSError if there is no such folder.
    """
    descriptor = _walk(os.path.abspath(path), mode, MOST_LINKS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _walk(path: str, mode: int | None, links: int) -> int:
    holder = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        done = ""
        parts = [part for part in path.split("/") if part]
        for index, part in enumerate(parts):
            try:
                found = os.stat(part, dir_fd=holder, follow_symlinks=False)
            except FileNotFoundError:
                if mode is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
                with contextlib.suppress(FileExistsError):  # another host of the run may write here, too
                    os.mkdir(part, mode, dir_fd=holder)
                found = os.stat(part, dir_fd=holder, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                _require_own_link(found, os.fstat(holder), "{0}/{1}".format(done, part))
                if links == 0:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                led = os.path.join(done or "/", os.readlink(part, dir_fd=holder))
                rest = "/".join(parts[index + 1 :])
                return _walk(os.path.normpath(os.path.join(led, rest)), mode, links - 1)
            try:
                inner = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=holder)
            except OSError as error:
                last = index == len(parts) - 1
                number = errno.EEXIST if last and mode is not None and error.errno == errno.ENOTDIR else error.errno
                raise OSError(number, os.strerror(number or 0), path) from None
            os.close(holder)
            holder, done = inner, "{0}/{1}".format(done, part)
        held, holder = holder, -1
        return held
    finally:
        if holder >= 0:
            os.close(holder)


def _require_own_link(link: os.stat_result, holder: os.stat_result, path: str) -> None:
    open_to_all = holder.st_mode & stat.S_IWOTH and not holder.st_mode & stat.S_ISVTX
    if not is_trusted(link.st_uid) or not is_trusted(holder.st_uid) or open_to_all:
        raise LinkOfOthers(path, user_name(link.st_uid))


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def below(descriptor: int, name: str) -> str:
    """A path that leads into the open folder, whatever has become of the folder's own path."""
    return "/proc/self/fd/{0}/{1}".format(descriptor, name)


def read(folder: int, name: str) -> bytes | None:
    """The content of a file; None where there is none, or something else. IsADirectoryError for a folder."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    found = os.fstat(descriptor)
    if stat.S_ISDIR(found.st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read() if stat.S_ISREG(found.st_mode) else None


@contextlib.contextmanager
def incoming(folder: int, name: str) -> Iterator[tuple[int, str]]:
    """A new file beside the one that it becomes, under a name that nobody knows beforehand: its descriptor and its name. What fails leaves nothing."""
    beside = ".{0}.{1}.incoming".format(name[:200], secrets.token_hex(8))
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        yield descriptor, beside
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # also SystemExit, with which modules end
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def fill(descriptor: int, content: bytes) -> None:
    """All of it is on the disk afterwards."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def write(path: str, content: bytes, mode: int | None = None) -> None:
    """Replace a file in one step; whoever reads it meanwhile gets the one before. Its permissions stay, or are ``mode``, or those of any new file.

    OSError if it cannot be written, LinkOfOthers for such a link on the way.
    """
    with opened(os.path.dirname(path) or ".") as folder:
        name = os.path.basename(path)
        kept = mode
        if kept is None:
            try:
                kept = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            except FileNotFoundError:
                mask = os.umask(0)
                os.umask(mask)
                kept = 0o666 & ~mask
        with incoming(folder, name) as (descriptor, _beside):
            fill(descriptor, content)
            os.fchmod(descriptor, kept & 0o777)


def link(folder: int, name: str, to: str) -> None:
    """A link takes the place of one that leads elsewhere, in one step."""
    beside = ".{0}.{1}.incoming".format(name[:200], secrets.token_hex(8))
    os.symlink(to, beside, dir_fd=folder)
    os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def fresh(path: str, flags: int) -> int:
    """For open(): a file of this process, whatever lay there, such as a link of others, or half of a file that an ended run left."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def no_link(path: str, flags: int) -> int:
    """For open(): a file that may be continued, and no link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def remove(folder: int, name: str) -> None:
    """A file or a link; a folder with everything in it, without what links in there lead to."""
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        shutil.rmtree(below(folder, name))
    else:
        os.unlink(name, dir_fd=folder)


def number_of(kind: str, name: str | None) -> int | None:
    """The number of an ``owner`` or a ``group``; None where nothing is said. LookupError where the host knows no such name."""
    if not name:
        return None
    if (number := digits(str(name))) is not None:
        return number
    return pwd.getpwnam(name).pw_uid if kind == "owner" else grp.getgrnam(name).gr_gid


def set_attributes(descriptor: int, wanted: dict[str, int | None], dry: bool) -> dict[str, object]:
    """Give what is open its ``mode``, ``owner`` and ``group`` as far as these are said: before and after of what differs; nothing is done when ``dry``."""
    found = os.fstat(descriptor)
    now: dict[str, int] = {"owner": found.st_uid, "group": found.st_gid, "mode": stat.S_IMODE(found.st_mode)}
    other = {name: value for name, value in wanted.items() if value is not None and value != now[name]}
    if other and not dry:
        path = "/proc/self/fd/{0}".format(
            descriptor
        )  # that of a folder is open as a path only, which fchown(2) does not take
        if "owner" in other or "group" in other:
            os.chown(path, other.get("owner", -1), other.get("group", -1))  # takes setuid bits away, so first
        if "mode" in wanted and wanted["mode"] is not None:
            os.chmod(path, wanted["mode"])
    if not other:
        return {}
    return {"before": _shown({name: now[name] for name in other}), "after": _shown(other)}


def _shown(attributes: dict[str, int]) -> dict[str, object]:
    """As people write them."""
    return {name: "{0:04o}".format(value) if name == "mode" else value for name, value in attributes.items()}
