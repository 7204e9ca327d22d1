"""Pages of a real server in a real Chromium.

The jobs are lakes in memory with a source that tests fill; the server, the watch and the browser
are real.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.browser.only_watched import OnlyWatched
from tests.unit.proof.lakes import Lake

from ashore.base.clock import SystemClock
from ashore.fleet.access.guard import RequestAccess
from ashore.fleet.access.tokens import TokenFile
from ashore.fleet.machine.check_process import CheckProcesses
from ashore.fleet.records.store import write_text
from ashore.fleet.server.job_watch import FleetWatch
from ashore.fleet.server.pages.routes import pages_router
from ashore.topics.open_job import OpenJob, open_job

TOKENS = [
    {"name": "operate", "role": "operate", "token": "may-operate"},
    {"name": "read", "role": "read", "token": "may-read"},
]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 740}

expect.set_options(timeout=30_000)  # the machine may be busy


class Lakes:
    """Jobs of a directory: `add` writes a file; its lake is in memory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lakes: dict[str, Lake] = {}

    def add(self, name: str, lake: Lake) -> Lake:
        self.lakes[name] = lake
        (self.directory / f"{name}.yaml").write_text("# its lake is in memory\n", "utf-8")
        return lake

    def open(self, path: Path) -> AbstractContextManager[OpenJob]:
        lake = self.lakes.get(path.stem)
        if lake is None:
            return open_job(path)
        job = lake.job.model_copy(update={"path": str(path)})
        return nullcontext(replace(lake.opened(), job=job))


@dataclass
class Served:
    """A server with its jobs."""

    address: str
    lakes: Lakes
    watch: FleetWatch
    plane: OnlyWatched

    def job_file(self, name: str) -> Path:
        return self.lakes.directory / f"{name}.yaml"


class _QuietServer(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Leave signals to pytest."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    directory = tmp_path / "jobs"
    directory.mkdir()
    lakes = Lakes(directory)
    watch = FleetWatch(directory, SystemClock(), lakes.open)
    app = FastAPI()
    plane = OnlyWatched(watch)
    tokens = TokenFile(tmp_path / "tokens.json")
    write_text(tokens.path, json.dumps({"tokens": TOKENS, "key": "00"}), 0o600)
    checks = CheckProcesses()
    app.include_router(pages_router(plane, RequestAccess(tokens), checks))
    config = uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1)
    server = _QuietServer(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    watch.start()
    plane.operations.start()
    try:
        yield Served(f"http://127.0.0.1:{port}", lakes, watch, plane)
    finally:
        server.should_exit = True
        thread.join()
        watch.close()
        plane.operations.end()
        checks.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "no Chromium is installed; run: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser, served: Served) -> Iterator[Any]:
    """Return what opens a page, logged in. Errors of the script fail the test."""
    opened = []

    def open_(path: str, *, token: str = "may-operate") -> Page:
        context = chromium.new_context(base_url=served.address, viewport=WIDE)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console", lambda said: errors.append(said.text) if "Security" in said.text else None
        )
        opened.append((context, errors))
        page.goto(f"/ui/login?next={path}")
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url: "/ui/login" not in url)
        return page

    yield open_
    for context, errors in opened:
        context.close()
        assert errors == []


def check_everywhere(page: Page, picture: str = "") -> None:
    """Fail where axe finds something, or the page is wider than its window: light, dark, narrow.

    `picture`: where pictures of it go, for those who look themselves.
    """
    for size in (WIDE, NARROW):
        page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            if directory := os.environ.get("PICTURES"):
                path = f"{directory}/{picture or 'page'}-{scheme}-{size['width']}.png"
                page.screenshot(path=path, full_page=True)
        across = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert across <= 0, f"the page is {across} pixels wider than the window"
    page.set_viewport_size(WIDE)
