# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two ways in which the planner says no: bad input (raised) and a start that vLLM would refuse (returned)."""

from __future__ import annotations

from typing import NamedTuple


class InputError(ValueError):
    """The caller's data are wrong. `field` names what is wrong, the message says why."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__("{0}: {1}".format(field, why))
        self.field = field
        self.why = why


class Refusal(NamedTuple):
    """vLLM would not start (or not serve) like this. `code` is one of the public codes of the planner."""

    code: str
    message: str
    remedy: str

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "remedy": self.remedy}
