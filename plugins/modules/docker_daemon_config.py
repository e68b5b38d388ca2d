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
  - Before it replaces the old one, the new file is checked with the flags on the engine's own command line. What both say keeps the engine from
    starting. An engine since 23.0 is asked itself (C(dockerd --validate)).
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
flags:
  description: What the engine's command line says, by the directive of the file, with what is C(said) and the C(path) of the file that says so.
  returned: success
  type: dict
  sample: {"live-restore": {"said": "--live-restore", "path": "/etc/sysconfig/docker"}}
swarm:
  description: The state of the host in a swarm, as its engine says it; empty where none answers.
  returned: success
  type: str
  sample: inactive
installed_by:
  description: How Docker came to the host, V(packages), V(static), V(snap) or empty.
  returned: success
  type: str
  sample: packages
backup_file:
  description: Where the file as it was is kept.
  returned: when there was one and it changed
  type: str
  sample: /etc/docker/daemon.json.4711.2026-01-31@10:11:12~
"""

import os
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.llm.plugins.module_utils._coded import failure
from ansible_collections.baremetal.llm.plugins.module_utils._daemon_json import DaemonJsonError, merge, parse, render
from ansible_collections.baremetal.llm.plugins.module_utils._engine import ask_engine
from ansible_collections.baremetal.llm.plugins.module_utils._engine_flags import arguments, colliding, read_flags
from ansible_collections.baremetal.llm.plugins.module_utils._picture import installed_by
from ansible_collections.baremetal.llm.plugins.module_utils._programs import Programs


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
    programs = Programs(module)
    info, flags = ask_engine("/info") or {}, read_flags(programs)
    result: dict[str, object] = {
        "flags": flags,
        "swarm": str((info.get("Swarm") or {}).get("LocalNodeState") or ""),
        "installed_by": installed_by({}, programs.path("dockerd")),
        "changed": merged != current,
        "config": merged,
        "changed_keys": keys,
        "diff": {"before": text, "after": after, "before_header": path, "after_header": path},
    }
    if merged != current:
        refuse_what_cannot_start(module, programs, after, merged, flags, str(info.get("ServerVersion") or ""))
    if merged != current and not module.check_mode:
        if exists and module.params["backup"]:
            result["backup_file"] = module.backup_local(path)
        write(module, path, after)
    module.exit_json(**result)


def refuse_what_cannot_start(
    module: AnsibleModule,
    programs: Programs,
    text: str,
    merged: dict[str, object],
    flags: dict[str, dict[str, str]],
    version: str,
) -> None:
    """Fail with a file with which the engine would not start; nothing has been written then."""
    path = module.params["path"]
    for directive in colliding(flags, merged, version):
        flag = flags[directive]
        module.fail_json(
            **failure("daemon_json_collides", path=path, directive=directive, said=flag["said"], file=flag["path"])
        )
    dockerd = programs.path("dockerd")
    if not dockerd:
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as candidate:
        candidate.write(text)
        candidate.flush()
        status, out, err = programs.run([dockerd, "--validate", "--config-file", candidate.name, *arguments(flags)])
    # Engines before 23.0 do not know the question.
    if status and "unknown flag" not in err:
        module.fail_json(
            **failure("file_refused", path=path, reason=(err or out).replace(candidate.name, "daemon.json").strip())
        )


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
