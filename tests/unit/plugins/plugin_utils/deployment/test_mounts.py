"""What the containers of a host see of it."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.llm.plugins.plugin_utils.deployment.launch import host_sections

from tests.support.deployments import member


def test_what_containers_see_of_the_host() -> None:
    sections = host_sections(member(llm_host_dir="/data"))
    cache = "/data/cache/image-1-7.0-0:/var/cache/llm"
    common = ["/data/scripts:/llm:ro", "/data/tmp:/tmp", cache, "/opt/llm/models:/opt/llm/models:ro"]
    token = "/data/secrets/ray_token:/run/secrets/ray_token:ro"
    # A head's server sees the folder: keys change while it runs.
    both = "/data/secrets:/run/secrets:ro"
    assert sections["ray"]["container"]["volumes"] == [*common, token]
    assert sections["vllm"]["container"]["volumes"] == [*common, both, "/run/llm-probe:/run/llm-probe:ro"]


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_what_containers_see_of_the_host_cannot_be_written(executor: str) -> None:
    """But for the folders that both have as /tmp and for caches."""
    sections = host_sections(member(executor=executor))
    for role in ("ray", "vllm"):
        writable = [volume for volume in sections[role]["container"]["volumes"] if not volume.endswith(":ro")]
        assert writable == ["/opt/llm/tmp:/tmp", "/opt/llm/cache/image-1-7.0-0:/var/cache/llm"]
