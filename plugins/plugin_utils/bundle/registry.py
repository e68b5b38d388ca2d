# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which image a name stands for, asked from a registry or a mirror of it: its digest, under which every host gets the same, and its id.

Nothing but manifests and the image's configuration is read: https://distribution.github.io/distribution/spec/api/
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict
from urllib.request import OpenerDirector

from ansible_collections.baremetal.llm.plugins.module_utils._content import read_json
from ansible_collections.baremetal.llm.plugins.module_utils._download import explain, without_password
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import image_addresses
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused, Text

TIMEOUT_SECONDS = 20
LARGEST_BYTES = 8 << 20
DOCKER_HUB = "docker.io"
# https://docs.docker.com/reference/api/registry/latest/
_DOCKER_HUB_HOST = "registry-1.docker.io"
# Docker's client knows the credentials of its own hub by this name.
DOCKER_HUB_LOGIN = "https://index.docker.io/v1/"
# https://github.com/opencontainers/image-spec/blob/main/image-index.md and Docker's older names for the same
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class RegistryError(Refused):
    """An image that no address has; the text names each address and what it answered."""


class _NoImage(Refused):
    """What one address answered."""


class Image(TypedDict):
    """An image for linux/amd64: the digest of its manifest, its id, how many bytes are transferred, and the digests of its layers."""

    digest: str
    id: str
    size: int
    layers: list[str]


class Resolved(Image):
    """The same with the name without tag of the address that has it."""

    source: str


@dataclass(frozen=True)
class Reference:
    """An image's name, taken apart."""

    registry: str
    repository: str
    # A tag, or a digest.
    version: str

    @property
    def host(self) -> str:
        return _DOCKER_HUB_HOST if self.registry == DOCKER_HUB else self.registry

    @property
    def name(self) -> str:
        """As people and engines write it, without tag and digest."""
        if self.registry == DOCKER_HUB:
            return self.repository.removeprefix("library/")
        return f"{self.registry}/{self.repository}"


def parse(reference: str) -> Reference:
    """The parts of an image's name, as the engine completes them: docker.io, library/, latest."""
    name, at, digest = reference.partition("@")
    last = name.rpartition("/")[2]
    tag = last.partition(":")[2]
    name = name.removesuffix(f":{tag}") if tag else name
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        registry, repository = first, rest
    else:
        registry, repository = DOCKER_HUB, name
    if registry in (DOCKER_HUB, "index.docker.io"):
        registry, repository = DOCKER_HUB, repository if "/" in repository else f"library/{repository}"
    return Reference(registry, repository, digest if at else tag or "latest")


def resolve(
    reference: str,
    opener: OpenerDirector,
    mirrors: Mapping[str, Sequence[str]],
    credentials: Mapping[str, Mapping[str, str]],
) -> Resolved:
    """An image at the first address that has it, a mirror's before the registry's own. RegistryError names what each address answered."""
    answers = []
    # Under the name of a mirror an engine would not find what is named by its digest.
    for address in image_addresses(reference, {} if "@" in reference else mirrors):
        image = parse(address)
        try:
            return {"source": image.name, **_Registry(image, opener, credentials.get(image.registry) or {}).look()}
        except urllib.error.HTTPError as error:
            reason: object = explain(error) if error.code != 404 else Text("registry_no_image")
        except (OSError, http.client.HTTPException, _NoImage) as error:
            reason = explain(error)
        except (ValueError, KeyError, TypeError, AttributeError):
            reason = Text("registry_no_manifest")
        answers.append(Text("fetch_answer", url=without_password(address), reason=reason))
    raise RegistryError("registry_unresolved", image=reference, answers=answers)


