"""`make lab` as a person starts it, and a Chromium page that records what goes wrong."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentkit.components import component

ROOT = Path(__file__).parents[2]
QUIET = ["--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]


def address(log: Path, server: subprocess.Popen, seconds: float = 60) -> str:
    """The address with its token, as soon as `make lab` has printed it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:\d+/lab\S*token=\w+", log.read_text()):
            return found[0]
        time.sleep(0.2)
    raise AssertionError(f"make lab printed no address:\n{log.read_text()[-3000:]}")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a running `make lab`: no display, a home of its own, this environment (never reinstalled)."""
    log = tmp_path_factory.mktemp("lab") / "log"
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment |= {"HOME": str(tmp_path_factory.mktemp("home")), "CI": "true"}
    # Two that start at once would both take 8888 for free.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        environment["JUPYTER_PORT"] = str(free.getsockname()[1])
    stamp = f"{sys.prefix}/.lock-installed"
    with log.open("wb") as out:
        server = subprocess.Popen(
            ["make", "--old-file", stamp, "lab", f"VENV={sys.prefix}"], cwd=ROOT, env=environment,
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield address(log, server)
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(90)  # each open kernel is given its time to end
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            raise


@pytest.fixture
def page():
    """A page in Chromium; `page.problems` lists console errors and requests that left this machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=component("chromium").find(), args=QUIET)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: page.problems.append(request.url)
                if not request.url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")) else None)
        yield page
        browser.close()
