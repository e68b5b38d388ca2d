# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a deployment's variables and the bundle to what SGLang's plan is asked, and the plan: whether SGLang reads a model, and about what fits."""

from __future__ import annotations

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines import estimates, unplanned
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.estimates import LEAST, MARGIN, Asked
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.option_table import since
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang import memory
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.sglang.arguments import (
    NAME,
    SETTINGS,
    TITLE,
    facts,
    table,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, number, whole
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import release_key


def _refusal(asked: Asked) -> Text | None:
    """Why SGLang cannot serve the model on these GPUs; None where it can, as far as is known."""
    return estimates.no_code(NAME, asked) or _no_format(asked) or _no_gptq(asked)


def _no_format(asked: Asked) -> Text | None:
    known = {name: row for name, row in facts()["formats"].items() if not isinstance(row, str)}
    row = known.get(asked.form)
    if asked.form == "16-bit":
        return None
    if row is None or not since(asked.release, row["since"]):
        allowed = ", ".join(name for name, each in known.items() if since(asked.release, each["since"]))
        return Text("engine_format", title=TITLE, form=asked.form, release=asked.release, allowed=allowed)
    first = row.get("capability", "")
    gpu = asked.weakest
    if first and gpu.capability < tuple(map(int, first.split("."))):
        return Text("sglang_form_gpu", form=asked.form, first=first, gpu=gpu.name, capability=gpu.capability_text)
    return None


def _no_gptq(asked: Asked) -> Text | None:
    """A GPTQ checkpoint that Marlin's kernels do not compute, in a release that has no others."""
    known = facts()["gptq"]
    if asked.form != "gptq" or release_key(asked.release) <= release_key(known["until"]):
        return None
    said = asked.quantization
    wrong = [
        text
        for text, is_right in (
            (f"bits {said.get('bits')}", said.get("bits") in known["bits"]),
            ("sym false", said.get("sym") is True),
            (f"group_size {said.get('group_size')}", said.get("group_size") in known["groups"]),
        )
        if not is_right
    ]
    return Text("sglang_gptq", wrong=", ".join(wrong)) if wrong else None


def _model(asked: Asked) -> Model | None:
    """The model where its memory can be estimated; None for another one, which SGLang may serve nevertheless."""
    if asked.architecture not in facts()["planned"] or set(asked.said) & set(facts()["unplanned"]):
        return None
    try:
        model = read_model(asked.config)
    except InputError:
        return None
    return None if model.slides else model


def _planned(base: dict[str, object], asked: Asked, language: str) -> dict[str, object]:
    model, said = _model(asked), dict(asked.said)
    if model is None:
        spread = whole(said.get("tp_size") or len(asked.gpus))
        why = Text("engine_unplanned", title=TITLE, architecture=asked.architecture or "-")
        wrong = spread > len(asked.gpus)
    else:
        spread = whole(said.get("tp_size") or estimates.spread_of(model, len(asked.gpus)))
        wrong = spread > len(asked.gpus) or not estimates.divides(model, spread)
    if wrong:
        said_of = {"setting": "sglang_tp_size", "tp": spread, "gpus": len(asked.gpus)}
        return unplanned.refused(base, Text("engine_spread", **said_of), language)
    if model is None:
        return estimates.spread_plan({**base, "settings": {**said, "tp_size": spread}}, spread, [why], language)
    total = min(gpu.total for gpu in asked.gpus[:spread])
    share = number(said.get("mem_fraction_static") or memory.share_of(total, spread, said))
    if not 0 < share < 1:
        return unplanned.refused(base, Text("sglang_share", found=share), language)
    found = memory.estimate(model, asked.gpus, spread, share, str(said.get("kv_cache_dtype") or "auto"))
    asks = said.get("context_length")
    length = min(whole(asks or model.context), found.tokens)
    if length < whole(asks or min(LEAST, model.context)):
        wanted = whole(asks or LEAST)
        why = estimates.too_large("sglang_too_large", asked, found, memory.needed(found, wanted), wanted)
        return unplanned.refused(base, why, language)
    said |= {"tp_size": spread, "context_length": length, "mem_fraction_static": share}
    notes = [Text("engine_estimated_plan", title=TITLE, tokens=f"{found.tokens:,}")]
    notes += estimates.unknown_code(NAME, TITLE, asked)
    plan = estimates.spread_plan({**base, "settings": said}, spread, notes, language)
    kept = int((total - MARGIN) * (1 - share))
    return {**plan, "predicted": {**mapping(plan["predicted"]), **estimates.figures(found, asked, kept)}}


PLANNER = estimates.Planner(table, SETTINGS, _refusal, _planned)
