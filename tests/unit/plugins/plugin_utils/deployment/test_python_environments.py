"""The Python environment that a host makes: which one is for it, and where it lies."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.python_environments import (
    candidates,
    environment_for,
    environment_section,
    held,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.support.deployments import member

HOST = {
    "vllm_runtime": "venv",
    "vllm_version": "0.3.0",
    "vllm_base_python": "/usr/bin/python3",
    "llm_host_dir": "/opt/llm",
}


def records(
    python: str = "3.10", glibc: str = "2.31", version: str = "0.3.0", sha256: str = "ab" * 32
) -> list[dict[str, Any]]:
    name = f"vllm-{version}-python{python}-glibc{glibc}"
    fields = {
        "kind": "python",
        "environment": name,
        "vllm_version": version,
        "environment_python": python,
        "glibc": glibc,
    }
    sizes = {
        "requirements.txt": 1,
        "vllm-0.3.0-cp310-cp310-manylinux1_x86_64.whl": 70,
        "uv-0.13.9-py3-none-any.whl": 29,
    }
    return [
        {**fields, "path": f"python/venvs/{name}/{file}", "size": size, "sha256": sha256}
        for file, size in sizes.items()
    ]


def found(python: str = "3.10", glibc: str = "2.31") -> dict[str, Any]:
    return {**HOST, "ansible_facts": {"llm_base_python": {"python": python, "glibc": glibc}}}


def test_what_the_tasks_ask() -> None:
    section = environment_section(found(), records())
    folder = f"/opt/llm/venvs/0.3.0-{section['made_from']}"
    assert section == {
        "made": True,
        "python": f"{folder}/bin/python3",
        "folder": folder,
        "name": "vllm-0.3.0-python3.10-glibc2.31",
        "wheels": f"{folder}.wheels",
        "uv": f"{folder}.wheels/uv-0.13.9-py3-none-any.whl",
        "base_python": "/usr/bin/python3",
        "made_from": section["made_from"],
    }


def test_another_lock_or_another_interpreter_is_another_environment() -> None:
    folders = {
        environment_section(host, mine)["folder"]
        for host, mine in (
            (found(), records()),
            (found(), records(sha256="cd" * 32)),
            ({**found(), "vllm_base_python": "/opt/python/bin/python3"}, records()),
        )
    }
    assert len(folders) == 3


@pytest.mark.parametrize(
    ("python", "glibc", "expected"),
    [("3.10", "2.31", "2.31"), ("3.10", "2.39", "2.35"), ("3.10", "2.34", "2.31"), ("3.12", "2.39", "2.39")],
)
def test_the_newest_that_runs_there_is_taken(python: str, glibc: str, expected: str) -> None:
    bundle = [*records(), *records(glibc="2.35"), *records(python="3.12", glibc="2.39"), *records(version="0.4.0")]
    mine = environment_for(found(python, glibc), bundle)
    assert mine
    assert (mine.python, mine.glibc) == (python, expected)


@given(st.integers(5, 60), st.integers(5, 60))
def test_a_glibc_is_no_decimal_number(of_wheels: int, of_host: int) -> None:
    """2.9 is older than 2.31."""
    [mine] = held(records(glibc=f"2.{of_wheels}"))
    assert mine.fits({"python": "3.10", "glibc": f"2.{of_host}"}) == (of_host >= of_wheels)


def test_nothing_fits_what_is_not_known() -> None:
    [mine] = held(records())
    assert not mine.fits({})
    assert not mine.fits({"error": "no such program"})
    assert not mine.fits({"python": "3.1", "glibc": "2.31"})
    # Until the host was looked at, the plan is made for what there is.
    assert environment_for(HOST, records()) == mine


@pytest.mark.parametrize(
    "other", [{"vllm_runtime": "container"}, {"vllm_python": "/opt/vllm/bin/python3"}, {"vllm_version": "0.4.0"}]
)
def test_none_is_made_where_none_belongs(other: dict[str, Any]) -> None:
    assert candidates({**found(), **other}, records()) == []


def test_an_environment_of_a_person_is_used_as_it_is() -> None:
    host = {**found(), "vllm_python": "/opt/vllm/bin/python3"}
    assert environment_section(host, records()) == {"made": False, "python": "/opt/vllm/bin/python3"}
    assert environment_section({**host, "vllm_runtime": "container"}, records()) == {"made": False}


def test_it_takes_room_until_it_is_made() -> None:
    [mine] = held(records())
    need = mine.disk_need(HOST)
    assert need["name"] == mine.name
    assert need["bytes"] > mine.wheel_bytes == 100
    assert need["mark"] == f"{mine.folder(HOST)}/llm-environment.json"


def test_the_service_runs_from_it() -> None:
    python = environment_section(found(), records())["python"]
    section = host_sections(member(executor="uni", ranks=(1,), vllm_runtime="venv", vllm_python=python))
    assert section["vllm"]["unit"]["environment"]["PATH"].startswith(python[: -len("/python3")] + ":")
    assert python in section["user"]["check"]
