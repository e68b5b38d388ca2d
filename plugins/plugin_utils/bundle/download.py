# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller fetches for a bundle, and how it says that. How a file comes over the network is in module_utils/_download.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from urllib.request import OpenerDirector

from ansible_collections.baremetal.llm.plugins.module_utils import _download as network
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import human_bytes, sha256_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import File
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.progress import human_seconds
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import items
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, Text, message


class FetchError(Refused):
    """A file that could not be brought; the text names it, each address that was tried, and what each answered."""


def mirrored(url: str, mirrors: Mapping[str, Sequence[str]]) -> list[str]:
    """The addresses of a file in the order in which they are tried: those of mirrors of its beginning, then its own."""
    found = [
        instead + url[len(start) :]
        for start, instead_of_it in mirrors.items()
        if url.startswith(start)
        for instead in instead_of_it
    ]
    return [*found, url]


def remote_size(url: str, opener: OpenerDirector) -> int | None:
    """Size of a file by its address, None if the server does not tell. FetchError if it has no such file."""
    try:
        return network.remote_size(url, opener)
    except network.DownloadError as error:
        raise FetchError(error.code, **error.values) from error


def download(
    file: Mapping[str, object],
    target: str,
    opener: OpenerDirector,
    add: Callable[[int], None] = lambda size: None,
    attempts: int = network.ATTEMPTS,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring a file (urls; size, sha256, headers where known) to `target`. What an earlier try brought is not fetched again."""
    try:
        network.download(file, target, opener, add, attempts, pause)
    except network.DownloadError as error:
        raise FetchError(error.code, **error.values) from error


def present(file: File, full: str, known: Mapping[str, object] | None, mark: Sequence[int] | None) -> bool:
    """Whether a file of the bundle is there. It is read only if it was touched since its last check (`known`)."""
    if mark is None or (file.get("size") is not None and mark[0] != file["size"]):
        return False
    digest = file.get("sha256")
    if known and items(known.get("mark")) == list(mark):
        return not digest or bool(known.get("sha256") == digest)
    return bool(digest) and sha256_of(full) == digest


def summary(sizes: Sequence[int | None], fetch: int, hosts: int, gbit_per_second: float, lang: str = "en") -> str:
    """bundle: 412.0 GiB in 12 files, 3.1 GiB of it to fetch; about 35 min to 12 hosts at 10 Gbit/s."""
    total = sum(size or 0 for size in sizes)
    unknown = sum(size is None for size in sizes)
    return message(
        "bundle_summary",
        lang,
        total=human_bytes(total),
        count=len(sizes) - unknown,
        more=Text("bundle_summary_unknown", count=unknown) if unknown else "",
        fetch=human_bytes(fetch),
        time=human_seconds(total * 8 * hosts / (gbit_per_second * 1e9)),
        hosts=Text("bundle_summary_hosts" if hosts != 1 else "bundle_summary_host", count=hosts),
        rate=f"{gbit_per_second:g}",
    )
