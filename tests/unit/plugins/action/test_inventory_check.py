"""The action plugin on inventories as people write them: in this process, and by ansible-playbook where Ansible's part counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.vault import VaultLib, VaultSecret
from ansible_collections.baremetal.llm.plugins.modules import inventory_check as documentation
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.argument_specs import known_variables

from tests.support.inventory_check import look

REPOSITORY = Path(__file__).resolve().parents[4]

SPECS = {
    "common": {
        "llm_bundle_dir": {"type": "path"},
        "llm_offline": {"type": "bool", "default": False},
        "llm_cluster_network": {"type": "str"},
        "llm_gpus": {"type": "list", "elements": "dict"},
        "llm_language": {"type": "str", "choices": ["en", "zh"], "default": "en"},
        "llm_foreign_variables": {"type": "list", "elements": "str"},
    },
    "ray": {"ray_head_host": {"type": "str"}, "vllm_port": {"type": "str"}},
    "vllm": {
        "vllm_model": {"type": "str", "required": True},
        "vllm_version": {"type": "str", "required": True},
        "vllm_port": {"type": "int", "default": 8000},
        "vllm_options": {"type": "dict"},
        "vllm_max_model_len": {"type": "int"},
        "vllm_enforce_eager": {"type": "bool"},
        "vllm_tensor_parallel_size": {"type": "int"},
        "vllm_api_key": {"type": "str", "no_log": True},
    },
}

PLAYBOOK = """
- name: Validate the inventory
  hosts: localhost,all
  gather_facts: false
  tasks:
    - name: Before
      ansible.builtin.set_fact:
        vllm_made_by_a_task: 1
      when: set_facts | default(false) | bool
    - name: Inventory | Check without touching a host
      baremetal.llm.inventory_check: {arguments}
      run_once: true
      register: __validate
    - name: Inventory | Remember the deployments for the plays that follow
      ansible.builtin.set_fact:
        llm_inventory: "{{ __validate.inventory }}"
      run_once: true
      delegate_to: localhost
      delegate_facts: true
- name: Use it
  hosts: all
  gather_facts: false
  tasks:
    - name: Show
      ansible.builtin.debug:
        msg: "RESULT {{ hostvars['localhost']['llm_inventory'] | dict2items | rejectattr('key', 'equalto', 'names') | items2dict | to_json }}"
      run_once: true
      delegate_to: localhost
"""

HOSTS = """
all:
  children:
    llm_deployments:
      children:
        qwen:
          hosts: {gpu01: {ansible_host: 192.0.2.1}, gpu02: {ansible_host: 192.0.2.2}}
