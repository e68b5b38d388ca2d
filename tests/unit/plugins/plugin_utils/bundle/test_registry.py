"""Names of images and what registries answer to them, from real servers on this machine."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
from ansible_collections.baremetal.llm.plugins.module_utils._download import make_opener
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.registry import (
    RegistryError,
    login,
    parse,
    resolve,
)

from tests.support.registry import Registry
from tests.support.servers import running


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running(Registry()) as found:
        yield found


@pytest.mark.parametrize(
    ("reference", "registry", "repository", "version", "name"),
    [
        ("debian", "docker.io", "library/debian", "latest", "debian"),
        ("vllm/vllm-openai:v0.8.5", "docker.io", "vllm/vllm-openai", "v0.8.5", "vllm/vllm-openai"),
        ("docker.io/vllm/vllm-openai:v1", "docker.io", "vllm/vllm-openai", "v1", "vllm/vllm-openai"),
        ("mirror.example:5000/a/b", "mirror.example:5000", "a/b", "latest", "mirror.example:5000/a/b"),
        ("localhost/a@sha256:" + "a" * 64, "localhost", "a", "sha256:" + "a" * 64, "localhost/a"),
        ("ghcr.io/a/b:1@sha256:" + "a" * 64, "ghcr.io", "a/b", "sha256:" + "a" * 64, "ghcr.io/a/b"),
    ],
)
def test_a_name_is_completed_as_engines_do(
    reference: str, registry: str, repository: str, version: str, name: str
) -> None:
    found = parse(reference)
    assert (found.registry, found.repository, found.version, found.name) == (registry, repository, version, name)


def test_a_tag_becomes_a_digest(registry: Registry) -> None:
    image = registry.add("vllm/vllm-openai", "v1")
    found = resolve(f"{registry.name}/vllm/vllm-openai:v1", make_opener(), {}, {})
    assert found == {"source": f"{registry.name}/vllm/vllm-openai", **image}


def test_a_mirror_comes_first_and_the_registry_s_name_stays_out_of_it(registry: Registry) -> None:
    image = registry.add("vllm/vllm-openai", "v1")
    found = resolve("vllm/vllm-openai:v1", make_opener(), {"docker.io": [registry.name]}, {})
    assert found == {"source": f"{registry.name}/vllm/vllm-openai", **image}


def test_a_digest_has_to_be_what_arrives(registry: Registry) -> None:
    wanted = "sha256:" + "0" * 64
    registry.add("a", "v1")
    registry.answers[f"/v2/a/manifests/{wanted}"] = registry.answers["/v2/a/manifests/v1"]
    with pytest.raises(RegistryError, match="is expected"):
        resolve(f"{registry.name}/a@{wanted}", make_opener(), {}, {})


@pytest.mark.parametrize("how", ["basic", "bearer"])
def test_a_login_is_made_where_it_is_asked_for(how: str) -> None:
    with running(Registry(how)) as registry:
        image = registry.add("a", "v1")
        credentials = {registry.name: {"username": "lab", "password": "secret"}}
        assert resolve(f"{registry.name}/a:v1", make_opener(), {}, credentials)["id"] == image["id"]
        with pytest.raises(RegistryError) as raised:
            resolve(f"{registry.name}/a:v1", make_opener(), {}, {})
        assert "HTTP 401" in str(raised.value)
        assert "secret" not in str(raised.value)


def test_every_address_is_named_with_its_answer(registry: Registry) -> None:
    registry.add("a", "arm", "arm64")
    with pytest.raises(RegistryError) as raised:
        resolve(f"{registry.name}/a:arm", make_opener(), {registry.name: ["localhost:9", f"{registry.name}/no"]}, {})
    text = str(raised.value)
    assert "localhost:9/a:arm: " in text
    assert f"{registry.name}/no/a:arm: it has no such image" in text
    assert "not for linux/amd64" in text


def test_what_is_no_registry_is_said_to_be_none(registry: Registry) -> None:
    registry.answers["/v2/a/manifests/v1"] = ("text/html", b"<html>Please log in to the network</html>")
    with pytest.raises(RegistryError, match="as no registry does"):
        resolve(f"{registry.name}/a:v1", make_opener(), {}, {})


def test_the_engine_s_own_file_has_the_logins() -> None:
    found = login({"docker.io": {"username": "a", "password": "b"}, "r.example": {"username": "c", "password": "d"}})
    assert json.loads(json.dumps(found)) == {
        "auths": {
            "https://index.docker.io/v1/": {"auth": base64.b64encode(b"a:b").decode()},
            "r.example": {"auth": base64.b64encode(b"c:d").decode()},
        }
    }
    assert login({}) == {}
