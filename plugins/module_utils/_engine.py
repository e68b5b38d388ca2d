# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers and images of a host's engine, asked over its socket: neither Docker's client nor its SDK is needed."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import urllib.parse
from typing import Any, Iterator, TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json

LABELS = "baremetal.llm."
# Says "true" of a container that is started when somebody asks for its server.
ON_REQUEST = LABELS + "on_request"
ENGINE_SOCKET = "/run/docker.sock"


def socket_below(root: str) -> str:
    """That of a host whose files are below a folder."""
    return os.path.join(root, ENGINE_SOCKET.lstrip("/"))


class Container(TypedDict):
    """A container, running or not."""

    id: str
    name: str
    image: str
    state: str
    # Whether this collection made it, by its labels: a name may be anybody's.
    ours: bool


class Image(TypedDict):
    """An image with its names."""

    id: str
    tags: list[str]


class Engine(TypedDict):
    """What an engine has."""

    containers: list[Container]
    images: list[Image]


class EngineConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def _get(path: str, timeout: float, question: str) -> Any:
    connection = EngineConnection(path, timeout)
    try:
        connection.request("GET", question)
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError("the engine answers {0} to {1}".format(answer.status, question))
        return read_json(answer.read())
    finally:
        connection.close()


def ask_engine(question: str, path: str = ENGINE_SOCKET, timeout: float = 5) -> dict[str, Any] | None:
    """The engine's answer to one question, such as /info; None where there is no such thing, or no engine answers."""
    answer = _answer(question, path, timeout)
    return answer if isinstance(answer, dict) else None


def ask_engine_list(question: str, path: str = ENGINE_SOCKET, timeout: float = 5) -> list[dict[str, Any]] | None:
    """The same of a question that is answered with a list, such as /containers/json."""
    answer = _answer(question, path, timeout)
    return [each for each in answer if isinstance(each, dict)] if isinstance(answer, list) else None


def _answer(question: str, path: str, timeout: float) -> object:
    try:
        return _get(path, timeout, question)
    except (OSError, http.client.HTTPException, ValueError):
        return None


def remove_image(name: str, path: str = ENGINE_SOCKET, timeout: float = 300) -> str:
    """Take a name from an image, and the image where that was the last one; by its id an image without a name. Never by force, and nothing besides it.

    Returns the engine's complaint; empty where there is no such image any more.
    """
    connection = EngineConnection(path, timeout)
    try:
        connection.request("DELETE", "/images/{0}?noprune=1".format(urllib.parse.quote(name, safe="/:@")))
        answer = connection.getresponse()
        said = answer.read().decode("utf-8", "replace")
        return "" if answer.status in (200, 404) else said.strip()[:500] or "status {0}".format(answer.status)
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    finally:
        connection.close()


def read_engine(path: str = ENGINE_SOCKET, timeout: float = 5) -> Engine | None:
    """All containers, those that do not run included, and all images; None where no engine answers."""
    try:
        containers = _get(path, timeout, "/containers/json?all=1")
        images = _get(path, timeout, "/images/json")
        return {
            "containers": [
                {
                    "id": entry["Id"],
                    # The engine lets every name begin with a slash.
                    "name": (entry.get("Names") or [""])[0].lstrip("/"),
                    "image": entry["Image"],
                    "state": entry["State"],
                    "ours": any(str(label).startswith(LABELS) for label in entry.get("Labels") or {}),
                }
                for entry in containers
            ],
            "images": [{"id": entry["Id"], "tags": entry.get("RepoTags") or []} for entry in images],
        }
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError):
        return None


@contextlib.contextmanager
def saved_image(reference: str, path: str = ENGINE_SOCKET, timeout: float = 600) -> Iterator[http.client.HTTPResponse]:
    """An image as ``docker save`` writes it, to be read forward. OSError if the engine does not have it.

    The engine reads a layer from its disk before it sends the next piece, so the timeout is long.
    """
    connection = EngineConnection(path, timeout)
    try:
        connection.request("GET", "/images/{0}/get".format(urllib.parse.quote(reference, safe="")))
        answer = connection.getresponse()
        if answer.status != 200:
            raise OSError("the engine answers {0} to the image {1}".format(answer.status, reference))
        yield answer
    finally:
        connection.close()
