# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks whoever has something which files that is: model hubs by their own clients, apt, web servers. Fetches nothing yet."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict
from urllib.request import OpenerDirector

from ansible_collections.baremetal.llm.plugins.module_utils._coded import coded
from ansible_collections.baremetal.llm.plugins.module_utils._download import unprotected, without_password
from ansible_collections.baremetal.llm.plugins.module_utils._model_check import gaps
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle import packages, wheels
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.download import FetchError, mirrored, remote_size
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.items import Answer, File, Item
from ansible_collections.baremetal.llm.plugins.plugin_utils.bundle.plan import needed_model_files, split_source
from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import Refused

TOOLKIT_URL = "https://github.com/NVIDIA/nvidia-container-toolkit/releases/download/v{0}/nvidia-container-toolkit_{0}_deb_amd64.tar.gz"


class SourceError(Refused):
    """A source that cannot be asked; the text says why and what to do."""


@dataclass
class Settings:
    """How sources are reached."""

    opener: OpenerDirector
    url_mirrors: Mapping[str, list[str]] = field(default_factory=dict)
    os_mirrors: Mapping[str, str] = field(default_factory=dict)
    os_keyrings: Mapping[str, str] = field(default_factory=dict)
    huggingface_endpoint: str = "https://huggingface.co"
    modelscope_endpoint: str = "https://modelscope.cn"
    proxy: str = ""
    # Folder for wheels that are built on this machine; empty where nothing may be built.
    built: str = ""
    # By the name of the hub. Never in a file, an argument of a program or a message.
    tokens: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """For programs, which would show a proxy's password in their arguments."""
        own = dict.fromkeys(("http_proxy", "https_proxy"), self.proxy) if self.proxy else {}
        return {**os.environ, **own, "LC_ALL": "C.UTF-8"}

    def headers(self, hub: str | None) -> dict[str, str]:
        token = self.tokens.get(hub or "")
        return {"Authorization": f"Bearer {token}"} if token else {}


def resolve(item: Item, settings: Settings) -> Answer:
    """The files of an item, with size and sha256 as far as they are known, or the command that fetches them."""
    scheme, rest = split_source(item["source"])
    found = _RESOLVERS[scheme](item, rest, settings)
    for file in found.get("files", []):
        _require_protected(item["source"], file.get("urls", []), file.get("sha256"))
    return found


def _require_protected(source: str, urls: Sequence[str], sha256: str | None) -> None:
    """Refuse what comes over plain http without a checksum from elsewhere: nobody could tell who made it."""
    plain = next((url for url in urls if unprotected(url)), None)
    if plain and not sha256:
        raise SourceError("source_plain_http", source=source, url=without_password(plain))


def _require_protected_hub(source: str, endpoint: str, variable: str) -> None:
    if unprotected(endpoint):
        raise SourceError(
            "source_plain_http_hub", source=source, endpoint=without_password(endpoint), variable=variable
        )


def _web(item: Item, rest: str, settings: Settings) -> Answer:
    urls = mirrored(item["source"], settings.url_mirrors)
    _require_protected(item["source"], urls, item.get("sha256"))
    size = item.get("size")
    if size is None:
        size = _size(urls, settings)
    return {"files": [{"path": item["path"], "urls": urls, "size": size, "sha256": item.get("sha256")}]}


def _size(urls: Sequence[str], settings: Settings) -> int | None:
    """The size at the first address that has the file. The error of the last one where none has it."""
    for url in urls[:-1]:
        try:
            return remote_size(url, settings.opener)
        except FetchError:
            continue
    return remote_size(urls[-1], settings.opener)


def _toolkit(item: Item, version: str, settings: Settings) -> Answer:
    found = _web({**item, "source": TOOLKIT_URL.format(version)}, "", settings)
    found["files"][0]["repack"] = "toolkit"
    return found


def _repository(rest: str) -> tuple[str, str | None]:
    name, at, revision = rest.partition("@")
    return name, revision if at else None


class _OfHub(TypedDict):
    """What a hub says of a file of a model."""

    urls: list[str]
    size: int | None
    sha256: str | None


def _model(item: Item, hub: str, files: Mapping[str, _OfHub], revision: str, asked: str | None) -> Answer:
    names = needed_model_files(files, item.get("wanted") or ())
    is_gguf = any(name.endswith(".gguf") for name in names)
    if not is_gguf and "config.json" not in names and "params.json" not in names:
        raise SourceError("source_no_model", source=item["source"], files=", ".join(files))
    lacking = gaps(names)
    if lacking:
        raise SourceError("model_not_whole", path=item["source"], problems=lacking, source=coded("model_origin_other"))
    return {
        "files": [
            {
                "path": f"{item['path']}/{name}",
                "auth": hub,
                "urls": found["urls"],
                "size": found["size"],
                "sha256": found["sha256"],
            }
            for name in names
            for found in [files[name]]
        ],
        "fields": {"revision": revision, "requested_revision": asked or "", "origin": item["source"]},
    }


