#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: files
short_description: Folders, files and links of a role, in one call
version_added: 0.1.0
description:
  - Removes, makes and writes in this order what a role keeps on a host. M(ansible.builtin.file), M(ansible.builtin.copy) and
    M(ansible.builtin.template) in loops do the same with one to three calls for each file.
  - A file is replaced in one step and has its mode from the start. When it cannot be written, the one that was there stays as it is.
  - A unit of systemd and a table of nftables (C(*.nft)) are checked first by the program that reads them, and do not replace the one that was there if that
    program refuses them.
  - Links that belong to neither root nor the user are not followed, and folders of people and of the system get no other owner or permissions.
options:
  absent:
    description: What must not be there. A folder goes with everything in it, a link without what it leads to.
    type: list
    elements: path
    default: []
  folders:
    description: Folders that must be there, with those above them. A link that leads to a folder is one.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The absolute path.
        type: path
        required: true
      mode:
        description: Permissions, as C(chmod) takes them.
        type: raw
        default: "0755"
      owner:
        description: Name or number of the user to whom it belongs; it is not looked at if nothing is said.
        type: str
      group:
        description: Name or number of the group to which it belongs; it is not looked at if nothing is said.
        type: str
  files:
    description:
      - Files that must be there with this content, which comes from exactly one of three places.
      - Their folders are there, or among O(folders).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The absolute path.
        type: path
        required: true
      mode:
        description: Permissions, as C(chmod) takes them.
        type: raw
        default: "0644"
      owner:
        description: Name or number of the user to whom it belongs; it is not looked at if nothing is said.
        type: str
      group:
        description: Name or number of the group to which it belongs; it is not looked at if nothing is said.
        type: str
      content:
        description: The content, as UTF-8.
        type: str
      copy:
        description: A file of the role on the controller, looked for in its C(files).
        type: str
      template:
        description: A template of the role on the controller, looked for in its C(templates).
        type: str
  links:
    description:
      - Symbolic links that must be there, each with what it leads to, which need not exist.
      - A file or a folder in the place of a link is an error.
    type: dict
    default: {}
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.attributes.controller_part
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  check_mode:
    description: Can run in check mode, and then says what it would change.
    support: full
  diff_mode:
    description: Shows what changed.
    support: full
"""

EXAMPLES = r"""
- name: Probe | Install it with its units
  baremetal.llm.files:
    folders:
      - path: /opt/llm/probe
    files:
      - {path: /opt/llm/probe/llm-probe.py, copy: llm-probe.py}
      - {path: /etc/systemd/system/llm-probe.service, template: llm-probe.service.j2}
      - {path: /etc/systemd/system/llm-probe.timer, template: llm-probe.timer.j2}

- name: Probe | Remove what an earlier release of the collection left
  baremetal.llm.files:
    absent: [/etc/cron.d/llm-probe]
"""

RETURN = r"""
changed_paths:
  description: What was made, written, removed, or given other permissions.
  returned: success
  type: list
  elements: str
  sample: ["/etc/systemd/system/llm-probe.service"]
