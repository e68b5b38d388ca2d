# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided for a host of a deployment: the fields that roles read as ``_llm.FIELD``, and that decision.json holds below ``hosts``.

A command is a list of words. A path is one of the host. Nothing here holds a secret: files of secrets are named by their paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from ansible_collections.baremetal.llm.plugins.plugin_utils.network.sections import NetworkSection


class Names(TypedDict):
    """What things of the deployment are called on the machine; with several deployments on it each name ends with that of its own."""

    suffix: str
    # The server's, also under the name of its engine.
    server: str
    vllm: NotRequired[str]
    # What the servers of other engines would be called.
    others: list[str]
    ray: str
    probe: str
    # The folder of the probe's state, below /run.
    state: str
    collective: str
    benchmark: str
    firewall: str
    # The table of nftables, of the family inet.
    table: str
    # Everything of the deployment that is not shared with others of the machine.
    folder: str
    # The inventory names of the machine.
    sharing: list[str]
    # What the machine brings for all of its names: whether any of them needs an engine, and the images and models of them all.
    engine: NotRequired[bool]
    images: NotRequired[list[str]]
    models: NotRequired[list[str]]


class Former(Names):
    """Names that the deployment had when its machine had more or fewer deployments, with the paths of their units, firewall and secrets."""

    paths: list[str]


class Nothing(TypedDict):
    """In place of what does not belong on the host."""


class PythonEnvironment(TypedDict):
    """The Python environment of a host whose programs run in no container."""

    # Whether the host makes it, of wheels of the bundle.
    made: bool
    python: NotRequired[str]
    folder: NotRequired[str]
    # As the bundle calls it: vllm-0.8.5-python3.12-glibc2.39.
    name: NotRequired[str]
    wheels: NotRequired[str]
    uv: NotRequired[str]
    base_python: NotRequired[str]
    # A digest of what it is made from.
    made_from: NotRequired[str]


class Runtime(TypedDict):
    """How tasks ask about a program that runs all the time, whether it is a container or a unit."""

    name: str
    log: list[str]
    log_of_start: list[str]
    end_of_log: list[str]
    state: list[str]
    # Prints something where it runs.
    running: list[str]


class Container(TypedDict):
    """What differs between containers; everything else stands in the tasks."""

    image: str
    # UID:GID
    user: str
    entrypoint: list[str]
    command: list[str]
    environment: dict[str, bool | str]
    # HOST:CONTAINER[:ro]
    volumes: list[str]
    # Addresses by name.
    etc_hosts: dict[str, str]
    # HOST:CONTAINER
    devices: list[str]
    # NAME:SOFT:HARD
    ulimits: list[str]
    security_opts: list[str]
    cap_drop: list[str]
    capabilities: list[str]
    pids_limit: int
    # In bytes; empty for all that the host has.
    memory: str
    # host or empty
    pid_mode: NotRequired[str]
    ipc_mode: NotRequired[str]
    # Of a /dev/shm of its own: 16g
    shm_size: NotRequired[str]


class Unit(TypedDict):
    """A service of systemd with its environment, which may hold secrets and is therefore a file of its own."""

    name: str
    path: str
    text: str
    environment_file: str
    environment: dict[str, str]
    # Variables that may be secrets: their values are in no decision, and the role knows them.
    closed: list[str]


class EnvironmentFile(TypedDict):
    """Where variables that may be secrets reach a container, and their names; without a path for units, which have them in a file of their own."""

    names: list[str]
    path: str


class SmallFile(TypedDict):
    """A file with its content; where that is empty, there is to be none."""

    path: str
    content: str


class Options(TypedDict):
    """The file of options of a release that reads them from one; without content for the others."""

    path: str
    content: dict[str, object]


class ConfigFile(Options):
    """Such a file with the command that reads it."""

    argv: list[str]


class InFile(TypedDict):
    """The command with its options in a file, where the release reads one."""

    config: NotRequired[ConfigFile]


class Started(InFile):
    """What an engine is started as on a host: the whole command."""

    argv: list[str]
    environment: dict[str, str]


class RaySection(TypedDict):
    """What the role ray reads; without ``needed`` nothing else counts."""

    needed: bool
    # HOST:PORT of the head, and the address of each host with ranks.
    address: str
    addresses: dict[str, str]
    # Commands that ask who is in the cluster, whether this host has joined, and for Ray's release.
    cluster: list[str]
    joined: list[str]
    python: list[str]
    planned_gpus: dict[str, int]
    runtimes: dict[str, Runtime]
    container: Container | Nothing
    unit: Unit | Nothing
    environment_file: EnvironmentFile


