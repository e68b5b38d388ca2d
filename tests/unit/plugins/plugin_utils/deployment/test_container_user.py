"""As which user containers run."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.container_user import (
    check_command,
    container_uid,
    program,
    user_problems,
)

from tests.support.deployments import host


@pytest.mark.parametrize(
    ("variables", "uid"),
    [
        ({"vllm_version": "0.32.0"}, 70000),
        ({"vllm_version": "v0.28.0"}, 70000),
        # Not known to serve others: its makers' image, or no source that says so.
        ({"vllm_version": "0.27.1"}, 0),
        ({"vllm_version": "0.4.2"}, 0),
        # FlashInfer writes into its package for these GPUs.
        ({"vllm_version": "0.32.0", "found": {"llm_gpus_found": [{"name": "NVIDIA B200", "memory_mib": 183359}]}}, 0),
        (
            {"vllm_version": "0.32.0", "found": {"llm_gpus_found": [{"name": "NVIDIA H200", "memory_mib": 143771}]}},
            70000,
        ),
        # What only root can do.
        ({"vllm_version": "0.32.0", "vllm_port": 443}, 0),
        ({"vllm_version": "0.32.0", "ray_capabilities": ["CAP_DAC_OVERRIDE", "SYS_NICE"]}, 0),
        ({"vllm_version": "0.32.0", "ray_capabilities": ["cap_dac_override"]}, 70000),
        ({"vllm_version": "0.32.0", "ray_capabilities": []}, 70000),
        # Somebody knows better.
        ({"vllm_version": "0.32.0", "llm_container_uid": 0}, 0),
        ({"vllm_version": "0.8.5", "llm_container_uid": "2000"}, 2000),
    ],
)
def test_root_only_where_it_has_to_be(variables: dict[str, Any], uid: int) -> None:
    assert container_uid(host(1, **variables), [host(1, **variables)]) == uid


def test_one_host_that_asks_for_more_is_enough() -> None:
    head, other = host(1, vllm_version="0.32.0"), host(2, vllm_version="0.32.0", ray_capabilities=["IPC_LOCK"])
    assert container_uid(head, [head, other]) == 0


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ({"vllm_port": 443}, "llm_container_uid: 5, vllm_port: 443"),
        ({"ray_capabilities": ["SYS_NICE"]}, "llm_container_uid: 5, ray_capabilities: SYS_NICE"),
    ],
)
def test_another_user_with_what_only_root_can_do_is_refused(asked: dict[str, Any], value: str) -> None:
    mine = host(1, llm_container_uid=5, **asked)
    (problem,) = user_problems("tiny", mine, {"gpu1": mine}, "en")
    assert (problem["code"], problem["value"]) == ("container_uid_not_root", value)
    root = host(1, llm_container_uid=0, **asked)
    assert user_problems("tiny", root, {"gpu1": root}, "en") == []


def test_what_is_tried_has_the_rights_of_the_container() -> None:
    assert check_command(0, "image:1", ["/models/a"], "vllm") == []
    command = check_command(70000, "image:1", ["/models/a"], "vllm")
    assert {"--user=70000:0", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none"} <= set(command)
    assert {"--volume=/models/a:/models/a:ro", "--volume=/dev:/llm/dev:ro"} <= set(command)
    assert command[-4:] == ["image:1", "-c", program("/llm/dev", "vllm"), "/models/a"]
    assert "find_spec" not in program("/llm/dev", ""), "an engine that is no Python program"


def tried(folder: Path, *models: Path) -> tuple[int, str]:
    """The program as another user, who may find its Python in a folder that only root reads: in a copy of this process."""
    said = folder / "said"
    said.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        sys.stderr = said.open("w")
        sys.path[:] = [str(folder / "packages")]
        sys.argv[1:] = [str(model) for model in models]
        os.setgroups([])
        os.setgid(0)
        os.setuid(70000)
        status = 0
        try:
            exec(program(str(folder / "dev"), "vllm"), {})
        except SystemExit as ended:
            status = 1
            print(ended.code, file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text().strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_program_names_what_cannot_be_read_or_used() -> None:
    # Not in pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        try_folder(Path(folder))


def try_folder(tmp_path: Path) -> None:
    package = tmp_path / "packages/vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    model = tmp_path / "model"
    model.mkdir(mode=0o755)
    weights = model / "weights"
    weights.touch()
    weights.chmod(0o640)
    os.chown(weights, 0, 0)
    (model / "lost").symlink_to("/nonexistent")
    assert tried(tmp_path, model) == (0, ""), "the group of root may read it"
    weights.chmod(0o600)
    assert tried(tmp_path, model) == (1, f"{weights}: Permission denied")
    model.chmod(0o700)
    assert tried(tmp_path, model) == (1, f"{model}: Permission denied")
    assert tried(tmp_path, tmp_path / "none") == (1, f"{tmp_path}/none: No such file or directory")
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm"):
        (devices / name).touch()
        (devices / name).chmod(0o666)
    (devices / "nvidia-modeset").touch(0o600)
    assert tried(tmp_path) == (0, "")
    (devices / "nvidia12").chmod(0o640)
    assert tried(tmp_path) == (1, "/dev/nvidia12: Permission denied"), "to read is not enough"
    (devices / "nvidia12").chmod(0o660)
    assert tried(tmp_path) == (0, ""), "the group of root may use it"
    package.rename(tmp_path / "packages/other")
    assert tried(tmp_path) == (1, "its Python finds no vllm")
