"""What deployments without a bundle get, asked from a hub and a registry on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import MANIFEST_NAME
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import online
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.manifest import read_manifest
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import needed_model_files
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.origin import is_online, manifest_folder

from tests.support.hub import COMMIT, Hub
from tests.support.models import safetensors, write_model
from tests.support.registry import Registry
from tests.support.servers import running

MODEL = "lab/tiny"
HEAD: dict[str, Any] = {
    "llm_offline": False,
    "llm_bundle_dir": None,
    "llm_sources_dir": "/nowhere/sources",
    "vllm_model": MODEL,
    "vllm_version": "0.8.5",
    "models_dir": "/opt/llm/models",
    # No index of packages is asked.
    "llm_distribution": "copy",
}
DEPLOYMENTS = {"one": {"hosts": ["gpu01", "gpu02"], "head": "gpu01"}}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    write_model(tmp_path / "hub" / MODEL)
    with running(Hub(str(tmp_path / "hub"))) as found:
        yield found


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running(Registry()) as found:
        found.add("vllm/vllm-openai", "v0.8.5")
        yield found


def wanted(hub: str = "huggingface", sources: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    hosts = {host: {**HEAD, **more} for host in ("gpu01", "gpu02")}
    return online.online_wanted(DEPLOYMENTS, hosts, hub, sources or {})


def learn(
    folder: Path, asked: dict[str, Any], hub: Hub, registry: Registry, update: bool = False, **tokens: str
) -> Any:
    settings = Settings(make_opener(), huggingface_endpoint=hub.url, modelscope_endpoint=hub.url, tokens=tokens)
    registries = online.Registries({"docker.io": [registry.name]}, {})
    return online.learn(str(folder), asked, settings, registries, lambda line: None, update)


def test_who_has_no_bundle_and_may_reach_the_internet() -> None:
    assert is_online(HEAD)
    assert manifest_folder(HEAD) == "/nowhere/sources"
    for said, folder in (({"llm_offline": True}, ""), ({"llm_bundle_dir": "/srv/bundle"}, "/srv/bundle")):
        assert not is_online({**HEAD, **said})
        assert manifest_folder({**HEAD, **said}) == folder


def test_only_deployments_without_a_bundle_are_asked_for() -> None:
    assert [image["reference"] for image in wanted()["images"]] == ["vllm/vllm-openai:v0.8.5"]
    assert [item["source"] for item in wanted()["models"]] == ["huggingface:lab/tiny"]
    for offline in ({"llm_bundle_dir": "/srv/bundle"}, {"llm_offline": True}):
        assert wanted(**offline) == {"images": [], "models": [], "wheels": [], "problems": []}
    # Hosts pass models on with libtorrent.
    assert [item["kind"] for item in wanted(llm_distribution="fanout")["wheels"]] == ["python"] * 6
    for source in ("host:/data/tiny", "rsync://store/models/tiny", "rclone:s3:models/tiny"):
        assert wanted(models_source=source)["models"] == []


def test_what_is_said_of_an_image_of_the_sites_own_counts() -> None:
    own = {"reference": "site/vllm:1", "compute_capabilities": ["7.0"], "ray_version": "2.60.0"}
    other = {"reference": "site/other:1", "compute_capabilities": ["9.0"]}
    found = wanted(vllm_image="site/vllm:1", bundle_images=[own, other])["images"]
    assert found == [{"vllm_version": "0.8.5", **own}]


@pytest.mark.parametrize("kind", ["huggingface", "modelscope"])
def test_what_was_learnt_reads_like_a_bundle(kind: str, tmp_path: Path, hub: Hub, registry: Registry) -> None:
    records = learn(tmp_path / "sources", wanted(kind), hub, registry)
    assert read_manifest(str(tmp_path / "sources")) == records
    image, *files = records
    assert image["images"][0]["source"] == f"{registry.name}/vllm/vllm-openai"
    assert image["images"][0]["reference"] == "vllm/vllm-openai:v0.8.5"
    paths = {Path(file["path"]).name: file for file in files}
    assert paths["config.json"]["model"] == MODEL
    assert all(len(file["sha256"]) == 64 and file["urls"] for file in files)
    # Planning reads the small ones; the others are none of the controller's business.
    assert (tmp_path / "sources" / "models/lab--tiny/config.json").is_file()
    assert not list((tmp_path / "sources").rglob("*.safetensors"))


def test_the_next_run_asks_nobody(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    first = learn(tmp_path / "sources", wanted(), hub, registry)
    written = (tmp_path / "sources" / MANIFEST_NAME).stat().st_mtime_ns
    hub.asked.clear()
    registry.asked.clear()
    assert learn(tmp_path / "sources", wanted(), hub, registry) == first
    assert (hub.asked, registry.asked) == ([], [])
    assert (tmp_path / "sources" / MANIFEST_NAME).stat().st_mtime_ns == written


def test_a_tag_that_moves_is_followed_only_on_request(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    first = learn(tmp_path / "sources", wanted(), hub, registry)
    registry.answers.clear()
    registry.add("vllm/vllm-openai", "v0.8.5", "amd64")
    registry.add("other", "x")
    moved = registry.answers["/v2/other/manifests/x"]
    registry.answers = {
        key.replace("/v2/other/", "/v2/vllm/vllm-openai/"): one for key, one in registry.answers.items()
    }
    registry.answers["/v2/vllm/vllm-openai/manifests/v0.8.5"] = moved
    assert learn(tmp_path / "sources", wanted(), hub, registry)[0]["sha256"] == first[0]["sha256"]
    assert learn(tmp_path / "sources", wanted(), hub, registry, update=True)[0]["sha256"] != first[0]["sha256"]


def test_all_that_cannot_be_had_is_said_at_once(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    registry.answers.clear()
    with pytest.raises(online.OnlineError) as raised:
        learn(tmp_path / "sources", wanted(vllm_model="lab/none"), hub, registry)
    text = str(raised.value)
    assert "No registry has the image vllm/vllm-openai:v0.8.5" in text
    assert "lab/none" in text
    assert not (tmp_path / "sources" / MANIFEST_NAME).exists()


def test_a_gated_model_needs_its_token(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    (tmp_path / "hub" / ".token").write_text("hf_secret")
    with pytest.raises(online.OnlineError, match="bundle_huggingface_token"):
        learn(tmp_path / "sources", wanted(), hub, registry)
    learn(tmp_path / "sources", wanted(), hub, registry, huggingface="hf_secret")
    assert "hf_secret" not in "".join(
        path.read_text() for path in (tmp_path / "sources").rglob("*") if path.suffix in (".json", ".yml")
    )


def test_a_certificate_that_nobody_knows_is_refused(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with running(Hub(str(tmp_path / "hub"))) as mirror:
        mirror.encrypt(str(certificate), str(key))
        with pytest.raises(online.OnlineError, match=r"CERTIFICATE_VERIFY_FAILED[\s\S]*REQUESTS_CA_BUNDLE"):
            learn(tmp_path / "sources", wanted(), mirror, registry)


def test_nobody_answering_is_said(tmp_path: Path, registry: Registry) -> None:
    with running(Hub(str(tmp_path))) as gone:
        pass
    with pytest.raises(online.OnlineError, match=r"refused"):
        learn(tmp_path / "sources", wanted(), gone, registry)


def test_a_mirror_that_lists_more_than_it_has_is_refused(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    (tmp_path / "hub" / MODEL / ".lacking").write_text("model-00002-of-00002.safetensors")
    with pytest.raises(online.OnlineError, match=r"model-00002-of-00002\.safetensors: HTTP 404.*name another one"):
        learn(tmp_path / "sources", wanted(), hub, registry)


def test_weights_that_only_the_index_knows_are_missed(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    (tmp_path / "hub" / MODEL / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(online.OnlineError, match=r"model-00002-of-00002\.safetensors"):
        learn(tmp_path / "sources", wanted(), hub, registry)


def test_a_folder_of_the_controller_is_copied_from(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    folder = write_model(tmp_path / "mine")
    _image, *files = learn(tmp_path / "sources", wanted(models_source=f"controller:{folder}"), hub, registry)
    assert {Path(file["local"]).name for file in files} >= {"config.json", "model-00001-of-00002.safetensors"}
    assert not any("urls" in file for file in files)
    assert hub.asked == []


def test_of_several_formats_only_the_wanted_one(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    root = tmp_path / "hub/lab/gguf"
    root.mkdir(parents=True)
    for name in ("a-Q4_K_M.gguf", "a-Q8_0.gguf", "README.md"):
        (root / name).write_bytes(b"GGUF" + name.encode())
    asked = wanted(vllm_model="lab/gguf", models_files=["*Q4_K_M*.gguf"])
    _image, *files = learn(tmp_path / "sources", asked, hub, registry)
    assert [Path(file["path"]).name for file in files] == ["README.md", "a-Q4_K_M.gguf"]
    names = ["config.json", "pytorch_model.bin", "model.safetensors"]
    assert needed_model_files(names) == ["config.json", "model.safetensors"]
    assert needed_model_files(names, ["*.bin"]) == ["config.json", "pytorch_model.bin"]


def test_what_an_image_holds_is_noted_for_later(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    image = learn(tmp_path / "sources", wanted(), hub, registry)[0]["images"][0]
    online.add_contents(str(tmp_path / "sources"), [{**image, "contents": {"reader": 1}}])
    assert read_manifest(str(tmp_path / "sources"))[0]["images"][0]["contents"] == {"reader": 1}
    assert learn(tmp_path / "sources", wanted(), hub, registry)[0]["images"][0]["contents"] == {"reader": 1}


def test_the_revision_is_a_commit(tmp_path: Path, hub: Hub, registry: Registry) -> None:
    (tmp_path / "hub" / MODEL / "model.safetensors").write_bytes(safetensors(10))
    _image, *files = learn(tmp_path / "sources", wanted(sources={MODEL: f"huggingface:{MODEL}@v1"}), hub, registry)
    assert {file["revision"] for file in files} == {COMMIT}
