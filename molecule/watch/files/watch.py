"""Waits until Alertmanager has an alert with this name and these labels, or has none any more: watch.py begins|ends SECONDS NAME [LABEL=VALUE ...]

Prints the time in seconds since 1970. Other alerts do not count. The first answer may come late, so it is asked several times a second.
"""

import json
import sys
import time
import urllib.parse
import urllib.request


def there(wanted):
    """Whether Alertmanager has the alert, not silenced and not over; None if it does not answer."""
    matchers = urllib.parse.urlencode([("filter", '{}="{}"'.format(*each)) for each in wanted.items()])
    address = "http://127.0.0.1:9093/api/v2/alerts?active=true&" + matchers
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            found = json.load(response)
    except OSError:
        return None
    return any(wanted.items() <= alert["labels"].items() for alert in found)


def main():
    way, seconds, name, *labels = sys.argv[1:]
    wanted = dict([("alertname", name), *(label.split("=", 1) for label in labels)])
    end = time.monotonic() + float(seconds)
    while there(wanted) is not (way == "begins"):
        if time.monotonic() > end:
            print("{} has not come to {} within {} s".format(wanted, way, seconds), file=sys.stderr)
            return 1
        time.sleep(0.3)
    print(time.time())
    return 0


sys.exit(main())
