"""The role models on hosts without a bundle: three folders of this machine stand for hosts, a hub and a registry on it are real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.hub import Hub
from tests.support.models import write_model
from tests.support.playbooks import playbook
from tests.support.registry import Registry
from tests.support.servers import running

pytestmark = pytest.mark.slow
HOSTS = ["n1", "n2", "n3"]
NAMES = {host: {"models": [], "sharing": [host]} for host in HOSTS}
INVENTORY = {"deployments": {"tiny": {"hosts": HOSTS, "head": "n1"}}, "names": NAMES}
PLAYS: list[dict[str, Any]] = [
    {
        "hosts": "localhost,all",
        "gather_facts": False,
        "tasks": [
            {
                "ansible.builtin.set_fact": {"llm_inventory": INVENTORY},
                "run_once": True,
                "delegate_to": "localhost",
                "delegate_facts": True,
            },
            {"baremetal.llm.online_sources": {}, "run_once": True},
        ],
    },
    {"hosts": "tiny", "gather_facts": False, "roles": [{"role": "baremetal.llm.models"}]},
]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub/lab/tiny", size=200_000)
    (tmp_path / "hub/.token").write_text("hf_secret")
    with running(Hub(str(tmp_path / "hub"))) as found:
        yield found


def run(folder: Path, hub: Hub, *arguments: str, **more: Any) -> tuple[int, str]:
    with running(Registry()) as registry:
        registry.add("vllm/vllm-openai", "v0.8.5")
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "ansible_host": "127.0.0.1",
            "llm_offline": False,
            "llm_host_dir": f"{folder}/hosts/{{{{ inventory_hostname }}}}",
            "llm_registry_mirrors": {"docker.io": [registry.name]},
            "bundle_huggingface_endpoint": hub.url,
            "bundle_huggingface_token": "hf_secret",
            "vllm_model": "lab/tiny",
            "vllm_version": "0.8.5",
            **more,
        }
        children = {"llm_deployments": {"children": {"tiny": {"hosts": dict.fromkeys(HOSTS)}}}}
        (folder / "hosts.yml").write_text(json.dumps({"all": {"children": children, "vars": variables}}))
        (folder / "play.yml").write_text(yaml.safe_dump(PLAYS))
        done = playbook("-i", folder / "hosts.yml", folder / "play.yml", *arguments)
    return done.returncode, done.stdout + done.stderr


def changed(said: str) -> list[str]:
    recap = said.partition("PLAY RECAP")[2]
    return [line.split()[0] for line in recap.splitlines() if "changed=" in line and "changed=0" not in line]


def test_hosts_that_cannot_pass_files_on_ask_the_hub_themselves(tmp_path: Path, hub: Hub) -> None:
    """These three are one machine without systemd as its first process. That others ask the first host is for the scenario `online`."""
    status, said = run(tmp_path, hub, "-vvv")
    assert status == 0, said
    assert changed(said) == HOSTS
    weights = [path for method, path, _range in hub.asked if method == "GET" and path.endswith(".safetensors")]
    assert {path: weights.count(path) for path in weights} == dict.fromkeys(set(weights), len(HOSTS))
    assert len(set(weights)) == 2
    assert "hf_secret" not in said
    for host in HOSTS:
        folder = tmp_path / "hosts" / host / "models/lab--tiny"
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
            name: path.read_bytes() for name, path in hub.files("lab/tiny").items()
        }
    hub.asked.clear()
    status, said = run(tmp_path, hub)
    assert (status, changed(said), hub.asked) == (0, [], [])
    # A lost file comes back, and nothing else is asked for.
    (tmp_path / "hosts/n3/models/lab--tiny/model-00001-of-00002.safetensors").unlink()
    status, said = run(tmp_path, hub)
    assert (status, changed(said)) == (0, ["n3"])
    asked = {path.rpartition("/")[2] for method, path, _range in hub.asked if method == "GET" and "/resolve/" in path}
    assert asked == {"model-00001-of-00002.safetensors"}


def test_weights_that_are_there_are_adopted_and_have_to_be_the_same(tmp_path: Path, hub: Hub) -> None:
    for host in HOSTS:
        write_model(tmp_path / "data" / host)
    where = {"models_source": f"host:{tmp_path}/data/{{{{ inventory_hostname }}}}"}
    assert run(tmp_path, hub, **where)[0] == 0
    status, said = run(tmp_path, hub, **where)
    assert (status, changed(said)) == (0, [])
    assert not list((tmp_path / "hosts").glob("*/models"))
    (tmp_path / "data/n2/config.json").write_text('{"another": "model"}')
    status, said = run(tmp_path, hub, **where)
    assert status != 0
    assert "holds other files than on n1" in said
