# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows that offline hosts are content with what they were given: whatever they send to somewhere outside of the lab is noted.

The lab's networks have no way out, so nothing arrives; a host that tries all the same is one that would wait or fail elsewhere.
"""

from __future__ import annotations

import docker
from docker.errors import NotFound
from docker.models.containers import Container

from lab.config import LAB, Config, digest
from lab.hosts import LABEL
from lab.progress import LabError

SCRIPT = LAB / "files" / "watch_exits.py"


def ensure_watch(client: docker.DockerClient, config: Config, image: str) -> None:
    """One that watches the lab's networks runs; what it has seen stays with it."""
    bridges = [client.networks.get(f"{config.name}-{name}").id[:12] for name in config.networks]
    made_from = digest(SCRIPT, bridges, config.networks, image)
    found = _find(client, config)
    if found and (found.labels.get(LABEL) != made_from or found.status != "running"):
        found.remove(force=True)
        found = None
    if not found:
        client.containers.run(
            image,
            ["/watch_exits.py", *(f"br-{bridge}" for bridge in bridges), "--", *config.networks.values()],
            entrypoint=["python3", "-u"],
            name=f"{config.name}-exits",
            labels={LABEL: made_from},
            network_mode="host",
            volumes={str(SCRIPT): {"bind": "/watch_exits.py", "mode": "ro"}},
            detach=True,
        )


def remove_watch(client: docker.DockerClient, config: Config) -> None:
    """It is gone, with what it has seen."""
    found = _find(client, config)
    if found:
        found.remove(force=True)


def seen(client: docker.DockerClient, config: Config) -> list[str]:
    """A line for each packet that wanted to leave: host, destination, protocol, port."""
    found = _find(client, config)
    lines = found.logs().decode(errors="replace").splitlines() if found else []
    if not found or found.status != "running" or not lines or not lines[0].startswith("watching "):
        raise LabError(
            f"Nobody watches the lab's networks ({config.name}-exits): {' '.join(lines[-3:])}. Run 'lab up'."
        )
    names = {address: node.name for node in config.nodes.values() for address in (node.mgmt, node.data)}
    return [" ".join([names.get(source, source), *rest]) for source, *rest in map(str.split, lines[1:])]


def _find(client: docker.DockerClient, config: Config) -> Container | None:
    try:
        return client.containers.get(f"{config.name}-exits")
    except NotFound:
        return None
