"""The decision about a bundle as Ansible asks for it: the hosts' variables, what the engine says, and the manifest of an earlier run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible_collections.baremetal.llm.plugins.action import bundle_decide, bundle_verify
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import make_record

from tests.support.playbooks import playbook

REPOSITORY = Path(__file__).resolve().parents[4]
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
IMAGES = [
    {"reference": "vllm/vllm-openai:v0.8.5", "vllm_version": "0.8.5"},
    {"reference": "mine:1", "vllm_version": ""},
]
ENGINE = [
    {"Id": "sha256:bb", "RepoTags": ["other:1", "mine:1"], "RootFS": {"Layers": ["l1", "l3"]}},
    {"Id": "sha256:aa", "RepoTags": ["vllm/vllm-openai:v0.8.5"], "RootFS": {"Layers": ["l1", "l2"]}},
    {"Id": "sha256:cc", "RepoTags": None, "RootFS": {"Layers": []}},
]


@pytest.fixture
def hostvars(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Two deployments: one of two hosts, one of a host that has its own bundle and image."""
    common = {"llm_gpus": [V100], "vllm_model": "lab/tiny", "vllm_version": "0.8.5", "llm_firewall_enabled": False}
    deployments = {"pair": {"hosts": ["a", "b"], "head": "a"}, "one": {"hosts": ["c"], "head": "c"}}
    return {
        "localhost": {"llm_inventory": {"deployments": deployments}},
        "a": {**common, "llm_bundle_dir": str(tmp_path / "bundle")},
        "b": {**common, "llm_bundle_dir": str(tmp_path / "bundle")},
        "c": {**common, "vllm_image": "mine:1", "llm_bundle_dir": str(tmp_path / "second")},
    }


def ask(plugin: Any, hostvars: dict[str, dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    task = Task()
    task.args = arguments
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=""))
    action = plugin.ActionModule(task, connection, None, DataLoader(), None)
    action._load_name = plugin.__name__.rpartition(".")[2]
    result: dict[str, Any] = action.run(task_vars={"hostvars": hostvars, "groups": {}})
    return result


