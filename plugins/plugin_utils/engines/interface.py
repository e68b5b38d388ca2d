# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is to the rest of the collection. docs/development/new-engine.md says how one is added."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:  # they import this file
    from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.members import Deployment, Member
    from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.sections import Started
    from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
    from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.gpus import Gpu

# A host's variables by name, defaults of the roles included, with ``ansible_facts``.
Variables = Mapping[str, object]


class Inputs(TypedDict):
    """What a plan is asked of a deployment."""

    # The head first: host, gpus and, once the host was looked at, memory_mib.
    nodes: list[dict[str, object]]
    # What the inventory says, by names that the plan of the engine knows.
    request: dict[str, object]
    # The model's config.json, below the bundle or absolute; None where nothing names one.
    config: str | None


class MetricName(TypedDict):
    """One of the engine's own names for a metric."""

    name: str
    # Of a counter that is a rate already.
    gauge: NotRequired[bool]


class Metric(TypedDict):
    """What an engine calls one of the metrics that rules, alerts and consoles use."""

    # gauge, counter or histogram
    kind: str
    # Of a gauge: sum or max over the engines of a server.
    fold: NotRequired[str]
    names: list[MetricName]


class Served(Protocol):
    """What a deployment is served with besides its model, as the inventory says it: a chat template, adapters, a draft model."""

    def problems(self) -> Iterable[dict[str, str]]:
        """All that would fail, or answer something else than meant, once the model is loaded."""

    def warnings(self) -> Iterable[str]:
        """What a plan says of it."""

    def files(self) -> Mapping[str, str]:
        """The content of the small files that the server reads, by name."""

    def settings(self, folder: str) -> Mapping[str, object]:
        """The options of the engine that follow; ``folder`` is where the server sees the small files."""

    def lacks_template(self) -> bool:
        """Whether nobody brings a chat template, as far as is known."""


class ModelAlone:
    """A deployment that is served with nothing besides its model."""

    def __init__(self, *known: object) -> None:
        """Of what is known nothing counts."""

    def problems(self) -> Iterable[dict[str, str]]:
        return ()

    def warnings(self) -> Iterable[str]:
        return ()

    def files(self) -> Mapping[str, str]:
        return {}

    def settings(self, folder: str) -> Mapping[str, object]:
        return {}

    def lacks_template(self) -> bool:
        return False


class OptionRules(NamedTuple):
    """What the inventory may not say among the options of an engine, names with underscores."""

    # With these the engine starts, but not where the probe, the report and clients ask it: over HTTP, at the head's address, from /v1 on.
    never_ready: frozenset[str] = frozenset()
    # The plan says them on each host.
    of_the_plan: frozenset[str] = frozenset()
    # Options that the collection knows, so that they are no words to hand on.
    known: frozenset[str] = frozenset()
    # Options whose setting is not called like them, with the setting.
    settings: Mapping[str, str] = {}


NO_RULES = OptionRules()


def _nothing(*_asked: object) -> tuple[()]:
    return ()


def _no(*_asked: object) -> bool:
    return False


