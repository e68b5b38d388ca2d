# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images from a registry, or a mirror of it, into this machine's engine, by Docker's own client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import image_addresses
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import Progress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.sources import SourceError
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message


def engine() -> Any:
    """A client of this machine's engine, as DOCKER_HOST names it."""
    try:
        import docker
    except ImportError as error:
        raise SourceError("engine_no_client", python=sys.executable) from error
    try:
        client = docker.from_env(timeout=600)
        client.ping()
    except docker.errors.DockerException as error:
        raise SourceError("engine_no_answer", reason=error) from error
    return client


def missing(client: Any, references: Sequence[str]) -> list[str]:
    """Those that the engine does not have."""
    import docker

    found = []
    for reference in references:
        try:
            client.images.get(reference)
        except docker.errors.ImageNotFound:
            found.append(reference)
    return found


def pull(
    client: Any,
    reference: str,
    mirrors: Mapping[str, Sequence[str]],
    credentials: Mapping[str, Mapping[str, str]],
    say: Callable[[str], None],
    lang: str = "en",
) -> str:
    """Bring an image under its name into the engine and return where it came from. The engine itself resumes layers."""
    import docker

    answers = []
    for address in image_addresses(reference, mirrors):
        auth = dict(credentials.get(address.partition("/")[0]) or {}) or None
        try:
            wrong = _pull(client, address, auth, say, lang)
        except docker.errors.APIError as error:
            wrong = str(error.explanation or error)
        if wrong:
            answers.append(f"  {address}: {wrong}")
            continue
        if address != reference:
            name, tag = docker.utils.parse_repository_tag(reference)
            client.images.get(address).tag(name, tag or "latest")
            client.images.remove(address, noprune=True)
        return address
    raise SourceError("image_not_pulled", image=reference, answers="\n".join(answers))


def _pull(client: Any, address: str, auth: dict[str, str] | None, say: Callable[[str], None], lang: str) -> str:
    """What the engine says is wrong, or nothing."""
    layers: dict[str, tuple[int, int]] = {}
    progress = Progress(message("progress_pull", lang, image=address), 0, say, lang)
    for line in client.api.pull(address, stream=True, decode=True, auth_config=auth):
        if line.get("error"):
            return str(line["error"])
        detail = line.get("progressDetail") or {}
        if line.get("status") == "Downloading" and detail.get("total"):
            layers[str(line["id"])] = (int(detail["current"]), int(detail["total"]))
            progress.total = sum(total for _done, total in layers.values())
            progress.add(sum(done for done, _total in layers.values()) - progress.done)
    return ""
