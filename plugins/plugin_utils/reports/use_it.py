# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to call what serves: the last lines of a report. They name the file that holds a key, and never the key."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ansible_collections.baremetal.llm.plugins.plugin_utils.messages.catalogue import message

PAGE = "docs/guides/use-it.md"
EMBEDDINGS = "embeddings"


@dataclass(frozen=True)
class Address:
    """One address that answers: a deployment's own, or a gateway's."""

    # As http://10.0.0.11:8000 or https://llm.example.com, without a path.
    url: str
    models: Sequence[str]
    # The file on the controller that holds a key, or the variable that sets it; empty where none is asked for.
    key_file: str = ""
    key_variable: str = ""
    # The root certificate that a client has to trust; empty for a certificate that it trusts anyway.
    root: str = ""
    # "chat", "completions" or "embeddings".
    kind: str = "chat"


def use_lines(addresses: Sequence[Address], pages: Sequence[str], language: str) -> list[str]:
    """The section 'Use it': each address with its models and key, one request by curl and by Python, the web pages."""
    if not addresses:
        return []
    lines = [message("use_it", language, page=PAGE)]
    for address in addresses:
        said = {"url": f"{address.url}/v1", "models": ", ".join(address.models)}
        lines.append("  " + message("use_address", language, **said))
        lines += [f"    {line}" for line in _key(address, language)]
        lines += [f"    {line}" for line in (*curl(address), *python(address))]
    lines += ["  " + message("use_page", language, url=url) for url in pages]
    return [*lines, ""]


def _key(address: Address, language: str) -> Iterator[str]:
    if address.key_file:
        yield message("use_key_file", language, path=address.key_file)
    elif address.key_variable:
        yield message("use_key_variable", language, variable=address.key_variable)
    if address.root:
        yield message("use_root", language, path=address.root)
        # OpenAI's clients and curl read one of these each.
        path = shlex.quote(address.root)
        yield f"export SSL_CERT_FILE={path} CURL_CA_BUNDLE={path} NODE_EXTRA_CA_CERTS={path}"


def request(address: Address) -> tuple[str, dict[str, object]]:
    """The path of an address and the body of a short request there."""
    model = address.models[0]
    if address.kind == EMBEDDINGS:
        return "/v1/embeddings", {"model": model, "input": "Hello"}
    if address.kind == "completions":
        return "/v1/completions", {"model": model, "prompt": "Hello", "max_tokens": 32}
    return "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "Hello"}]}


def curl(address: Address) -> list[str]:
    """A request for bash. The key is in no argument of a process: printf is a part of the shell."""
    path, body = request(address)
    options = []
    if address.key_file:
        options.append(f"--header @<(printf 'Authorization: Bearer %s' \"$(cat {shlex.quote(address.key_file)})\")")
    elif address.key_variable:
        options.append("--header @<(printf 'Authorization: Bearer %s' \"$KEY\")")
    options += ["--header 'Content-Type: application/json'", f"--data {shlex.quote(json.dumps(body))}"]
    first = f"curl --silent --show-error --fail {address.url}{path}"
    return [f"{first} \\", *(f"  {option} \\" for option in options[:-1]), f"  {options[-1]}"]


def python(address: Address) -> list[str]:
    """The same with OpenAI's client."""
    key = f"open({address.key_file!r}).read().strip()" if address.key_file else "KEY" if address.key_variable else '"-"'
    model = address.models[0]
    if address.kind == EMBEDDINGS:
        call = f'client.embeddings.create(model={model!r}, input="Hello").data[0].embedding[:3]'
    elif address.kind == "completions":
        call = f'client.completions.create(model={model!r}, prompt="Hello", max_tokens=32).choices[0].text'
    else:
        asked = '[{"role": "user", "content": "Hello"}]'
        call = f"client.chat.completions.create(model={model!r}, messages={asked}).choices[0].message.content"
    return [
        "import openai",
        f"client = openai.OpenAI(base_url={address.url + '/v1'!r}, api_key={key})",
        f"print({call})",
    ]