def _huggingface(item: Item, rest: str, settings: Settings) -> Answer:
    try:
        from huggingface_hub import HfApi, hf_hub_url
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise _missing("huggingface_hub", "huggingface_hub") from error
    repository, revision = _repository(rest)
    endpoint = settings.huggingface_endpoint.rstrip("/")
    _require_protected_hub(item["source"], endpoint, "bundle_huggingface_endpoint")
    try:
        api = HfApi(endpoint=endpoint, token=settings.tokens.get("huggingface") or False)
        info = api.model_info(repository, revision=revision, files_metadata=True)
    except (HfHubHTTPError, OSError, ValueError, *_unreachable(HfHubHTTPError)) as error:
        raise _refused(item["source"], endpoint, "bundle_huggingface", error) from error
    files = {
        one.rfilename: _OfHub(
            urls=[hf_hub_url(repository, one.rfilename, revision=info.sha, endpoint=endpoint)],
            size=one.size,
            sha256=one.lfs.sha256 if one.lfs else None,
        )
        for one in info.siblings or []
    }
    return _model(item, "huggingface", files, str(info.sha), revision)


def _unreachable(error: type[Exception]) -> tuple[type[Exception], ...]:
    """What a client's library raises where nobody answers: the base of its own errors. Which library that is differs between its releases."""
    return tuple(base for base in error.__mro__ if base.__name__ == "HTTPError")


def _modelscope(item: Item, rest: str, settings: Settings) -> Answer:
    try:
        from modelscope_hub import HubApi
        from modelscope_hub.errors import HubError
    except ImportError as error:
        raise _missing("modelscope_hub", "modelscope-hub") from error
    repository, revision = _repository(rest)
    endpoint = settings.modelscope_endpoint.rstrip("/")
    _require_protected_hub(item["source"], endpoint, "bundle_modelscope_endpoint")
    asked = revision or "master"
    try:
        api = HubApi(endpoint=endpoint, token=settings.tokens.get("modelscope") or None)
        listed = api.list_repo_files(repository, "model", revision=asked)
        files = {
            one.path: _OfHub(
                urls=[api.legacy.get_download_url(repository, "model", one.path, asked)],
                size=one.size,
                sha256=one.sha256,
            )
            for one in listed
            if not one.is_dir
        }
    except (HubError, OSError, ValueError) as error:
        raise _refused(item["source"], endpoint, "bundle_modelscope", error) from error
    # Its client names no commit. What is fetched is pinned all the same: by the SHA-256 of every file.
    return _model(item, "modelscope", files, asked, revision)


def _missing(module: str, package: str) -> SourceError:
    return SourceError("source_no_client", module=module, package=package, python=sys.executable)


def _refused(source: str, endpoint: str, variables: str, error: Exception) -> SourceError:
    text = " ".join(str(error).split())[:600]
    code = "source_certificate" if "CERTIFICATE_VERIFY_FAILED" in text else "source_refused"
    return SourceError(code, source=source, endpoint=endpoint, variables=variables, reason=text)


def _apt(item: Item, name: str, settings: Settings) -> Answer:
    keyring_of = {**packages.KEYRINGS, **settings.os_keyrings}
    keyring = keyring_of[name.partition("-")[0]]
    if not shutil.which("apt-get"):
        raise SourceError("source_no_apt", source=item["source"])
    if not os.path.isfile(keyring):
        raise SourceError("source_no_keyring", source=item["source"], keyring=keyring)
    wanted = packages.check_names(item["packages"])
    with tempfile.TemporaryDirectory() as root:
        for folder in ("state/lists/partial", "cache/archives/partial", "sources.d"):
            os.makedirs(os.path.join(root, folder))
        dump = _run(["apt-config", "dump"], settings.environment(), item["source"])
        arch = str(item["fields"]["arch"])
        texts = {
            "status": "",
            "apt.conf": packages.apt_configuration(root, arch, dump, settings.proxy),
            "sources.d/bundle.sources": packages.apt_sources(name, settings.os_mirrors, keyring),
        }
        for path, text in texts.items():
            with open(os.path.join(root, path), "w", encoding="utf-8") as stream:
                stream.write(text)
        environment = {**settings.environment(), "APT_CONFIG": os.path.join(root, "apt.conf")}

        def apt(*command: str) -> str:
            return _run(command, environment, f"{item['source']} ({', '.join(wanted)})")

        apt("apt-get", "--quiet", "--error-on=any", "update")
        uris = packages.parse_uris(apt("apt-get", "--quiet", "--yes", "--print-uris", "install", *wanted))
        files, index = packages.closure(uris, apt("apt-cache", "show", *packages.versions(uris)))
    folder = str(item["path"])
    return {
        "files": [
            *(
                File(path=f"{folder}/{one['name']}", urls=one["urls"], size=one["size"], sha256=one["sha256"])
                for one in files
            ),
            {"path": f"{folder}/Packages", "content": index},
        ],
        "fields": {"packages": wanted},
    }