def login(credentials: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """The content of config.json with which Docker's clients log in; nothing where there are no credentials."""
    if not credentials:
        return {}
    return {
        "auths": {
            DOCKER_HUB_LOGIN if registry == DOCKER_HUB else registry: {"auth": _basic(one)}
            for registry, one in credentials.items()
        }
    }


def _basic(credentials: Mapping[str, str]) -> str:
    return base64.b64encode(f"{credentials['username']}:{credentials['password']}".encode()).decode()


class _Registry:
    """One image at one address."""

    def __init__(self, image: Reference, opener: OpenerDirector, credentials: Mapping[str, str]) -> None:
        self.image, self.opener, self.credentials = image, opener, credentials
        # An engine speaks plain http only with its own machine, unless it is told otherwise (insecure-registries).
        local = re.fullmatch(r"(localhost|127(\.\d+){3})(:\d+)?", image.host)
        self.base = f"{'http' if local else 'https'}://{image.host}/v2/{image.repository}"
        self.authorization = ""

    def look(self) -> Image:
        digest, manifest = self._manifest(self.image.version)
        image = manifest
        if "manifests" in manifest:
            mine = [one for one in manifest["manifests"] if _is_ours(one.get("platform") or {})]
            if not mine:
                raise _NoImage("registry_no_platform", platform="linux/amd64")
            _own, image = self._manifest(str(mine[0]["digest"]))
        content = self._get(f"{self.base}/blobs/{image['config']['digest']}", ())
        if "sha256:" + hashlib.sha256(content).hexdigest() != image["config"]["digest"]:
            raise _NoImage("registry_other_digest", found="?", wanted=image["config"]["digest"])
        configuration = read_json(content)
        return {
            "digest": digest,
            "id": str(image["config"]["digest"]),
            "size": sum(int(layer["size"]) for layer in image["layers"]),
            "layers": [str(layer) for layer in configuration["rootfs"]["diff_ids"]],
        }

    def _manifest(self, version: str) -> tuple[str, Any]:
        """A manifest and its digest, computed from what came: what a registry says of it is not believed."""
        content = self._get(f"{self.base}/manifests/{version}", (*_INDEXES, *_MANIFESTS))
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        if _DIGEST.fullmatch(version) and digest != version:
            raise _NoImage("registry_other_digest", found=digest, wanted=version)
        return digest, read_json(content)

    def _get(self, url: str, accept: Sequence[str]) -> bytes:
        try:
            return self._ask(url, accept)
        except urllib.error.HTTPError as error:
            challenge = error.headers.get("WWW-Authenticate") or ""
            if error.code != 401 or self.authorization or not self._authorize(challenge):
                raise
        return self._ask(url, accept)

    def _ask(self, url: str, accept: Sequence[str]) -> bytes:
        headers = {"Accept": ", ".join(accept)} if accept else {}
        if self.authorization:
            headers["Authorization"] = self.authorization
        with self.opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read(LARGEST_BYTES)
        return content

    def _authorize(self, challenge: str) -> bool:
        """Get what the registry wants to see. Whether there is something to try again with."""
        kind = challenge.partition(" ")[0].lower()
        if kind == "basic" and self.credentials:
            self.authorization = f"Basic {_basic(self.credentials)}"
        elif kind == "bearer":
            said = dict(_CHALLENGE.findall(challenge))
            query = {"service": said.get("service", ""), "scope": f"repository:{self.image.repository}:pull"}
            url = f"{said['realm']}?{urllib.parse.urlencode(query)}"
            # A password goes nowhere unprotected, whatever realm an address names.
            if not url.startswith("https:") and self.base.startswith("https:"):
                raise _NoImage("registry_plain_realm", url=without_password(url))
            headers = {"Authorization": f"Basic {_basic(self.credentials)}"} if self.credentials else {}
            with self.opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
                found = read_json(answer.read(LARGEST_BYTES))
            self.authorization = f"Bearer {found.get('token') or found['access_token']}"
        return bool(self.authorization)


def _is_ours(platform: Mapping[str, object]) -> bool:
    return platform.get("os") == "linux" and platform.get("architecture") == "amd64"