"""

import errno
import os
import re
import subprocess
import tempfile
from typing import TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, failure

# What systemd says of a unit that it would not run. Other remarks are no reason: a program may be installed later.
_BROKEN = re.compile("bad unit file setting|Assignment outside of section|Failed to load", re.IGNORECASE)
_UNIT = re.compile(r"/etc/systemd/system/[^/]+[.](service|timer|path|socket|slice|mount)")
_TABLE = re.compile(r".*[.]nft")
CHECK_SECONDS = 60


def common(mode: str) -> dict[str, object]:
    """The options of a folder and of a file."""
    return {
        "path": {"type": "path", "required": True},
        "mode": {"type": "raw", "default": mode},
        "owner": {"type": "str"},
        "group": {"type": "str"},
    }


class _Module(AnsibleModule):
    """Tells the log of the host where it writes, and not what: a content may be long, or for few eyes."""

    def _log_invocation(self) -> None:
        written = [wanted["path"] for wanted in (*self.params["folders"], *self.params["files"])]
        self.log("Invoked with {0}".format(", ".join([*self.params["absent"], *written, *self.params["links"]])))


def refusal(path: str, content: bytes) -> str:
    """What the program that is to read a file says against it; empty where it takes it, or where there is no such program."""
    if _UNIT.fullmatch(path):
        said = _said(["systemd-analyze", "verify", "--man=no"], os.path.basename(path), content)
        return said if _BROKEN.search(said) else ""
    return _said(["nft", "--check", "--file"], os.path.basename(path), content) if _TABLE.fullmatch(path) else ""


def _said(command: list[str], name: str, content: bytes) -> str:
    """What a program says of a file with this name, which it reads in a folder of its own; empty if it ends well."""
    with tempfile.TemporaryDirectory(prefix="llm-check-") as folder:
        file = os.path.join(folder, name)
        with open(file, "wb") as stream:
            stream.write(content)
        try:
            done = subprocess.run(
                [*command, file],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=CHECK_SECONDS,
                check=False,
                env={**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        said = done.stdout.decode("utf-8", "replace").replace(folder + "/", "")
        return (said.strip() or "{0}: {1}".format(command[0], done.returncode)) if done.returncode else ""


class Attributes(TypedDict):
    """Whose a folder or file is, by name or number, and its mode, in base 8 where it is a text; None for as it is."""

    path: str
    owner: str | None
    group: str | None
    mode: str | int | None


class Wanted(Attributes):
    """A file with its content."""

    content: str


class Files:
    """What is changed on this host, or would be in check mode. OSError or CodedError where it cannot be."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.diffs: list[dict[str, object]] = []
        self.changed_paths: list[str] = []

    def absent(self, path: str) -> None:
        if not os.path.lexists(path):
            return
        if _own_files.is_of_system(path):
            raise CodedError("folder_of_system", path=path)
        self._changed(path, {"before": {"state": "present"}, "after": {"state": "absent"}})
        if self.module.check_mode:
            return
        with _own_files.opened(os.path.dirname(path.rstrip("/"))) as holder:
            _own_files.remove(holder, os.path.basename(path.rstrip("/")))

    def folder(self, wanted: Attributes) -> None:
        path = wanted["path"]
        if not os.path.isdir(path):
            self._changed(path, {"before": {"state": "absent"}, "after": {"state": "directory"}})
            if self.module.check_mode:
                return
        with _own_files.opened(path, 0o755) as folder:
            made = path in self.changed_paths
            numbers = self._numbers(path, wanted)
            diff = _own_files.set_attributes(folder, numbers, dry=True)
            owner = os.fstat(folder).st_uid
            if diff and not made and _own_files.is_of_system(path):
                raise CodedError("folder_of_system", path=path)
            if diff and _own_files.is_anothers(owner) and owner != numbers["owner"]:
                raise CodedError("folder_of_others", path=path, user=_own_files.user_name(owner))
            self._attributes(folder, path, numbers)

    def file(self, wanted: Wanted) -> None:
        path, content = wanted["path"], wanted["content"].encode("utf-8")
        name = os.path.basename(path)
        if self.module.check_mode and not os.path.isdir(os.path.dirname(path)):
            self._changed(path, {"before": "", "after": wanted["content"]})  # its folder would have been made
            return
        with _own_files.opened(os.path.dirname(path)) as folder:
            # What a link leads to is not ours to show, and not ours to write: the file takes the place of the link.
            found = _own_files.read(folder, name)
            if found != content:
                before = (found or b"").decode("utf-8", "replace")
                self._changed(path, {"before": before, "after": wanted["content"]})
                if self.module.check_mode:
                    return
                said = refusal(path, content)
                if said:
                    raise CodedError("file_refused", path=path, reason=said)
                self._write(folder, path, content, wanted)
                return
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                self._attributes(descriptor, path, self._numbers(path, wanted))
            finally:
                os.close(descriptor)

    def link(self, path: str, to: str) -> None:
        found = os.readlink(path) if os.path.islink(path) else None
        if found == to:
            return
        if found is None and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._changed(path, {"before": {"to": found}, "after": {"to": to}})
        if self.module.check_mode:
            return
        with _own_files.opened(os.path.dirname(path)) as folder:
            _own_files.link(folder, os.path.basename(path), to)

    def _write(self, folder: int, path: str, content: bytes, wanted: Attributes) -> None:
        """Beside the old one first: nobody sees half a file, or one with the permissions of another."""
        name = os.path.basename(path)
        numbers = self._numbers(path, wanted)
        with _own_files.incoming(folder, name) as (descriptor, _beside):
            _own_files.fill(descriptor, content)
            _own_files.set_attributes(descriptor, numbers, dry=False)

    def _numbers(self, path: str, wanted: Attributes) -> dict[str, int | None]:
        """What is wanted, in numbers. In check mode an owner or a group that is not there would have been made by an earlier task."""
        mode = wanted.get("mode")
        numbers: dict[str, int | None] = {"mode": int(mode, 8) if isinstance(mode, str) else mode}
        for kind, name in (("owner", wanted.get("owner")), ("group", wanted.get("group"))):
            try:
                numbers[kind] = _own_files.number_of(kind, name)
            except LookupError:
                if not self.module.check_mode:
                    raise CodedError("file_owner_unknown", path=path, name=name) from None
                numbers[kind] = None
                self._changed(path, {"before": {}, "after": {kind: name}})
        return numbers

    def _attributes(self, descriptor: int, path: str, numbers: dict[str, int | None]) -> None:
        diff = _own_files.set_attributes(descriptor, numbers, dry=self.module.check_mode)
        if diff:
            self._changed(path, diff)

    def _changed(self, path: str, diff: dict[str, object]) -> None:
        if path not in self.changed_paths:
            self.changed_paths.append(path)
            self.diffs.append({**diff, "before_header": path, "after_header": path})


def main() -> None:
    os.umask(0o022)  # folders above those that are named are for everybody, whatever the login of this host says
    module = _Module(
        argument_spec={
            "absent": {"type": "list", "elements": "path", "default": []},
            "folders": {"type": "list", "elements": "dict", "default": [], "options": common("0755")},
            "files": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    **common("0644"),
                    "content": {"type": "str"},
                    "copy": {"type": "str"},
                    "template": {"type": "str"},
                },
                "mutually_exclusive": [("content", "copy", "template")],
                "required_one_of": [("content", "copy", "template")],
            },
            "links": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    found = Files(module)
    path = ""
    try:
        for path in module.params["absent"]:
            found.absent(path)
        for wanted in module.params["folders"]:
            path = wanted["path"]
            found.folder(wanted)
        for wanted in module.params["files"]:
            path = wanted["path"]
            found.file(wanted)
        for path, to in module.params["links"].items():
            found.link(path, to)
    except _own_files.LinkOfOthers as error:
        module.fail_json(
            changed=bool(found.changed_paths), **failure("link_of_others", path=error.path, user=error.user)
        )
    except OSError as error:
        module.fail_json(msg="{0}: {1}".format(path, error), path=path, changed=bool(found.changed_paths))
    except CodedError as error:
        module.fail_json(changed=bool(found.changed_paths), **failure(error.code, **error.values))
    module.exit_json(changed=bool(found.changed_paths), changed_paths=found.changed_paths, diff=found.diffs)


if __name__ == "__main__":
    main()
