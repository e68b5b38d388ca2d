"""What a host was like before the first change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.baremetal.llm.plugins.module_utils import _before as before

LISTED = "ii \thaproxy\t2.4.1\nrc \told\t1\nhi \tnftables\t1.0\n"


class Said:
    """Programs of a host that say this."""

    def answer(self, name: str, *arguments: str) -> str:
        return {"systemctl": "ssh.service enabled enabled\n", "dpkg-query": LISTED}.get(name, "")


def test_a_picture_is_taken_once_and_only_of_a_host_that_no_role_has_changed(tmp_path: Path) -> None:
    assert before.take_picture(str(tmp_path), lambda: {"files": ["/etc/fstab"]})
    assert not before.take_picture(str(tmp_path), lambda: {"files": []})
    assert (before.read_picture(str(tmp_path)) or {})["files"] == ["/etc/fstab"]
    assert (tmp_path / before.NAME).stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    (other / "deployments/chat/records").mkdir(parents=True)
    (other / "deployments/chat/records/vllm.json").write_text("{}")
    assert not before.take_picture(str(other), dict)
    assert before.read_picture(str(other)) is None


def test_what_is_in_a_picture(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/file").touch()
    (tmp_path / "link").symlink_to("below")
    found: dict[str, Any] = before.picture_of(Said(), (str(tmp_path),))  # type: ignore[arg-type]
    assert found["packages"] == {"haproxy": "2.4.1", "nftables": "1.0"}
    assert found["units"] == {"ssh.service": "enabled"}
    assert found["files"] == [str(tmp_path / "below/file"), str(tmp_path / "link")]
    assert "root" in found["groups"]
    assert json.loads(json.dumps(found)) == found


def test_what_differs_has_a_name() -> None:
    was = {"packages": {"a": "1", "b": "1"}, "files": ["/etc/x"], "units": {"u": "enabled"}}
    now = {"packages": {"a": "2", "c": "1"}, "files": ["/etc/x"], "units": {"u": "enabled"}}
    assert before.compared(was, now) == {"packages": {"more": ["c"], "less": ["b"], "other": ["a"]}}
    assert before.compared(now, now) == {}
