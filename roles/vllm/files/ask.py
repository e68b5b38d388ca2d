# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the vLLM container: asks the API for a completion and prints it as JSON. Ends with an error if there is none.

usage: ask.py URL MODEL PROMPT MAX_TOKENS
"""

import json
import os
import sys
import urllib.error
import urllib.request

KEY_FILE = "/run/secrets/vllm_api_key"

url, model, prompt, max_tokens = sys.argv[1:]
headers = {"Content-Type": "application/json"}
if os.path.exists(KEY_FILE):
    with open(KEY_FILE, encoding="ascii") as stream:
        headers["Authorization"] = "Bearer " + stream.read().strip()
body = {"model": model, "prompt": prompt, "max_tokens": int(max_tokens), "temperature": 0}
request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), headers)
try:
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
except urllib.error.HTTPError as error:
    sys.exit(f"{url} answered {error.code}: {error.read().decode(errors='replace')}")
except (OSError, ValueError) as error:
    sys.exit(f"{url} does not answer: {error}")
if not answer["usage"]["completion_tokens"]:
    sys.exit(f"{url} generated no token: {answer}")
print(json.dumps({"text": answer["choices"][0]["text"], "tokens": answer["usage"]["completion_tokens"]}))
