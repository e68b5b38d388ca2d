# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which engine serves a model on some hosts, as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.recommend import (
    CONTEXT,
    ESTIMATED,
    FITS,
    NARROW,
    Choice,
    Host,
    formats_of,
    recommend,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import FORMATS, kinds
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned

COLUMNS = ("engine", "format", "context", "at_once", "loss", "note")
NUMBERS = (2, 3)
WITH_FIGURES = (FITS, NARROW, ESTIMATED)


def engine_lines(model: str, hosts: Sequence[Host], language: str, context: int = 0) -> list[str]:
    """For a model of the catalogue and each kind of hosts a table of what each engine can do, and why the others do not."""
    lines: list[str] = []
    for names, gpus in kinds(hosts):
        choices = recommend(formats_of(model), [(name, gpus) for name in names], context)
        if choices:
            lines += [*_lines(model, names, gpus, choices, language), ""]
    return (
        [*lines, *message("engines_explained", language, context=f"{context or CONTEXT:,}").splitlines()]
        if lines
        else []
    )


def _lines(
    model: str, names: Sequence[str], gpus: Sequence[Mapping[str, object]], choices: Sequence[Choice], language: str
) -> list[str]:
    cards = " + ".join(f"{count} x {name}" for name, count in Counter(str(gpu["name"]) for gpu in gpus).items())
    lines = [message("engines_title", language, model=model, cards=cards, count=len(names))]
    served = [choice for choice in choices if choice.verdict in WITH_FIGURES]
    if served:
        header = [message("engines_" + column, language) for column in COLUMNS]
        lines += aligned([header, *(_row(choice, language) for choice in served)], NUMBERS, ruled=True)
    refused: dict[tuple[str, str], list[str]] = {}
    for choice in choices:
        if choice.verdict not in WITH_FIGURES:
            why = choice.why.say(language) if choice.why else ""
            refused.setdefault((choice.title, why), []).append(_form(choice))
    for (title, why), forms in refused.items():
        lines.append(message("engines_not", language, engine=title, forms=", ".join(forms), why=why))
    return lines


def _form(choice: Choice) -> str:
    return FORMATS.get(choice.form, choice.form)


def _row(choice: Choice, language: str) -> list[str]:
    note = choice.why.say(language) if choice.why else ""
    if choice.verdict == NARROW:
        note = message("engines_narrowly", language)
    hosts = message("engines_hosts", language, count=choice.hosts) if choice.hosts > 1 else ""
    return [
        *(choice.title, _form(choice), f"{choice.context:,}", f"{choice.requests:,}", message(choice.loss, language)),
        "; ".join(filter(None, (hosts, note))),
    ]
