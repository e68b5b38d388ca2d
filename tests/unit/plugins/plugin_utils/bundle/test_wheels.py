"""The wheels of environments: which environments there have to be, and which wheel of each package is the one."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import sources, wheels
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.fetch import fetch
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.packages import SYSTEMS
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import python_environments
from hypothesis import given
from hypothesis import strategies as st
from packaging.tags import sys_tags

from tests.support.modules import answer_of
from tests.support.wheels import index, uv_wheel, wheel

BASE = "/usr/bin/python3"
VENV = {"vllm_runtime": "venv", "vllm_version": "0.3.0"}
ENTRY = {"vllm_version": "0.3.0", "python": "3.10", "glibc": "2.31"}


def items(*heads: dict[str, Any], entries: Any = (), systems: Any = ()) -> tuple[list[dict[str, Any]], list[str]]:
    problems: list[str] = []
    return wheels.items(heads, entries, systems, problems, "en"), problems


def test_an_entry_says_all() -> None:
    found, problems = items(
        entries=[{**ENTRY, "requirements": ["torch==2.1.2", "numpy<2"], "released_before": "2024-03-01"}]
    )
    assert problems == []
    assert found == [
        {
            "kind": "python",
            "path": "python/venvs/vllm-0.3.0-python3.10-glibc2.31",
            "source": "venv:0.3.0",
            "packages": ["vllm==0.3.0", "torch==2.1.2", "numpy<2"],
            "index_urls": [],
            "released_before": "2024-03-01",
            "fields": {
                "environment": "vllm-0.3.0-python3.10-glibc2.31",
                "vllm_version": "0.3.0",
                "environment_python": "3.10",
                "glibc": "2.31",
            },
        }
    ]


def test_a_deployment_without_an_entry_gets_one_for_each_system() -> None:
    found, problems = items(VENV, VENV, systems=["ubuntu-22.04", "debian-12", "nothing-1"])
    assert problems == []
    assert [each["fields"]["environment"] for each in found] == [
        "vllm-0.3.0-python3.10-glibc2.35",
        "vllm-0.3.0-python3.11-glibc2.36",
    ]
    # An entry says for which hosts there is to be one.
    found, problems = items(VENV, entries=[ENTRY], systems=["debian-12"])
    assert [each["fields"]["environment"] for each in found] == ["vllm-0.3.0-python3.10-glibc2.31"]


@pytest.mark.parametrize("head", [{"vllm_version": "0.3.0"}, {**VENV, "vllm_python": "/opt/vllm/bin/python3"}])
def test_other_deployments_need_none(head: dict[str, Any]) -> None:
    assert items(head, systems=["debian-12"]) == ([], [])


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "Which Python do the hosts have"),
        ([{**ENTRY, "python": 3.1}, {**ENTRY, "python": "3"}], "python 3 and glibc 2.31"),
        ([{**ENTRY, "glibc": "31"}], "glibc 31"),
        ([ENTRY, {**ENTRY, "requirements": ["numpy<2"]}], "vllm-0.3.0-python3.10-glibc2.31 is in two entries"),
        ([{**ENTRY, "requirements": ["--index-url=x", "six"]}], "bundle_venvs: '--index-url=x': no requirement"),
    ],
)
def test_what_is_wrong_is_said(entries: list[dict[str, Any]], said: str) -> None:
    _found, [problem] = items(VENV, entries=entries)
    assert said in problem


def test_the_same_entry_twice_is_one() -> None:
    assert len(items(entries=[ENTRY, dict(ENTRY)])[0]) == 1


def test_each_system_has_a_glibc() -> None:
    assert all(system.glibc.startswith("2.") for system in SYSTEMS.values())


def test_the_command_builds_nothing_and_fetches_no_python() -> None:
    [item], _problems = items(
        entries=[{**ENTRY, "index_urls": ["https://a.example/simple", "https://b.example/simple"]}]
    )
    command = wheels.compile_command("uv", item)
    assert "--no-python-downloads" in command
    assert " ".join(command).endswith("--no-binary=quantile-python -")
    assert "--only-binary :all: --python-version 3.10 --python-platform x86_64-manylinux_2_31" in " ".join(command)
    assert "--default-index https://a.example/simple --index https://b.example/simple" in " ".join(command)
    assert wheels.compile_command("uv", item, "/built")[-3:] == ["--find-links", "/built", "-"]
    assert "--exclude-newer=2024-03-01" in wheels.compile_command("uv", {**item, "released_before": "2024-03-01"})


def pylock(*files: str, digest: str = "ab" * 32) -> dict[str, Any]:
    found = [
        {"url": f"https://a.example/{file}", "size": 7, "hashes": {"sha256": digest} if digest else {}}
        for file in files
    ]
    return {"packages": [{"name": "one", "version": "1.0", "wheels": found}]}


def best(*files: str, **entry: str) -> str:
    [item], _problems = items(entries=[{**ENTRY, **entry}])
    [found] = wheels.chosen(pylock(*files), item)
    return str(found["file"])


OLD, NEW = (
    "one-1.0-cp310-cp310-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "one-1.0-cp310-cp310-manylinux_2_28_x86_64.whl",
)
PURE, STABLE = "one-1.0-py3-none-any.whl", "one-1.0-cp38-abi3-manylinux2014_x86_64.whl"


def test_the_most_special_wheel_is_taken() -> None:
    assert best(PURE, OLD, NEW, STABLE) == NEW
    assert best(PURE, OLD, NEW, STABLE, glibc="2.17") == OLD
    assert best(PURE, STABLE, python="3.12") == STABLE
    assert best(PURE, OLD, python="3.12") == PURE
    assert best("one-1.0%2Bcu121-cp310-cp310-linux_x86_64.whl") == "one-1.0+cu121-cp310-cp310-linux_x86_64.whl"


@pytest.mark.parametrize(
    "file",
    ["one-1.0-cp310-cp310-manylinux_2_34_x86_64.whl", "one-1.0-cp310-cp310-win_amd64.whl", OLD.replace("310", "39")],
)
def test_what_does_not_run_there_is_refused_by_name(file: str) -> None:
    with pytest.raises(wheels.WheelError, match=r"no wheel of one for Python 3\.10 and glibc 2\.31"):
        best(file)


def test_a_wheel_without_a_checksum_is_refused() -> None:
    [item], _problems = items(entries=[ENTRY])
    with pytest.raises(wheels.WheelError, match="no wheel of one"):
        wheels.chosen(pylock(PURE, digest=""), item)


@given(st.permutations([OLD, NEW, PURE, STABLE]))
def test_in_whichever_order_they_are_named(files: list[str]) -> None:
    assert best(*files) == NEW


def test_the_order_is_that_of_this_machine() -> None:
    """packaging knows what this Python takes; of the names for CPython it is the same here, but for those of a newer glibc."""
    mine = [tag for tag in sys_tags() if tag.interpreter.startswith("cp") and "manylinux" in tag.platform]
    names = [f"one-1.0-{tag}.whl" for tag in mine]
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    glibc = max(int(tag.platform.split("_")[2]) for tag in mine if tag.platform.startswith("manylinux_2_"))
    assert best(*reversed(names), python=python, glibc=f"2.{glibc}") == names[0]


SAID = """error: No solution found when resolving dependencies
  cause: Because quantile-python==1.1 has no usable wheels and you require quantile-python, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `quantile-python` because building from source is disabled for all packages (i.e., with `--no-build`)
