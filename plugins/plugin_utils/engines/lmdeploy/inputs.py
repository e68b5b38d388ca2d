# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what LMDeploy's plan is asked, and the plan: whether TurboMind serves a model, and about what fits."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import estimates, unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import LEAST, Asked
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.lmdeploy import arguments, memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key

# Settings that are variables of their own (lmdeploy_<setting>); any other option of the server stands in lmdeploy_options.
SETTINGS = ("tp", "session_len", "max_batch_size", "cache_max_entry_count", "quant_policy")
# GPUs from here on compute bfloat16; others are given float16 in so many words.
_BFLOAT16 = (8, 0)
# With one of these another model is read than the one of config.json.
_UNPLANNED = ("hf_overrides",)


def _refusal(asked: Asked) -> Text | None:
    """Why TurboMind cannot serve the model on these GPUs; None where it can, as far as is known."""
    return estimates.no_code(arguments.NAME, asked) or _no_model(asked) or _no_format(asked) or _no_cache(asked)


def _no_model(asked: Asked) -> Text | None:
    known = arguments.facts()["architectures"]
    spans = known["names"].get(asked.architecture, [])
    key = release_key(asked.release)
    for first, last in zip(spans[::2], spans[1::2], strict=True):
        if release_key(first) <= key and (not last or key <= release_key(last)):
            return None
    code = "lmdeploy_architecture_other" if spans else "lmdeploy_architecture"
    pairs = zip(spans[::2], spans[1::2], strict=True)
    releases = ", ".join(f"{first} - {last}" if last else f"{first}+" for first, last in pairs)
    return Text(code, architecture=asked.architecture or "-", release=asked.release, releases=releases)


def _no_format(asked: Asked) -> Text | None:
    """A checkpoint that LMDeploy refuses when it starts: get_tm_config in lmdeploy/turbomind/converter.py."""
    if asked.form == "16-bit":
        return None
    said = asked.quantization
    known = arguments.facts()["formats"].get(asked.form)
    if known is None or isinstance(known, str) or not since(asked.release, known["since"]):
        allowed = [name for name, row in arguments.facts()["formats"].items() if name != "source"]
        return Text(
            "engine_format", title=arguments.TITLE, form=asked.form, release=asked.release, allowed=", ".join(allowed)
        )
    wrong = ""
    # Of the catalogue's checkpoints the version is not known: nearly all are gemm, AutoAWQ's own default.
    if asked.form == "awq" and said.get("version", "gemm") != "gemm":
        wrong = f"version {said.get('version')}"
    if asked.form == "gptq" and said.get("desc_act", False):
        wrong = "desc_act true"
    if asked.form == "gptq" and not said.get("sym", True):
        wrong = "sym false"
    if asked.form in ("awq", "gptq") and said.get("bits", 4) != 4:
        wrong = f"bits {said.get('bits')}"
    group = said.get("group_size")
    if not wrong and group and group not in known["groups"]:
        wrong = f"group_size {group}"
    return Text("lmdeploy_format_detail", form=asked.form, wrong=wrong) if wrong else None


def _no_cache(asked: Asked) -> Text | None:
    policy, known = asked.said.get("quant_policy", 0), arguments.facts()["caches"]
    model = _model(asked)
    heads = sorted({layer.attention.head_dim for layer in model.layers}) if model else []
    before = arguments.facts()["architectures"]["heads"]
    if heads and release_key(asked.release) <= release_key(before["until"]) and set(heads) - set(before["sizes"]):
        return Text("lmdeploy_heads", heads=", ".join(map(str, heads)), release=asked.release)
    if policy and any(size != known["head"] for size in heads):
        return Text("lmdeploy_cache_heads", policy=policy, heads=", ".join(map(str, heads)))
    return None


def _model(asked: Asked) -> Model | None:
    """The model where its memory can be estimated; None for another one, which TurboMind may serve nevertheless."""
    known = arguments.facts()["architectures"]
    if asked.architecture not in known["planned"] or set(asked.said) & set(_UNPLANNED):
        return None
    try:
        model = read_model(asked.config)
    except InputError:
        return None
    return model if not model.slides or asked.architecture in known["windows"] else None


def _planned(base: dict[str, object], asked: Asked, language: str) -> dict[str, object]:
    model = _model(asked)
    said = dict(asked.said)
    if asked.form == "16-bit" or asked.form in ("fp8", "mxfp4"):
        # For Volta and Turing, which compute no bfloat16; 4 bits are computed in float16 on every GPU.
        said |= {} if asked.weakest.capability >= _BFLOAT16 else {"dtype": said.get("dtype", "float16")}
    if model is None:
        spread = whole(said.get("tp") or 1)
        why = Text("engine_unplanned", title=arguments.TITLE, architecture=asked.architecture)
        return estimates.spread_plan({**base, "settings": {**said, "tp": spread}}, spread, [why], language)
    spread = whole(said.get("tp") or estimates.spread_of(model, len(asked.gpus)))
    if spread > len(asked.gpus) or not estimates.divides(model, spread):
        return unplanned.refused(
            base, Text("engine_spread", setting="lmdeploy_tp", tp=spread, gpus=len(asked.gpus)), language
        )
    share = number(said.get("cache_max_entry_count") or arguments.facts()["memory"]["share"])
    if not 0 < share < 1:
        return unplanned.refused(base, Text("lmdeploy_share", found=share), language)
    found = memory.estimate(model, asked.gpus, spread, share, whole(said.get("quant_policy") or 0))
    asks = said.get("session_len")
    length = min(whole(asks or model.context), found.tokens)
    if length < whole(asks or min(LEAST, model.context)):
        wanted = whole(asks or LEAST)
        why = estimates.too_large("lmdeploy_too_large", asked, found, memory.needed(found, wanted), wanted)
        return unplanned.refused(base, why, language)
    said |= {"tp": spread, "session_len": length, "cache_max_entry_count": share}
    said |= {"max_batch_size": whole(said.get("max_batch_size") or memory.most_requests(asked.gpus))}
    notes = [Text("engine_estimated_plan", title=arguments.TITLE, tokens=f"{found.tokens:,}")]
    notes += estimates.unknown_code(arguments.NAME, "TurboMind", asked)
    plan = estimates.spread_plan({**base, "settings": said}, spread, notes, language)
    return {**plan, "predicted": {**mapping(plan["predicted"]), **estimates.figures(found, asked)}}


PLANNER = estimates.Planner(arguments.table, SETTINGS, _refusal, _planned)
