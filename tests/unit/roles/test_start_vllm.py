"""What start-vllm.sh leaves for vLLM before it becomes vLLM."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "roles/vllm/files/start-vllm.sh"
PER_HOST = {"NCCL_SOCKET_IFNAME": "=eth1", "NCCL_IB_HCA": "=mlx5_0:1", "UCX_NET_DEVICES": "eth1"}


@pytest.mark.parametrize(
    ("variables", "folder", "names"),
    [
        ({**PER_HOST, "VLLM_LOGGING_LEVEL": "INFO"}, ".config/vllm", sorted(PER_HOST)),
        ({**PER_HOST, "XDG_CONFIG_HOME": "{home}/xdg"}, "xdg/vllm", sorted(PER_HOST)),
        ({**PER_HOST, "VLLM_CONFIG_ROOT": "{home}/own"}, "own", sorted(PER_HOST)),
        ({}, ".config/vllm", [""]),
    ],
)
def test_workers_keep_their_own_names_of_interfaces(
    tmp_path: Path, variables: dict[str, str], folder: str, names: list[str]
) -> None:
    """In the file and the form in which vllm/ray/ray_env.py reads it."""
    waits = tmp_path / "python3"
    waits.write_text("#!/bin/sh\n")  # the GPUs are there at once
    waits.chmod(0o755)
    environment = {name: value.format(home=tmp_path) for name, value in variables.items()}
    environment.update(HOME=str(tmp_path), PATH=f"{tmp_path}:{os.environ['PATH']}", RAY_ADDRESS="10.0.0.1:6379")
    environment["LLM_STARTS_FILE"] = str(tmp_path / "starts")
    environment["LLM_API_KEY_FILE"] = ""
    subprocess.run(["bash", str(FILE), "2", "true"], env=environment, check=True)
    written = tmp_path / folder / "ray_non_carry_over_env_vars.json"
    assert sorted(json.loads(written.read_text())) == names


@pytest.mark.parametrize(("before", "after"), [("", "{files}/middleware"), ("/mine", "{files}/middleware:/mine")])
def test_vllm_finds_the_middleware(tmp_path: Path, before: str, after: str) -> None:
    environment = {"HOME": "/nonexistent", "PATH": os.environ["PATH"], **({"PYTHONPATH": before} if before else {})}
    environment["LLM_STARTS_FILE"] = str(tmp_path / "starts")
    environment["LLM_API_KEY_FILE"] = ""
    command = ["bash", str(FILE), "0", "sh", "-c", "echo $PYTHONPATH"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == after.format(files=FILE.parent)


def test_a_vocabulary_that_cannot_be_made_is_said_and_left_to_the_server(tmp_path: Path) -> None:
    """Of a model that needs one, here with another tokenizer; any other model is left alone."""
    for model, folder, said in (("qwen2", "{folder}", False), ("gpt_oss", "", True)):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
        (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}}))
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LLM_STARTS_FILE": str(tmp_path / "starts")}
        environment |= {
            "LLM_API_KEY_FILE": "",
            "LLM_MODEL_DIR": str(tmp_path),
            "TIKTOKEN_ENCODINGS_BASE": str(tmp_path / "made"),
        }
        command = ["bash", str(FILE), "0", "sh", "-c", "echo $TIKTOKEN_ENCODINGS_BASE"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == folder.format(folder=tmp_path / "made")
        assert ("o200k_base.tiktoken" in done.stderr) == said
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "shown"),
    [("k3y", "k3y"), ("k3y\n", "k3y"), ("", None), ("\n", None), (" ", None), ("a\nb", None), ("\u00e9", None)],
)
def test_a_file_without_a_key_does_not_open_the_api(tmp_path: Path, content: str, shown: str | None) -> None:
    """A disk that lost its power may leave an empty file, and vLLM takes an empty key for none."""
    (tmp_path / "key").write_text(content)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LLM_STARTS_FILE": str(tmp_path / "starts")}
    environment["LLM_API_KEY_FILE"] = str(tmp_path / "key")
    command = ["bash", str(FILE), "0", "sh", "-c", "echo $VLLM_API_KEY"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == ((0, f"{shown}\n") if shown else (1, ""))
    assert shown or "holds no key" in done.stderr


@pytest.mark.parametrize("place", ["nothing", "folder", "link", "socket"])
def test_a_key_that_is_not_there_does_not_open_the_api(tmp_path: Path, place: str) -> None:
    """A folder is what Docker makes of a file to be mounted that is not there."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LLM_STARTS_FILE": str(tmp_path / "starts")}
    environment["LLM_API_KEY_FILE"] = str(tmp_path / place)
    command = ["bash", str(FILE), "0", "echo", "started"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is no file" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("localedef") and Path("/usr/share/i18n/locales/en_US").exists()),
    reason="no localedef, or nothing that it makes a locale of",
)
def test_a_key_is_one_in_the_locale_of_any_image(tmp_path: Path) -> None:
    """By the order of en_US no letter lies between ! and ~."""
    subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", str(tmp_path / "en_US.UTF-8")], check=True)
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LLM_STARTS_FILE": str(tmp_path / "starts")}
    environment |= {"LC_ALL": "en_US.UTF-8", "LOCPATH": str(tmp_path), "LLM_API_KEY_FILE": str(tmp_path / "key")}
    command = ["bash", str(FILE), "0", "sh", "-c", "echo $VLLM_API_KEY $LC_ALL"]
    for key, status, said in (("Ab9z", 0, "Ab9z en_US.UTF-8\n"), ("\u00e9", 1, ""), ("", 1, "")):
        (tmp_path / "key").write_text(key, encoding="utf-8")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (status, said), done.stderr


