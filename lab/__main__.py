# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the lab."""

from __future__ import annotations

import argparse
import sys
import time

import docker

from lab import artefacts, build_images, bundle, config, demo, engine, exits, hosts
from lab.locks import claim, lock
from lab.progress import LabError, say
from lab.states import ROAD_GIB, STATES, States


def make_images(client: docker.DockerClient, lab: config.Config) -> str:
    """Images and artefacts; nothing is made twice. Returns the reference of the bare host's image."""
    with lock("images"):
        host = build_images.host_image(client, lab)
        vllm = build_images.vllm_image(client, lab)
    artefacts.ensure_artefacts(client, lab, host, vllm)
    return host


def up(client: docker.DockerClient, lab: config.Config) -> None:
    """Images, artefacts and hosts; nothing is made twice."""
    started = time.monotonic()
    host = make_images(client, lab)
    bundle.drop_stale_bundle(client, lab)
    States(client, lab, host).make_room(ROAD_GIB)
    hosts.ensure_hosts(client, lab, host)
    exits.ensure_watch(client, lab, host)
    say(f"lab: {', '.join(lab.nodes)} are up ({time.monotonic() - started:.0f} s)")


def down(client: docker.DockerClient, lab: config.Config) -> None:
    """Nothing of this lab is left; images, bundle and states stay for the next time."""
    exits.remove_watch(client, lab)
    hosts.remove_all(client, lab)


def replace(client: docker.DockerClient, lab: config.Config, names: list[str], image: str) -> None:
    """Throw hosts away and put bare ones in their place, with new ssh host keys, as a reinstallation does."""
    for name in names:
        hosts.remove_host(client, lab, lab.nodes[name])
        hosts.create_host(client, lab, lab.nodes[name], image)
        hosts.wait_for_ssh(lab.nodes[name])


def rocky(client: docker.DockerClient, lab: config.Config, names: list[str]) -> None:
    """Bare hosts of the family of RHEL in the place of others, their ssh host keys trusted, and packages for them."""
    artefacts.ensure_rocky_packages(client, lab, build_images.host_image(client, lab))
    replace(client, lab, names, build_images.rocky_image(client, lab))
    for name in names:
        hosts.trust_host(lab.nodes[name])


def web_ui(client: docker.DockerClient, lab: config.Config) -> None:
    """This machine's engine has the image of Open WebUI, for the one scenario whose bundle holds it."""
    with lock("images"):
        build_images.web_ui_image(client, lab)


def llama_cpp(client: docker.DockerClient, lab: config.Config) -> None:
    """This machine's engine has the image of llama.cpp, and the lab a model for it. The bundle of the lab holds neither."""
    with lock("images"):
        build_images.llama_cpp_image(client, lab)
    artefacts.ensure_gguf_model()


def state(client: docker.DockerClient, lab: config.Config, arguments: argparse.Namespace) -> None:
    """List, make, restore or prune states."""
    states = States(client, lab, make_images(client, lab))
    if arguments.action == "list":
        say("\n".join(states.table()))
    elif arguments.action == "prune":
        states.prune(everything=arguments.all)
    elif arguments.action == "keep":
        claim()
        states.keep(arguments.name)
    else:
        claim()
        started = time.monotonic()
        bundle.ensure_bundle(client, lab)
        states.restore(arguments.name)
        say(f"lab: {', '.join(lab.nodes)} are {arguments.name} ({time.monotonic() - started:.0f} s)")


def parser(lab: config.Config) -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m lab",
        description="A bare-metal lab on this machine. LLM_LAB=2 in the environment names a second one, beside the first.",
    )
    commands = result.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="the whole road: hosts, bundle, site.yml, one completion")
    commands.add_parser("images", help="make the images and the artefacts of the bundle, no hosts")
    commands.add_parser("up", help="make the images, the artefacts of the bundle and the bare hosts")
    actions = commands.add_parser(
        "state", help="what the hosts are like: list, make, restore or prune states"
    ).add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="the states that are kept, with sizes")
    for name, text in (
        ("make", "keep a state if it is not kept yet; the hosts are in it afterwards"),
        ("restore", "put the hosts into a state; it is made first if it is not kept"),
        ("keep", "keep the hosts as this state if it is not kept yet, and stop them; for what has made them so"),
    ):
        actions.add_parser(name, help=text).add_argument("name", choices=list(STATES))
    actions.add_parser("prune", help="remove stale states").add_argument(
        "--all", action="store_true", help="the others, too"
    )
    commands.add_parser("replace", help="replace hosts by bare ones").add_argument(
        "names", nargs="+", choices=list(lab.nodes)
    )
    commands.add_parser(
        "rocky", help="replace hosts by bare ones with rpm and dnf, and pack engine, toolkit and drivers for them"
    ).add_argument("names", nargs="+", choices=list(lab.nodes))
    power = commands.add_parser("power", help="cut the power of a host, or bring it back and wait until it has booted")
    power.add_argument("state", choices=["off", "on"])
    power.add_argument("node", choices=list(lab.nodes))
    gpus = commands.add_parser("gpus", help="switch a host off, insert GPUs until it has so many, and switch it on")
    gpus.add_argument("node", choices=list(lab.nodes))
    gpus.add_argument("count", type=int)
    commands.add_parser(
        "docker-packages", help="fetch Debian's packages of Docker Engine, for the scenarios that use them"
    )
    commands.add_parser(
        "driver-packages", help="fetch Debian's packages of the NVIDIA driver, for the scenarios that use them"
    )
    commands.add_parser("llama-cpp", help="make the image of llama.cpp, and a model for it")
    commands.add_parser("web-ui", help="make the image of Open WebUI, for the scenario that uses it")
    commands.add_parser(
        "exits", help="print what hosts sent to somewhere outside of the lab since they were made; none is right"
    )
    commands.add_parser("down", help="remove hosts, networks and keys")
    return result


def run(client: docker.DockerClient, lab: config.Config, arguments: argparse.Namespace) -> int:
    """One command."""
    if arguments.command == "exits":
        found = exits.seen(client, lab)
        print("\n".join(found or ["none"]))
        return 1 if found else 0
    if arguments.command == "images":
        make_images(client, lab)
    elif arguments.command == "state":
        state(client, lab, arguments)
    elif arguments.command == "docker-packages":
        artefacts.ensure_docker_packages(client, lab, build_images.host_image(client, lab))
    elif arguments.command == "llama-cpp":
        llama_cpp(client, lab)
    elif arguments.command == "web-ui":
        web_ui(client, lab)
    elif arguments.command == "driver-packages":
        artefacts.ensure_driver_packages(client, lab, build_images.host_image(client, lab))
    else:
        claim()
        if arguments.command == "down":
            down(client, lab)
        elif arguments.command == "replace":
            replace(client, lab, arguments.names, build_images.host_image(client, lab))
        elif arguments.command == "rocky":
            rocky(client, lab, arguments.names)
        elif arguments.command == "power":
            hosts.power(client, lab, lab.nodes[arguments.node], arguments.state == "on")
        elif arguments.command == "gpus":
            hosts.insert_gpus(client, lab, lab.nodes[arguments.node], arguments.count)
        else:
            up(client, lab)
            if arguments.command == "demo":
                demo.run()
    return 0


def main() -> int:
    """Run one command; a LabError becomes one line, without a traceback."""
    lab = config.load()
    arguments = parser(lab).parse_args()
    try:
        return run(engine.ensure_engine(), lab, arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
