# Runs inside an image: which Python the engine runs on there, and which Ray.
import importlib.metadata
import json
import platform
import sys

try:
    ray = importlib.metadata.version("ray")
except importlib.metadata.PackageNotFoundError:
    ray = None
print(json.dumps({"python": "{0}.{1}".format(*sys.version_info[:2]), "machine": platform.machine(), "ray": ray}))
