# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remedies: changes of the settings that the planner has itself predicted to start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import number
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import (
    NO_REMEDY,
    Fix,
    InputError,
    StartError,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu, read_gpus
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.model import Model, read_model
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.predict import Memo, Prediction, predict
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.settings import is_own, normalise

# How long is searched: predictions, and changes in a row.
PREDICTIONS, DEPTH = 40, 7
OFFLOAD, LENGTH = "cpu_offload_gb", "max_model_len"
# Within this many tokens, and this part of it, is a context the longest that starts.
LENGTH_STEP, LENGTH_PARTS = 16, 64
NONE_FOUND = Text(NO_REMEDY)

Predict = Callable[[Mapping[str, object]], Prediction]


class Cure(NamedTuple):
    """Settings that start, and what led to each of the changes."""

    settings: dict[str, object]
    prediction: Prediction
    causes: tuple[tuple[Fix, StartError], ...]


def predict_start(model: object, gpus: object, settings: object, language: str = "en") -> dict[str, object]:
    """The public function: plain data in, plain data out. `change` of a start that fails holds the options that cure it: a value to set,
    null to leave one out, and nothing when no cure was found."""
    facts, devices, raw = read_model(model), read_gpus(gpus), normalise(settings)
    memo: Memo = {}
    prediction = predict(facts, devices, raw, memo)
    if prediction.ok:
        return {**prediction.as_dict(language), "change": {}}
    change = remedy(facts, devices, raw, prediction, memo)
    then = predict(facts, devices, applied(raw, change), memo) if change else prediction
    return {**prediction.as_dict(language, sentence(change, then)), "change": change}


def remedy(
    model: Model, gpus: list[Gpu], raw: Mapping[str, object], failed: Prediction, memo: Memo
) -> dict[str, object]:
    """The smallest change found that starts; empty when there is none."""

    def ask(settings: Mapping[str, object]) -> Prediction:
        return predict(model, gpus, settings, memo)

    cure = find(ask, raw, failed, lambda name: name != "vllm_version" or not is_own(raw))
    return smallest(ask, raw, cure.settings) if cure else {}


def find(
    ask: Predict, raw: Mapping[str, object], failed: Prediction, may: Callable[[str], bool] = lambda _name: True
) -> Cure | None:
    """Settings that start, reached by what each error proposes, the first proposals first. `may` says which options may change."""
    left = [PREDICTIONS]
    seen: list[dict[str, object]] = [dict(raw)]

    def search(
        settings: dict[str, object], prediction: Prediction, causes: tuple[tuple[Fix, StartError], ...]
    ) -> Cure | None:
        if prediction.error is None:
            return Cure(settings, prediction, causes)
        if len({tuple(fix) for fix, _error in causes}) >= DEPTH:  # a shorter context after another is one change
            return None
        for fix in prediction.error.fixes:
            changed = applied(settings, fix)
            if changed in seen or not all(may(name) for name in fix):
                continue
            seen.append(changed)
            if left[0] <= 0:
                return None
            left[0] -= 1
            try:
                then = ask(changed)
            except InputError:  # a release without such an option's value
                continue
            cure = search(changed, then, (*causes, (fix, prediction.error)))
            if cure is not None:
                return cure
        return None

    return search(dict(raw), failed, ())


def applied(settings: Mapping[str, object], fix: Fix) -> dict[str, object]:
    """The settings with a change: null leaves an option out."""
    return {name: value for name, value in {**settings, **fix}.items() if value is not None or name not in fix}


def smallest(ask: Predict, before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """The change from one to the other without what is not needed for a start, and with the least weights in the host's memory."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    change = {name: after.get(name) for name in names}
    for name in names if len(names) > 1 else ():
        rest = {other: value for other, value in change.items() if other != name}
        try:
            if ask(applied(before, rest)).ok:
                change = rest
        except InputError:
            continue
    if isinstance(change.get(LENGTH), int):
        change[LENGTH] = _longest(ask, before, change)
        if change[LENGTH] == before.get(LENGTH):
            del change[LENGTH]
    if not isinstance(size := change.get(OFFLOAD), int):
        return change
    safe = ask(applied(before, change)).safe
    low, high = int(number(before.get(OFFLOAD) or 0)), size
    while high - low > 1:  # one that starts lies in (low, high]
        middle = (low + high) // 2
        tried = ask(applied(before, {**change, OFFLOAD: middle}))
        low, high = (low, middle) if tried.ok and tried.safe >= safe else (middle, high)
    change[OFFLOAD] = high
    if isinstance(change.get(LENGTH), int):  # what the last whole GiB leaves
        change[LENGTH] = _longest(ask, before, change)
    return change


def _longest(ask: Predict, before: Mapping[str, object], change: Mapping[str, object]) -> int:
    """The longest context that starts with a change, as safely as that of the change. Without chunked prefill a shorter one leaves more to the cache."""
    first = ask(applied(before, change))
    low = first.settings.max_model_len
    high = ask(before).settings.max_model_len
    whole = ask(applied(before, {**change, LENGTH: high}))
    if whole.ok and whole.safe >= first.safe:  # another change left room for it
        return high
    while high - low > max(LENGTH_STEP, low // LENGTH_PARTS):  # one that starts lies in [low, high)
        middle = (low + high) // 2 // LENGTH_STEP * LENGTH_STEP
        if middle <= low:
            break
        tried = ask(applied(before, {**change, LENGTH: middle}))
        low, high = (middle, high) if tried.ok and tried.safe >= first.safe else (low, middle)
    return low


def sentence(change: Fix, then: Prediction) -> Text:
    """The change in words, and how sure it is."""
    sets = ", ".join(f"{name}={_value(value)}" for name, value in change.items() if value is not None)
    names = ", ".join(name for name, value in change.items() if value is None)
    if sets and names:
        return Text("remedy_set_and_leave", sets=sets, names=names, outcome=outcome(then))
    if sets:
        return Text("remedy_set", sets=sets, outcome=outcome(then))
    return Text("remedy_leave", names=names, outcome=outcome(then)) if names else NONE_FOUND


def outcome(then: Prediction) -> Text:
    """How sure a cure is. It is only as sure as what is known of such a start."""
    if then.unverified is not None:
        return Text("remedy_unverified", reason=then.unverified)
    return Text("remedy_starts" if then.safe else "remedy_narrowly")


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