def bundle(folder: Path, **fields: Any) -> Path:
    """A bundle of one archive of images, and a driver."""
    for name in ("images/images.gzip.tar", "driver/x.run"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    records = [
        make_record(str(folder), "images/images.gzip.tar", "image", fields),
        make_record(str(folder), "driver/x.run", "driver", {"version": "570.195.03"}),
    ]
    (folder / "manifest.yml").write_text(yaml.safe_dump({"schema": 1, "files": records}))
    return folder


def test_what_the_bundle_has_to_hold(tmp_path: Path, hostvars: dict[str, dict[str, Any]]) -> None:
    wishes = {
        "systems": ["debian-12"],
        "compression": "gzip",
        "images": [{"reference": "mine:1", "ray_version": "2.1"}],
    }
    wanted = ask(bundle_decide, hostvars, bundle=str(tmp_path / "new"), wishes=wishes)["wanted"]
    assert wanted["problems"] == []
    assert wanted["hosts"] == 3
    assert [image["reference"] for image in wanted["images"]] == ["mine:1", "vllm/vllm-openai:v0.8.5"]
    assert wanted["ray_images"] == ["vllm/vllm-openai:v0.8.5"], "the other deployment has one host"
    assert wanted["archive"] == "images/images.gzip.tar"
    assert wanted["other_archives"] == [
        "images/images.zstd.tar",
        "images/images.tar",
        "images/images.tar.zst",
        "images/images.tar.gz",
    ]
    assert wanted["known_images"] == []
    assert {item["kind"] for item in wanted["items"]} == {
        *("driver", "docker", "nvidia_container_toolkit", "os_packages", "model", "python")
    }


def test_what_is_known_of_images_comes_from_the_manifest_as_long_as_it_can_be_read(
    tmp_path: Path, hostvars: dict[str, dict[str, Any]]
) -> None:
    folder = bundle(tmp_path / "bundle", images=[{"reference": "mine:1", "id": "sha256:bb"}])
    known = ask(bundle_decide, hostvars, bundle=str(folder), wishes={})["wanted"]["known_images"]
    assert known == [{"reference": "mine:1", "id": "sha256:bb"}]
    (folder / "manifest.yml").write_text("schema: 7")
    assert ask(bundle_decide, hostvars, bundle=str(folder), wishes={})["wanted"]["known_images"] == []


def test_the_archive_and_whether_it_is_there(tmp_path: Path, hostvars: dict[str, dict[str, Any]]) -> None:
    def archive(**more: Any) -> dict[str, Any]:
        said = {"images": IMAGES, "engine_images": ENGINE, "archive": "images/images.gzip.tar", **more}
        return ask(bundle_decide, hostvars, bundle=str(tmp_path / "bundle"), **said)

    found = archive()
    images = [
        {**IMAGES[0], "id": "sha256:aa", "layers": ["l1", "l2"]},
        {**IMAGES[1], "id": "sha256:bb", "layers": ["l1", "l3"]},
    ]
    assert found["archive"] == {"path": "images/images.gzip.tar", "kind": "image", "fields": {"images": images}}
    assert not found["archived"]
    folder = bundle(tmp_path / "bundle", images=images)
    assert archive()["archived"]
    assert not archive(images=IMAGES[:1])["archived"]
    assert not archive(archive="images/images.tar")["archived"]
    assert not archive(engine_images=[{**ENGINE[0], "Id": "sha256:dd"}, ENGINE[1]])["archived"], "it was built anew"
    (folder / "images/images.gzip.tar").write_text("half")
    assert not archive()["archived"]


@pytest.mark.parametrize(("language", "words"), [("en", "has no image mine:1"), ("zh", "mine:1")])
def test_an_image_that_the_engine_lacks(
    tmp_path: Path, hostvars: dict[str, dict[str, Any]], language: str, words: str
) -> None:
    said = {"images": IMAGES, "engine_images": ENGINE[1:], "archive": "x.tar", "language": language}
    with pytest.raises(AnsibleActionFail, match=words) as refusal:
        ask(bundle_decide, hostvars, bundle=str(tmp_path), **said)
    assert "bundle_images" in str(refusal.value)


def test_images_are_checked_with_the_drivers_of_their_bundle(
    tmp_path: Path, hostvars: dict[str, dict[str, Any]]
) -> None:
    new = {"reference": "mine:1", "cuda_version": "13.0", "compute_capabilities": ["7.0"]}
    driver = {"kind": "driver", "path": "d.run", "fields": {"version": "570.195.03"}}
    assert not ask(bundle_decide, hostvars, bundle=str(tmp_path), checked_images=[new])["changed"]
    with pytest.raises(AnsibleActionFail, match=r"570\.195\.03"):
        ask(bundle_decide, hostvars, bundle=str(tmp_path), checked_images=[new], artefacts=[driver])
    offered = bundle(tmp_path / "disk", images=[new])
    (tmp_path / "empty").mkdir()
    with pytest.raises(AnsibleActionFail, match=r"570\.195\.03"):
        ask(bundle_decide, hostvars, bundle=str(tmp_path), offered=[str(tmp_path / "empty"), str(offered)])
    assert not ask(bundle_decide, hostvars, bundle=str(tmp_path), offered=[str(tmp_path / "empty")])["changed"]


def test_the_bundle_of_each_host_is_verified_once(tmp_path: Path, hostvars: dict[str, dict[str, Any]]) -> None:
    checks = str(tmp_path / "checks.json")
    first, second = bundle(tmp_path / "bundle"), bundle(tmp_path / "second")
    sizes = sum(len(name) for name in ("images/images.gzip.tar", "driver/x.run"))
    found = ask(bundle_verify, hostvars, checks=checks)
    assert (found["files"], found["bytes"], found["read_bytes"]) == (4, 2 * sizes, 2 * sizes)
    assert ask(bundle_verify, hostvars, checks=checks)["read_bytes"] == 0
    (second / "driver/x.run").write_text("driver/y.run")
    found = ask(bundle_verify, hostvars, checks=checks)
    assert found["failed"]
    assert found["faults"] == {"corrupt": ["driver/x.run"]}
    assert str(second) in found["msg"]
    assert str(first) not in found["msg"]
    hostvars["c"]["llm_bundle_dir"] = str(first)
    assert ask(bundle_verify, hostvars, checks=checks)["files"] == 2
    assert ask(bundle_verify, hostvars, checks=checks, bundle=str(second))["failed"]


def test_the_manifest_of_each_host_is_the_one_that_is_pinned(
    tmp_path: Path, hostvars: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(bundle_verify.display, "display", lambda text, *_more, **_named: said.append(text))
    first, second = bundle(tmp_path / "bundle"), bundle(tmp_path / "second")
    digests = {str(one): hashlib.sha256((one / "manifest.yml").read_bytes()).hexdigest() for one in (first, second)}
    checks = str(tmp_path / "checks.json")
    assert ask(bundle_verify, hostvars, checks=checks)["manifests"] == digests
    for one, digest in digests.items():
        assert f"bundle {one}: its manifest has the SHA-256 {digest}" in said
    hostvars["c"]["llm_bundle_manifest_sha256"] = digests[str(second)]
    assert not ask(bundle_verify, hostvars, checks=checks).get("failed")
    for host in ("a", "b"):  # a head, and one that is none
        hostvars[host]["llm_bundle_manifest_sha256"] = "0" * 64
        with pytest.raises(AnsibleActionFail, match="is not the one that is pinned"):
            ask(bundle_verify, hostvars, checks=checks)
        del hostvars[host]["llm_bundle_manifest_sha256"]
    hostvars["c"]["llm_bundle_allowed_signers"] = "ssh-ed25519 AAAA maker@home"
    with pytest.raises(AnsibleActionFail, match="is not signed"):
        ask(bundle_verify, hostvars, checks=checks)


ROAD = """
all:
  vars:
    llm_bundle_dir: {folder}/site
    llm_report_dir: {folder}/reports
    llm_bundle_manifest_sha256: "{pin}"
  children:
    llm_deployments:
      children:
        tiny:
          hosts: {{gpu01: {{ansible_host: 192.0.2.1}}}}
          vars:
            vllm_model: /models/tiny
            vllm_version: "0.8.5"
            llm_gpus: [{{name: Tesla V100-PCIE-16GB, memory_mib: 16384, compute_capability: "7.0"}}]
"""


@pytest.mark.slow
def test_the_road_of_a_bundle_into_a_site(tmp_path: Path) -> None:
    """By the real playbooks: a bundle on a disk is brought in, and another one is refused before a host is touched."""
    image = {"reference": "vllm/vllm-openai:v0.8.5", "id": "sha256:aa", "vllm_version": "0.8.5"}
    disk = bundle(tmp_path / "disk", images=[image])
    digest = hashlib.sha256((disk / "manifest.yml").read_bytes()).hexdigest()

    def play(name: str, pin: str, *arguments: str) -> tuple[int, str]:
        (tmp_path / "inventory.yml").write_text(ROAD.format(folder=tmp_path, pin=pin))
        done = playbook(f"playbooks/{name}.yml", "-i", tmp_path / "inventory.yml", *arguments)
        return done.returncode, done.stdout

    bring_in = ("-e", json.dumps({"bundle_import": [str(disk)]}))
    status, said = play("bundle", "0" * 64, *bring_in)
    assert (status, "is not the one that is pinned" in said) == (2, True), said
    assert not (tmp_path / "site").exists()
    status, said = play("bundle", digest, *bring_in)
    assert (status, f"bundle {tmp_path}/site: its manifest has the SHA-256 {digest}" in said) == (0, True), said
    status, said = play("preflight", "0" * 64)
    assert (status, "is not the one that is pinned" in said, "gpu01" in said.partition("PLAY [Bundle")[2]) == (
        2,
        True,
        False,
    )
