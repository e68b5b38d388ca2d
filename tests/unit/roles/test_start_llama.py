"""start-llama.sh: the server gets all keys that count, in a file for it alone, and never starts open by mistake."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

FILE = Path(__file__).parents[3] / "roles/llama_cpp/files/start-llama.sh"
KEY, GATEWAYS = "k" * 40, "g" * 40


def started(folder: Path, key: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """What a server that prints its keys and a variable says."""
    command = ["sh", "-c", f'cat {folder}/keys 2>/dev/null; echo "said: ${{SAID-}}"']
    path = {"PATH": "/usr/bin:/bin", **environment}
    return subprocess.run(["bash", FILE, key, folder / "keys", *command], capture_output=True, text=True, env=path)


def test_the_server_gets_the_key_and_that_of_the_gateway(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    assert started(tmp_path, str(tmp_path / "key")).stdout == f"{KEY}\nsaid: \n"
    (tmp_path / "key.gateway").write_text(f"{GATEWAYS}\n")
    assert started(tmp_path, str(tmp_path / "key")).stdout == f"{KEY}\n{GATEWAYS}\nsaid: \n"
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600


def test_a_key_that_was_taken_back_is_gone_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "key.gateway").write_text(GATEWAYS)
    started(tmp_path, str(tmp_path / "key"))
    (tmp_path / "key.gateway").unlink()
    assert GATEWAYS not in started(tmp_path, str(tmp_path / "key")).stdout


@pytest.mark.parametrize("content", [None, "", "\n", "two words\n"])
def test_without_a_key_that_was_asked_for_it_does_not_start(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
    (tmp_path / "key.gateway").write_text(GATEWAYS)
    done = started(tmp_path, str(tmp_path / "key"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "open to everybody" in done.stderr


def test_it_starts_without_a_key_where_none_is_asked_for_and_reads_secret_variables(tmp_path: Path) -> None:
    (tmp_path / "variables").write_text("SAID='a secret'\n")
    done = started(tmp_path, LLM_ENVIRONMENT_FILE=str(tmp_path / "variables"))
    assert (done.returncode, done.stdout) == (0, "said: a secret\n")
    assert not (tmp_path / "keys").exists()
