# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan for a GGUF file on the GPUs of a host: memory of each, the longest context, and the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._gguf import GgufError, Header, read_header, set_problems
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.arguments import (
    build_of,
    llama_arguments,
    options_of,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.architectures import MEASURED
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.data.options import FEW_OUTPUTS
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import (
    CACHE_TYPES,
    Memory,
    Settings,
    whole,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    Placement,
    longest_context,
    place,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus

GIB = 1024**3
# Where nobody says another: the default of llama-server was the model's own, which seldom fits.
CONTEXT = 8192
_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf")


def read_file(path: str) -> GgufModel:
    """The model in a file, or in it and its further parts. GgufError where it is none, or not whole."""
    first = Path(path)
    match = _PART.fullmatch(first.name)
    names = [first.name]
    if match:
        names = [f"{match[1]}-{number:05}-of-{match[3]}.gguf" for number in range(1, int(match[3]) + 1)]
    headers: dict[str, Header] = {}
    for name in names:
        headers[name] = _header(first.with_name(name))
    numbers = {name: (number, len(names)) for number, name in enumerate(names, start=1)}
    for problem in set_problems(headers, numbers) if match else []:
        raise GgufError(problem["code"], **problem["values"])
    return read_model(list(headers.values()), path)


def _header(path: Path) -> Header:
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            header = read_header(stream, size, str(path))
    except OSError as error:
        raise GgufError("model_unreadable", path=str(path), reason=error.strerror or error) from error
    if size < header.end:
        raise GgufError("model_cut_off", path=str(path), found=size, wanted=header.end)
    return header


class Planned(NamedTuple):
    """A file on GPUs, and how it is served."""

    model: GgufModel
    cards: list[Gpu]
    settings: Settings
    placement: Placement
    draft: GgufModel | None = None

    @property
    def is_measured(self) -> bool:
        """Whether plans of its architecture were compared with what llama.cpp prints."""
        return self.model.architecture in MEASURED and not self.model.recurrent


def planned(path: str, gpus: object, request: object = None, release: str = "", draft: str = "") -> Planned:
    """The plan of a file, and of a ``draft`` model beside it; InputError for a file, GPUs or wishes that cannot be used.

    ``request`` holds ``context`` (of all requests together), ``requests``, ``batch``, ``key_type``, ``value_type`` and ``flash``.
    """
    model = _known(path)
    drafting = _known(draft) if draft else None
    cards = read_gpus(gpus)
    settings = _settings(fields.mapping(request or {}, "request"), model)
    settings = settings._replace(all_outputs=bool(release) and build_of(release) < FEW_OUTPUTS)
    return Planned(model, cards, settings, place(model, cards, settings, drafting), drafting)


def _known(path: str) -> GgufModel:
    """The model in a file, whose weights all have a size."""
    try:
        model = read_file(path)
    except GgufError as error:
        raise InputError("gguf", error.code, **error.values) from error
    if model.unknown_types:
        raise InputError("gguf", "gguf_type", path=path, types=", ".join(map(str, model.unknown_types)))
    return model


def plan_gguf(path: str, gpus: object, request: object = None, release: str = "") -> dict[str, object]:
    """The same as plain data."""
    plan = planned(path, gpus, request, release)
    model, cards, settings, found, _draft = plan
    options = {"model": path, **options_of(found, settings)}
    return {
        "architecture": model.architecture,
        "quantization": model.quantization,
        "bits_per_weight": round(model.bits, 2),
        "fits": found.fits,
        "verdict": "measured" if plan.is_measured else "estimated",
        "layers": len(model.layers),
        "gpu_layers": found.gpu_layers,
        "context": settings.context,
        "longest_context": longest_context(model, cards, settings, model.context or settings.context),
        "gpus": [{"name": card.name, **_memory(one)} for card, one in zip(cards, found.gpus, strict=True)],
        "host_gib": round(found.host / GIB, 3),
        "all_in_one": _memory(whole(model, settings)),
        "argv": llama_arguments(options, release) if release else [],
    }


def _memory(memory: Memory) -> dict[str, float]:
    return {
        "weights_gib": round(memory.weights / GIB, 3),
        "cache_gib": round((memory.cache + memory.state) / GIB, 3),
        "compute_gib": round(memory.compute / GIB, 3),
    }


def _settings(wishes: Mapping[str, object], model: GgufModel) -> Settings:
    allowed = [name for name in Settings._fields if name != "all_outputs"]
    unknown = sorted(set(wishes) - set(allowed))
    if unknown:
        raise InputError("request", "llama_request", names=", ".join(unknown), allowed=", ".join(allowed))
    for name in ("key_type", "value_type"):
        kind = wishes.get(name, "f16")
        if kind not in CACHE_TYPES:
            raise InputError(f"request.{name}", "input_one_of", allowed=", ".join(CACHE_TYPES), found=kind)
    most = max(model.context, CONTEXT) * 64
    context = fields.whole(wishes, ("context",), "request") or min(CONTEXT, model.context or CONTEXT)
    if context > most:
        raise InputError("request.context", "input_absurd", found=context)
    settings = Settings(
        context,
        fields.whole(wishes, ("requests",), "request") or 1,
        fields.whole(wishes, ("batch",), "request") or 512,
        str(wishes.get("key_type", "f16")),
        str(wishes.get("value_type", "f16")),
        fields.truth(wishes.get("flash"), "request.flash", True),
        fields.truth(wishes.get("unified"), "request.unified"),
        fields.truth(wishes.get("whole_window"), "request.whole_window"),
    )
    if not settings.flash and settings.value_type not in ("f32", "f16", "bf16"):
        raise InputError("request.value_type", "llama_needs_flash", found=settings.value_type)
    if model.latent and settings.key_type != settings.value_type:
        raise InputError("request.value_type", "llama_one_type", key=settings.key_type, value=settings.value_type)
    return settings
