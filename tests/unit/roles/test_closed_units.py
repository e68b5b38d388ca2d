"""Units that are closed where something is missing, and that take no more memory than they are given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.names import names
from ansible_collections.baremetal.llm.plugins.plugin_utils.gateway.selinux import selinux_section

from tests.support.roles import ROLES

PLACES: dict[str, Any] = {
    "ansible_managed": "Made by Ansible",
    "_gateway": {"limits": {"memory_mib": 4096}, "run_dir": "/run/llm-gateway", "selinux": selinux_section({})},
    "_gateway_confined": False,
    "_gateway_dir": "/etc/llm-gateway",
    "_gateway_program": "/opt/llm/gateway/llm-gateway.py",
    "_gateway_usage_program": "/opt/llm/gateway/llm-gateway-usage.py",
    "_gateway_textfile_dir": "/var/lib/llm-monitoring",
    "_network_unit": "llm-firewall.service",
    "_network_table_file": "/etc/llm-firewall.nft",
}


def rendered(template: str, **more: Any) -> str:
    """As Ansible renders it: a line that is a block leaves none."""
    text = (ROLES / template).read_text(encoding="utf-8")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.from_string(text).render({**PLACES, **more}) + "\n"


def test_every_unit_of_the_gateway_has_a_limit_of_memory() -> None:
    units = sorted(ROLES.glob("gateway/templates/*.service.j2"))
    assert len(units) == 3
    assert [path.name for path in units if "\nMemoryMax=" not in rendered(str(path.relative_to(ROLES)))] == []


def test_where_selinux_confines_haproxy_its_folder_gets_its_type_first() -> None:
    unit = rendered("gateway/templates/llm-gateway.service.j2", _gateway_confined=True)
    before = [line for line in unit.splitlines() if line.startswith("ExecStartPre=")]
    # A host without the type starts the gateway all the same.
    assert before[0] == "ExecStartPre=-/usr/bin/chcon --type haproxy_var_run_t /run/llm-gateway"
    assert "STATE" in before[1]
    assert "chcon" not in rendered("gateway/templates/llm-gateway.service.j2")


def test_whatever_starts_a_deployment_needs_the_table() -> None:
    """The engine, and units without containers: each has the drop-in, and it goes with the deployment."""
    variables = yaml.safe_load((ROLES / "network/vars/main.yml").read_text(encoding="utf-8"))
    mine = names("")

    def needing(files: str) -> set[str]:
        made = [each for each in variables[files] if each["template"] == "needs_table.conf.j2"]
        texts = [jinja2.Environment().from_string(each["path"]).render(_llm={"names": mine}) for each in made]
        return {path.split("/")[4].removesuffix(".service.d") for path in texts}

    assert needing("_network_unit_files_always") == {"docker"}
    assert needing("_network_unit_files_of_venv") == {mine["vllm"], mine["ray"]}
    assert "venv" in variables["_network_unit_files"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd that could read units")
def test_systemd_takes_the_drop_in_for_a_unit_with_a_user(tmp_path: Path) -> None:
    """A line that systemd does not understand is left out with a warning, and the unit would start without the table."""
    (tmp_path / "llm-vllm.service.d").mkdir()
    drop_in = rendered("network/templates/needs_table.conf.j2").replace("/usr/sbin/nft", "/bin/true")
    (tmp_path / "llm-vllm.service.d/llm-firewall.conf").write_text(drop_in)
    (tmp_path / "llm-vllm.service").write_text("[Service]\nUser=daemon\nExecStart=/bin/true\n")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "llm-vllm.service")]
    done = subprocess.run(
        command,
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if str(tmp_path) in line]) == (0, [])
    assert "ExecStartPre=+" in drop_in
