# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab."""

from __future__ import annotations

import argparse
import sys
import time

import docker

from lab import artefacts, config, demo, engine, exits, hosts, images
from lab.progress import LabError, say


def up(client: docker.DockerClient, lab: config.Config) -> None:
    """Images, artefacts and hosts; nothing is made twice."""
    started = time.monotonic()
    host = images.host_image(client, lab)
    vllm = images.vllm_image(client, lab)
    artefacts.ensure_artefacts(client, lab, host, vllm)
    hosts.ensure_hosts(client, lab, host)
    exits.ensure_watch(client, lab, host)
    say(f"lab: {', '.join(lab.nodes)} are up ({time.monotonic() - started:.0f} s)")


def replace(client: docker.DockerClient, lab: config.Config, names: list[str]) -> None:
    """Throw hosts away and put bare ones in their place, with new ssh host keys, as a reinstallation does."""
    image = images.host_image(client, lab)
    for name in names:
        hosts.remove_host(client, lab, lab.nodes[name])
        hosts.create_host(client, lab, lab.nodes[name], image)
        hosts.wait_for_ssh(lab.nodes[name])


def main() -> int:
    """Run one command; a LabError is told in a line, without a traceback."""
    lab = config.load()
    parser = argparse.ArgumentParser(prog="python -m lab", description="A bare-metal lab on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="the whole road: hosts, bundle, site.yml, one completion")
    commands.add_parser("up", help="make the images, the artefacts of the bundle and the bare hosts")
    commands.add_parser("bare", help="up, with every host made anew")
    commands.add_parser("replace", help="replace hosts by bare ones").add_argument(
        "names", nargs="+", choices=list(lab.nodes)
    )
    commands.add_parser(
        "docker-packages", help="fetch Debian's packages of Docker Engine, for the scenarios that use them"
    )
    commands.add_parser(
        "driver-packages", help="fetch Debian's packages of the NVIDIA driver, for the scenarios that use them"
    )
    commands.add_parser(
        "exits", help="print what hosts sent to somewhere outside of the lab since 'bare'; none is right"
    )
    commands.add_parser("down", help="remove hosts, networks and keys")
    arguments = parser.parse_args()
    try:
        client = engine.ensure_engine()
        if arguments.command == "down":
            exits.remove_watch(client, lab)
            hosts.remove_all(client, lab)
        elif arguments.command == "exits":
            found = exits.seen(client, lab)
            print("\n".join(found or ["none"]))
            return 1 if found else 0
        elif arguments.command == "replace":
            replace(client, lab, arguments.names)
        elif arguments.command == "docker-packages":
            artefacts.ensure_docker_packages(client, lab, images.host_image(client, lab))
        elif arguments.command == "driver-packages":
            artefacts.ensure_driver_packages(client, lab, images.host_image(client, lab))
        else:
            if arguments.command == "bare":
                exits.remove_watch(client, lab)
                hosts.remove_hosts(client, lab)
            up(client, lab)
            if arguments.command == "demo":
                return demo.run()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
