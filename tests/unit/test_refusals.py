"""What a playbook says when it refuses before a host is touched: what, the value, where to set it, what is allowed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible.playbook.task import Task
from ansible_collections.baremetal.llm.plugins.action import bundle_copy

from tests.support.playbooks import playbook

ROOT = Path(__file__).resolve().parents[2]


def refused(name: str, *arguments: str) -> str:
    done = playbook(f"playbooks/{name}.yml", "--inventory", "inventories/offline_v100", *arguments)
    assert done.returncode == 2, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("cannot start as it is set", "Tesla V100-PCIE-16GB has 7.0", "set dtype=half")),
        ("zh", ("部署 qwen25_14b 按当前设置无法启动", "Tesla V100-PCIE-16GB 为 7.0", "设置 dtype=half")),
    ],
)
def test_a_plan_that_cannot_start(language: str, said: tuple[str, ...]) -> None:
    text = refused("plan", "-e", "vllm_dtype=bfloat16", "-e", f"llm_language={language}")
    for part in (*said, "dtype_not_supported", "group_vars/qwen25_14b.yml"):
        assert part in text


@pytest.mark.slow
def test_a_rebuilt_host_that_is_none() -> None:
    text = refused("replace_node", "-e", "llm_node=nosuch")
    for part in ("nosuch", "-e llm_node=NAME", "one of gpu01, gpu02"):
        assert part in text


@pytest.mark.slow
def test_a_gateway_without_a_host() -> None:
    text = refused("gateway")
    for part in ("no host in the group llm_gateway", "beside llm_deployments"):
        assert part in text


@pytest.mark.slow
def test_a_web_page_without_a_host_and_one_without_a_gateway(tmp_path: Path) -> None:
    assert "no host in the group llm_web_ui" in refused("web_ui")
    (tmp_path / "page.yml").write_text("llm_web_ui: {hosts: {gpu01: }}\n")
    text = refused("web_ui", "--inventory", str(tmp_path / "page.yml"), "-e", "preflight_bundle_required=false")
    for part in ("gpu01 of the group llm_web_ui is no gateway", "a host of llm_gateway"):
        assert part in text


@pytest.mark.slow
def test_a_replica_that_is_none() -> None:
    text = refused("drain", "-e", "gateway_replica=nosuch", "-e", "preflight_bundle_required=false")
    for part in ("nosuch", "-e gateway_replica=NAME", "one of qwen25_14b"):
        assert part in text


@pytest.mark.slow
def test_a_rotation_of_something_else() -> None:
    text = refused("rotate_secrets", "-e", "llm_rotate_secrets=everything")
    for part in ('"everything"', "llm_rotate_secrets", "api_key, ray_token, all, finish"):
        assert part in text


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("holds no model with model a/b", "ask for what it holds")),
        ("zh", ("没有符合 model a/b 的 model", "改为其中已有的内容")),
    ],
)
@pytest.mark.parametrize("there", [False, True], ids=["no bundle", "not in it"])
def test_what_a_host_needs_of_the_bundle(there: bool, language: str, said: tuple[str, ...], tmp_path: Path) -> None:
    if there:
        (tmp_path / "manifest.yml").write_text("{schema: 1, files: []}")
    else:
        said = ("llm_bundle_dir", {"en": "cannot be used", "zh": "无法使用离线包"}[language])
    task = Task()
    task.args = {
        "bundle": str(tmp_path),
        "kind": "model",
        "match": {"model": "a/b"},
        "dest": str(tmp_path / "host"),
        "language": language,
    }
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""))  # there is no host to ask
    with pytest.raises(AnsibleActionFail) as refusal:
        bundle_copy.ActionModule(task, connection, None, None, None).run(task_vars={})
    for part in said:
        assert part in str(refusal.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add_nodes", "remove_nodes", "stop", "reset", "cleanup"])
def test_a_run_about_nobody(name: str) -> None:
    text = refused(name, "-e", "preflight_bundle_required=false")
    assert "It is not said which hosts this run is about" in text
    text = refused(name, "-e", "preflight_bundle_required=false", "-e", "llm_target=nosuch")
    for part in ("nosuch", "one or more of all, qwen25_14b, gpu01"):
        assert part in text


@pytest.mark.slow
def test_a_host_that_is_in_no_deployment_is_not_added(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("all: {hosts: {desk: }}\n")
    words = (
        "--inventory",
        str(tmp_path / "more.yml"),
        "-e",
        "llm_target=desk",
        "-e",
        "preflight_bundle_required=false",
    )
    text = refused("add_nodes", *words)
    for part in ("These hosts are in no deployment", "desk", "put into the group of its deployment"):
        assert part in text
