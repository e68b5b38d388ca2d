#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: docker_daemon_config
short_description: Merge options into Docker's daemon.json
version_added: 0.1.0
description:
  - Puts options into the configuration file of Docker Engine and keeps everything else that is in it.
  - The file is written only when its content would differ; how it is indented does not matter.
  - A file that is no valid JSON is never touched; the message names its line.
  - An engine that is installed is asked first whether it would start with the file (C(dockerd --validate), from release 23 on). If not, the file stays.
options:
  options:
    description:
      - What the file has to hold. Mappings are merged, other values (lists too) replaced; a key whose value is null is removed.
      - When V(log-driver) changes, V(log-opts) of the old driver do not stay, because the engine would refuse them.
    type: dict
    required: true
  path:
    description: The file. It and its directory are made when they are missing.
    type: path
    default: /etc/docker/daemon.json
  backup:
    description: Whether to keep a copy of the file, with the time in its name, before it is changed.
    type: bool
    default: true
extends_documentation_fragment:
  - baremetal.llm.attributes
  - baremetal.llm.language
author:
  - The baremetal.llm authors (@baremetal-llm)
attributes:
  action:
    description: Has a part that runs on the controller, and says there what went wrong.
    support: full
  check_mode:
    description: Can run in check mode, and then says what it would change.
    support: full
  diff_mode:
    description: Shows what changed.
    support: full
"""

EXAMPLES = r"""
- name: Docker | Rotate the logs of containers
  baremetal.llm.docker_daemon_config:
    options:
      log-driver: json-file
      log-opts: {max-size: 50m, max-file: "3"}
"""

RETURN = r"""
config:
  description: The whole content of the file, after the merge.
  returned: success
  type: dict
  sample: {"live-restore": true}
changed_keys:
  description: The keys at the top of the file whose value changed.
  returned: success
  type: list
  elements: str
  sample: ["live-restore"]
backup_file:
  description: Where the file as it was is kept.
  returned: when there was one and it changed
  type: str
  sample: /etc/docker/daemon.json.4711.2026-01-31@10:11:12~
"""

import os
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._coded import failure
from ansible_collections.baremetal.llm.plugins.module_utils._daemon_json import DaemonJsonError, merge, parse, render


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "options": {"type": "dict", "required": True},
            "path": {"type": "path", "default": "/etc/docker/daemon.json"},
            "backup": {"type": "bool", "default": True},
            "language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    exists = os.path.exists(path)
    text = ""
    if exists:
        try:
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        except (OSError, UnicodeDecodeError) as error:
            module.fail_json(**failure("daemon_json_unreadable", path=path, reason=error))
    try:
        current = parse(text, path)
    except DaemonJsonError as error:
        module.fail_json(**failure(error.code, **error.values), path=path)
    merged = merge(current, module.params["options"])
    keys = sorted(key for key in {**current, **merged} if current.get(key) != merged.get(key))
    after = text if merged == current else render(merged)
    result: dict[str, Any] = {
        "changed": merged != current,
        "config": merged,
        "changed_keys": keys,
        "diff": {"before": text, "after": after, "before_header": path, "after_header": path},
    }
    if merged != current and not module.check_mode:
        said = refusal(module, after)
        if said:
            module.fail_json(**failure("file_refused", path=path, reason=said))
        if exists and module.params["backup"]:
            result["backup_file"] = module.backup_local(path)
        write(module, path, after)
    module.exit_json(**result)


def refusal(module: AnsibleModule, text: str) -> str:
    """What the engine says against a configuration; empty where it takes it, is not installed yet, or cannot say so (before release 23)."""
    engine = module.get_bin_path("dockerd")
    if not engine:
        return ""
    handle, file = tempfile.mkstemp(dir=module.tmpdir, suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    status, out, err = module.run_command([engine, "--validate", "--config-file", file])
    os.unlink(file)
    said = (err or out).replace(file, "daemon.json").strip()
    return "" if status == 0 or "unknown flag" in said else said


def write(module: AnsibleModule, path: str, text: str) -> None:
    """Replace the file in one step: the engine never sees half of it."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=module.tmpdir)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    if not os.path.exists(path):
        os.chmod(temporary, 0o644)
    module.atomic_move(temporary, path)


if __name__ == "__main__":
    main()