@dataclasses.dataclass(frozen=True)
class Engine:
    """All that the rest asks of an engine.

    The variables of an engine begin with its name and are described in its role, ``roles/<name>``; find.py reads them. A *setting* is such a
    variable without that beginning. A *deployment* is a ``Deployment`` of deployment/members.py, a *member* a ``Member`` of the same file.
    """

    # The folder, the role, the beginning of the variables: vllm.
    name: str
    # As people write it: vLLM.
    title: str
    # A release, as an example for whoever names none: 0.8.5.post1.
    example_release: str

    # -- what a deployment says -----------------------------------------------------------------------------------------
    # The official image of a release, as a reference.
    image: Callable[[str], str]
    # What a plan is asked, of a deployment, the variables of its hosts and the bundle's manifest. unplanned.py has one.
    inputs: Callable[[DeploymentHosts, Mapping[str, Variables], Mapping[str, object]], Inputs]
    # The plan, of a model's config.json, nodes, request and language. Without a memory model it is that of unplanned.py.
    plan: Callable[[Mapping[str, object], Sequence[Mapping[str, object]], Mapping[str, object], str], dict[str, object]]
    # By host that runs the engine its ``argv`` and ``environment``, the head first, of a deployment; with ``config`` where options are in a file.
    launch: Callable[[Deployment], dict[str, Started]]
    # What the roles of the engine read on a host, by role, of a member and its environment (deployment/sections.py: a ServerSection at least).
    sections: Callable[[Member, Mapping[str, bool | str]], dict[str, object]]
    # What a plan says besides, of the plan, the head's variables, the records and the language; and problems that stop it, of the deployment's
    # name, the deployment, the plan, the variables of its hosts, the records and the language.
    plan_warnings: Callable[..., Sequence[str]] = _nothing
    plan_problems: Callable[..., Sequence[dict[str, str]]] = _nothing
    # What is served besides the model: of the deployment's name, its head's variables, the bundle's records, how files of the bundle and of the
    # controller are read, and the language.
    served: Callable[..., Served] = ModelAlone
    # Settings that a plan chooses, each a variable of its own; its other options are in the setting ``options``.
    settings: tuple[str, ...] = ()
    option_rules: OptionRules = NO_RULES
    # The form of a release, as a regular expression; empty for any text.
    release_form: str = ""
    # What has to be the same on all hosts of a deployment, by setting, besides the model, the release, the port and the name in the API.
    shared: tuple[str, ...] = ()
    # Of these, those that say over how many GPUs of all hosts a model is spread: with fewer hosts a plan chooses them. And the one that is the context.
    of_all_hosts: tuple[str, ...] = ()
    context: str = ""
    # Whether one model can lie on several hosts.
    spans_hosts: bool = False
    # Whether a plan needs the model's config.json.
    reads_config: bool = True
    # Where the bundle's record of an image says which release of the engine is in it; without such a word images are known by their references.
    release_in_image: str = ""
    # The images to which a bundle adds Ray, of deployments with this engine and the variables of all hosts.
    images_with_ray: Callable[[Mapping[str, DeploymentHosts], Mapping[str, Variables]], Sequence[str]] = _nothing
    # Settings that name a model each, the served one first, and the setting that lists adapters, each with its ``model``.
    models: tuple[str, ...] = ("model",)
    adapters: str = ""
    # What a server shows that it works with, of its options and the model's config.json: token, embedding, score, class or pooled.
    answers_with: Callable[[Mapping[str, object], Mapping[str, object]], str] = lambda options, config: "token"

    # -- on a host ------------------------------------------------------------------------------------------------------
    # Whether its server can be loaded on request (deployment/on_request.py): one container of one host is all of it. And settings with which it cannot,
    # each with the value that makes more of it.
    on_request: bool = False
    never_on_request: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # The roles that run before its own.
    before: tuple[str, ...] = ()
    # Packages of the system that its hosts need, by the name that they have for apt and dnf.
    packages: tuple[str, ...] = ()
    # Settings that are ports to which only the host itself connects, each with its default.
    own_ports: tuple[tuple[str, int], ...] = ()
    # Whether its role has the files collective (an all-reduce over the ranks), benchmark, canary_before and canary (the first replica of an upgrade).
    measures: bool = False
    # Environment variables, besides those of the network: those that hold the host's address, by release; others, of a member; and those that
    # name folders in which compiled code is kept, each with its folder below that of the cache.
    address_variables: Callable[[str], tuple[str, ...]] = lambda release: ()
    environment: Callable[[Member], dict[str, str]] = lambda member: {}
    # All names that any release has for the first of these. And variables in which the engine would read what the inventory says elsewhere, with that
    # variable of the inventory; a name that ends in * is the beginning of one.
    all_address_variables: tuple[str, ...] = ()
    owned_variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    caches: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Names that programs of a host look up, with their addresses, of a deployment.
    etc_hosts: Callable[[Deployment], dict[str, str]] = lambda deployment: {}
    # Whether containers can run as another user than root, of the head's variables and the GPUs (planner/gpus.py).
    unprivileged: Callable[[Variables, Sequence[Gpu]], bool] = _no
    # The Python module that an image or an environment has to have; none for an engine that is no Python program.
    module: str = ""
    # GiB of a host's memory that it takes for data that processes share, of the host's variables.
    shared_memory_gib: Callable[[Variables], float] = lambda variables: 0.0
    # Whether a server listens on its own host only, of the head's variables.
    is_local: Callable[[Variables], bool] = _no
    # Whether a release reads only numbers in CUDA_VISIBLE_DEVICES.
    devices_by_index: Callable[[str], bool] = _no

    # Which line of the engine's log begins which part of a start, in the order in which a start goes through them: part and pattern.
    # The texts are start_phase_<part>, and start_share_<part> where the log counts: N/M in a bar, or the groups done and total. What begins a start
    # has a name of BEGINNINGS (planner/start_progress.py).
    start_phases: Sequence[tuple[str, str]] = ()

    # -- to clients -----------------------------------------------------------------------------------------------------
    # The path that answers once the probe has seen a token, and the one that answers as soon as the server listens.
    ready: str = "/health"
    alive: str = "/health"
    # The paths that a gateway lets through: those that every one of these releases has.
    paths: Callable[[Iterable[str]], list[str]] = lambda releases: ["/v1/chat/completions", "/v1/completions"]
    # Whether the collection's own program answers in its servers (roles/common/files/llm_api_paths.py): it counts the tokens of each key for the gateway, and
    # answers the probe also where the port is full.
    middleware: bool = False
    # What replicas have to have in common, with the message that says why: settings of the plan, and options.
    alike_settings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    alike_options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Whether a server tells its metrics only to who has its key: the probe reads them then, and the exporter of the host shows them.
    metrics_by_probe: bool = False
    # What Prometheus is told of the engine's metrics, by the one name that rules, alerts and consoles use (docs/guides/monitoring.md).
    metrics: Callable[[], Mapping[str, Metric]] = dict

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that serve with the engine, in the order in which they run on a host."""
        return (*self.before, self.name)
