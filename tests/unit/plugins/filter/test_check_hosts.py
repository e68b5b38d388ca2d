"""The filters of preflight: thin, and clear when they are given something else."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.baremetal.llm.plugins.filter import check_hosts, disk_needs


def test_check_hosts() -> None:
    check = check_hosts.FilterModule().filters()["check_hosts"]
    facts = {"gpu01": {"distribution": "Debian", "distribution_version": "12", "architecture": "x86_64"}}
    limits = {"supported_systems": {"Debian": ["12"]}, "supported_architectures": ["x86_64"]}
    found = check({"qwen": {"hosts": ["gpu01"], "head": "gpu01"}}, facts, limits=limits)
    assert [entry["code"] for entry in found["problems"]] == ["no_gpu_found", "no_shared_network"]
    for arguments in ([[], facts], [{}, []], [{}, {}, []]):
        if arguments == [{}, {}, []]:
            assert check(*arguments)["problems"] == []
            continue
        with pytest.raises(AnsibleFilterError, match="check_hosts wants a mapping"):
            check(*arguments)


@pytest.mark.parametrize("manifest", [None, "text", []])
def test_disk_needs(manifest: Any) -> None:
    needs = disk_needs.FilterModule().filters()["disk_needs"]
    assert needs({"files": [{"path": "docker/d.tgz", "kind": "docker", "size": 3}]}, host_dir="/x") == [
        {"directory": "/x", "name": "d.tgz", "bytes": 3, "marks": []}
    ]
    with pytest.raises(AnsibleFilterError, match="disk_needs wants"):
        needs(manifest)
