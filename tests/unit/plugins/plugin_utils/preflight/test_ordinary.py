"""Healthy hosts hear nothing from preflight but what is true of them: each is read by the readers of gather, and all of it is judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.preflight.severities import CHECKS

from tests.support.each import check_each
from tests.support.ordinary_hosts import FLEETS, Fleet, facts_of_fleet, fleets, found_in

EVERY = {str(fleet["id"]): fleet for fleet in fleets()}
# Names that a host chooses: what is below them is one fact.
NAMED_BY_HOSTS = (
    *("topology", "p2p", "packages", "driver_packages", "units", "kernels"),
    *("flags", "config", "needs", "toolkit_settings"),
)
# The list is that of llm_gpu.
TWICE = "llm_gpus_found"
# What is empty on all of these hosts, and why.
EMPTY = {
    "signs of trouble": """
        llm_gpu.bus.window_missing llm_gpu.driver.mismatch llm_gpu.gpus.ecc.volatile.uncorrected llm_gpu.gpus.remapped_rows.failed
        llm_gpu.gpus.remapped_rows.pending llm_gpu.gpus.retired_pages.pending llm_host.blocked_modules llm_host.cpu_missing
        llm_host.engine.missing_runtimes llm_host.package_sources.key_missing llm_host.packages_broken llm_host.resolver.missing
        llm_host.udev_removes llm_probe.causes llm_probe.starts
        llm_host.boot_stops llm_host.clang llm_host.dkms_broken llm_host.docker_helper llm_host.kernel_clang llm_host.package_sources_malformed
        llm_host.shares_silent llm_host.toolkit_ldconfig_missing
    """,
    "somebody's choice, which few make": """
        llm_gpu.gpus.mig_enabled llm_host.automatic_reboot llm_host.engine.rootless llm_host.engine.userns llm_host.held
        llm_host.kernel_settings.kernel.modules_disabled llm_host.memory.hugepages_mib llm_host.realtime
        llm_host.boot_passphrases llm_host.cpus_isolated llm_host.immutable llm_host.package_locks llm_host.package_proxies
        llm_host.packet_filters.lets_in llm_host.ports_handed_out.reserved llm_host.kernel_settings.kernel.hung_task_panic
        llm_host.kernel_settings.vm.overcommit_memory llm_host.kernel_settings.vm.panic_on_oom
    """,
    "of containers, clouds and virtual cards": "llm_gpu.gpus.license_status llm_host.container llm_host.mounts.temporary",
    "of earlier runs, and of servers without a container": "llm_network_state llm_server_units",
}

Facts = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def found() -> dict[str, Facts]:
    return {name: facts_of_fleet(fleet) for name, fleet in EVERY.items()}


def paths(value: Any, path: str = "") -> Iterator[tuple[str, bool]]:
    """Each fact with whether there is something in it."""
    if isinstance(value, Mapping) and path.rpartition(".")[2] not in NAMED_BY_HOSTS:
        for name, below in value.items():
            yield from paths(below, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for each in value:
            yield from paths(each, path)
    else:
        yield path, bool(value)
    if path:
        yield path, bool(value)


def test_all_of_them_are_looked_at(found: dict[str, Facts]) -> None:
    assert len(found) == len(fleets()) == 20
    assert sum(map(len, found.values())) == 35


def test_healthy_hosts_hear_nothing_but_what_is_true(found: dict[str, Facts]) -> None:
    def check(fleet: Fleet) -> None:
        said = found_in(fleet, found[fleet["id"]])
        codes = sorted({entry["code"] for entry in (*said["problems"], *said["warnings"])})
        assert codes == sorted(fleet["codes"]), [entry["what"] for entry in (*said["problems"], *said["warnings"])]
        assert not said["problems"], "nothing refuses a healthy host"

    check_each(EVERY, check)


def test_what_they_hear_has_its_reason_beside_it() -> None:
    lines = FLEETS.read_text(encoding="utf-8").splitlines()
    codes = [line for line in lines if line.strip().partition(" #")[0].removeprefix("- ") in CHECKS]
    assert len(codes) == sum(len(fleet["codes"]) for fleet in EVERY.values())
    assert [line for line in codes if " # " not in line] == []


def test_each_fact_is_there_on_some_host(found: dict[str, Facts]) -> None:
    """Where a reader finds nothing, its judgement says nothing: a fleet without that fact proves nothing about it."""
    known: dict[str, bool] = {}
    for facts in (facts for fleet in found.values() for facts in fleet.values()):
        for path, there in paths({name: facts[name] for name in facts if name.startswith("llm_") and name != TWICE}):
            known[path] = known.get(path, False) or there
    assert len(known) > 300
    empty = {path for path, there in known.items() if not there}
    assert sorted(empty) == sorted(path for listed in EMPTY.values() for path in listed.split())
