# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the API for a completion and prints it as JSON. Ends with an error if there is none. Runs on the host and in the container.

usage: ask.py [--kind=KIND] [--seconds=SECONDS] URL MODEL PROMPT MAX_TOKENS [KEY_FILE]

A model that generates nothing is asked for what it answers instead: embedding, score, class or pooled (the probe asks for the same).
"""

import http.client
import json
import math
import os
import re
import sys
import urllib.error
import urllib.request


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the address that was asked, and to no other."""

    def redirect_request(self, *_dummy, **_more):
        return None


# No proxy either, whatever the environment says: it would get the key.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
# By kind the path, the question, and what of the answer counts.
KINDS = {
    "embedding": ("/v1/embeddings", lambda prompt: {"input": prompt}, lambda data: data["embedding"]),
    "score": ("/v1/score", lambda prompt: {"text_1": prompt, "text_2": prompt}, lambda data: [data["score"]]),
    "class": ("/classify", lambda prompt: {"input": prompt}, lambda data: data["probs"]),
    "pooled": ("/pooling", lambda prompt: {"input": prompt}, lambda data: data["data"]),
}
SHOWN = 3

arguments = sys.argv[1:]
kind = arguments.pop(0).partition("=")[2] if arguments[0].startswith("--kind=") else ""
seconds = int(arguments.pop(0).partition("=")[2]) if arguments[0].startswith("--seconds=") else 120
url, model, prompt, max_tokens = arguments[:4]
key_file = arguments[4] if len(arguments) > 4 else "/run/secrets/vllm_api_key"
headers = {"Content-Type": "application/json"}
if os.path.exists(key_file):
    with open(key_file, encoding="utf-8", errors="replace") as stream:
        key = stream.read().strip()
    # The library's own complaint would show it.
    if not re.match(r"[!-~]+$", key):
        sys.exit(f"{key_file} holds no usable key")
    headers["Authorization"] = "Bearer " + key
path, question, counts = "/v1/completions", {"prompt": prompt, "max_tokens": int(max_tokens), "temperature": 0}, None
if kind:
    path, make, counts = KINDS[kind]
    question = make(prompt)
request = urllib.request.Request(url + path, json.dumps(dict(question, model=model)).encode(), headers)
try:
    with opener.open(request, timeout=seconds) as response:
        answer = json.load(response)
    if counts:
        rows = counts(answer["data"][0])
        found = [number for row in rows for number in (row if isinstance(row, list) else [row])]
        if not found or not all(math.isfinite(number) for number in found):
            raise KeyError(kind)
        more = ", ... ({0})".format(len(found)) if len(found) > SHOWN else ""
        text = ", ".join("{0:.4f}".format(number) for number in found[:SHOWN]) + more
        tokens = (answer.get("usage") or {}).get("prompt_tokens") or 1
    else:
        tokens, text = answer["usage"]["completion_tokens"], answer["choices"][0]["text"]
except urllib.error.HTTPError as error:
    sys.exit(f"{url} answered {error.code}: {error.read().decode(errors='replace')}")
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit(f"{url} does not answer: {error}")
except (KeyError, IndexError, TypeError):
    sys.exit(f"{url} gave an answer that is none of vLLM: {answer}")
if not tokens:
    sys.exit(f"{url} generated no token: {answer}")
print(json.dumps({"text": text, "tokens": tokens}))
