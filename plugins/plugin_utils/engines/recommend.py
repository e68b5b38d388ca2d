# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine serves a model on some hosts, in which of its formats: what fits, how long a context, how many requests, and why others do not run.

How fast each of them is, nobody measured on one GPU with one model, so speed decides nothing here. vLLM and llama.cpp are planned by models of their memory,
which were compared with what the engines print. Of TurboMind the figures are an estimate, and of others only whether they have code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.capabilities import (
    ENGINES,
    LOSS,
    LOSSES,
    TURBOMIND_MODELS,
    Engine,
    runs,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.converted import convert
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.memory import Settings
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.llama_cpp.placement import (
    longest_context,
    place,
    room,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.catalogue import config_of, entries
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.kv import token_bytes
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.parallel import Shard
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.plan import plan_deployment
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import NEWEST, release_key
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.weights import rank_weights

Host = tuple[str, Sequence[Mapping[str, Any]]]
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
# Beside the weights TurboMind fills this share of what is left with its cache (cache_max_entry_count of lmdeploy/messages.py).
_TURBOMIND_SHARE = 0.8
_MOST_REQUESTS = 64
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
        return LOSS.get(self.form, LOSSES[-1])


def formats_of(model: str) -> dict[str, Mapping[str, Any]]:
    """The formats of a model that the catalogue has, by name: 16-bit (or what the checkpoint itself is in), and those beside it."""
    found: dict[str, Mapping[str, Any]] = {}
    config = config_of(model)
    if config is not None:
        found[_own_format(config)] = config
    names = {entry.model.lower(): entry.config for entry in entries()}
    for ending, form in _ENDINGS.items():
        if (model + ending).lower() in names:
            found[form] = names[(model + ending).lower()]
    return found


def _own_format(config: Mapping[str, Any]) -> str:
    method = read_model(config).quantization.method
    return "16-bit" if method == "none" else method


def recommend(formats: Mapping[str, Mapping[str, Any]], hosts: Sequence[Host], context: int = 0) -> list[Choice]:
    """What each engine can do with each format, the best first.

    ``formats`` are those that there are, each with the config.json; GGUF files are made of the 16-bit one. ``hosts`` are names, each with its GPUs.
    InputError for GPUs or a config.json that cannot be read.
    """
    with_gpus = [(name, gpus) for name, gpus in hosts if gpus]
    if not with_gpus or not formats:
        return []
    asked = _Asked(formats, with_gpus, context)
    found = [_vllm(asked, form) for form in formats]
    for engine in ENGINES:
        for form in GGUF if engine.name in _FILES else formats:
            found.append(_other(asked, engine, form))
    return sorted(found, key=_order)


def _order(choice: Choice) -> tuple[Any, ...]:
    return VERDICTS.index(choice.verdict), choice.hosts, LOSSES.index(choice.loss), -choice.requests, choice.title, choice.form


class _Asked:
    def __init__(self, formats: Mapping[str, Mapping[str, Any]], hosts: Sequence[Host], context: int) -> None:
        self.formats = formats
        self.hosts = hosts
        self.gpus = [read_gpus(list(gpus), name) for name, gpus in hosts]
        self.weakest = min((gpu for gpus in self.gpus for gpu in gpus), key=lambda gpu: gpu.capability)
        self.models = {form: read_model(config) for form, config in formats.items()}
        self.model = next(iter(self.models.values()))
        self.context = min(context or CONTEXT, self.model.context)


def _other(asked: _Asked, engine: Engine, form: str) -> Choice:
    """An engine beside vLLM."""
    choice = Choice(engine.name, engine.title, form, NO)
    capability = asked.weakest.capability
    said = {"engine": engine.title, "gpu": asked.weakest.name, "capability": asked.weakest.capability_text}
    if capability < engine.no_code_below:
        return choice._replace(why=Text("engine_no_code", **said, first="{}.{}".format(*engine.no_code_below)))
    if runs(engine.name, "gguf" if engine.name in _FILES else form, capability) is None:
        return choice._replace(verdict=UNKNOWN, why=Text("engine_unknown", **said, form=form))
    plan = _PLANS.get(engine.name)
    if plan is None:
        return choice._replace(verdict=NOT_PLANNED, why=Text("engine_not_planned", engine=engine.title))
    return plan(asked, choice)


def _vllm(asked: _Asked, form: str) -> Choice:
    choice = Choice("vllm", "vLLM", form, NO)
    for count in sorted({1, len(asked.hosts)}):
        nodes = [{"host": name, "gpus": list(gpus)} for name, gpus in asked.hosts[:count]]
        try:
            plan = plan_deployment(dict(asked.formats[form]), nodes, {"max_model_len": asked.context})
        except InputError as error:
            return choice._replace(why=error.why)
        said = plan["predicted"]
        if said["ok"]:
            tokens = int(said["kv_cache_tokens"] or 0)
            verdict = NARROW if said["verdict"] == NARROWLY else FITS
            longest = min(asked.model.context, int(said.get("longest_context") or asked.context))
            return choice._replace(
                verdict=verdict, context=longest, requests=max(1, tokens // asked.context), hosts=len({node["host"] for node in plan["nodes"] if node["ranks"]})
            )
        error_text = str(said["error"]["message"])
        is_memory = "memory" in said["error"]["code"] or said["error"]["code"] in _MEMORY
        choice = choice._replace(verdict=TOO_LARGE if is_memory else NO, why=Text("engine_says", said=error_text))
    return choice


_MEMORY = frozenset(("no_cache_blocks", "max_model_len_exceeds_kv_cache"))


def _llama_cpp(asked: _Asked, choice: Choice) -> Choice:
    model = convert(asked.model, choice.form)
    if model is None:
        return choice._replace(verdict=NOT_PLANNED, why=Text("engine_architecture", architecture=asked.model.architecture))
    for count in sorted({1, len(asked.hosts)}):
        gpus = [gpu for one in asked.gpus[:count] for gpu in one]
        longest = longest_context(model, gpus, Settings(0), asked.model.context)
        if longest >= asked.context:
            requests = _most(lambda number, gpus=gpus: place(model, gpus, Settings(asked.context * number, number)).fits)
            why = Text("engine_rpc") if count > 1 else None
            return choice._replace(verdict=FITS, context=longest, requests=requests, hosts=count, why=why)
    needed = place(model, [_ENDLESS], Settings(asked.context)).gpus[0].total
    free = sum(room(gpu) for one in asked.gpus for gpu in one)
    return choice._replace(verdict=TOO_LARGE, why=Text("engine_needs", needed=_gib(needed), free=_gib(free)))


# One GPU on which everything has room: how much a model needs.
_ENDLESS = Gpu("", 1 << 50, (9, 0))


def _gib(size: int) -> str:
    return f"{size / 1024**3:,.1f}"


def _most(fits: Callable[[int], bool]) -> int:
    number = 1
    while number < _MOST_REQUESTS and fits(number * 2):
        number *= 2
    while number < _MOST_REQUESTS and fits(number + 1):
        number += 1
    return number


def _turbomind(asked: _Asked, choice: Choice) -> Choice:
    model = asked.models[choice.form]
    if model.architecture not in TURBOMIND_MODELS or model.slides:
        return choice._replace(verdict=UNKNOWN, why=Text("engine_architecture", architecture=model.architecture))
    gpus = asked.gpus[0]
    ranks = max(size for size in (1, 2, 4, 8) if size <= len(gpus) and model.layers[0].attention.kv_heads % size == 0)
    whole = Shard(1, 1, 0, 0, len(model.layers))
    weights = rank_weights(model, whole, "float16", release_key(NEWEST), capability=(9, 0))
    left = min(room(gpu) for gpu in gpus) - weights // ranks
    token = sum(token_bytes(layer.attention, ranks, 2, False) for layer in model.layers)
    tokens = int(left * _TURBOMIND_SHARE) // max(1, token)
    if tokens < asked.context:
        free = min(room(gpu) for gpu in gpus) * ranks
        needed = weights + int(asked.context * token * ranks / _TURBOMIND_SHARE)
        return choice._replace(verdict=TOO_LARGE, why=Text("engine_needs", needed=_gib(needed), free=_gib(free)))
    return choice._replace(
        verdict=ESTIMATED,
        context=min(model.context, tokens),
        requests=min(_MOST_REQUESTS, tokens // asked.context),
        hosts=1,
        why=Text("engine_estimated"),
    )


# Engines that read GGUF files, and those whose memory is planned.
_FILES = frozenset(("llama_cpp", "ollama"))
_PLANS: Mapping[str, Callable[[_Asked, Choice], Choice]] = {"llama_cpp": _llama_cpp, "lmdeploy": _turbomind}
