# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine serves a model on some hosts, in which of its formats: what fits, how long a context, how many requests, and why others do not run.

How fast each of them is, nobody measured on one GPU with one model, so speed decides nothing here. vLLM and llama.cpp are planned by models of their memory,
which were compared with what the engines print. Of TurboMind and SGLang the figures are an estimate, and of Ollama a lower bound by the model of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import (
    LOSSES,
    Engine,
    engines,
    loss_of,
    runs,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import Estimate, spread_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.converted import convert
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.model import GgufModel
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    longest_context,
    place,
    room,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy import memory as lmdeploy_memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy.arguments import facts as lmdeploy_facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.ollama.inputs import facts as ollama_facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang import memory as sglang_memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import facts as sglang_facts
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.candidates import chosen
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import config_of, entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import WHY
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.placement import read_task
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY

Host = tuple[str, Sequence[Mapping[str, object]]]
# Verdicts, the best first.
FITS, NARROW, ESTIMATED, NOT_PLANNED, UNKNOWN, TOO_LARGE, NO = (
    *("fits", "narrowly", "estimated", "not_planned"),
    *("unknown", "too_large", "no"),
)
VERDICTS = (FITS, NARROW, ESTIMATED, NOT_PLANNED, UNKNOWN, TOO_LARGE, NO)
# The context that every engine is asked for, where nobody says another.
CONTEXT = 8192
# GGUF files that people make of nearly every model.
GGUF = ("Q8_0", "Q4_K_M")
# Checkpoints that people make of most models, where the catalogue has none: the quantization_config of a usual one.
MADE: Mapping[str, Mapping[str, object]] = {
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
}
_MOST_REQUESTS = 256
_ENDINGS = {"-AWQ": "awq", "-GPTQ-Int4": "gptq", "-FP8": "fp8"}


class Choice(NamedTuple):
    engine: str
    title: str
    form: str  # 16-bit, awq, gptq, fp8, mxfp4, or a type of GGUF files
    verdict: str
    context: int = 0  # the longest of one request
    requests: int = 0  # at once, of the context that was asked for
    hosts: int = 0
    why: Text | None = None  # why it does not run, or what is not known

    @property
    def loss(self) -> str:
        return loss_of(self.form)


def formats_of(model: str) -> dict[str, Mapping[str, object]]:
    """The formats of a model that the catalogue has, by name: 16-bit (or what the checkpoint itself is in), and those beside it."""
    found: dict[str, Mapping[str, object]] = {}
    config = config_of(model)
    if config is not None:
        found[_own_format(config)] = config
    names = {entry.model.lower(): entry.config for entry in entries()}
    for ending, form in _ENDINGS.items():
        if (model + ending).lower() in names:
            found[form] = names[(model + ending).lower()]
    return found


def with_made(formats: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """The formats, and those that could be made of 16-bit weights."""
    plain = formats.get("16-bit")
    made = {} if plain is None else {form: {**plain, "quantization_config": how} for form, how in MADE.items()}
    return {**made, **formats}


def _own_format(config: Mapping[str, object]) -> str:
    method = read_model(config).quantization.method
    return "16-bit" if method == "none" else method


def recommend(formats: Mapping[str, Mapping[str, object]], hosts: Sequence[Host], context: int = 0) -> list[Choice]:
    """What each engine can do with each format, the best first.

    ``formats`` are those that there are, each with the config.json; GGUF files are made of the 16-bit one. ``hosts`` are names, each with its GPUs.
    InputError for GPUs or a config.json that cannot be read.
    """
    with_gpus = [(name, gpus) for name, gpus in hosts if gpus]
    if not with_gpus or not formats:
        return []
    asked = _Asked(with_made(formats), with_gpus, context)
    found = [_vllm(asked, form) for form in asked.formats]
    for engine in (each for each in engines() if not each.inside):
        for form in GGUF if engine.name in _FILES else asked.formats:
            found.append(_other(asked, engine, form))
    marked = [
        one._replace(why=Text("engine_made"))
        if one.why is None and one.form in MADE and one.form not in formats
        else one
        for one in found
    ]
    return sorted(marked, key=_order)


def _order(choice: Choice) -> tuple[object, ...]:
    return (
        VERDICTS.index(choice.verdict),
        choice.hosts,
        LOSSES.index(choice.loss),
        -choice.requests,
        choice.title,
        choice.form,
    )


class _Asked:
    def __init__(self, formats: Mapping[str, Mapping[str, object]], hosts: Sequence[Host], context: int) -> None:
        self.formats = formats
        self.hosts = hosts
        self.gpus = [read_gpus(list(gpus), name) for name, gpus in hosts]
        self.weakest = min((gpu for gpus in self.gpus for gpu in gpus), key=lambda gpu: gpu.capability)
        self.models = {form: read_model(config) for form, config in formats.items()}
        # GGUF files are made of 16-bit weights, where there are some.
        self.model = self.models.get("16-bit") or next(iter(self.models.values()))
        self.context = min(context or CONTEXT, self.model.context)


def _other(asked: _Asked, engine: Engine, form: str) -> Choice:
    """An engine beside vLLM."""
    choice = Choice(engine.name, engine.title, form, NO)
    capability = asked.weakest.capability
    said = {"gpu": asked.weakest.name, "capability": asked.weakest.capability_text}
    if capability < engine.no_code_below:
        return choice._replace(why=Text("engine_no_code", **said, first="{}.{}".format(*engine.no_code_below)))
    if not runs(engine.name, "gguf" if engine.name in _FILES else form, capability):
        return choice._replace(verdict=UNKNOWN, why=Text("engine_unknown", **said))
    return _PLANS[engine.name](asked, choice)


def _vllm(asked: _Asked, form: str) -> Choice:
    choice = Choice("vllm", "vLLM", form, NO)
    for count in sorted({1, len(asked.hosts)}):
        nodes = [{"host": name, "gpus": list(gpus)} for name, gpus in asked.hosts[:count]]
        try:
            task, _reasons = read_task(dict(asked.formats[form]), nodes, {"max_model_len": asked.context})
        except InputError as error:
            return choice._replace(why=error.why)
        best = chosen(task)[0][1][0]
        said = best.prediction
        if said.error is None:
            return choice._replace(
                verdict=NARROW if said.verdict == NARROWLY else FITS,
                context=max(asked.context, min(asked.model.context, said.tokens or 0)),
                requests=min(max(1, (said.tokens or 0) // asked.context), said.settings.sequences, _MOST_REQUESTS),
                hosts=len(best.placement.nodes),
            )
        choice = choice._replace(verdict=NO if said.error.code in WHY else TOO_LARGE, why=said.error.message)
    return choice


def _llama_cpp(asked: _Asked, choice: Choice, counts: Sequence[int] = ()) -> Choice:
    """``counts`` are the numbers of hosts that are tried: one, and all."""
    model = convert(asked.model, choice.form)
    if model is None:
        return choice._replace(
            verdict=NOT_PLANNED, why=Text("engine_architecture", architecture=asked.model.architecture)
        )
    counts = counts or sorted({1, len(asked.hosts)})
    for count in counts:
        gpus = [gpu for one in asked.gpus[:count] for gpu in one]
        longest = longest_context(model, gpus, Settings(0), asked.model.context)
        if longest >= asked.context and count > 1:
            return choice._replace(verdict=NOT_PLANNED, why=Text("engine_rpc", hosts=count))
        if longest >= asked.context:
            requests = _requests(model, gpus, asked.context)
            return choice._replace(verdict=FITS, context=longest, requests=requests, hosts=count)
    needed = place(model, [_ENDLESS], Settings(asked.context)).gpus[0].total
    free = sum(room(gpu) for one in asked.gpus[: max(counts)] for gpu in one)
    return choice._replace(verdict=TOO_LARGE, why=Text("engine_needs", needed=_gib(needed), free=_gib(free)))


def _ollama(asked: _Asked, choice: Choice) -> Choice:
    """It runs llama.cpp's code on one host, and lays the layers on the GPUs by a reckoning of its own: llama.cpp's is the least that it needs."""
    found = _llama_cpp(asked, choice, (1,))
    if found.verdict != FITS:
        return found
    model = convert(asked.model, choice.form)
    alone = model is not None and model.architecture in ollama_facts()["alone"]["names"]
    return found._replace(verdict=ESTIMATED, requests=1 if alone else found.requests, why=Text("engine_ollama"))


# One GPU on which everything has room: how much a model needs.
_ENDLESS = Gpu("", 1 << 50, (9, 0))


def _gib(size: int) -> str:
    return f"{size / 1024**3:,.1f}"


def _requests(model: GgufModel, gpus: Sequence[Gpu], context: int) -> int:
    """How many requests of a context fit at once."""
    low, high = 1, _MOST_REQUESTS
    while low < high:
        middle = (low + high + 1) // 2
        if place(model, gpus, Settings(context * middle, middle)).fits:
            low = middle
        else:
            high = middle - 1
    return low


def _turbomind(asked: _Asked, choice: Choice) -> Choice:
    model = asked.models[choice.form]
    known = lmdeploy_facts()["architectures"]
    if model.architecture not in known["windows" if model.slides else "planned"]:
        return choice._replace(verdict=NOT_PLANNED, why=Text("engine_architecture", architecture=model.architecture))
    gpus = asked.gpus[0]
    share = float(lmdeploy_facts()["memory"]["share"])
    found = lmdeploy_memory.estimate(model, gpus, spread_of(model, len(gpus)), share, 0)
    return _estimated(asked, choice, found, lmdeploy_memory.needed(found, asked.context))


def _sglang(asked: _Asked, choice: Choice) -> Choice:
    model = asked.models[choice.form]
    if model.slides or model.architecture not in sglang_facts()["planned"]:
        return choice._replace(verdict=NOT_PLANNED, why=Text("engine_architecture", architecture=model.architecture))
    gpus = asked.gpus[0]
    spread = spread_of(model, len(gpus))
    share = sglang_memory.share_of(min(gpu.total for gpu in gpus[:spread]), spread, {})
    found = sglang_memory.estimate(model, gpus, spread, share, "auto")
    return _estimated(asked, choice, found, sglang_memory.needed(found, asked.context))


def _estimated(asked: _Asked, choice: Choice, found: Estimate, needed: int) -> Choice:
    """On the first host. ``needed`` are the bytes of each GPU with the context that was asked for."""
    gpus = asked.gpus[0]
    if found.tokens < asked.context:
        free = min(room(gpu) for gpu in gpus) * found.spread
        needed *= found.spread
        return choice._replace(verdict=TOO_LARGE, why=Text("engine_needs", needed=_gib(needed), free=_gib(free)))
    return choice._replace(
        verdict=ESTIMATED,
        context=min(asked.models[choice.form].context, found.tokens),
        requests=min(_MOST_REQUESTS, found.tokens // asked.context),
        hosts=1,
        why=Text("engine_estimated"),
    )


# Engines that read GGUF files, and how the memory of each engine is planned.
_FILES = frozenset(("llama_cpp", "ollama"))
_PLANS: Mapping[str, Callable[[_Asked, Choice], Choice]] = {
    "llama_cpp": _llama_cpp,
    "lmdeploy": _turbomind,
    "ollama": _ollama,
    "sglang": _sglang,
}
