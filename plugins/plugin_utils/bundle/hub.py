# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's config.json from the hubs that have it: all of them are asked at once, and the first in their order that answers counts."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.request import OpenerDirector

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._download import explain, without_password
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Text

# A plan is made in seconds, whoever does not answer.
TIMEOUT_SECONDS = 4
# No config.json is larger; what a captive portal sends in its place may be.
LARGEST_BYTES = 1 << 20
HUGGING_FACE = "https://huggingface.co"
# Public addresses beside the hub itself, which is not reached from everywhere.
MIRRORS = ("https://hf-mirror.com",)
MODELSCOPE = "https://modelscope.cn"
# Hugging Face answers 401 for a model that does not exist, too, unless a token is given; of a gated one it says so in X-Error-Code, as its client
# reads it: huggingface_hub/utils/_http.py, hf_raise_for_status.
_STATUS = {401: "hub_no_model_or_token", 403: "hub_gated", 404: "hub_no_model"}
_ID = re.compile(r"(?!\.)[\w.-]+/(?!\.)[\w.-]+")


@dataclass(frozen=True)
class Hub:
    """One place that may have models: a hub or a mirror of one."""

    endpoint: str
    # The path of a file below the endpoint; it holds {model}.
    path: str
    # Never in a message.
    token: str = ""

    def url(self, model: str) -> str:
        return self.endpoint.rstrip("/") + self.path.format(model=model)


@dataclass(frozen=True)
class Answer:
    """What the hubs said of a model: its config.json and its address, or what each address answered."""

    config: Mapping[str, object] | None
    url: str = ""
    tried: Sequence[Text] = ()


def hubs(huggingface: str, modelscope: str, tokens: Mapping[str, str]) -> list[Hub]:
    """The hubs in the order in which they count. An own endpoint of Hugging Face takes the place of the hub and its mirrors."""
    own = huggingface.rstrip("/")
    of_huggingface = [own] if own and own != HUGGING_FACE else [HUGGING_FACE, *MIRRORS]
    # A token is told to nobody but the hub or the endpoint that it is meant for.
    return [
        *(
            Hub(each, "/{model}/resolve/main/config.json", tokens.get("huggingface", "") if each not in MIRRORS else "")
            for each in of_huggingface
        ),
        Hub(modelscope or MODELSCOPE, "/models/{model}/resolve/master/config.json", tokens.get("modelscope", "")),
    ]


def ask(model: str, places: Sequence[Hub], opener: OpenerDirector) -> Answer:
    """A model's config.json by its name (PUBLISHER/NAME). What is no such name is asked of nobody."""
    if not _ID.fullmatch(model):
        return Answer(None)
    with ThreadPoolExecutor(max_workers=len(places)) as pool:
        answers = list(pool.map(lambda hub: _ask_one(hub, model, opener), places))
    for hub, found in zip(places, answers, strict=True):
        if isinstance(found, Mapping):
            return Answer(found, without_password(hub.url(model)))
    return Answer(None, tried=[found for found in answers if isinstance(found, Text)])


def _ask_one(hub: Hub, model: str, opener: OpenerDirector) -> Mapping[str, object] | Text:
    url = hub.url(model)
    headers = {"Authorization": f"Bearer {hub.token}"} if hub.token else {}
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            content = read_json(answer.read(LARGEST_BYTES))
    except urllib.error.HTTPError as error:
        gated = error.headers.get("X-Error-Code") == "GatedRepo"
        code = "hub_gated" if gated else _STATUS.get(error.code)
        reason: object = Text(code) if code else explain(error)
    except (OSError, http.client.HTTPException) as error:
        reason = explain(error)
    except ValueError:
        reason = Text("hub_no_json")
    else:
        if isinstance(content, dict) and (content.get("architectures") or content.get("model_type")):
            return content
        reason = Text("hub_no_json")
    return Text("fetch_answer", url=without_password(url), reason=reason)