"""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_has_no_wheel_is_named(lang: str) -> None:
    [item], _problems = items(entries=[ENTRY])
    error = wheels.refusal(item, SAID)
    assert (error.code, error.values["names"]) == ("source_no_wheel", "quantile-python")
    other = wheels.refusal(
        item, "error: Because you require torch==9, we can conclude that your requirements are unsatisfiable."
    )
    assert other.code == "source_not_resolved"
    for each in (error, other):
        assert "unsatisfiable" in wheels.reason(each, lang)


# From here on uv resolves, from an index on this machine.


@pytest.fixture(scope="module")
def uv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 MB."""
    return uv_wheel(tmp_path_factory.mktemp("uv"))


class Index:
    """A package index in a folder."""

    def __init__(self, root: Path, uv: Path) -> None:
        self.root, self.files, self.uv = root, root / "files", uv

    def item(self, *packages: Path, **entry: Any) -> dict[str, Any]:
        address = index(self.root / "simple", self.uv, *packages)
        [item], problems = items(entries=[{**ENTRY, "index_urls": [address], **entry}])
        assert problems == []
        return item

    def resolve(self, *packages: Path, **entry: Any) -> dict[str, Any]:
        return sources.resolve(self.item(*packages, **entry), sources.Settings(opener=make_opener()))


@pytest.fixture
def place(tmp_path: Path, uv: Path) -> Index:
    return Index(tmp_path, uv)


