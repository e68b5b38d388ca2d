# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of HTML, rendered from the templates in the folder beside this file."""

from __future__ import annotations

import functools
from pathlib import Path

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import language as known_language
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_page(name: str, language: str, **view: object) -> str:
    """The page of a template: ``view`` holds plain data, and ``text(code)`` in a template is a message of the catalogue."""
    lang = known_language(language)

    def text(code: str, **values: object) -> str:
        return message(code, lang, **values)

    return _environment().get_template(f"{name}.html.j2").render(language=lang, text=text, **view)
