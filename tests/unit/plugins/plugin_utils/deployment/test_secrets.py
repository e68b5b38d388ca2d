"""One secret for the controller and all hosts: who has it, whose counts, and what is refused."""

from __future__ import annotations

import os
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._private_file import write_private
from ansible_collections.baremetal.llm.plugins.module_utils._secrets import seal
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment import secrets
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.secrets import (
    DIFFERS,
    ELSEWHERE,
    SAME,
    UNKNOWN,
    Secret,
    agree,
    secret_of,
    standing,
)

FILE = "/opt/llm/secrets/vllm_api_key"
NONE = Secret(
    deployment="pair",
    name="api_key",
    variable="vllm_api_key",
    path="/home/me/.llm/secrets/pair_api_key",
    files={"gpu1": FILE, "gpu2": FILE},
    held={},
    needed_by=["gpu1", "gpu2"],
)


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        ("k3y", (), SAME),
        ("k3y", ("k3y",), SAME),
        ("mine", (), DIFFERS),
        ("mine", ("", "k3y"), ELSEWHERE),
        ("", ("k3y",), ELSEWHERE),
        ("", ("", "other"), UNKNOWN),
    ],
)
def test_what_a_secret_of_a_host_is_to_the_controller(own: str, others: tuple[str, ...], expected: str) -> None:
    assert standing(seal("c", "k3y"), "c", own, others) == expected


def test_a_first_run_makes_one() -> None:
    first, second = agree(NONE), agree(NONE)
    assert (first.how, first.problem) == ("made", None)
    assert first.value != second.value
    assert len(first.value) == 40
    assert set(first.value) <= set(string.ascii_letters + string.digits)


def test_a_second_controller_adopts_what_the_hosts_hold() -> None:
    held = replace(NONE, held={"gpu1": UNKNOWN}, values={"gpu1": "k3y"}, outside=["gpu3"])
    assert agree(held) == secrets.Agreement("k3y", "adopted")


def test_what_a_former_head_holds_counts_where_the_head_has_none() -> None:
    held = replace(NONE, needed_by=["gpu1"], held={"gpu2": UNKNOWN}, values={"gpu2": "k3y"})
    assert agree(held).value == "k3y"
    both = replace(held, held={"gpu1": UNKNOWN, "gpu2": UNKNOWN}, values={"gpu1": "new", "gpu2": "old"})
    assert agree(both).value == "new"
    assert agree(replace(both, has=True, held={"gpu1": SAME, "gpu2": DIFFERS})) == secrets.Agreement()


def test_what_a_host_brings_from_another_deployment_does_not_count() -> None:
    assert agree(replace(NONE, held={"gpu1": ELSEWHERE})).how == "made"
    assert agree(replace(NONE, has=True, held={"gpu1": ELSEWHERE})) == secrets.Agreement()


def test_nothing_happens_where_all_have_the_same() -> None:
    assert agree(replace(NONE, has=True, held={"gpu1": SAME})) == secrets.Agreement()
    assert agree(replace(NONE, by_variable=True, held={"gpu1": SAME})) == secrets.Agreement()


def problem(secret: Secret, lang: str) -> dict[str, Any]:
    agreed = agree(secret, lang)
    assert (agreed.value, agreed.how) == ("", "")
    return dict(agreed.problem or {})


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("changed", "code", "parts"),
    [
        ({"has": True, "held": {"gpu1": SAME, "gpu2": DIFFERS}}, "secret_differs", [NONE.path, f"gpu2:{FILE}"]),
        ({"by_variable": True, "held": {"gpu1": DIFFERS}}, "secret_differs", ["vllm_api_key", f"gpu1:{FILE}"]),
        (
            {"held": {"gpu1": UNKNOWN, "gpu2": UNKNOWN}, "values": {"gpu1": "s3cret", "gpu2": "0ther"}},
            "secrets_differ",
            [f"gpu1:{FILE}", f"gpu2:{FILE}"],
        ),
        ({"outside": ["gpu3"]}, "secret_out_of_reach", ["gpu3", NONE.path]),
        ({"by_variable": True, "rotate": True, "held": {"gpu1": SAME}}, "secret_not_changed", ["vllm_api_key"]),
        ({"by_variable": True, "wrong": "secret_unusable"}, "secret_unusable", ["vllm_api_key"]),
        ({"by_variable": True, "wrong": "secret_unusable", "rotate": True}, "secret_unusable", ["vllm_api_key"]),
        ({"has": True, "wrong": "secret_unusable", "held": {"gpu1": SAME}}, "secret_unusable", [NONE.path]),
        (
            {"held": {"gpu1": UNKNOWN}, "values": {"gpu1": "s3cret\n0ther"}},
            "secret_unusable",
            [f"gpu1:{FILE}"],
        ),
        ({"by_variable": True, "wrong": "secret_variable_differs"}, "secret_variable_differs", ["vllm_api_key"]),
    ],
)
def test_a_difference_is_refused_with_its_places(changed: Any, code: str, parts: list[str], lang: str) -> None:
    found = problem(replace(NONE, **changed), lang)
    assert found["code"] == code
    text = " ".join(found.values())
    assert not [part for part in parts if part not in text]
    assert "s3cret" not in text
    assert "0ther" not in text


