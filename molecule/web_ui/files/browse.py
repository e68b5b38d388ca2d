"""What a person does in a browser: signs in, chooses a model, asks, and reads the answer. Prints what was seen as JSON.

The settings come through the environment: PAGE (address), RESOLVE (host and address, as a browser's rule), EMAIL, PASSWORD, MODEL, QUESTION,
PICTURE (a file, PNG) and BROWSER (a program).
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

from playwright.sync_api import Error, Page, Response, WebSocket, expect, sync_playwright

SECONDS = 120_000
# Root has no sandbox, and a test has no GPU.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]

# How Socket.IO begins what its server tells of a chat: packet 4 (a message), type 2 (an event), and the event's name.
EVENT = '42["events",'


def talk(page: Page) -> dict[str, object]:
    page.locator("input[type=email]").fill(os.environ["EMAIL"])
    page.locator("input[type=password]").fill(os.environ["PASSWORD"])
    page.locator("button[type=submit]").click()
    # What is new in this release is said once to each account.
    page.get_by_role("button", name="Okay, Let's Go!").click()
    chosen = page.locator("#model-selector-model-button")
    chosen.click()
    options = page.get_by_role("option")
    expect(options.first).to_be_visible()
    models = sorted(re.sub(r"\s+", " ", text).strip() for text in options.all_inner_texts())
    options.filter(has_text=os.environ["MODEL"]).first.click()
    expect(chosen).to_have_attribute("aria-label", re.compile(os.environ["MODEL"]))
    page.locator("#chat-input").fill(os.environ["QUESTION"])
    page.keyboard.press("Enter")
    answer = page.locator(".chat-assistant")
    expect(answer).to_have_text(re.compile(r"\S"))
    # It has ended where it can be asked for anew.
    expect(page.get_by_role("button", name="Regenerate")).to_be_visible()
    return {
        "models": models,
        "answer": answer.inner_text().strip(),
        "question": page.locator(".user-message").inner_text(),
    }


def main() -> None:
    with sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP {os.environ['RESOLVE']}"
        browser = playwright.chromium.launch(executable_path=os.environ["BROWSER"], args=[*FLAGS, rules])
        # Whether the certificate is right is tested by a client that can be told what to trust.
        page = browser.new_page(ignore_https_errors=True, viewport={"width": 1280, "height": 800})
        page.set_default_timeout(SECONDS)
        expect.set_options(timeout=SECONDS)
        began = time.monotonic()
        sockets: list[dict[str, Any]] = []
        hosts: set[str] = set()

        def opened(socket: WebSocket) -> None:
            url, seconds = socket.url.partition("?")[0], round(time.monotonic() - began, 1)
            about: dict[str, Any] = {"url": url, "opened": seconds, "closed": None, "events": 0}

            def received(frame: str | bytes) -> None:
                about["events"] += str(frame).startswith(EVENT)

            def closed(_socket: WebSocket) -> None:
                about["closed"] = round(time.monotonic() - began, 1)

            socket.on("framereceived", received)
            socket.on("close", closed)
            sockets.append(about)

        def answered(response: Response) -> None:
            hosts.add(response.url.split("/")[2])

        page.on("websocket", opened)
        page.on("response", answered)
        try:
            page.goto(os.environ["PAGE"])
            said = talk(page)
        except (Error, AssertionError):
            # Raised again; the picture, which would tell the same, is removed with the hosts of the scenario.
            print(f"the page {page.url} shows:\n{page.inner_text('body')}", file=sys.stderr)
            raise
        finally:
            page.screenshot(path=os.environ["PICTURE"])
        print(json.dumps({**said, "sockets": sockets, "hosts": sorted(hosts)}))


if __name__ == "__main__":
    main()
