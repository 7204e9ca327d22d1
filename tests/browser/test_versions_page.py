"""Versions on a page: two side by side, searched by attribute."""

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.unit.cli.test_versions_commands import JOB, NAME, NEW, OLD

from ashore.log.entries import next_version
from ashore.log.store.log import LandingLog, LogContext
from ashore.plans.version import write_version
from ashore.storage import LocalStorage
from ashore_lab.testing import FakeClock


@pytest.fixture
def two_versions(served, tmp_path):
    write(served, tmp_path, OLD, NEW)


def write(served, tmp_path, *versions):
    storage = LocalStorage(str(tmp_path / "lake"))
    log = LandingLog(LogContext(storage, FakeClock(), lambda: "0" * 16), NAME)
    for version in versions:
        log.open()
        log.append(next_version(log.fold, write_version(version), write_version(version)), None)
    path = served.lakes.directory / "clicks.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    served.watch.look()


def test_two_versions_side_by_side(served, two_versions, open_page):
    page = open_page("/ui/jobs/clicks/versions")
    expect(page.get_by_role("heading", name="version 1 and version 2")).to_be_visible()
    expect(page.locator(".diff").first).to_contain_text("+  sum(price)")
    expect(page.locator(".versions-picture svg")).to_be_visible()
    check_everywhere(page, "versions")


def test_operators_are_searched_by_attribute(served, two_versions, open_page):
    page = open_page("/ui/jobs/clicks/versions")
    rows = page.locator("#operators tbody tr")
    total = rows.count()
    page.get_by_label("Search").fill("aggregate")
    expect(page.locator("#operators tbody tr:visible")).not_to_have_count(total)
    expect(page.locator("#operators tbody tr:visible").first).to_contain_text("aggregate")
