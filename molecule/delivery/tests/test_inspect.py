"""What was planted into the image is what the manifest says, Ray was added to it, and a V100 is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from lab.config import STATE

testinfra_hosts = ["local://"]
FOLDER = STATE / "delivery/inspect"
BASE, DERIVED = "llm-inspect/vllm-openai:v0.33.0", "baremetal-llm/vllm-openai:v0.33.0-ray-2.60.0"


def record(bundle: str = "bundle") -> dict[str, Any]:
    files = yaml.safe_load((FOLDER / bundle / "manifest.yml").read_text())["files"]
    (image,) = [image for entry in files if entry["kind"] == "image" for image in entry["images"]]
    return dict(image)


def test_the_manifest_says_what_the_image_holds() -> None:
    image = record()
    built = ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "compute_120"]
    libraries = image["contents"]["libraries"]
    assert {name: entry["built_for"] for name, entry in libraries.items()} == {"vllm": built, "torch": built}
    assert image["compute_capabilities"] == ["7.5", "8.0", "9.0", "10.0", "12.0"]
    assert image["torch_version"] == "2.14.0+cu130"
    assert (image["cuda_version"], image["driver_minimum"]) == ("13.0", "580.65.06")
    assert image["python_version"] == "3.11"


def test_ray_was_added_in_one_layer_and_is_recorded(host: Any) -> None:
    image = record()
    assert (image["reference"], image["ray_version"], image["contents"]["ray_version"]) == (DERIVED, "2.60.0", "2.60.0")
    ids = host.check_output(f"docker image inspect --format '{{{{.Id}}}}' {BASE} {DERIVED}").split()
    assert image["base"] == {"reference": BASE, "id": ids[0]}
    assert image["id"] == ids[1]
    layers = [
        host.check_output(f"docker image inspect --format '{{{{json .RootFS.Layers}}}}' {name}").count("sha256")
        for name in (BASE, DERIVED)
    ]
    assert layers[1] == layers[0] + 1
    ask = "docker run --rm --network none --entrypoint"
    assert host.check_output(f"{ask} python3 {DERIVED} -c 'import ray; print(ray.__version__)'") == "2.60.0"
    assert host.check_output(f"{ask} ray {DERIVED} --version").endswith("version 2.60.0")
    assert host.run(f"{ask} python3 {BASE} -c 'import ray'").rc == 1
    assert host.run(f"{ask} ls {DERIVED} /wheels").rc != 0, "the wheels stay outside"


def test_the_page_s_command_prints_the_same() -> None:
    said = (FOLDER / "page.txt").read_text()
    for text in (
        DERIVED,
        "vLLM          0.33.0",
        "Ray           2.60.0",
        "sm_75 sm_80 sm_90a sm_100f sm_120 compute_120",
        '"sm_90a": 1',
    ):
        assert text in said
    assert "sm_70" not in said, "a layer above removed it"


def test_what_a_script_fetched_is_given_ray_too() -> None:
    """Lists, a script without Ansible, and bundle_import make the same image of it as making the bundle in one go."""
    assert record("adopted") == record()


@pytest.mark.parametrize("road", ["made", "adopted", "complete"])
def test_a_v100_is_refused_and_what_works_is_named(road: str) -> None:
    said = (FOLDER / f"refusal-{road}.txt").read_text()
    for text in ("no code for its GPUs of compute capability 7.0", "0.8.5.post1", "0.19.1", "group_vars/chat.yml"):
        assert text in said
    assert not (FOLDER / "refused/manifest.yml").exists()
