# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's bundle, made once by playbooks/bundle.yml, kept by content, and brought to each lab that needs it."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import docker

from lab import playbook
from lab.artefacts import ARTEFACTS
from lab.config import CACHE, CHECKOUT, STATE, Config, digest
from lab.locks import lock
from lab.progress import step

KEPT = CACHE / "bundles"
# What the role bundle found when it read the files, below the folder of the reports.
CHECKS = "bundle-checks.json"
# Names the kept bundle whose files the lab has.
MARK = STATE / "bundle.kept"
# Every playbook starts with these.
ALWAYS = ("plugins", "playbooks", "inventories/lab", "roles/common", "roles/preflight")


def key(client: docker.DockerClient, config: Config) -> str:
    """What the bundle is made from."""
    sources = [CHECKOUT / name for name in (*ALWAYS, "roles/bundle")]
    # The artefacts' folders are named by what they were made from.
    artefacts = sorted(ARTEFACTS.joinpath(name).resolve().name for name in ("debian", "driver", "model", "toolkit"))
    return digest(*sources, artefacts, client.images.get(config.vllm_image).id)


def ensure_bundle(client: docker.DockerClient, config: Config) -> None:
    """The lab has the kept bundle, made now if there is none. What was read of it when it was made need not be read again."""
    name = f"bundle-{key(client, config)}"
    kept, bundle = KEPT / name, STATE / "bundle"
    with lock(name):
        if not (kept / CHECKS).exists():
            with step("making the bundle"):
                shutil.rmtree(kept, ignore_errors=True)
                playbook.log(STATE / "logs" / "bundle.log", "bundle", "-e", f"llm_bundle_dir={kept / 'bundle'}")
                shutil.copy2(STATE / "reports" / CHECKS, kept)
            _forget_others(kept)
        if not _has(name):
            shutil.rmtree(bundle, ignore_errors=True)
            shutil.copytree(kept / "bundle", bundle, copy_function=_link)
            MARK.write_text(name)
            checks = json.loads((kept / CHECKS).read_text())
            (STATE / "reports").mkdir(exist_ok=True)
            (STATE / "reports" / CHECKS).write_text(json.dumps({str(bundle.resolve()): checks[str(kept / "bundle")]}))


def _forget_others(kept: Path) -> None:
    """Older bundles are gone, but for those that somebody makes or reads now. Labs that have one keep it: its files are theirs, too."""
    for older in KEPT.glob("bundle-*"):
        if older != kept:
            with suppress(BlockingIOError), lock(older.name, wait=False):
                shutil.rmtree(older)


def drop_stale_bundle(client: docker.DockerClient, config: Config) -> None:
    """What `make demo` writes must not reach a kept bundle that was made from something else: the two share their files."""
    if MARK.exists() and not _has(f"bundle-{key(client, config)}"):
        shutil.rmtree(STATE / "bundle", ignore_errors=True)
        MARK.unlink()


def _has(name: str) -> bool:
    return MARK.exists() and MARK.read_text() == name and (STATE / "bundle").exists()


def _link(source: str, target: str) -> None:
    """The same file under another name; a copy of it on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
