# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle of a few hundred KB: the lab's driver and toolkit, the stand-in engine, an image with a stand-in vLLM, and a tiny model.

playbooks/bundle.yml would ask this machine's Docker Engine for the image. So its files are put in place here, and the module that
playbooks/bundle.yml ends with writes the manifest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.scale.stand_in import engine
from lab.config import Config
from lab.sim.runfile import build_runfile
from lab.sim.toolkit import build_toolkit

STAND_IN = Path(__file__).with_name("stand_in")
IMAGE, MODEL = "scale/vllm-openai:stand-in", "scale/tiny-qwen2"
CREATED = "1970-01-01T00:00:00Z"
MODEL_CONFIG: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 2048,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
    "vocab_size": 512,
}


def write_artefacts(folder: Path, config: Config) -> list[dict[str, Any]]:
    """Write them below this folder. Returns what the module bundle_manifest wants to know of each."""
    driver = f"driver/NVIDIA-Linux-x86_64-{config.driver_version}.run"
    toolkit = f"nvidia_container_toolkit/nvidia-container-toolkit_{config.toolkit_version}.tar.gz"
    docker, image, model = (
        f"docker/docker-{engine.VERSION}.tgz",
        "images/images.tar",
        f"models/{MODEL.replace('/', '--')}",
    )
    for name in (driver, toolkit, docker, image, f"{model}/config.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    build_runfile(config.driver_version, folder / driver)
    build_toolkit(config.toolkit_version, folder / toolkit)
    program = (STAND_IN / "engine.py").read_bytes()
    (folder / docker).write_bytes(
        gzip.compress(archive({f"docker/{name}": program for name in ("docker", "dockerd", "containerd")}), mtime=0)
    )
    saved, images = save_image(config.vllm_version)
    (folder / image).write_bytes(saved)
    (folder / model / "config.json").write_text(json.dumps(MODEL_CONFIG, indent=2))
    (folder / model / "model.safetensors").write_bytes(weights(MODEL_CONFIG))
    fields = {
        driver: (
            "driver",
            {"method": "runfile", "version": config.driver_version, "branch": config.driver_version.split(".")[0]},
        ),
        docker: ("docker", {"version": engine.VERSION}),
        toolkit: ("nvidia_container_toolkit", {"version": config.toolkit_version}),
        image: ("image", {"images": images}),
        model: ("model", {"model": MODEL, "revision": "1"}),
    }
    return [{"path": path, "kind": kind, "fields": values} for path, (kind, values) in fields.items()]


def archive(files: Mapping[str, bytes]) -> bytes:
    """A tar archive of programs."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def save_image(vllm_version: str) -> tuple[bytes, list[dict[str, Any]]]:
    """What `docker save` would write of an image with the stand-in of vLLM, and what a manifest says of it."""
    programs = {f"opt/bin/{name}": (STAND_IN / name).read_bytes() for name in ("vllm", "python3")}
    # The user of the containers has to find it in the image's Python.
    layer = archive({**programs, "opt/lib/vllm/__init__.py": b""})
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    settings = {"Entrypoint": ["vllm", "serve"], "Env": [f"PATH={engine.PATH}", "PYTHONPATH=/opt/lib"], "Labels": {}}
    about_it = {"created": CREATED, "architecture": "amd64", "os": "linux", "config": settings}
    config = json.dumps({**about_it, "rootfs": {"type": "layers", "diff_ids": [digest]}}).encode()
    identity = hashlib.sha256(config).hexdigest()
    entry = {"Config": f"{identity}.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}
    saved = archive({f"{identity}.json": config, "layer.tar": layer, "manifest.json": json.dumps([entry]).encode()})
    record = {
        "reference": IMAGE,
        "id": f"sha256:{identity}",
        "layers": [digest],
        "vllm_version": vllm_version,
        "python_version": "3.11.2",
        # It holds no CUDA code. The GPUs are simulated, and this lets the planner accept them.
        "compute_capabilities": ["7.0"],
    }
    return saved, [record]


def weights(config: Mapping[str, Any]) -> bytes:
    """A safetensors file with every tensor of such a model, all of them zeros (https://huggingface.co/docs/safetensors: format)."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        for name, rows in (("q", hidden), ("k", keys), ("v", keys)):
            shapes |= {
                f"{layer}.self_attn.{name}_proj.weight": [rows, hidden],
                f"{layer}.self_attn.{name}_proj.bias": [rows],
            }
        shapes |= {
            f"{layer}.self_attn.o_proj.weight": [hidden, hidden],
            f"{layer}.mlp.down_proj.weight": [hidden, inner],
        }
        shapes |= {f"{layer}.mlp.{name}_proj.weight": [inner, hidden] for name in ("gate", "up")}
        shapes |= {f"{layer}.{name}_layernorm.weight": [hidden] for name in ("input", "post_attention")}
    header, place = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(place)
