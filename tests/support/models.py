"""Small models for tests: safetensors files as they are, with as many bytes as their header says."""

from __future__ import annotations

import json
import struct
from pathlib import Path


def safetensors(size: int) -> bytes:
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(index % 251 for index in range(size))


def write_model(folder: Path, shards: int = 2, size: int = 3000) -> Path:
    """A model with weights in shards and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}))
    (folder / "tokenizer.json").write_text('{"model": {}}')
    (folder / "README.md").write_text("# a model")
    names = [f"model-{number:05}-of-{shards:05}.safetensors" for number in range(1, shards + 1)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(safetensors(size + number))
    index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
