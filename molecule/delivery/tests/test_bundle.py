"""A bundle from real package sources: complete, compared, transferred in parts, taken in by script, and installed from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import testinfra
import yaml

from lab.config import STATE
from tests.support.drills import users_environment

CHECKOUT = Path(__file__).resolve().parents[3]
INVENTORY = CHECKOUT / "molecule/delivery/inventory"
TEST = STATE / "delivery"
HOME = TEST / "home"


def ansible(*arguments: str) -> subprocess.CompletedProcess[str]:
    kept = users_environment()
    return subprocess.run(
        [sys.executable, "-m", "ansible", *arguments],
        cwd=CHECKOUT,
        env={**kept, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def bundle(*arguments: str) -> str:
    """Run playbooks/bundle.yml; its output."""
    run = ansible("playbook", "playbooks/bundle.yml", "-i", str(INVENTORY), *arguments)
    assert run.returncode == 0, run.stdout
    return run.stdout


def changed(output: str) -> int:
    return int(re.findall(r"^localhost\s+: ok=\d+\s+changed=(\d+)", output, re.M)[-1])


def records(folder: Path = HOME) -> list[dict[str, Any]]:
    files: list[dict[str, Any]] = yaml.safe_load((folder / "manifest.yml").read_text())["files"]
    return files


def test_it_holds_every_kind_and_all_that_packages_depend_on() -> None:
    kinds = {
        kind: [one["path"] for one in records() if one["kind"] == kind] for kind in {one["kind"] for one in records()}
    }
    assert set(kinds) == {"image", "model", "os_packages", "python"}
    packages = {Path(path).name.split("_")[0] for path in kinds["os_packages"]}
    assert {"tree", "libc6", "libgcc-s1", "Packages"} <= packages
    assert any(path.endswith(".whl") and "/six-" in path for path in kinds["python"])
    assert "models/lab--tiny-qwen2/config.json" in kinds["model"]
    (image,) = next(one for one in records() if one["kind"] == "image")["images"]
    assert image["reference"] == "llm-lab/bundle-test:1"
    assert image["id"].startswith("sha256:")


def test_the_index_of_packages_agrees_with_them() -> None:
    """apt on the host believes it."""
    text = (HOME / "os_packages/debian-12/Packages").read_text()
    listed = dict(
        zip(re.findall(r"^Filename: \./(.+)$", text, re.M), re.findall(r"^SHA256: (.+)$", text, re.M), strict=True)
    )
    assert listed == {
        Path(one["path"]).name: one["sha256"]
        for one in records()
        if one["kind"] == "os_packages" and not one["path"].endswith("/Packages")
    }


def test_no_half_of_anything_is_left() -> None:
    known = {one["path"] for one in records()} | {"manifest.yml", ".state/plan.json"}
    assert {str(path.relative_to(HOME)) for path in HOME.rglob("*") if path.is_file()} == known


def test_a_file_that_was_damaged_is_named_and_fetched_again() -> None:
    deb = next(HOME.glob("os_packages/debian-12/tree_*.deb"))
    content = deb.read_bytes()
    deb.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    run = ansible("playbook", "playbooks/bundle.yml", "-i", str(INVENTORY), "--tags", "verify")
    assert run.returncode != 0
    assert "corrupt: its SHA-256 is not that of the manifest" in run.stdout
    assert f"os_packages/debian-12/{deb.name}" in run.stdout
    output = bundle("--diff")
    assert f"+os_packages/debian-12/{deb.name}" in output
    assert deb.read_bytes() == content


@pytest.fixture(scope="module")
def disk() -> Path:
    """A disk that takes files up to 1 MiB, as FAT32 takes up to 4 GiB."""
    folder = TEST / "disk"
    assert changed(bundle("--tags", "export", "-e", f"bundle_export={folder}", "-e", "bundle_split_mib=1")) == 1
    return folder


def test_it_travels_in_parts_and_is_installed_from_where_it_arrived(disk: Path) -> None:
    parts = sorted(path.name for path in (disk / "os_packages/debian-12").glob("libc6_*.part-*"))
    assert len(parts) >= 2
    assert max(path.stat().st_size for path in disk.rglob("*") if path.is_file()) <= 1 << 20
    site = TEST / "site"
    output = bundle("-e", f"llm_bundle_dir={site}", "-e", f'{{"bundle_import": ["{disk}"]}}')
    assert "asking for" not in output  # nobody outside was asked
    assert records(site) == records()
    assert {one["path"]: (site / one["path"]).read_bytes() for one in records()} == {
        one["path"]: (HOME / one["path"]).read_bytes() for one in records()
    }
    host = testinfra.get_host("ssh://node1", ssh_config=str(STATE / "ssh/config"))
    assert not host.package("tree").is_installed
    run = ansible(
        *("playbook", "molecule/delivery/install.yml", "-i", str(CHECKOUT / "inventories/lab")),
        *("-e", f"llm_bundle_dir={site}"),
    )
    assert run.returncode == 0, run.stdout
    assert host.package("tree").is_installed
    assert host.run("apt-get check").rc == 0  # no package lacks what it depends on


def test_a_part_that_is_missing_is_named(disk: Path) -> None:
    part = next(disk.glob("os_packages/debian-12/libc6_*.part-001"))
    part.rename(TEST / "aside")
    try:
        run = ansible(
            *("playbook", "playbooks/bundle.yml", "-i", str(INVENTORY), "-e", f"llm_bundle_dir={TEST / 'other'}"),
            *("-e", f'{{"bundle_import": ["{disk}"]}}'),
        )
    finally:
        (TEST / "aside").rename(part)
    assert run.returncode != 0
    assert str(part.relative_to(disk)) in run.stdout
    assert not (TEST / "other").exists()


def test_lists_and_their_script_make_the_same_bundle() -> None:
    """On a machine without Ansible: sh, curl and docker; then taken in where Ansible is."""
    lists, fetched, site = (TEST / name for name in ("lists", "fetched", "from-lists"))
    bundle("-e", f"bundle_lists={lists}")
    assert not (lists / "manifest.yml").exists()
    unresolved = (lists / "unresolved.txt").read_text()
    assert "models/lab--tiny-qwen2: it is a file of this machine" in unresolved
    for _time in range(2):
        done = subprocess.run(["sh", lists / "fetch.sh", fetched], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "of " not in done.stderr  # the second time nothing was fetched
    output = bundle("-e", f"llm_bundle_dir={site}", "-e", f'{{"bundle_import": ["{fetched}"]}}')
    assert "asking for" not in output
    wanted = {one["path"]: one["sha256"] for one in records() if one["kind"] == "os_packages"}
    assert {one["path"]: one["sha256"] for one in records(site) if one["kind"] == "os_packages"} == wanted
    (mine,) = next(one for one in records(site) if one["kind"] == "image")["images"]
    (theirs,) = next(one for one in records() if one["kind"] == "image")["images"]
    assert (mine["reference"], mine["id"]) == (theirs["reference"], theirs["id"])
    shutil.rmtree(site)
