# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies what Open WebUI keeps, while it runs, and puts a copy back. Python 3.8 and its standard library.

    llm-web-ui.py backup --data FOLDER --copies FOLDER --keep 7
    llm-web-ui.py restore --data FOLDER --owner 70001 ARCHIVE   (with the container stopped)

A copy is an archive with the database, as SQLite itself copies it while others write, and all other files but those that can be fetched
or made again.
"""

import argparse
import contextlib
import functools
import os
import shutil
import sqlite3
import sys
import tarfile
import time

DATABASE, PREFIX, SUFFIX = "webui.db", "web-ui-", ".tar.gz"
# Where a copy is made: what a run that was ended left there, the next one removes.
UNDER_WAY = ".under-way"
# Made at each start, or of a database that is copied by itself.
LEFT_OUT = ("cache", "static", DATABASE, DATABASE + "-wal", DATABASE + "-shm", DATABASE + "-journal")


def backup(data, copies, keep):
    """The path of a new copy. Older ones than the last ``keep`` are removed."""
    os.makedirs(copies, mode=0o700, exist_ok=True)
    name = PREFIX + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + SUFFIX
    folder = os.path.join(copies, UNDER_WAY)
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder, 0o700)
    try:
        consistent, made = os.path.join(folder, DATABASE), os.path.join(folder, name)
        source = "file:{0}?mode=ro".format(os.path.join(data, DATABASE))
        one, other = sqlite3.connect(source, uri=True), sqlite3.connect(consistent)
        with contextlib.closing(one), contextlib.closing(other):
            one.backup(other)
        os.chmod(consistent, 0o600)
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            with tarfile.open(fileobj=stream, mode="w:gz") as archive:
                archive.add(consistent, DATABASE)
                for each in others(data):
                    # What somebody deletes meanwhile need not be copied.
                    with contextlib.suppress(FileNotFoundError):
                        archive.add(
                            os.path.join(data, each), each, recursive=False, filter=functools.partial(taken, archive)
                        )
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(made, os.path.join(copies, name))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = sorted(each for each in os.listdir(copies) if each.startswith(PREFIX) and each.endswith(SUFFIX))
    for each in found[: max(len(found) - keep, 0)]:
        os.remove(os.path.join(copies, each))
    return os.path.join(copies, name)


def others(data):
    """The paths beside the database, a folder before what is in it."""
    for folder, folders, files in os.walk(data, onerror=unless_gone):
        if folder == data:
            folders[:], files = ([each for each in found if each not in LEFT_OUT] for found in (folders, files))
        for each in sorted(folders + files):
            yield os.path.relpath(os.path.join(folder, each), data)


def unless_gone(error):
    if not isinstance(error, FileNotFoundError):
        raise error


def taken(archive, member):
    """Files and folders, which is what members() takes back. A second name of a file becomes a file, links lead out of the folder, and pipes hold nothing."""
    archive.inodes.clear()
    return member if member.isfile() or member.isdir() else None


def members(archive):
    """What is in a copy, if it is one: files and folders that lie inside, and a database."""
    found = archive.getmembers()
    for each in found:
        path = os.path.normpath(each.name)
        if os.path.isabs(path) or path.split(os.sep)[0] == os.pardir or not (each.isfile() or each.isdir()):
            raise ValueError("{0} is nothing that a copy has".format(each.name))
    if DATABASE not in [each.name for each in found]:
        raise ValueError("it has no {0}".format(DATABASE))
    return found


def restore(data, path, owner):
    """Put a copy in the place of what is there, which stays beside it as ``DATA.before`` until the next time."""
    former, fresh = data + ".before", data + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    os.makedirs(fresh, mode=0o700)
    with tarfile.open(path) as archive:
        # members() decides; Pythons differ in what they do by themselves.
        archive.extraction_filter = lambda member, dummy_path: member
        archive.extractall(fresh, members(archive))
    with contextlib.closing(sqlite3.connect(os.path.join(fresh, DATABASE))) as database:
        said = database.execute("PRAGMA integrity_check").fetchone()[0]
    if said != "ok":
        raise ValueError("{0} is damaged: {1}".format(DATABASE, said))
    for folder, folders, files in os.walk(fresh):
        for each in [folder] + [os.path.join(folder, name) for name in folders + files]:
            os.chown(each, owner, owner)
    shutil.rmtree(former, ignore_errors=True)
    if os.path.isdir(data):
        os.rename(data, former)
    os.rename(fresh, data)


def main():
    parser = argparse.ArgumentParser(description="Copies what Open WebUI keeps, and puts a copy back.")
    actions = parser.add_subparsers(dest="action")
    actions.required = True
    one = actions.add_parser("backup")
    one.add_argument("--copies", required=True)
    one.add_argument("--keep", type=int, required=True)
    other = actions.add_parser("restore")
    other.add_argument("--owner", type=int, required=True)
    other.add_argument("archive")
    for each in (one, other):
        each.add_argument("--data", required=True)
    asked = parser.parse_args()
    try:
        if asked.action == "backup":
            print(backup(asked.data, asked.copies, asked.keep))
        else:
            restore(asked.data, asked.archive, asked.owner)
    except (OSError, ValueError, sqlite3.Error, tarfile.TarError) as error:
        print("error: {0}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
