# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory to what its bundle has to hold: images, driver, engine, toolkit, packages, wheels, environments and models.

What the inventory says outright (bundle_images, bundle_artefacts) stands; the rest follows from the deployments.
An item is ``{kind, path, source, fields}``, its source a path, an address, or one of SCHEMES with what follows the colon.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from ansible_collections.baremetal.llm.plugins.module_utils import _bundle_compress as bundle_compress
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import fanout
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import wheels as environments
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import SYSTEMS, system_of
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.inputs import image_reference
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.models import (
    needed_models,
    needed_parts,
    wanted_weights,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.engines.find import engine_of, setting
from ansible_collections.baremetal.llm.plugins.plugin_utils.install import driver
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.method import for_bundle
from ansible_collections.baremetal.llm.plugins.plugin_utils.install.packages import (
    DEB,
    RPM,
    missing_packages,
    package_plan,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.members import DeploymentHosts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.readers import mapping, text, texts
from ansible_collections.baremetal.llm.plugins.plugin_utils.inventory.values import is_true, mappings
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message
from ansible_collections.baremetal.llm.plugins.plugin_utils.monitoring.packages import (
    EXPORTER_PACKAGES,
    JOURNAL_PACKAGES,
    SERVER_PACKAGES,
)
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.errors import InputError
from ansible_collections.baremetal.llm.plugins.plugin_utils.planner.release import recommended_release

# Who a source is asked from: model hubs, package managers, and a release of NVIDIA's toolkit that is packed anew.
SCHEMES = ("huggingface", "modelscope", "apt", "dnf", "pip", "venv", "toolkit", "http", "https", "file")
ARCHES = {"apt": "amd64", "dnf": "x86_64"}

# The version of each branch that is taken when the inventory names none.
# https://docs.nvidia.com/datacenter/tesla/index.html
DRIVERS = {"535": "535.274.02", "550": "550.163.01", "570": "570.195.03", "580": "580.95.05"}
# https://docs.docker.com/engine/install/binaries/
DOCKER_VERSION = "28.5.1"
# https://github.com/NVIDIA/nvidia-container-toolkit/releases
TOOLKIT_VERSION = "1.17.8"
URLS = {
    "driver": "https://us.download.nvidia.com/tesla/{version}/NVIDIA-Linux-x86_64-{version}.run",
    "docker": "https://download.docker.com/linux/static/stable/x86_64/docker-{version}.tgz",
}
# What a host has whose inventory does not say: the same as in the roles' defaults, which a test compares.
DEFAULTS: dict[str, object] = {
    "llm_offline": True,
    "llm_firewall_enabled": True,
    "docker_method": "auto",
    "docker_version": "",
    "nvidia_driver_method": "auto",
    "nvidia_driver_version": "",
    "nvidia_driver_build_enabled": True,
    "nvidia_driver_build_packages": [],
    "nvidia_driver_package_names": [],
    "nvidia_container_toolkit_method": "auto",
    "nvidia_container_toolkit_version": "",
    "llm_distribution": fanout.FANOUT,
    "monitoring_exporter_enabled": True,
    "monitoring_journal_central_enabled": False,
    "web_ui_image": "ghcr.io/open-webui/open-webui:v0.12.4-slim",
}

_HUB_SOURCE = re.compile(r"(huggingface|modelscope):[\w.-]+/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True)
class Wishes:
    """What whoever makes a bundle asks for beside what the deployments need: the variables ``bundle_*``."""

    images: Sequence[Mapping[str, object]] = ()
    artefacts: Sequence[Item] = ()
    # Such as debian-12; kernels as `uname -r` has them; wheels as pip takes them.
    systems: Sequence[str] = ()
    kernels: Sequence[str] = ()
    wheels: Sequence[str] = ()
    venvs: Sequence[Mapping[str, object]] = ()
    # Where models come from of which ``model_sources`` says nothing: huggingface or modelscope.
    hub: str = "huggingface"
    model_sources: Mapping[str, str] = field(default_factory=dict)
    compression: str = bundle_compress.AUTO


class Wanted(TypedDict):
    """What a bundle has to hold, for how many hosts, and why that is not known."""

    # Each with its ``reference`` and what is known of it, and the form in which they travel.
    images: list[dict[str, object]]
    compression: str
    items: list[Item]
    hosts: int
    problems: list[str]


def wanted(
    deployments: Mapping[str, DeploymentHosts],
    hostvars: Mapping[str, Mapping[str, object]],
    wishes: Wishes,
    lang: str = "en",
) -> Wanted:
    """What the bundle has to hold, and what the inventory does not say."""
    hosts = {host: hostvars[host] for entry in deployments.values() for host in entry["hosts"]}
    heads = [hostvars[entry["head"]] for entry in deployments.values()]
    problems: list[str] = []
    named = {artefact["kind"] for artefact in wishes.artefacts}
    items: list[Item] = []
    if "driver" not in named:
        items += _drivers(hosts, problems, lang)
    if "docker" not in named:
        items += _engines(hosts)
    if "nvidia_container_toolkit" not in named:
        items += _toolkits(hosts)
    items += _packages(hosts, wishes.artefacts, wishes.systems, wishes.kernels, problems, lang)
    if wishes.wheels:
        items += _wheels(wishes.systems, wishes.wheels)
    if len(hosts) > 1 and any(_get(variables, "llm_distribution") == fanout.FANOUT for variables in hosts.values()):
        items += fanout.wheel_items()
    items += environments.items(heads, wishes.venvs, wishes.systems, problems, lang)
    items += model_items(heads, wishes.artefacts, wishes.hub, wishes.model_sources, problems, lang)
    return {
        "images": image_items(heads, wishes.images, images_beside(hosts, hostvars)),
        "compression": _compression(wishes.compression, _engine_versions(hosts, wishes.artefacts), problems, lang),
        "items": [*(Item(**artefact) for artefact in wishes.artefacts), *items],
        "hosts": len(hosts),
        "problems": list(dict.fromkeys(problems)),
    }


def _get(variables: Mapping[str, object], name: str) -> object:
    value = variables.get(name)
    return DEFAULTS[name] if value is None else value


def images_beside(hosts: Mapping[str, Mapping[str, object]], hostvars: Mapping[str, Mapping[str, object]]) -> list[str]:
    """What monitoring runs in containers, as far as an image is named, and the web page's."""
    watched = [variables for variables in hosts.values() if _watchers(variables)]
    named = [variables.get("monitoring_dcgm_image") for variables in watched]
    named += [one.get("monitoring_grafana_image") for one in _members("llm_monitoring", hosts, hostvars)]
    named += [_get(one, "web_ui_image") for one in _members("llm_web_ui", hosts, hostvars)]
    return list(dict.fromkeys(str(image) for image in named if image))


def _members(
    group: str, hosts: Mapping[str, Mapping[str, object]], hostvars: Mapping[str, Mapping[str, object]]
) -> list[Mapping[str, object]]:
    names = dict.fromkeys(name for one in hosts.values() for name in _group(one, group))
    return [hostvars[name] for name in names if name in hostvars]


def image_items(
    heads: Iterable[Mapping[str, object]], images: Sequence[Mapping[str, object]], beside: Sequence[str] = ()
) -> list[dict[str, object]]:
    """The named ones, and those of deployments and beside them that are not among them."""
    found = [dict(image) for image in images]
    for head in heads:
        reference = image_reference(head)
        if reference and reference not in [image["reference"] for image in found]:
            release = engine_of(head).release_in_image
            said: dict[str, object] = {release: str(setting(head, "version") or "")} if release else {}
            found.append({"reference": reference, **said})
    there = [image["reference"] for image in found]
    found += [{"reference": reference} for reference in beside if reference not in there]
    return found


def _method(variables: Mapping[str, object], role: str) -> str:
    return for_bundle(role, str(_get(variables, f"{role}_method")))


def _drivers(hosts: Mapping[str, Mapping[str, object]], problems: list[str], lang: str) -> list[Item]:
    found: dict[str, Item] = {}
    for host, variables in hosts.items():
        if _method(variables, "nvidia_driver") != "runfile":
            continue
        version = str(_get(variables, "nvidia_driver_version")) or _driver_for(host, variables, problems, lang)
        if version:
            url = URLS["driver"].format(version=version)
            found[version] = {
                "kind": "driver",
                "path": "driver/" + posixpath.basename(url),
                "source": url,
                "fields": {"method": "runfile", "version": version, "branch": version.partition(".")[0]},
            }
    return list(found.values())


def _driver_for(host: str, variables: Mapping[str, object], problems: list[str], lang: str) -> str:
    """The version of the oldest branch that the generation of one of the host's GPUs asks for."""
    gpus = mappings(variables.get("llm_gpus"))
    if not gpus:
        problems.append(message("wanted_no_driver", lang, host=host))
        return ""
    try:
        branches = [str(recommended_release(gpu)["driver_branch_recommended"]) for gpu in gpus]
    except InputError as error:
        problems.append(message("wanted_unknown_gpu", lang, host=host, reason=error))
        return ""
    return DRIVERS[min(branches, key=int)]


def _engines(hosts: Mapping[str, Mapping[str, object]]) -> list[Item]:
    versions = {
        str(_get(variables, "docker_version")) or DOCKER_VERSION
        for variables in hosts.values()
        if _method(variables, "docker") == "static"
    }
    return [
        {
            "kind": "docker",
            "path": f"docker/docker-{version}.tgz",
            "source": URLS["docker"].format(version=version),
            "fields": {"version": version},
        }
        for version in sorted(versions)
    ]


def _engine_versions(hosts: Mapping[str, Mapping[str, object]], artefacts: Sequence[Item]) -> dict[str, str]:
    """Per host the release of its engine; nothing where it comes from elsewhere than the bundle."""
    named = [text((one.get("fields") or {}).get("version")) for one in artefacts if one["kind"] == "docker"]
    brought = (named[0] if len(named) == 1 else "") if named else DOCKER_VERSION
    return {
        host: (str(_get(variables, "docker_version")) or brought) if _method(variables, "docker") == "static" else ""
        for host, variables in hosts.items()
    }


def _compression(asked: str, engines: Mapping[str, str], problems: list[str], lang: str) -> str:
    best = bundle_compress.choose(engines.values())
    if asked == bundle_compress.AUTO:
        return best
    refused = {
        host: version for host, version in engines.items() if version and not bundle_compress.loads(asked, version)
    }
    if refused:
        lowest = ".".join(str(number) for number in bundle_compress.COMPRESSIONS[asked].engine)
        versions = ", ".join(sorted(set(refused.values())))
        said = {"value": asked, "hosts": ", ".join(refused), "version": versions, "lowest": lowest, "best": best}
        problems.append(message("wanted_compression_engine", lang, **said))
    elif asked != "none" and bundle_compress.writer(asked) is None:
        problems.append(message("wanted_compression_writer", lang, value=asked))
    return asked


def _toolkits(hosts: Mapping[str, Mapping[str, object]]) -> list[Item]:
    versions = {
        str(_get(variables, "nvidia_container_toolkit_version")) or TOOLKIT_VERSION
        for variables in hosts.values()
        if _method(variables, "nvidia_container_toolkit") == "bundle"
    }
    return [
        {
            "kind": "nvidia_container_toolkit",
            "path": f"nvidia_container_toolkit/nvidia-container-toolkit_{version}.tar.gz",
            "source": f"toolkit:{version}",
            "fields": {"version": version},
        }
        for version in sorted(versions)
    ]


def _packages(
    hosts: Mapping[str, Mapping[str, object]],
    artefacts: Sequence[Item],
    systems: Sequence[str],
    kernels: Sequence[str],
    problems: list[str],
    lang: str,
) -> list[Item]:
    there = [artefact["path"] for artefact in artefacts]
    offline = {host: variables for host, variables in hosts.items() if _get(variables, "llm_offline")}
    if not systems and "os_packages" not in {artefact["kind"] for artefact in artefacts}:
        allowed = ", ".join(sorted(SYSTEMS))
        for host, variables in offline.items():
            mine = _packages_of(variables, "debian-12", kernels)
            if mine:
                problems.append(
                    message("wanted_no_systems", lang, host=host, packages=", ".join(mine), allowed=allowed)
                )
    items: list[Item] = []
    for name in dict.fromkeys(systems):
        if name not in SYSTEMS:
            problems.append(message("wanted_unknown_system", lang, value=name, allowed=", ".join(sorted(SYSTEMS))))
            continue
        manager = system_of(name).manager
        # Where some hosts bring an exporter of their own, the others may be those of another system.
        if manager != "apt" and offline and all(map(_takes_exporter, offline.values())):
            problems.append(message("wanted_no_monitoring", lang, value=name))
        distribution, _dash, release = name.partition("-")
        packages = dict.fromkeys(
            one for variables in offline.values() for one in _packages_of(variables, name, kernels)
        )
        if packages and f"os_packages/{name}" not in there:
            items.append(
                {
                    "kind": "os_packages",
                    "path": f"os_packages/{name}",
                    "source": f"{manager}:{name}",
                    "packages": list(packages),
                    "fields": {"distribution": distribution, "release": release, "arch": ARCHES[manager]},
                }
            )
    return items


def _driver_packages(
    variables: Mapping[str, object], distribution: str, os_family: str, kernels: Sequence[str]
) -> list[str]:
    """What its installer builds the kernel module with, or the packages that are the driver as far as they are named."""
    if _method(variables, "nvidia_driver") != "runfile":
        return texts(_get(variables, "nvidia_driver_package_names"))
    if not _get(variables, "nvidia_driver_build_enabled"):
        return []
    facts = driver.SYSTEMS[driver.system_of(distribution.capitalize(), os_family)]
    tools = texts(_get(variables, "nvidia_driver_build_packages")) or list(facts.compiler)
    return tools + [facts.headers.format(kernel=kernel) for kernel in kernels]


def _packages_of(variables: Mapping[str, object], name: str, kernels: Sequence[str]) -> list[str]:
    """What a host would install if it ran this system, as its package manager wants it said."""
    system = system_of(name)
    distribution, _dash, release = name.partition("-")
    facts = {
        "distribution": distribution,
        "distribution_version": release,
        "distribution_major_version": release.partition(".")[0],
        "distribution_release": system.codename,
        "os_family": "Debian" if system.manager == "apt" else "RedHat",
        "architecture": "x86_64",
    }
    found: list[str] = []
    for component, prefix in (("docker", "docker"), ("toolkit", "nvidia_container_toolkit")):
        method, version = _method(variables, prefix), str(_get(variables, f"{prefix}_version"))
        named = variables.get(f"{prefix}_packages")
        found += package_plan(facts, component, method, version)["packages"] if named is None else texts(named)
    found += _driver_packages(variables, distribution, str(facts["os_family"]), kernels)
    # A host that runs firewalld or ufw does without; the inventory cannot tell.
    found += ["nftables"] if _get(variables, "llm_firewall_enabled") else []
    # Which host of the group has it does not matter: hosts of one system share a repository.
    gateways = _group(variables, "llm_gateway")
    found += ["haproxy"] if gateways else []
    found += engine_of(variables).packages
    found += ["keepalived"] if len(gateways) > 1 else []
    if system.manager == "apt" and _watchers(variables):
        found += [*EXPORTER_PACKAGES, *SERVER_PACKAGES]
        found += JOURNAL_PACKAGES if is_true(_get(variables, "monitoring_journal_central_enabled")) else []
    found += texts(variables.get("bundle_extra_packages"))
    return missing_packages(dict.fromkeys(found), [], DEB if system.manager == "apt" else RPM)


def _group(variables: Mapping[str, object], name: str) -> list[str]:
    """The hosts of a group of the inventory."""
    return texts(mapping(variables.get("groups")).get(name))


def _watchers(variables: Mapping[str, object]) -> list[str]:
    return _group(variables, "llm_monitoring")


def _takes_exporter(variables: Mapping[str, object]) -> bool:
    """Whether the role monitoring would install its exporter on a host."""
    return bool(_watchers(variables)) and is_true(_get(variables, "monitoring_exporter_enabled"))


def _wheels(systems: Sequence[str], wheels: Sequence[str]) -> list[Item]:
    pythons = dict.fromkeys(system_of(name).python for name in systems if name in SYSTEMS)
    return [
        {
            "kind": "python",
            "path": f"python/{python}",
            "source": f"pip:{python}",
            "packages": list(wheels),
            "fields": {"python_version": python},
        }
        for python in pythons
    ]


def model_items(
    heads: Iterable[Mapping[str, object]],
    artefacts: Sequence[Item],
    hub: str,
    sources: Mapping[str, str],
    problems: list[str],
    lang: str,
) -> list[Item]:
    there = [(artefact.get("fields") or {}).get("model") for artefact in artefacts if artefact["kind"] == "model"]
    heads = list(heads)
    found: dict[str, Item] = {}
    patterns = {model: names for head in heads for model, names in wanted_weights(head).items()}
    needs: dict[str, dict[str, bool]] = {}
    for head in heads:
        for model in needed_models(head):
            parts = needed_parts(head, model)
            needs[model] = {part: needed or needs.get(model, {}).get(part, False) for part, needed in parts.items()}
    for model in needs:
        if posixpath.isabs(model) or model in there:
            continue
        source = str(sources.get(model) or f"{hub}:{model}")
        if not _HUB_SOURCE.fullmatch(source) and not posixpath.isabs(source):
            problems.append(message("wanted_no_revision", lang, value=source))
            continue
        found[model] = {
            "kind": "model",
            "path": "models/" + model.replace("/", "--"),
            "source": source,
            "fields": {"model": model},
            "needs": needs[model],
        }
        if patterns.get(model):
            found[model]["wanted"] = patterns[model]
    return list(found.values())


def split_source(source: str) -> tuple[str, str]:
    """(scheme, what follows); the scheme of a path is nothing."""
    scheme, colon, rest = source.partition(":")
    return (scheme, rest) if colon and scheme in SCHEMES else ("", source)


# Weights in formats that engines do not read where the same ones are there as safetensors, and other programs' copies.
# What a repository holds is the publisher's choice; examples: https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main
_OTHER_WEIGHTS = re.compile(r"(^|/)(.*\.(bin|pth|pt|h5|msgpack|onnx|ot|gguf)|consolidated.*\.safetensors)$")
_NEVER = re.compile(
    r"(^|/)(\.git.*|original|onnx|openvino|coreml|metal|runs)(/|$)|\.(png|jpe?g|gif|svg|webp|mp4|pdf)$", re.I
)


_ANY_WEIGHTS = re.compile(r"\.(bin|pth|pt|h5|msgpack|onnx|ot|gguf|safetensors)(\.index\.json)?$")


def needed_model_files(names: Iterable[str], wanted: Sequence[str] = ()) -> list[str]:
    """Of a model's repository, the files that serve it: config, tokenizer, and its weights once.

    Of weights only what matches one of the ``wanted`` patterns, such as ``*Q4_K_M*.gguf``, where there are any.
    """
    names = [name for name in names if not _NEVER.search(name)]
    if wanted:
        return sorted(
            name
            for name in names
            if not _ANY_WEIGHTS.search(name) or any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
        )
    if any(re.fullmatch(r"model.*\.safetensors", name) for name in names):
        names = [name for name in names if not _OTHER_WEIGHTS.search(name)]
    elif any(name.endswith(".safetensors") for name in names):
        names = [name for name in names if name.endswith(".safetensors") or not _OTHER_WEIGHTS.search(name)]
    return sorted(names)


def image_addresses(reference: str, mirrors: Mapping[str, Sequence[str]]) -> list[str]:
    """Where an image is asked for: at each mirror of its registry, then there itself."""
    first, slash, rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, path = first, rest
    else:
        registry, path = "docker.io", reference if slash else f"library/{reference}"
    return [f"{mirror.rstrip('/')}/{path}" for mirror in mirrors.get(registry) or ()] + [reference]
