# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ways in which the planner says no: bad input (raised) and a start that vLLM would refuse (returned)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, Text


class InputError(Refused, ValueError):
    """The caller's data are wrong. `field` names what is wrong, `why` says why."""

    def __init__(self, field: str, code: str, **values: object) -> None:
        self.field = field
        self.why = Text(code, **values)
        super().__init__("input_error", field=field, why=self.why)


Fix = Mapping[str, object]
# The code of the text where no setting cures a start.
NO_REMEDY = "remedy_none"


class StartError(NamedTuple):
    """vLLM would not start (or not serve) like this. `code` is one of the public codes of the planner."""

    code: str
    message: Text
    # What may cure it, the nearest first: options to set, null to leave one out. Whether it does is for the planner to predict.
    fixes: tuple[Fix, ...] = ()
    advice: Text | None = None  # what no setting can say

    def as_dict(self, lang: str = "en", remedy: Text | None = None) -> dict[str, str]:
        if self.advice is not None and remedy is not None and remedy.code == NO_REMEDY:
            remedy = None
        said = [text.say(lang) for text in (remedy, self.advice) if text is not None]
        return {"code": self.code, "message": self.message.say(lang), "remedy": "; ".join(said)}


def start_error(code: str, text: str, *fixes: Fix, **values: object) -> StartError:
    """An error. `text` says in the catalogue what is wrong."""
    return StartError(code, Text(text, **values), fixes)