def found_of_run(folder: Path, *values: Any) -> Secret:
    """The API key or, of several hosts, the Ray token of a deployment whose hosts have these values of its variable."""
    name, variable = ("api_key", "vllm_api_key") if len(values) == 1 else ("ray_token", "ray_token")
    hosts = [f"gpu{number}" for number in range(1, len(values) + 1)]
    section = {"names": {"folder": "/opt/llm"}, "is_head": True, "vllm": {"needed": name == "api_key"}}
    sections = {host: {**section, "ray": {"needed": name == "ray_token"}} for host in hosts}
    switches = {"vllm_api_key_enabled": True, "ray_token_enabled": True}
    variables = {host: {**switches, variable: value} for host, value in zip(hosts, values, strict=True)}
    (found,) = secrets.secrets_of_run(sections, {"pair": {"hosts": hosts}}, variables, lambda _mine: str(folder), "")
    return found


@pytest.mark.parametrize(
    ("values", "code"),
    [
        *(([value], "") for value in ("k3y" * 6, "k3y" * 6 + "\n", 1234567812345678, None)),
        *(([value], "secret_short") for value in ("k", "k3y\n", 12345678, "k" * 15)),
        # vLLM takes an empty key for none, and would serve everybody.
        *(
            ([value], "secret_unusable")
            for value in ("", " ", "\n", "two words", "two\nlines", "schl\u00fcssel", "a\tb")
        ),
        (["t" * 16, "t" * 16, "t" * 16 + "\n"], ""),
        *((values, "secret_variable_differs") for values in (["t", "u"], ["t", None], [None, "t"])),
        (["", ""], "secret_unusable"),
    ],
)
def test_a_variable_that_can_be_no_secret_is_refused(values: list[Any], code: str, tmp_path: Path) -> None:
    found = found_of_run(tmp_path, *values)
    assert found.wrong == code
    assert (agree(found).problem or {}).get("code", "") == code


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"k3y\n", ""), (b"\xff", "secret_unusable"), (b"two\nlines\n", "secret_unusable"), (b"\n", "")],
)
def test_a_file_that_can_be_no_secret_is_refused_and_an_empty_one_is_none(
    content: bytes, code: str, tmp_path: Path
) -> None:
    (tmp_path / "pair_api_key").write_bytes(content)
    found = found_of_run(tmp_path, None)
    assert (found.has, found.wrong) == (bool(content.strip()), code)
    assert agree(replace(found, rotate=True)).how == "rotated", "a new one takes its place"


def test_rotation_is_asked_for() -> None:
    for held in ({}, {"gpu1": SAME}, {"gpu1": DIFFERS}, {"gpu1": UNKNOWN}):
        found = agree(replace(NONE, rotate=True, has=True, held=held, values={"gpu1": "k3y"}))
        assert (found.how, found.value != "k3y", found.problem) == ("rotated", True, None)
    set_anew = agree(replace(NONE, rotate=True, by_variable=True, held={"gpu1": DIFFERS}))
    assert set_anew == secrets.Agreement(how="rotated"), "its value is the variable's"


def test_no_value_is_shown_by_accident() -> None:
    secret = replace(NONE, held={"gpu1": UNKNOWN}, values={"gpu1": "s3cret"})
    assert "s3cret" not in repr(secret) + repr(agree(secret))


def test_what_the_controller_keeps_is_for_its_owner(tmp_path: Path) -> None:
    path = secrets.kept_file(tmp_path / "secrets", "pair", "api_key")
    assert secrets.kept(tmp_path / "secrets", "pair", "api_key") == ""
    for value in ("k3y", "n3w"):
        write_private(str(path), value + "\n")
        assert secrets.kept(tmp_path / "secrets", "pair", "api_key") == value
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_others_put_where_it_is_written_gets_no_secret(kind: str, tmp_path: Path) -> None:
    """In a folder that others may write to, and that somebody named in llm_secrets_dir."""
    path, other = tmp_path / "pair_api_key", tmp_path / "other"
    for number in range(os.getpid() - 2, os.getpid() + 3):
        planted = Path(f"{path}.{number}")
        if kind == "link":
            other.write_text("mine")
            planted.symlink_to(other)
        else:
            planted.touch()
            planted.chmod(0o666)
    write_private(str(path), "k3y")
    assert (path.read_text(), path.is_symlink(), path.stat().st_mode & 0o777) == ("k3y", False, 0o600)
    assert not other.exists() or other.read_text() == "mine"


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "pair_api_key").mkdir()
    with pytest.raises(OSError, match="pair_api_key"):
        write_private(str(tmp_path / "pair_api_key"), "k3y")
    with pytest.raises(UnicodeEncodeError):
        write_private(str(tmp_path / "other"), "\udcff")
    assert [path.name for path in tmp_path.iterdir()] == ["pair_api_key"]


def test_each_engine_has_a_key_of_its_own_name() -> None:
    said = {
        file: secret_of(file) for file in ("ray_token", "vllm_api_key", "novel_api_key", "vllm.environment", "my_ray")
    }
    assert said == {
        "ray_token": "ray_token",
        "vllm_api_key": "api_key",
        "novel_api_key": "api_key",
        "vllm.environment": "",
        "my_ray": "",
    }
