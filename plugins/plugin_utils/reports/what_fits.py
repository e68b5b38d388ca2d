# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits some hosts, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.fits import Fit, Host, Kind, what_fits
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.uncertainty import NARROWLY, UNVERIFIED
from ansible_collections.baremetal.llm.plugins.plugin_utils.reports.columns import aligned

COLUMNS = ("model", "precision", "weights", "gpus", "copies", "context", "at_once")
NUMBERS = (2, 3, 4, 5, 6)
REASONS = ("fits_memory", "fits_format", "fits_release")
GIB = 1024**3


def fits_lines(hosts: Sequence[Host], language: str, models: Sequence[str] = ()) -> list[str]:
    """A table for each kind of hosts. ``hosts`` are names, each with its GPUs; without ``models`` it is the whole catalogue."""
    return kind_lines(what_fits(hosts, models), language)


def kind_lines(kinds: Sequence[Kind], language: str) -> list[str]:
    lines = []
    for kind in kinds:
        lines += [*_lines(kind, language), ""]
    has_table = any(fit.ok for kind in kinds if kind.refusal is None for fit in kind.fits)
    return [*lines, *message("fits_explained", language).splitlines()] if has_table else lines


def _lines(kind: Kind, language: str) -> list[str]:
    said = {"hosts": names(kind.hosts, language), "cards": kind.cards}
    if kind.refusal is not None:
        return [message("fits_refused", language, why=kind.refusal, **said)]
    code = "fits_title" if len(kind.hosts) > 1 else "fits_title_one"
    lines = [message(code, language, count=len(kind.hosts), release=kind.release, **said)]
    fitting = [fit for fit in kind.fits if fit.ok]
    if fitting:
        header = [message("fits_" + column, language) for column in COLUMNS]
        lines += aligned([header, *(_row(fit, language) for fit in fitting)], NUMBERS, ruled=True)
    for reason in REASONS:
        models = [fit.model for fit in kind.fits if fit.reason == reason]
        if models:
            lines.append(message(reason, language, models=", ".join(models)))
    return lines


def _row(fit: Fit, language: str) -> list[str]:
    gpus = str(fit.gpus)
    if fit.hosts > 1:
        gpus = message("fits_on_hosts", language, gpus=fit.gpus, hosts=fit.hosts)
    weights = f"{fit.weights / GIB:,.1f} GiB"
    return [
        *(fit.model, fit.precision, weights, gpus, str(fit.copies), context(fit, language)),
        f"{fit.conversations:,}",
    ]


def context(fit: Fit, language: str) -> str:
    """32,768; 12,288 of 32,768; 3,840 of 32,768, narrowly."""
    text = f"{fit.context:,}"
    if fit.context < fit.most:
        text = message("fits_of", language, context=text, most=f"{fit.most:,}")
    marks = {NARROWLY: "fits_narrowly", UNVERIFIED: "fits_unverified"}
    return message(marks[fit.verdict], language, context=text) if fit.verdict in marks else text
