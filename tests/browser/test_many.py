"""200 jobs: their page stays fluent."""

import time
from collections.abc import Callable

from playwright.sync_api import expect
from tests.unit.control.lakes import make_lake
from tests.unit.server.test_needs import seen, supervised

from ashore.server.pages.fleet_page import list_jobs
from ashore.server.pages.fleet_view import view_fleet
from ashore.server.pages.render import render

MANY = 200


def cpu_ms(page: Callable[[], str]) -> float:
    """Return the processor time that a page takes: the best of some, as the machine is busy."""
    spent = []
    for _ in range(5):
        began = time.process_time()
        page()
        spent.append((time.process_time() - began) * 1000)
    return min(spent)


def test_two_hundred_jobs_are_filtered_by_typing(served, open_page):
    for number in range(MANY):
        served.lakes.add(f"job-{number:03}", make_lake())
    served.watch.look()
    page = open_page("/ui/jobs")
    expect(page.locator("#jobs tbody tr")).to_have_count(MANY)
    page.get_by_label("Filter").fill("job-17")
    expect(page.locator("#jobs tbody tr:visible")).to_have_count(10)
    expect(page.locator("#shown")).to_have_text(f"10 of {MANY} shown")
    served.lakes.directory.joinpath("job-170.yaml").unlink()
    expect(page.locator("#jobs tbody tr:visible")).to_have_count(9)  # live, and filtered still
    page.get_by_label("Filter").fill("")
    page.get_by_role("link", name="Job", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("Job")


def test_a_page_of_many_jobs_is_made_without_asking_anybody():
    jobs = [seen(f"job-{n:03}", supervised=supervised()) for n in range(MANY)]

    def page() -> str:
        shown = {"visitor": None, "events": "", "stamp": "", "at": "Jobs"}
        return render("jobs.html", main=list_jobs(view_fleet(jobs), "/jobs"), **shown)

    assert page().count("<tr data-words") == MANY
    assert cpu_ms(page) < 50