def uptime() -> int:
    return int(float(Path("/proc/uptime").read_text().split()[0]))


def start(folder: Path, **environment: str) -> tuple[str, list[str]]:
    """What it says, and for how many seconds it sleeps: at no time, for the sleep is a stand-in."""
    slept = folder / "slept"
    (folder / "sleep").write_text(f'#!/bin/sh\necho "$1" >>{slept}\n')
    (folder / "sleep").chmod(0o755)
    slept.write_text("")
    variables = {
        "HOME": str(folder),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "LLM_STARTS_FILE": str(folder / "starts"),
        "LLM_API_KEY_FILE": "",
    }
    command = ["bash", str(FILE), "0", "echo", "started"]
    done = subprocess.run(command, env={**variables, **environment}, check=True, capture_output=True, text=True)
    return done.stdout, slept.read_text().split()


def test_a_server_that_ends_again_and_again_starts_later_each_time(tmp_path: Path) -> None:
    pauses = []
    for _start in range(11):
        pauses.append(start(tmp_path)[1])
        # The pause, which took no time here, is over.
        count = (tmp_path / "starts").read_text().split()[0]
        (tmp_path / "starts").write_text(f"{count} {uptime()}\n")
    assert pauses == [[], [], [], ["10"], ["20"], ["40"], ["80"], ["160"], ["300"], ["300"], ["300"]]
    said, _slept = start(tmp_path)
    assert start(tmp_path) == ("started\n", [])  # somebody restarted it during the pause
    assert said == "11 starts in a row ended within 600 s: the next one is in 300 s\nstarted\n"


def test_one_that_ran_for_long_starts_at_once(tmp_path: Path) -> None:
    for kept in (f"9 {uptime() - 601}", "9 999999999999", "9", "no number", "", "9 1 1\n2 2"):
        (tmp_path / "starts").write_text(kept)
        assert start(tmp_path) == ("started\n", []), kept
    (tmp_path / "starts").write_text(f"9 {max(uptime() - 500, 0)}\n")
    assert start(tmp_path)[1] == ["300"]


def test_a_full_disk_prevents_no_start(tmp_path: Path) -> None:
    assert start(tmp_path, LLM_STARTS_FILE="/dev/full") == ("started\n", [])
    (tmp_path / "file").touch()
    assert start(tmp_path, LLM_STARTS_FILE=str(tmp_path / "file/starts")) == ("started\n", [])
    assert start(tmp_path, HOME=str(tmp_path / "file/home"))[0] == "started\n"


def test_a_user_without_a_home_gets_one(tmp_path: Path) -> None:
    assert start(tmp_path, HOME=str(tmp_path / "var/home"))[0] == "started\n"
    assert (tmp_path / "var/home").is_dir()


def test_one_that_pauses_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "starts").write_text(f"9 {uptime()}\n")
    variables = {
        **os.environ,
        "HOME": str(tmp_path),
        "LLM_API_KEY_FILE": "",
        "LLM_STARTS_FILE": str(tmp_path / "starts"),
    }
    command = ["bash", str(FILE), "0", "echo", "started"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert "the next one is in" in process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (143, -signal.SIGTERM)
        assert time.monotonic() - began < 25
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its sleep


def test_what_was_written_before_is_not_written_again(tmp_path: Path) -> None:
    """The disk may be full by now."""
    waits = tmp_path / "python3"
    waits.write_text("#!/bin/sh\n")
    waits.chmod(0o755)
    environment = {"NCCL_DEBUG": "INFO", "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environment |= {"LLM_API_KEY_FILE": "", "RAY_ADDRESS": "10.0.0.1:6379", "LLM_STARTS_FILE": str(tmp_path / "starts")}
    written = tmp_path / ".config/vllm/ray_non_carry_over_env_vars.json"
    for _start in range(2):
        subprocess.run(["bash", str(FILE), "2", "true"], env=environment, check=True)
        os.utime(written, (1, 1))
    subprocess.run(["bash", str(FILE), "2", "true"], env=environment, check=True)
    assert written.stat().st_mtime == 1
