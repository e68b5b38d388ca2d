# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""driver_facts, run as Ansible runs it, with this machine's own package manager or one that prints what another would."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[4]


def driver_facts(path: str, **arguments: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.baremetal.llm.plugins.modules.driver_facts"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        env={**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY / ".collections")},
        text=True,
        check=False,
        capture_output=True,
        timeout=60,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    assert not result.get("failed"), done.stdout
    assert result["changed"] is False
    facts: dict[str, Any] = result["driver_facts"]
    return facts


def test_this_machine() -> None:
    facts = driver_facts("/usr/sbin:/usr/bin:/sbin:/bin")
    assert facts["kernel"] == platform.release()
    assert set(facts["programs"]) == {"gcc", "make", "dkms"}


def test_a_system_of_rpm_that_has_a_dpkg_query_too(tmp_path: Path) -> None:
    for name, text in (("dpkg-query", ""), ("rpm", "ii\\tkmod-nvidia-open-dkms\\t570.195.03\\nii\\tbash\\t5.1\\n")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nprintf '{text}'\n")
        program.chmod(0o755)
    facts = driver_facts(str(tmp_path), sysfs_root=str(tmp_path))
    # AnsibleModule looks in /usr/sbin and the like as well; the programs of the test come first.
    assert facts["packages"] == {"kmod-nvidia-open-dkms": "570.195.03"}
    assert facts["secure_boot"] is False
