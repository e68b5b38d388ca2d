# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passes Alertmanager's webhooks on: unchanged, or to the robots of WeCom, DingTalk and Feishu, which want a JSON of their own.

Alertmanager posts to http://127.0.0.1:PORT/NAME. The address of a receiver is a secret in most cases, so it is read from a file for each message.
What a receiver does not take is answered with 502, and Alertmanager tries again.
"""

import argparse
import http.server
import json
import os
import sys
import urllib.error
import urllib.request

ROBOT_SECONDS = 10
# A robot of WeCom takes 2048 bytes of text, the smallest limit of the three.
# https://developer.work.weixin.qq.com/document/path/91770
MOST_BYTES = 2000
# More than Alertmanager sends for any group of alerts that somebody could read.
MOST_ASKED = 4 << 20


def wecom(text):
    """https://developer.work.weixin.qq.com/document/path/91770"""
    return {"msgtype": "text", "text": {"content": text}}


def dingtalk(text):
    """https://open.dingtalk.com/document/robots/custom-robot-access"""
    return {"msgtype": "text", "text": {"content": text}}


def feishu(text):
    """https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot"""
    return {"msg_type": "text", "content": {"text": text}}


# The body that each robot wants.
BODIES = {"wecom": wecom, "dingtalk": dingtalk, "feishu": feishu}


def text_of(message, words):
    """What Alertmanager says as text: a paragraph for each alert, cut where a robot would refuse it."""
    paragraphs = []
    for alert in message.get("alerts") or []:
        labels, notes = alert.get("labels") or {}, alert.get("annotations") or {}
        state = words.get(alert.get("status"), alert.get("status"))
        head = "[{0}] {1} ({2})".format(state, labels.get("alertname", ""), labels.get("severity", ""))
        paragraphs.append("\n".join(filter(None, [head, notes.get("summary"), notes.get("runbook_url")])))
    content = "\n\n".join(paragraphs).encode()
    if len(content) <= MOST_BYTES:
        return content.decode()
    # Not in the middle of a character.
    return content[: MOST_BYTES - 3].decode(errors="ignore") + "..."


def refused(kind, answer):
    """What a robot has against a message; an empty text if it took it. They answer 200 in any case."""
    if kind == "webhook":
        return ""
    try:
        said = json.loads(answer)
    except (ValueError, RecursionError):
        return "no JSON"
    code = said.get("errcode", said.get("code", said.get("StatusCode"))) if isinstance(said, dict) else None
    return "" if code == 0 else "code {0}".format(code)


def tell(kind, url, body):
    """Post to a receiver. Returns what went wrong, without the address."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ROBOT_SECONDS) as response:
            return refused(kind, response.read(MOST_ASKED))
    except urllib.error.HTTPError as error:
        return "status {0}".format(error.code)
    except (OSError, ValueError) as error:
        return type(error).__name__


class Handler(http.server.BaseHTTPRequestHandler):
    """One webhook of Alertmanager."""

    settings, folder = None, ""

    def do_POST(self):
        name = self.path.strip("/")
        kind = self.settings["receivers"].get(name)
        try:
            length = int(self.headers.get("Content-Length") or 0)
            message = json.loads(self.rfile.read(length)) if 0 < length <= MOST_ASKED else None
        except (ValueError, RecursionError):
            message = None
        if not kind or not isinstance(message, dict):
            self.answer(400 if kind else 404)
            return
        try:
            with open(os.path.join(self.folder, name)) as stream:
                url = stream.read().strip()
        except OSError as error:
            problem = type(error).__name__
        else:
            body = message if kind == "webhook" else BODIES[kind](text_of(message, self.settings["words"]))
            problem = tell(kind, url, body)
        if problem:
            print("{0} got no message: {1}".format(name, problem), flush=True)
        self.answer(502 if problem else 200)

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *dummy):
        """The journal has what failed."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", required=True, help="JSON - receivers (kind by name) and words (by status)")
    parser.add_argument("--secrets", required=True, help="folder with a file for each receiver that holds its address")
    parser.add_argument("--port", type=int, default=9096)
    options = parser.parse_args()
    with open(options.settings) as stream:
        Handler.settings = json.load(stream)
    Handler.folder = options.secrets
    http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
