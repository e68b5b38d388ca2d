# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the API for a completion and prints it as JSON. Ends with an error if there is none. Runs on the host and in the container.

usage: ask.py URL MODEL PROMPT MAX_TOKENS [KEY_FILE]
"""

import http.client
import json
import os
import sys
import urllib.error
import urllib.request


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key goes to the address that was asked, and to no other."""

    def redirect_request(self, *_dummy, **_more):
        return None


# No proxy either, whatever the environment says: it would get the key.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
url, model, prompt, max_tokens = sys.argv[1:5]
key_file = sys.argv[5] if len(sys.argv) > 5 else "/run/secrets/vllm_api_key"
headers = {"Content-Type": "application/json"}
if os.path.exists(key_file):
    with open(key_file, encoding="ascii") as stream:
        headers["Authorization"] = "Bearer " + stream.read().strip()
body = {"model": model, "prompt": prompt, "max_tokens": int(max_tokens), "temperature": 0}
request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), headers)
try:
    with opener.open(request, timeout=120) as response:
        answer = json.load(response)
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
