# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files from the network into a folder: resumed where they broke off, compared with size and SHA-256, never half under their name.

The controller fetches bundles with it, hosts their models.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import IO, Callable, Mapping

from ansible_collections.baremetal.llm.plugins.module_utils import _own_files
from ansible_collections.baremetal.llm.plugins.module_utils._bundle import CHUNK_BYTES, human_bytes, sha256_of
from ansible_collections.baremetal.llm.plugins.module_utils._coded import CodedError, coded
from ansible_collections.baremetal.llm.plugins.module_utils._content import digits, mapping, read_object, texts

ATTEMPTS = 5
TIMEOUT_SECONDS = 60
# What has arrived of a file, beside where it will be.
PART = ".part"
# Answers after which it makes sense to ask again; others of 400 and above will be the same next time.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class DownloadError(CodedError):
    """A file that could not be brought; the text names it, each address that was tried, and what each answered."""


class _Again(CodedError):
    """This try failed, the next may not."""


class _Wrong(CodedError):
    """What arrived is not what was asked for."""


class _Redirect(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but tells a token only to the host that it is meant for."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request is not None and _origin(newurl) != _origin(req.full_url):
            request.remove_header("Authorization")
        return request


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def make_opener(proxy: str = "") -> urllib.request.OpenerDirector:
    """One opener for all: through `proxy`, or as http_proxy, https_proxy and no_proxy of the environment say."""
    handlers: list[urllib.request.BaseHandler] = [_Redirect()]
    if proxy:
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    return urllib.request.build_opener(*handlers)


def unprotected(url: str) -> bool:
    """Whether whoever is on the way can change what comes from an address: plain http, but for this machine itself."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "http":
        return False
    host = parts.hostname or ""
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def without_password(url: str) -> str:
    """The address as it may be printed: without name, password and query, which may hold a signature."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def remote_size(url: str, opener: urllib.request.OpenerDirector) -> int | None:
    """Size of a file by its address, None if the server does not tell. DownloadError if it has no such file."""
    try:
        request = urllib.request.Request(url, method="HEAD")
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return digits(answer.headers.get("Content-Length"))
    except urllib.error.HTTPError as error:
        if error.code in (404, 410):
            raise DownloadError("fetch_no_answer", url=without_password(url), reason=explain(error)) from error
        return None
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError("fetch_no_answer", url=without_password(url), reason=explain(error)) from error


def download(
    file: Mapping[str, object],
    target: str,
    opener: urllib.request.OpenerDirector,
    add: Callable[[int], None] = lambda size: None,
    attempts: int = ATTEMPTS,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring a file (urls; size, sha256, headers where known) to `target`. What an earlier try brought is not fetched again."""
    urls = texts(file["urls"])
    answers: dict[str, object] = {}
    given_up: set[str] = set()
    os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
    for attempt in range(attempts):
        for url in urls:
            if url in given_up:
                continue
            try:
                _continue(file, url, target + PART, opener, add)
                _check(file, target + PART, add)
                os.replace(target + PART, target)
                _forget(target + PART)
                return
            except urllib.error.HTTPError as error:
                answers[url] = explain(error)
                if error.code not in _PASSING:
                    given_up.add(url)
            except _Wrong as error:
                # Once more from its beginning: what was resumed may have been of another file.
                if answers.get(url) == explain(error):
                    given_up.add(url)
                answers[url] = explain(error)
            except (OSError, http.client.HTTPException, _Again) as error:
                answers[url] = explain(error)
        if len(given_up) == len(urls):
            break
        if attempt + 1 < attempts:
            pause(min(2.0**attempt, 30))
    tried = [
        coded("fetch_answer", url=without_password(url), reason=answers.get(url, coded("fetch_not_tried")))
        for url in urls
    ]
    raise DownloadError("fetch_failed", path=file.get("path") or os.path.basename(target), answers=tried)


def _continue(
    file: Mapping[str, object], url: str, part: str, opener: urllib.request.OpenerDirector, add: Callable[[int], None]
) -> None:
    """Complete `part` from url, from where it ends if the server agrees that it is still the same file."""
    have = os.path.getsize(part) if os.path.exists(part) else 0
    note = read_object(part + ".note")
    validator = note.get("validator") if note.get("url") == url else None
    size, digest = file.get("size"), file.get("sha256")
    if have and ((not validator and not digest) or (isinstance(size, int) and have > size)):
        have = 0
    if have and size is not None and have == size:
        add(have)
        return
    headers = {name: str(value) for name, value in mapping(file.get("headers")).items()}
    if have:
        headers["Range"] = f"bytes={have}-"
        if validator:
            headers["If-Range"] = str(validator)
    with opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
        if not digest and unprotected(answer.geturl()):
            raise _Wrong("fetch_plain_http", url=without_password(answer.geturl()))
        if answer.status == 206:
            span = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range") or "")
            if not span or int(span.group(1)) != have:
                _forget(part)
                raise _Again("fetch_other_part")
        else:
            have = 0
        _note(part, url, answer.headers)
        if have:
            add(have)
        length = digits(answer.headers.get("Content-Length"))
        expected = None if length is None else have + length
        if size is not None and expected is not None and expected != size:
            raise _Wrong("fetch_other_size", found=expected, wanted=size)
        received = have
        with open(part, "ab" if have else "wb", opener=_own_files.no_link) as stream:
            try:
                for piece in iter(lambda: answer.read(CHUNK_BYTES), b""):
                    stream.write(piece)
                    received += len(piece)
                    add(len(piece))
            except BaseException:
                add(-received)
                raise
        if expected is not None and received < expected:
            add(-received)
            raise _Again("fetch_cut_off", received=human_bytes(received), expected=human_bytes(expected))


def _check(file: Mapping[str, object], part: str, add: Callable[[int], None]) -> None:
    size, digest = os.path.getsize(part), file.get("sha256")
    wrong: _Wrong | None = None
    if file.get("size") is not None and size != file["size"]:
        wrong = _Wrong("fetch_arrived_size", found=size, wanted=file["size"])
    elif digest:
        found = sha256_of(part)
        if found != digest:
            wrong = _Wrong("fetch_arrived_digest", found=found, wanted=digest)
    if wrong:
        add(-size)
        _forget(part)
        raise wrong


def _note(part: str, url: str, headers: http.client.HTTPMessage) -> None:
    etag = headers.get("ETag") or ""
    validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    with open(part + ".note", "w", encoding="utf-8", opener=_own_files.no_link) as stream:
        json.dump({"url": url, "validator": validator}, stream)


def _forget(part: str) -> None:
    for path in (part, part + ".note"):
        if os.path.exists(path):
            os.unlink(path)


_HTTP = {401: "fetch_http_token", 403: "fetch_http_token", 407: "fetch_http_proxy"}


def explain(error: Exception) -> object:
    """Why a try failed, as a value of a message."""
    if isinstance(error, CodedError):
        return coded(error.code, **error.values)
    if isinstance(error, urllib.error.HTTPError):
        return coded(_HTTP.get(error.code, "fetch_http"), status=error.code, answer=error.reason)
    if isinstance(error, urllib.error.URLError):
        return explain(error.reason) if isinstance(error.reason, Exception) else str(error.reason)
    if isinstance(error, ssl.SSLCertVerificationError):
        return coded("fetch_certificate", reason=str(error))
    return str(error) or type(error).__name__
