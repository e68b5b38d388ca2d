# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway answers itself, in the form of OpenAI's API: the list of models of each key, and errors that its clients can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import DEFAULT
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message, names

# Message, kind, parameter and code of each error: https://platform.openai.com/docs/guides/error-codes
ERRORS: dict[str, tuple[str, str, str | None, str]] = {
    "unknown_path": ("gateway_says_unknown_path", "invalid_request_error", None, "unknown_url"),
    "unknown_key": ("gateway_says_unknown_key", "invalid_request_error", None, "invalid_api_key"),
    "unknown_model": ("gateway_says_unknown_model", "invalid_request_error", "model", "model_not_found"),
    "no_path": ("gateway_says_no_path", "invalid_request_error", None, "unknown_url"),
    "model_forbidden": ("gateway_says_model_forbidden", "invalid_request_error", "model", "model_not_allowed"),
    "no_model": ("gateway_says_no_model", "invalid_request_error", "model", "model_missing"),
    "not_a_post": ("gateway_says_not_a_post", "invalid_request_error", None, "method_not_allowed"),
    "too_large": ("gateway_says_too_large", "invalid_request_error", None, "request_too_large"),
    "bad_request": ("gateway_says_bad_request", "invalid_request_error", None, "bad_request"),
    "over_limit": ("gateway_says_over_limit", "rate_limit_error", None, "rate_limit_exceeded"),
    "over_tokens": ("gateway_says_over_tokens", "rate_limit_error", None, "rate_limit_exceeded"),
    "not_counted": ("gateway_says_not_counted", "server_error", None, "not_counted"),
    "queue_full": ("gateway_says_queue_full", "server_error", None, "queue_full"),
    "no_replica": ("gateway_says_no_replica", "server_error", None, "no_replica"),
    "too_slow": ("gateway_says_too_slow", "invalid_request_error", None, "request_timeout"),
    "no_answer": ("gateway_says_no_answer", "server_error", None, "bad_gateway"),
    "too_long": ("gateway_says_too_long", "server_error", None, "answer_timeout"),
    "broken": ("gateway_says_broken", "server_error", None, "internal_error"),
}


def answers(models: Sequence[Mapping[str, object]], language: str = "en") -> dict[str, str]:
    """The texts of the answers that are the same for every key, JSON each: errors by name, and each model by its backend."""
    found = {name: _error(name, language) for name in ERRORS if name != "no_path"}
    return found | {str(model["backend"]): _text(_entry(str(model["name"]))) for model in models}


def model_list(models: Sequence[str]) -> str:
    """What a key that may ask for these models is told about them, in one line of JSON."""
    return _text({"object": "list", "data": [_entry(name) for name in models]})


def no_path(name: str, paths: Sequence[str], language: str = "en") -> str:
    """What is answered to who asks for a model at a path that its engine lacks, in one line of JSON: the paths that there are."""
    return _error("no_path", language, model=name, paths=names(list(paths), language))


def _entry(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": DEFAULT}


def _error(name: str, language: str, **values: object) -> str:
    said, kind, parameter, code = ERRORS[name]
    text = message(said, language, **values)
    return _text({"error": {"message": text, "type": kind, "param": parameter, "code": code}})


def _text(content: object) -> str:
    return json.dumps(content, ensure_ascii=False)
