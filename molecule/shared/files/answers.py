"""When a server did not answer: answers.py URL KEY_FILE STOP_FILE asks it every half second until the file is there.

Prints the times between which no answer came, as a list of pairs in seconds since 1970.
"""

import json
import os
import sys
import time
import urllib.request

url, key_file, stop_file = sys.argv[1:]
with open(key_file) as stream:
    headers = {"Authorization": "Bearer " + stream.read().strip(), "Content-Type": "application/json"}
body = json.dumps({"model": "tiny", "prompt": "Hello", "max_tokens": 1}).encode()
away, answered = [], time.time()
while not os.path.exists(stop_file):
    began = time.time()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as response:
            if json.loads(response.read().decode())["choices"]:
                if began - answered > 2:
                    away.append([answered, began])
                answered = time.time()
    except (OSError, ValueError):
        pass
    time.sleep(0.5)
if time.time() - answered > 32:
    away.append([answered, time.time()])
print(json.dumps(away))