"""
QWEN = """
vllm_model: Qwen/Qwen2.5-14B-Instruct
vllm_version: "0.8.5.post1"
"""
GOOD = {"deployments": {"qwen": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}, "hosts": ["gpu01", "gpu02"]}


@dataclass
class Run:
    rc: int
    # All that a person would see of it.
    out: str
    result: dict[str, Any] | None
    codes: list[str]


class Workplace:
    """A directory with a collection that has this checkout's plugins and the argument specs above."""

    def __init__(self, root: Path) -> None:
        self.root = root
        collection = root / "collections/ansible_collections/baremetal/llm"
        collection.mkdir(parents=True)
        (collection / "plugins").symlink_to(REPOSITORY / "plugins")
        for role, options in SPECS.items():
            self.write(
                f"collections/ansible_collections/baremetal/llm/roles/{role}/meta/argument_specs.yml",
                json.dumps({"argument_specs": {"main": {"options": options}}}),
            )
        self.known = known_variables(str(collection / "roles"))
        self.write("ansible.cfg", "")
        self.playbook()
        self.write("inventory/hosts.yml", HOSTS)
        self.write("inventory/group_vars/qwen.yml", QWEN)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text), encoding="utf-8")

    def playbook(self, before: str = "") -> None:
        self.write("play.yml", before + PLAYBOOK.replace("{arguments}", "{}"))

    def play(self, *arguments: str, **environment: str) -> Run:
        """What ansible-playbook makes of it, for what is decided by Ansible: who runs the task, and what is printed."""
        command = [sys.executable, "-m", "ansible", "playbook", "-i", "inventory", "play.yml", *arguments]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        variables |= {
            "ANSIBLE_COLLECTIONS_PATH": str(self.root / "collections"),
            "ANSIBLE_CONFIG": str(self.root / "ansible.cfg"),
            "ANSIBLE_HOME": str(self.root / "home"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
            "COLUMNS": "200",
            "LC_ALL": "C.UTF-8",
            **environment,
        }
        done = subprocess.run(
            command,
            cwd=self.root,
            env=variables,
            text=True,
            check=False,
            timeout=120,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out = done.stdout
        shown = [json.loads(f'"{text}"') for text in re.findall(r'^    "msg": "RESULT (.*)"$', out, re.MULTILINE)]
        failed = [json.loads(line.split("=> ", 1)[1]) for line in out.splitlines() if line.startswith("fatal: ")]
        assert len(shown) + len(failed) == 1, out
        assert [task["changed"] for task in failed] in ([], [False])
        return Run(
            done.returncode,
            out,
            json.loads(shown[0]) if shown else None,
            failed[0]["problems"] if failed else [],
        )

    def look(self, *arguments: str, **task: Any) -> Run:
        run = Run(*look(self.root, self.known, *arguments, **task))
        if run.result is not None:
            # What things are called there, which is tested where it is decided.
            assert set(run.result.pop("names")) >= set(run.result["hosts"])
        return run

    def good(self, *arguments: str, inventory: str = "inventory", **task: Any) -> Run:
        run = self.look("-i", inventory, *arguments, **task)
        assert run.rc == 0, run.out
        return run

    def bad(self, *arguments: str, **task: Any) -> Run:
        run = self.look("-i", "inventory", *arguments, **task)
        assert run.rc == 2, run.out
        assert run.result is None
        return run


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


# What one of them says is what each of them says: starting Ansible takes longer than all that the plugin does.
PLAYS = [("--check",), ("--limit", "gpu02"), ("--limit", "localhost,gpu01", "-e", "set_facts=yes")]
LOOKS = [(), ("--limit", "qwen:!gpu01"), *PLAYS]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", PLAYS, ids=" ".join)
def test_a_play_on_a_good_inventory(workplace: Workplace, arguments: tuple[str, ...]) -> None:
    run = workplace.play(*arguments)
    assert run.rc == 0, run.out
    assert run.result == GOOD
    assert "[WARNING]" not in run.out


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_a_good_inventory(workplace: Workplace, arguments: tuple[str, ...]) -> None:
    run = workplace.good(*arguments)
    assert run.result == GOOD
    assert "[WARNING]" not in run.out


def test_the_printed_error_is_readable(workplace: Workplace) -> None:
    workplace.write(
        "inventory/group_vars/qwen.yml", 'vllm_modle: "a"\nvllm_version: 0.10\nvllm_enforce_eager: perhaps\n'
    )
    run = workplace.play("-e", "vllm_port=70000")
    assert run.rc == 2
    assert "Traceback" not in run.out
    text = """
    5 problems. No host has been changed.

    1. vllm_model is not set for the deployment qwen.
       value:   (not set)
       where:   group_vars/qwen.yml
       allowed: the model's name or its directory on the hosts, for example Qwen/Qwen2.5-14B-Instruct

    2. vllm_enforce_eager on gpu01, gpu02 has the wrong type.
       value:   "perhaps"
       where:   inventory/group_vars/qwen.yml:3
       allowed: true or false

    3. Unknown variable vllm_modle on gpu01, gpu02. Did you mean vllm_model?
       value:   "a"
       where:   inventory/group_vars/qwen.yml:1
       allowed: a variable of this collection; if vllm_modle belongs to something else, list it in llm_foreign_variables

    4. vllm_port on gpu01, gpu02 is out of range.
       value:   "70000"
       where:   the command line (-e)
       allowed: 1 to 65535

    5. vllm_version on gpu01, gpu02 is a number, not text: YAML drops its last zero, so 0.10 becomes 0.1.
       value:   0.1
       where:   inventory/group_vars/qwen.yml:2
       allowed: the version in quotes, for example vllm_version: "0.8.5.post1"
    """
    assert run.out.count(textwrap.dedent(text).strip()) == 1
    assert run.out.count("vllm_modle on gpu01") == 1, "each problem is printed once"


def test_the_whole_inventory_counts_when_the_run_is_limited(workplace: Workplace) -> None:
    workplace.write("inventory/host_vars/gpu02.yml", "vllm_modle: a\n")
    assert workplace.bad("--limit", "gpu01").codes == ["unknown_variable"]


def test_the_error_speaks_chinese(workplace: Workplace) -> None:
    run = workplace.bad("-e", "llm_language=zh", "-e", "vllm_modle=a")
    assert "未知变量 vllm_modle" in run.out
    assert "命令行（-e）" in run.out


@pytest.mark.parametrize(
    ("hosts", "code", "said"),
    [
        (
            "all: {children: {gpu_hosts: {hosts: {gpu01: }}}}",
            "no_deployments_group",
            ["The inventory has no group llm_deployments, so there is no model to serve."],
        ),
        (
            "all: {children: {llm_deployment: {children: {qwen: {hosts: {gpu01: }}}}}}",
            "no_deployments_group_near",
            ["The inventory has no group llm_deployments. Is it the group llm_deployment, misspelled?"],
        ),
        (
            "all: {children: {llm_deployments: {hosts: {gpu01: }}}}",
            "no_deployment",
            ["The group llm_deployments has no child group", "gpu01"],
        ),
        ("all: {children: {llm_deployments: }}", "no_deployment", ["The group llm_deployments has no child group"]),
        (
            "all: {children: {llm_deployments: {children: {qwen: {hosts: {gpu01: }}, empty: }}}}",
            "deployment_without_host",
            ["The deployment empty has no host."],
        ),
        (
            "all: {children: {llm_deployments: {children: {qwen: {hosts: {gpu01: }}, b: {hosts: {gpu01: }}}}}}",
            "host_in_two_deployments",
            ["The host gpu01 is in more than one deployment.", "qwen, b"],
        ),
        ("", "no_deployments_group", ["The inventory has no group llm_deployments"]),
    ],
)
def test_broken_groups(workplace: Workplace, hosts: str, code: str, said: list[str]) -> None:
    workplace.write("inventory/hosts.yml", hosts)
    run = workplace.bad()
    assert run.codes == [code]
    for text in said:
        assert text in run.out


def test_an_ini_inventory_and_groups_below_a_deployment(workplace: Workplace) -> None:
    workplace.write(
        "hosts.ini",
        """
        [llm_deployments:children]
        qwen
        [qwen:children]
        rack1
        rack2
        [rack1]
        gpu02
        [rack2]
        gpu01
        [qwen:vars]
        vllm_model=lab/tiny
        vllm_version="0.8.5"
        """,
    )
    run = workplace.good(inventory="hosts.ini")
    assert run.result == {
        "deployments": {"qwen": {"hosts": ["gpu02", "gpu01"], "head": "gpu02"}},
        "hosts": ["gpu02", "gpu01"],
    }


def test_an_inventory_program_and_several_sources(workplace: Workplace) -> None:
    groups = {
        "llm_deployments": {"children": ["other"]},
        "other": {"hosts": ["gpu09"], "vars": {"vllm_modle": 1}},
        "_meta": {"hostvars": {}},
    }
    workplace.write("dynamic.py", f"#!{sys.executable}\nprint('''{json.dumps(groups)}''')\n")
    (workplace.root / "dynamic.py").chmod(0o755)
    run = workplace.bad("-i", "dynamic.py")
    assert run.codes == ["missing_variable", "missing_variable", "unknown_variable"]


def test_templates_are_evaluated_and_those_that_cannot_be_are_left_alone(workplace: Workplace) -> None:
    workplace.write(
        "inventory/group_vars/qwen.yml",
        QWEN
        + """
chosen_port: 70000
vllm_port: "{{ chosen_port }}"
vllm_max_model_len: "{{ ansible_facts['memtotal_mb'] }}"
vllm_tensor_parallel_size: "{{ nowhere }}"
vllm_enforce_eager: "{{ 1 / 0 }}"
llm_cluster_network: "{{ hostvars['gpu01']['ansible_host'] }}"
""",
    )
    run = workplace.bad()
    assert run.codes == ["out_of_range", "network_malformed"]
    warnings = [line for line in run.out.splitlines() if line.startswith("[WARNING]")]
    assert len(warnings) == 2
    assert "vllm_tensor_parallel_size of gpu01, gpu02 ('nowhere' is undefined)" in run.out
    assert "vllm_enforce_eager of gpu01, gpu02" in run.out


@pytest.fixture
def vault(workplace: Workplace) -> VaultLib:
    workplace.write("password", "open sesame\n")
    return VaultLib([("default", VaultSecret(b"open sesame"))])


@pytest.mark.slow
def test_secrets_are_not_looked_at(workplace: Workplace, vault: VaultLib) -> None:
    secret = "!vault |\n" + textwrap.indent(vault.encrypt("hunter2").decode(), "  ")
    secrets = f"\nvllm_api_kye: {secret}\nllm_cluster_network: {secret}\nmine: {secret}\n"
    workplace.write("inventory/group_vars/qwen.yml", QWEN + f"vllm_api_key: {secret}" + secrets)
    password = ("--vault-password-file", "password")
    for run in (workplace.bad(), workplace.bad(*password), workplace.play(*password)):
        assert (run.rc, run.codes) == (2, ["unknown_variable"])
        assert "hunter2" not in run.out
        assert "Traceback" not in run.out
    workplace.write(
        "inventory/group_vars/qwen.yml", QWEN + f"vllm_api_key: {secret}\nvllm_model: '{{{{ nowhere }}}}'\n"
    )
    assert "nowhere" in workplace.good().out


@pytest.mark.slow
def test_an_encrypted_file_is_read_but_not_shown(workplace: Workplace, vault: VaultLib) -> None:
    file = vault.encrypt("vllm_api_key: hunter2\nvllm_secert: hunter2\nllm_language: hunter2\n").decode()
    workplace.write("inventory/group_vars/all/vault.yml", file)
    password = ("--vault-password-file", "password")
    for run in (workplace.bad(*password), workplace.play(*password)):
        assert (run.rc, run.codes) == (2, ["unknown_engine_variable"])
        assert "hunter2" not in run.out
        assert "Traceback" not in run.out


@pytest.mark.slow
def test_facts_and_what_tasks_set_are_no_inventory(workplace: Workplace) -> None:
    workplace.write("facts/gpu01", json.dumps({"vllm_cached": 1, "distribution": "Debian"}))
    run = workplace.play(
        "-e", "set_facts=true", ANSIBLE_CACHE_PLUGIN="jsonfile", ANSIBLE_CACHE_PLUGIN_CONNECTION="facts"
    )
    assert (run.rc, run.result) == (0, GOOD)


def test_a_bundle(workplace: Workplace) -> None:
    workplace.write("inventory/group_vars/all.yml", "llm_offline: true\n")
    assert workplace.bad().codes == ["bundle_dir_missing"]
    workplace.write(
        "inventory/group_vars/all.yml", 'llm_offline: true\nllm_bundle_dir: "{{ inventory_dir }}/../bundle"\n'
    )
    run = workplace.bad()
    assert run.codes == ["bundle_missing"]
    assert "manifest.yml does not exist" in run.out
    workplace.write("bundle/manifest.yml", "schema: [1\n")
    assert workplace.bad().codes == ["bundle_unreadable"]
    workplace.write("bundle/manifest.yml", "")
    assert workplace.bad().codes == ["bundle_unreadable"]
    workplace.write("bundle/manifest.yml", "{schema: 1, files: []}\n")
    assert workplace.bad().codes == ["bundle_without_model", "bundle_without_version"]
    workplace.write(
        "bundle/manifest.yml",
        """
        schema: 1
        created: 2026-11-21T12:00:00Z
        files:
          - {path: qwen, kind: model, model: Qwen/Qwen2.5-14B-Instruct}
          - {path: images.tar, kind: image, images: [{reference: "vllm:1", vllm_version: 0.8.5.post1}]}
        """,
    )
    assert workplace.good().result == GOOD
    (workplace.root / "bundle/manifest.yml").unlink()
    assert workplace.good(bundle_required=False).result == GOOD


def test_an_unknown_argument_is_refused(workplace: Workplace) -> None:
    assert "bundel_required" in workplace.bad(bundel_required=False).out


@pytest.mark.slow
def test_hosts_added_while_running(workplace: Workplace) -> None:
    add = """
- name: Add
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Add
      ansible.builtin.add_host: {name: gpu03, groups: [qwen], vllm_modle: a}
"""
    workplace.playbook(before=add)
    run = workplace.play()
    assert (run.rc, run.codes) == (2, ["unknown_variable"])


def test_the_example_is_what_is_tested_here() -> None:
    (example,) = yaml.safe_load(documentation.EXAMPLES)
    tested = yaml.safe_load(PLAYBOOK.replace("{arguments}", ""))[0]
    del tested["tasks"][0]
    assert example == tested
    assert "inventory_check" in yaml.safe_load(documentation.DOCUMENTATION)["module"]