class Probe(TypedDict):
    """What restarts what is dead, on each host that takes part."""

    needed: bool
    folder: str
    # The beginning of the command that computes how long a start may take, and the command of each look.
    start: list[str]
    command: list[str]


class Links(TypedDict):
    """What the slowest link between the ranks claims to carry, where a driver says it, and on one host through what: NVLink, PCIe. Between hosts the
    ports that NCCL is to use for RDMA; empty where it is to use sockets."""

    link_mbps: NotRequired[int | None]
    link: NotRequired[str | None]
    link_rdma: NotRequired[str]


class Collective(Links):
    """The all-reduce over every rank."""

    possible: bool
    hosts: NotRequired[list[str]]
    program: NotRequired[str]
    # It comes through standard input, since it may hold secrets.
    environment: NotRequired[Mapping[str, bool | str]]
    command: NotRequired[list[str]]


class Benchmark(TypedDict):
    """The engine's own benchmark, and why it cannot run; empty where it can."""

    command: list[str]
    problem: str


class OnRequest(TypedDict):
    """What roles/common/files/llm-on-request.py has to know of a deployment, with the path of the file that tells it."""

    path: str
    settings: dict[str, object]


class ServerSection(TypedDict):
    """The server of the deployment on the host."""

    needed: bool
    runtime: Runtime
    container: Container | Nothing
    unit: Unit | Nothing
    environment_file: EnvironmentFile
    config: Options
    files: list[SmallFile]
    # A digest of all that the server reads when it starts.
    reads: str
    # Of a server that is loaded when somebody asks for it.
    on_request: OnRequest | Nothing
    url: str
    # A command that asks the server for an answer.
    ask: list[str]
    served_model_name: str
    key_file: str
    # The host of each rank.
    ranks: list[str]


class VllmSection(ServerSection):
    """What the role vllm reads."""

    probe: Probe
    collective: Collective
    benchmark: Benchmark


class LoneSection(ServerSection):
    """What the role of an engine reads whose server is one container (roles/common/tasks/engine.yml)."""

    probe: Probe
    # Whether another key means a restart.
    restarts_for_keys: bool


class OllamaSection(LoneSection):
    """What the role ollama reads: the unit is that of the program in front of the container."""

    # The configuration of that program.
    door: SmallFile


class Owned(TypedDict):
    """A folder and whose it is."""

    path: str
    # A number for containers, a name for units.
    uid: int | str


class User(TypedDict):
    """A command that fails where the user of the programs cannot serve, and what people are told then: the message, the variable, the program."""

    check: list[str]
    refusal: str
    variable: str
    program: str


class Secrets(TypedDict):
    """Who may read the folder of the secrets, beside root."""

    mode: str
    group: str


class HostsFile(TypedDict):
    """The hosts file that units see."""

    path: str
    text: str


class ServedModel(TypedDict):
    """A model of the deployment."""

    model: str
    folder: str
    # Empty where nobody knows it.
    revision: str
    # A digest of its files, empty where neither a bundle nor a hub has them.
    files: str


class HostSection(TypedDict):
    """All that is decided for a host. Until it is known where every planned host is, what begins with ``is_head`` is missing."""

    deployment: str
    # The name of what serves: vllm, the roles that serve with it, in their order, which read what begins with their names, and whether the last one
    # measures: an all-reduce, a benchmark, and the first replica of an upgrade.
    engine: str
    roles: list[str]
    measures: bool
    head: str
    # The hosts with ranks, in their order, and those of them whose address is not known.
    planned: list[str]
    unknown: list[str]
    names: Names
    former: list[Former]
    environment: PythonEnvironment
    network: NetworkSection
    # By role the digest of what it is asked for, and that of the collection.
    asked: NotRequired[dict[str, str]]
    is_head: NotRequired[bool]
    image: NotRequired[str]
    # Prints something where the server of the head runs.
    serves: NotRequired[list[str]]
    interface: NotRequired[str | None]
    address: NotRequired[str]
    tmp: NotRequired[Owned]
    cache: NotRequired[str]
    user: NotRequired[User]
    # container or venv
    runtime: NotRequired[str]
    units: NotRequired[list[str]]
    secrets: NotRequired[Secrets]
    hosts_file: NotRequired[HostsFile | Nothing]
    ray: NotRequired[RaySection]
    vllm: NotRequired[VllmSection]
    llama_cpp: NotRequired[LoneSection]
    lmdeploy: NotRequired[LoneSection]
    ollama: NotRequired[OllamaSection]
    sglang: NotRequired[LoneSection]
    triton: NotRequired[LoneSection]
    models: NotRequired[list[ServedModel]]
    # A digest of what the deployment serves with.
    version: NotRequired[str]
