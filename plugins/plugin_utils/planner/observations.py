# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Learning from past starts: how far the prediction was off, and by how much to correct the next one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner import fields
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.versions import Release, release_key

GIB = 1024**3
# A correction beyond this is no correction but a different start (other processes, other options).
LIMIT_GIB = 4.0


class Experience(NamedTuple):
    """What past starts say about the next one. `correction`: bytes to add to what a rank holds beside the model."""

    starts: int
    correction: int
    level: str
    error_gib: float
    error_percent: float | None

    @property
    def proven(self) -> bool:
        """Whether this model was started on this GPU with this release."""
        return self.level == "past_gpu_model_release"

    @property
    def sentence(self) -> Text:
        code = "reason_past_starts" if self.starts > 1 else "reason_past_start"
        return Text(code, count=self.starts, level=Text(self.level), off=-self.error_gib)

    def as_dict(self, lang: str = "en") -> dict[str, object]:
        return {
            "observations": self.starts,
            "level": Text(self.level).say(lang),
            "kv_cache_error_gib": round(self.error_gib, 3),
            "kv_cache_tokens_error_percent": self.error_percent,
        }


# GiB and tokens that no machine has: a file that says more was damaged.
MOST = 1e15
NOTHING = Experience(0, 0, "past_nothing", 0.0, None)


def kv_gib(record: Mapping[str, object]) -> float | None:
    """The KV memory of the smallest rank, from a prediction or from what an engine logged."""
    ranks = record.get("ranks")
    if isinstance(ranks, (list, tuple)) and ranks:
        values = [rank.get("kv_cache_gib") for rank in ranks if isinstance(rank, Mapping)]
        known = [number(value) for value in values if value is not None]
        if known:
            return min(known)
    value = record.get("kv_cache_gib")
    return number(value) if value is not None else None


def read_observation(path: Path) -> dict[str, object] | None:
    """What a start was predicted to take, and took, from a file of the reports; None of one that was damaged."""
    try:
        entry = read_json(path.read_text(encoding="utf-8"))
        sides = [entry["prediction"], entry["truth"]]
        parts = [part for side in sides for part in (side, *(side.get("ranks") or ()))]
        said = [value for part in parts for name, value in part.items() if name.endswith(("_gib", "_tokens"))]
        usable = all(abs(float(value)) < MOST for value in said if value is not None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return dict(entry) if usable else None


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def experience(value: object, model: Model, gpu: Gpu, release: Release) -> Experience:
    """The correction that the nearest past starts suggest: same GPU, model and release, else wider."""
    if not value:
        return NOTHING
    levels: dict[str, list[tuple[float, float | None]]] = {
        "past_gpu_model_release": [],
        "past_gpu_release": [],
        "past_gpu": [],
    }
    for index, entry in enumerate(fields.listing(value, "request.observations")):
        field = f"request.observations[{index}]"
        row = fields.mapping(entry, field)
        prediction = fields.mapping(row.get("prediction"), f"{field}.prediction")
        truth = fields.mapping(row.get("truth"), f"{field}.truth")
        predicted, real = kv_gib(prediction), kv_gib(truth)
        name = row.get("gpu")
        name = str(name.get("name") if isinstance(name, Mapping) else name or "")
        if predicted is None or real is None or name != gpu.name:
            continue
        tokens, real_tokens = prediction.get("kv_cache_tokens"), truth.get("kv_cache_tokens")
        percent = (number(tokens) - number(real_tokens)) / number(real_tokens) * 100 if tokens and real_tokens else None
        found = (predicted - real, percent)
        levels["past_gpu"].append(found)
        try:
            same_release = release_key(str(row.get("vllm_version") or "")) == release.key
        except InputError:
            same_release = False
        if same_release:
            levels["past_gpu_release"].append(found)
            if _same_model(row.get("model"), model):
                levels["past_gpu_model_release"].append(found)
    for level, rows in levels.items():
        usable = [row for row in rows if abs(row[0]) <= LIMIT_GIB]
        if usable:
            error = _median([row[0] for row in usable])
            percents = [row[1] for row in usable if row[1] is not None]
            return Experience(
                len(usable), int(error * GIB), level, error, round(_median(percents), 2) if percents else None
            )
    return NOTHING


def _inside(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The mapping under a name, or the value itself where there is none."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else value


def _same_model(value: object, model: Model) -> bool:
    """Whether a record's model is this one: by its shape when given as a config, else by architecture and name."""
    if isinstance(value, Mapping):
        inner = _inside(_inside(value, "config"), "text_config")
        return inner.get("hidden_size") == model.hidden and inner.get("num_hidden_layers") == len(model.layers)
    return str(value) in (model.architecture, model.name)
