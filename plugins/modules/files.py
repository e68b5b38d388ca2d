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
import grp
import os
import pwd
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def common(mode: str) -> dict[str, Any]:
    """The options of a folder and of a file."""
    return {
        "path": {"type": "path", "required": True},
        "mode": {"type": "raw", "default": mode},
        "owner": {"type": "str"},
        "group": {"type": "str"},
    }


def _incoming(path: str) -> str:
    """Beside what it becomes, so that taking its place is one step."""
    return "{0}.{1}.incoming".format(path, os.getpid())


def _is_there(kind: str, name: str | None) -> bool:
    """Whether this host has such an owner or group; a number needs no name."""
    if not name or name.isdigit():
        return True
    try:
        if kind == "owner":
            pwd.getpwnam(name)
        else:
            grp.getgrnam(name)
    except KeyError:
        return False
    return True


class _Module(AnsibleModule):
    """Tells the log of the host where it writes, and not what: a content may be long, or for few eyes."""

    def _log_invocation(self) -> None:
        written = [wanted["path"] for wanted in (*self.params["folders"], *self.params["files"])]
        self.log("Invoked with {0}".format(", ".join([*self.params["absent"], *written, *self.params["links"]])))


class Files:
    """What is changed on this host, or would be in check mode. OSError where it cannot be."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.diffs: list[dict[str, Any]] = []
        self.changed_paths: list[str] = []

    def absent(self, path: str) -> None:
        if not os.path.lexists(path):
            return
        self._changed(path, {"before": {"state": "present"}, "after": {"state": "absent"}})
        if self.module.check_mode:
            return
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def folder(self, wanted: dict[str, Any]) -> None:
        path = wanted["path"]
        if not os.path.isdir(path):
            self._changed(path, {"before": {"state": "absent"}, "after": {"state": "directory"}})
            if self.module.check_mode:
                return
            os.makedirs(path, mode=0o755, exist_ok=True)  # another host of the run may write here, too
        self._attributes(path, wanted)

    def file(self, wanted: dict[str, Any]) -> None:
        path, content = wanted["path"], wanted["content"].encode("utf-8")
        found = None
        if os.path.lexists(path):
            with open(path, "rb") as stream:
                found = stream.read()
        if found != content:
            before = (found or b"").decode("utf-8", "replace")
            self._changed(path, {"before": before, "after": wanted["content"]})
            if self.module.check_mode:
                return
            self._write(path, content, wanted)
        self._attributes(path, wanted)

    def link(self, path: str, to: str) -> None:
        found = os.readlink(path) if os.path.islink(path) else None
        if found == to:
            return
        if found is None and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._changed(path, {"before": {"to": found}, "after": {"to": to}})
        if self.module.check_mode:
            return
        incoming = _incoming(path)
        os.symlink(to, incoming)
        os.replace(incoming, path)

    def _write(self, path: str, content: bytes, wanted: dict[str, Any]) -> None:
        """Beside the old one first: nobody sees half a file, or one with the permissions of another."""
        incoming = _incoming(path)
        descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            self.module.set_fs_attributes_if_different(self._common(incoming, wanted), False)
            os.replace(incoming, path)
        except BaseException:  # also SystemExit, with which an unknown owner ends the module
            os.unlink(incoming)
            raise

    def _attributes(self, path: str, wanted: dict[str, Any]) -> None:
        """Of what a link leads to, not of the link. In check mode an owner or a group that is not there would have been made by an earlier task."""
        if self.module.check_mode:
            coming = {name: wanted[name] for name in ("owner", "group") if not _is_there(name, wanted[name])}
            if coming:
                self._changed(path, {"before": {}, "after": coming})
            wanted = {**wanted, **dict.fromkeys(coming)}
        diff: dict[str, Any] = {}
        if self.module.set_fs_attributes_if_different(self._common(os.path.realpath(path), wanted), False, diff):
            self._changed(path, diff)

    def _common(self, path: str, wanted: dict[str, Any]) -> dict[str, Any]:
        common_arguments: dict[str, Any] = self.module.load_file_common_arguments(wanted, path)
        return common_arguments

    def _changed(self, path: str, diff: dict[str, Any]) -> None:
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
    except OSError as error:
        module.fail_json(msg="{0}: {1}".format(path, error), path=path, changed=bool(found.changed_paths))
    module.exit_json(changed=bool(found.changed_paths), changed_paths=found.changed_paths, diff=found.diffs)


if __name__ == "__main__":
    main()