@pytest.mark.slow
def test_uv_resolves_with_all_that_is_needed(place: Index) -> None:
    files = place.files
    vllm = wheel(files, "vllm", "0.3.0", needs=["lab-one", "lab-two>=1"])
    found = place.resolve(
        *(vllm, wheel(files, "lab-one", "1.0"), wheel(files, "lab-two", "1.0"), wheel(files, "lab-two", "2.0")),
        requirements=["lab-two<2"],
    )
    text = found["files"][0]["content"]
    assert [line.split(" --hash=sha256:")[0] for line in text.splitlines()] == [
        "lab-one==1.0",
        "lab-two==1.0",
        "vllm==0.3.0",
    ]
    names = [Path(file["path"]).name for file in found["files"]]
    assert names[0] == "requirements.txt"
    assert names[-1].startswith("uv-")
    assert "uv==" not in text
    assert all(file["sha256"] and file["size"] and file["urls"] for file in found["files"][1:])


@pytest.mark.slow
def test_a_package_without_a_wheel_for_the_hosts_is_refused(place: Index) -> None:
    files = place.files
    vllm = wheel(files, "vllm", "0.3.0", needs=["lab-one"])
    with pytest.raises(wheels.WheelError, match="lab-one"):
        place.resolve(vllm, wheel(files, "lab-one", "1.0", tag="cp310-cp310-manylinux_2_34_x86_64"))


def sdist(folder: Path, name: str, version: str) -> Path:
    """A source package that needs nothing but setuptools, which is beside pip."""
    path = folder / f"{name}-{version}.tar.gz"
    texts = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "setup.py": f"from setuptools import setup\nsetup(name={name!r}, version={version!r}, py_modules=['quantile'])\n",
        "quantile.py": "",
    }
    with tarfile.open(path, "w:gz") as archive:
        for file, text in texts.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{file}")
            entry.size = len(text)
            archive.addfile(entry, BytesIO(text.encode()))
    return path


@pytest.mark.slow
def test_a_source_that_is_to_be_built_is_refused_where_nothing_can_be(place: Index) -> None:
    files = place.files
    vllm = wheel(files, "vllm", "0.3.0", needs=["quantile-python"])
    with pytest.raises((sources.SourceError, wheels.WheelError), match="quantile-python"):
        place.resolve(vllm, sdist(files, "quantile-python", "1.1"))


def test_no_address_is_plain_http() -> None:
    [item], _problems = items(entries=[{**ENTRY, "index_urls": ["http://pypi.example/simple"]}])
    with pytest.raises(sources.SourceError, match="plain http"):
        sources.resolve(item, sources.Settings(opener=make_opener()))


@pytest.mark.slow
def test_what_was_resolved_is_found_again_in_the_manifest(place: Index) -> None:
    found = place.resolve(wheel(place.files, "vllm", "0.3.0"))
    [item], _problems = items(entries=[ENTRY])
    records = [
        {**item["fields"], "kind": "python", "path": file["path"], "size": file.get("size") or 1, "sha256": "ab" * 32}
        for file in found["files"]
    ]
    [held] = python_environments.held(records)
    assert (held.name, held.version, held.python, held.glibc) == (
        *("vllm-0.3.0-python3.10-glibc2.31", "0.3.0"),
        *("3.10", "2.31"),
    )
    assert held.uv.startswith("uv-")
    assert python_environments.held(records[1:]) == python_environments.held(records[:-1]) == []


def test_a_host_makes_an_environment_of_what_is_bundled(place: Index, tmp_path: Path) -> None:
    python = subprocess.run(
        [BASE, "-c", "import sys; print('%s.%s' % sys.version_info[:2])"], capture_output=True, text=True
    )
    vllm = wheel(place.files, "vllm", "0.3.0", needs=["lab-one"])
    item = place.item(vllm, wheel(place.files, "lab-one", "1.0"), python=python.stdout.strip())
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    options: dict[str, Any] = {
        "bundle": str(bundle),
        "checks": str(tmp_path / "checks.json"),
        "items": [item],
        "images": [],
        "update": False,
        "registry_mirrors": {},
        "hosts": 1,
        "network_gbit_per_second": 10,
        "language": "en",
    }
    settings = sources.Settings(opener=make_opener())
    first, second = (fetch(options, settings, {}, lambda line: None, False) for _run in range(2))
    assert first["changed"]
    assert not second["changed"]
    assert first["artefacts"] == second["artefacts"]
    records = [
        {**one["fields"], "kind": one["kind"], "path": one["path"], "size": 1, "sha256": "ab" * 32}
        for one in first["artefacts"]
    ]
    [held] = python_environments.held(records)
    wheels_dir = bundle / item["path"]
    made = tmp_path / "made"
    arguments = {"path": str(made), "python": BASE, "wheels": str(wheels_dir), "uv": str(wheels_dir / held.uv)}
    assert answer_of("venv", {**arguments, "made_from": "abc"})["changed"] is True
    assert subprocess.run([made / "bin/vllm"], check=True, capture_output=True, text=True).stdout == "vllm 0.3.0\n"