def _dnf(item: Item, name: str, settings: Settings) -> Answer:
    engine = not shutil.which("dnf")
    if engine and not shutil.which("docker"):
        raise SourceError("source_no_dnf", source=item["source"])
    keys = settings.os_keyrings.get(name.partition("-")[0])
    pattern = shlex.quote(keys) if keys else packages.RPM_KEYS
    command = packages.dnf_command(name, str(item["fields"]["arch"]), item["packages"], "@FOLDER@", engine, pattern)
    return {"command": command, "folder": item["path"], "fields": {"packages": list(item["packages"])}}


def _pip(item: Item, python: str, settings: Settings) -> Answer:
    command = packages.pip_command(sys.executable, python, item["packages"], "@FOLDER@")
    return {"command": command, "folder": item["path"], "fields": {"packages": list(item["packages"])}}


def _environment(item: Item, rest: str, settings: Settings) -> Answer:
    """The wheels of a Python environment, resolved by uv, and the wheel of uv, with which hosts make it."""
    for url in item["index_urls"]:
        _require_protected_hub(item["source"], url, "bundle_venvs: index_urls")
    uv = _uv()

    def resolved(packages: Sequence[str], built: str = "", dated: bool = True) -> dict[str, object]:
        command = wheels.compile_command(uv, item if dated else {**item, "released_before": ""}, built)
        text = "".join(f"{package}\n" for package in packages)
        result = _started(command, _index_environment(item, settings), text)
        if result.returncode:
            raise wheels.refusal(item, result.stderr or result.stdout)
        return tomllib.loads(result.stdout)

    found = resolved(item["packages"])
    if wheels.sources(found):
        _build(wheels.sources(found), item, settings)
        found = resolved(item["packages"], settings.built)
    own = _run([uv, "--version"], settings.environment(), item["source"]).split()[1]
    # Its release has nothing to do with that of the engine.
    [of_uv] = wheels.chosen(resolved([f"uv=={own}"], dated=False), item)
    files = wheels.files_of(item, wheels.chosen(found, item), of_uv)
    for file in files:
        if "urls" in file:
            [url] = file["urls"]
            file["urls"] = mirrored(url, settings.url_mirrors)
            if file["size"] is None:
                path = urllib.parse.unquote(urllib.parse.urlsplit(url).path)
                file["size"] = os.path.getsize(path) if url.startswith("file:") else remote_size(url, settings.opener)
    return {"files": files}


def _uv() -> str:
    """The program uv, of Ansible's own environment or of this machine."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    found = beside if os.access(beside, os.X_OK) else shutil.which("uv")
    if not found:
        raise SourceError("source_no_uv", python=sys.executable)
    return found


def _index_environment(item: Item, settings: Settings) -> dict[str, str]:
    """For uv, which reads no settings of pip: the index that they name is its own where nobody says another."""
    environment = settings.environment()
    if item["index_urls"] or environment.get("UV_DEFAULT_INDEX"):
        return environment
    asked = _started([sys.executable, "-m", "pip", "config", "get", "global.index-url"], environment, "")
    index = environment.get("PIP_INDEX_URL") or (asked.stdout.strip() if asked.returncode == 0 else "")
    return {**environment, "UV_DEFAULT_INDEX": index} if index else environment


def _build(names: Sequence[str], item: Item, settings: Settings) -> None:
    """Build wheels of pure Python: hosts have no compiler, and what is compiled here would be for this machine."""
    if not settings.built:
        raise SourceError("source_built_here", source=item["source"], names=", ".join(names))
    os.makedirs(settings.built, exist_ok=True)
    environment = {**_index_environment(item, settings), "SOURCE_DATE_EPOCH": "315532800"}
    if environment.get("UV_DEFAULT_INDEX") or item["index_urls"]:
        environment["PIP_INDEX_URL"] = (item["index_urls"] or [environment["UV_DEFAULT_INDEX"]])[0]
    with tempfile.TemporaryDirectory(dir=settings.built) as folder:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-input", "--no-deps", "--no-binary=:all:"]
        _run([*command, "--wheel-dir", folder, "--", *names], environment, item["source"])
        for name in sorted(os.listdir(folder)):
            if not name.endswith("-none-any.whl"):
                raise SourceError("source_not_pure", source=item["source"], name=name)
            os.replace(os.path.join(folder, name), os.path.join(settings.built, name))


def _started(command: Sequence[str], environment: Mapping[str, str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=dict(environment), input=text, capture_output=True, text=True, errors="replace", check=False
    )


def _run(command: list[str] | tuple[str, ...], environment: Mapping[str, str], what: str) -> str:
    result = _started(command, environment, "")
    if result.returncode:
        said = (result.stderr or result.stdout).strip()[-2000:]
        raise SourceError("source_program_failed", source=what, program=command[0], status=result.returncode, said=said)
    return result.stdout


def run_command(resolved: Answer, folder: str, settings: Settings, what: str) -> None:
    """Let a program fill a folder."""
    _run([part.replace("@FOLDER@", folder) for part in resolved["command"]], settings.environment(), what)


_RESOLVERS: dict[str, Callable[[Item, str, Settings], Answer]] = {
    "http": _web,
    "https": _web,
    "huggingface": _huggingface,
    "modelscope": _modelscope,
    "apt": _apt,
    "dnf": _dnf,
    "pip": _pip,
    "venv": _environment,
    "toolkit": _toolkit,
}
