"""More requests than a server computes at a time, for a while: full_load.py URL KEY_FILE SECONDS.

Prints how many were answered, how many waited at most, and what went wrong.
"""

import json
import re
import sys
import threading
import time
import urllib.request

CLIENTS, SEQUENCES = 64, 8  # more than the 256 sequences of vLLM's default
url, key_file, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(key_file) as stream:
    headers = {"Authorization": "Bearer " + stream.read().strip(), "Content-Type": "application/json"}
found = {"answers": 0, "waiting": 0, "wrong": []}
end = time.monotonic() + seconds


def get(path, body=None):
    with urllib.request.urlopen(urllib.request.Request(url + path, body, headers), timeout=seconds) as response:
        return response.read().decode()


def ask(client):
    prompt = {"model": "tiny", "prompt": f"Hello {client}", "n": SEQUENCES, "max_tokens": 8, "ignore_eos": True}
    while time.monotonic() < end:
        try:
            found["answers"] += json.loads(get("/v1/completions", json.dumps(prompt).encode()))["object"] != ""
        except (OSError, ValueError, KeyError) as error:
            found["wrong"].append(str(error))
            time.sleep(1)


for number in range(CLIENTS):
    threading.Thread(target=ask, args=(number,), daemon=True).start()
while time.monotonic() < end:
    time.sleep(5)
    waiting = re.search(r"^vllm:num_requests_waiting(?:\{.*\})? ([0-9.]+)$", get("/metrics"), re.M)
    found["waiting"] = max(found["waiting"], int(float(waiting[1])))
print(json.dumps(found))
