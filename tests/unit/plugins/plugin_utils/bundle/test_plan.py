"""From an inventory to what its bundle has to hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import plan as bundle_plan
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fanout import LIBTORRENT
from hypothesis import given
from hypothesis import strategies as st

ROLES = Path(__file__).parents[5] / "roles"
V100 = {"name": "Tesla V100-PCIE-16GB", "memory_mib": 16384, "compute_capability": "7.0"}
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute_capability": "9.0"}


def plan(hosts: dict[str, dict[str, Any]] | None = None, **options: Any) -> dict[str, Any]:
    common: dict[str, Any] = {
        "vllm_model": "Qwen/Qwen2.5-14B-Instruct",
        "vllm_version": "0.8.5.post1",
        "llm_gpus": [V100],
    }
    common["llm_firewall_enabled"] = False
    hostvars = {name: {**common, **own} for name, own in (hosts or {"gpu01": {}, "gpu02": {}}).items()}
    deployments = {"qwen": {"hosts": list(hostvars), "head": next(iter(hostvars))}}
    lang = options.pop("lang", "en")
    return bundle_plan.wanted(deployments, hostvars, bundle_plan.Wishes(**{"systems": ["debian-12"], **options}), lang)


def of(result: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [item for item in result["items"] if item["kind"] == kind]


def test_everything_follows_from_the_deployment() -> None:
    result = plan()
    assert result["problems"] == []
    assert result["hosts"] == 2
    assert result["images"] == [{"reference": "vllm/vllm-openai:v0.8.5.post1", "vllm_version": "0.8.5.post1"}]
    (driver,) = of(result, "driver")
    assert driver["fields"] == {"method": "runfile", "version": "570.195.03", "branch": "570"}
    assert driver["source"].endswith("/570.195.03/NVIDIA-Linux-x86_64-570.195.03.run")
    assert [item["fields"]["version"] for item in of(result, "docker")] == ["28.5.1"]
    assert [item["source"] for item in of(result, "nvidia_container_toolkit")] == ["toolkit:1.17.8"]
    (packages,) = of(result, "os_packages")
    assert packages["source"] == "apt:debian-12"
    assert packages["packages"] == [
        *("iptables", "libdevmapper1.02.1", "libseccomp2", "python3-requests", "gcc", "make", "libc6-dev")
    ]
    assert packages["fields"] == {"distribution": "debian", "release": "12", "arch": "amd64"}
    (model,) = of(result, "model")
    assert (model["path"], model["source"]) == (
        "models/Qwen--Qwen2.5-14B-Instruct",
        "huggingface:Qwen/Qwen2.5-14B-Instruct",
    )
    # Hosts pass files on with libtorrent, whichever Python they have.
    assert [item["fields"]["fanout_python"] for item in of(result, "python")] == list(LIBTORRENT)


def test_what_is_taken_for_unsaid_is_what_the_roles_take() -> None:
    real = {
        name: value
        for path in ROLES.glob("*/defaults/main.yml")
        for name, value in (yaml.safe_load(path.read_text()) or {}).items()
    }
    assert len(bundle_plan.DEFAULTS) > 10
    assert {name: real.get(name) for name in bundle_plan.DEFAULTS} == bundle_plan.DEFAULTS


def test_what_is_named_stands() -> None:
    named = [
        {"kind": "driver", "path": "driver/x.run", "source": "/x.run"},
        {"kind": "model", "path": "models/a", "source": "/a", "fields": {"model": "Qwen/Qwen2.5-14B-Instruct"}},
        {"kind": "os_packages", "path": "os_packages/debian-12", "source": "/d"},
    ]
    images = [{"reference": "vllm/vllm-openai:v0.8.5.post1", "ray_version": "2.46.0"}]
    result = plan(artefacts=named, images=images)
    assert result["items"][:3] == named
    assert [len(of(result, kind)) for kind in ("driver", "model", "os_packages", "docker")] == [1, 1, 1, 1]
    assert result["images"] == images


def test_images_of_monitoring_are_in_the_bundle_where_somebody_watches() -> None:
    image = {"monitoring_dcgm_image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"}
    watched = {"groups": {"llm_monitoring": ["gpu01"]}}
    result = plan({"gpu01": {**image, **watched}, "gpu02": {**image, **watched}})
    assert result["images"][1:] == [{"reference": image["monitoring_dcgm_image"]}]
    assert len(plan({"gpu01": image})["images"]) == 1
    grafana = {"monitoring_grafana_image": "grafana/grafana:12.0.2"}
    assert plan({"gpu01": {**grafana, **watched}})["images"][1:] == [{"reference": "grafana/grafana:12.0.2"}]


def test_the_image_of_the_web_page_is_in_the_bundle_where_there_is_one() -> None:
    page = {"groups": {"llm_web_ui": ["gpu01"]}}
    released, mine = "ghcr.io/open-webui/open-webui:v0.12.4-slim", "mirror/page:1"
    for named, image in (({}, released), ({"web_ui_image": mine}, mine)):
        assert plan({"gpu01": {**page, **named}, "gpu02": page})["images"][1:] == [{"reference": image}]


def test_settings_of_hosts_count() -> None:
    result = plan(
        {
            "gpu01": {
                "nvidia_driver_version": "580.95.05",
                "docker_method": "present",
                "nvidia_driver_build_packages": ["gcc"],
            },
            "gpu02": {"nvidia_driver_method": "present", "docker_version": "27.0.3", "llm_offline": False},
        },
        systems=["debian-12", "rocky-9", "debian-12"],
        wheels=["requests"],
    )
    assert [item["fields"]["version"] for item in of(result, "driver")] == ["580.95.05"]
    assert [item["fields"]["version"] for item in of(result, "docker")] == ["27.0.3"]
    assert [item["source"] for item in of(result, "os_packages")] == ["apt:debian-12", "dnf:rocky-9"]
    assert of(result, "os_packages")[0]["packages"] == ["python3-requests", "gcc"]
    wheels = [item["source"] for item in of(result, "python") if "fanout_python" not in item["fields"]]
    assert wheels == ["pip:3.11", "pip:3.9"]


def test_each_system_has_its_own_names_for_packages() -> None:
    methods: dict[str, Any] = {
        "nvidia_driver_method": "present",
        "docker_method": "packages",
        "docker_version": "20.10.24",
        "nvidia_container_toolkit_method": "present",
    }
    found = {
        item["source"]: item["packages"]
        for item in of(plan({"a": methods}, systems=["debian-12", "debian-13", "rocky-9"]), "os_packages")
    }
    assert found == {
        "apt:debian-12": ["docker.io=*20.10.24*", "python3-requests"],
        "apt:debian-13": ["docker.io=*20.10.24*", "docker-cli=*20.10.24*", "python3-requests"],
        "dnf:rocky-9": ["docker-ce-20.10.24*", "docker-ce-cli-20.10.24*", "containerd.io", "python3-requests"],
    }
    static = of(plan(systems=["rocky-9"], kernels=["5.14.0-427.el9.x86_64"]), "os_packages")
    assert static[0]["packages"] == [
        *("iptables", "device-mapper-libs", "libseccomp", "python3-requests"),
        *("gcc", "make", "elfutils-libelf-devel", "kernel-devel-5.14.0-427.el9.x86_64"),
    ]
    none = {**methods, "docker_packages": []}
    assert of(plan({"a": none}), "os_packages") == []
    named = {**none, "nvidia_driver_method": "packages", "nvidia_driver_package_names": ["nvidia-driver"]}
    assert of(plan({"a": named}), "os_packages")[0]["packages"] == ["nvidia-driver"]
    assert (
        of(
            plan({"a": {**none, "nvidia_driver_method": "runfile", "nvidia_driver_build_enabled": False}}),
            "os_packages",
        )
        == []
    )


def test_a_firewall_and_what_is_named_besides() -> None:
    more = {"llm_firewall_enabled": True, "bundle_extra_packages": ["ufw"]}
    assert of(plan({"a": {}, "b": more}), "os_packages")[0]["packages"][-2:] == ["nftables", "ufw"]


def test_a_gateway_needs_haproxy() -> None:
    grouped = {"groups": {"llm_gateway": ["elsewhere"]}}
    assert "haproxy" in of(plan({"a": grouped}), "os_packages")[0]["packages"]
    assert "keepalived" not in of(plan({"a": grouped}), "os_packages")[0]["packages"]
    pair = {"groups": {"llm_gateway": ["elsewhere", "a"]}}
    assert {"haproxy", "keepalived"} <= set(of(plan({"a": pair}), "os_packages")[0]["packages"])
    assert "haproxy" not in of(plan({"a": {"groups": {"llm_gateway": []}}}), "os_packages")[0]["packages"]


def test_whoever_is_watched_needs_prometheus() -> None:
    watched = {"groups": {"llm_monitoring": ["elsewhere"]}}
    wanted = ["prometheus-node-exporter", "prometheus", "prometheus-alertmanager", "prometheus-blackbox-exporter"]
    found = plan({"a": watched})
    assert of(found, "os_packages")[0]["packages"][-4:] == wanted
    assert found["problems"] == []
    assert "prometheus" not in str(plan({"a": {"groups": {"llm_monitoring": []}}}))
    sends = {**watched, "monitoring_journal_central_enabled": True}
    assert of(plan({"a": watched, "b": sends}), "os_packages")[0]["packages"][-1] == "systemd-journal-remote"
    assert "journal" not in str(found)


def test_a_system_without_prometheus_is_refused_where_it_would_be_watched() -> None:
    watched = {"groups": {"llm_monitoring": ["a"]}}
    (problem,) = plan({"a": watched}, systems=["debian-12", "rocky-9"])["problems"]
    for part in ("rocky-9", "monitoring_exporter_enabled: false", "llm_monitoring"):
        assert part in problem
    assert "prometheus" not in str(of(plan({"a": watched}, systems=["rocky-9"]), "os_packages"))
    assert plan({"a": {}}, systems=["rocky-9"])["problems"] == []
    own = {**watched, "monitoring_exporter_enabled": False}
    assert plan({"a": watched, "b": own}, systems=["debian-12", "rocky-9"])["problems"] == []


def test_the_packages_are_those_that_the_role_installs() -> None:
    said = yaml.safe_load((ROLES / "monitoring/vars/main.yml").read_text())
    assert said["_monitoring_server_packages"] == list(bundle_plan.SERVER_PACKAGES)
    assert said["_monitoring_exporter_packages"] == list(bundle_plan.EXPORTER_PACKAGES)
    assert said["_monitoring_journal_packages"] == list(bundle_plan.JOURNAL_PACKAGES)


def test_each_generation_gets_its_driver() -> None:
    drivers = of(plan({"a": {}, "b": {"llm_gpus": [H100]}}), "driver")
    assert sorted(item["fields"]["branch"] for item in drivers) == ["570", "580"]


def test_every_recommended_branch_has_a_version() -> None:
    from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.data.generations import GENERATIONS

    for _low, _high, facts in GENERATIONS:
        assert bundle_plan.DRIVERS[facts["driver_branch"]].startswith(facts["driver_branch"] + ".")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_all_that_cannot_be_told_is_told_at_once(lang: str) -> None:
    result = plan(
        {"a": {"llm_gpus": None}, "b": {"llm_gpus": [{"name": "Abacus"}]}},
        systems=[],
        model_sources={"Qwen/Qwen2.5-14B-Instruct": "ftp:nowhere"},
        lang=lang,
    )
    text = "\n".join(result["problems"])
    assert len(result["problems"]) == 5  # two of GPUs, one of packages for each host, one of the model's source
    for word in ("nvidia_driver_version", "bundle_systems", "debian-12", "ftp:nowhere", "Abacus"):
        assert word in text
    assert "plan9" in "\n".join(plan(systems=["plan9"], lang=lang)["problems"])


@pytest.mark.parametrize(
    ("hosts", "artefacts", "compression"),
    [
        ({"a": {}}, [], "zstd"),  # the engine that the bundle brings by itself
        ({"a": {"docker_version": "20.10.24"}, "b": {}}, [], "gzip"),
        ({"a": {}, "b": {"docker_method": "present"}}, [], "gzip"),
        (
            {"a": {}},
            [
                {
                    "kind": "docker",
                    "path": "docker/docker-20.10.24.tgz",
                    "source": "/x",
                    "fields": {"version": "20.10.24"},
                }
            ],
            "gzip",
        ),
    ],
)
def test_images_are_compressed_as_every_engine_takes_it(
    hosts: dict[str, Any], artefacts: list[dict[str, Any]], compression: str
) -> None:
    assert plan(hosts, artefacts=artefacts)["compression"] == compression


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_compression_that_an_engine_does_not_load_is_refused(lang: str) -> None:
    result = plan({"a": {"docker_version": "20.10.24"}, "b": {}}, compression="zstd", lang=lang)
    (text,) = result["problems"]
    for word in ("bundle_image_compression", "zstd", "20.10.24", "23", "gzip", "docker_version"):
        assert word in text
    assert plan({"a": {"docker_method": "present"}}, compression="zstd")["problems"] == [], (
        "who knows the engine may ask for it"
    )


def test_models_from_elsewhere() -> None:
    source = {"Qwen/Qwen2.5-14B-Instruct": "modelscope:qwen/Qwen2.5-14B-Instruct@v1.0"}
    assert of(plan(model_sources=source), "model")[0]["source"] == source["Qwen/Qwen2.5-14B-Instruct"]
    assert of(plan(hub="modelscope"), "model")[0]["source"] == "modelscope:Qwen/Qwen2.5-14B-Instruct"
    assert of(plan({"a": {"vllm_model": "/srv/models/x"}}), "model") == []


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("/srv/x:y", ("", "/srv/x:y")),
        ("downloads/x", ("", "downloads/x")),
        ("https://h/x", ("https", "//h/x")),
        ("huggingface:a/b@c", ("huggingface", "a/b@c")),
    ],
)
def test_sources(source: str, parts: tuple[str, str]) -> None:
    assert bundle_plan.split_source(source) == parts


def test_weights_are_fetched_once() -> None:
    names = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "tokenizer.json"]
    others = ["pytorch_model.bin", "original/consolidated.00.pth", "consolidated.safetensors", "onnx/model.onnx"]
    others += [".gitattributes", "figures/benchmark.png", "model.gguf"]
    assert bundle_plan.needed_model_files([*others, *names]) == sorted(names)
    assert bundle_plan.needed_model_files(["pytorch_model.bin", "config.json"]) == ["config.json", "pytorch_model.bin"]
    assert bundle_plan.needed_model_files(["consolidated.safetensors", "params.json"]) == [
        "consolidated.safetensors",
        "params.json",
    ]


@given(st.lists(st.text("abc./", min_size=1)))
def test_safetensors_of_the_model_are_never_dropped(names: list[str]) -> None:
    kept = bundle_plan.needed_model_files([*names, "model.safetensors", "config.json"])
    assert {"model.safetensors", "config.json"} <= set(kept)


def test_images_are_asked_for_at_mirrors_first() -> None:
    mirrors = {"docker.io": ["mirror.example", "other.example/proxy/"], "quay.io": ["q.example"]}
    assert bundle_plan.image_addresses("vllm/vllm-openai:v0.8.5", mirrors) == [
        "mirror.example/vllm/vllm-openai:v0.8.5",
        "other.example/proxy/vllm/vllm-openai:v0.8.5",
        "vllm/vllm-openai:v0.8.5",
    ]
    assert bundle_plan.image_addresses("debian:12", mirrors)[0] == "mirror.example/library/debian:12"
    assert bundle_plan.image_addresses("quay.io/a/b:1", mirrors) == ["q.example/a/b:1", "quay.io/a/b:1"]
    assert bundle_plan.image_addresses("localhost/x", mirrors) == ["localhost/x"]
