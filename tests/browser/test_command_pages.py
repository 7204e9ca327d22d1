"""Checks and drills that a page asks for, and the list of all operations: real commands."""

from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.unit.proof.lakes import make_lake

JOB = """\
job: fresh
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT"}}
"""


def test_a_check_is_asked_for_and_answers_on_its_page(served, open_page, tmp_path):
    served.job_file("fresh").write_text(JOB.format(lake=tmp_path), "utf-8")
    served.watch.look()
    page = open_page("/ui/jobs/fresh/checks")
    check_everywhere(page, "checks")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#command")).to_contain_text("exit code", timeout=90_000)
    expect(page.locator("#command")).to_contain_text("The answer as JSON")
    check_everywhere(page, "verify")
    page.get_by_role("link", name="Operations").click()
    expect(page.get_by_role("link", name="verify")).to_be_visible()
    check_everywhere(page, "operations")


def test_drills_are_listed_and_one_is_asked_for(served, open_page):
    """It is ended at once: the drill itself is played by the tests of drills."""
    page = open_page("/ui/drills")
    check_everywhere(page, "drills-none")
    page.get_by_role("button", name="List the drills").click()
    asked_for = page.get_by_role("button", name="Run kill-driver", exact=True)
    expect(asked_for).to_be_visible(timeout=90_000)
    check_everywhere(page, "drills")
    asked_for.click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#command")).to_contain_text("cancelled", timeout=90_000)
    (asked, _) = served.plane.operations.all()
    assert (asked.request.command, asked.request.job) == ("drill run", "")
    assert asked.request.line == ("drill", "run", "--json", "--", "kill-driver")
    page.goto("/ui/drills")
    expect(page.locator("#drills")).to_contain_text("drill run")


def test_who_may_only_read_asks_for_no_check(served, open_page):
    served.lakes.add("clicks", make_lake())
    served.watch.look()
    page = open_page("/ui/jobs/clicks/checks", token="may-read")
    expect(page.get_by_role("button", name="Verify")).to_have_count(0)
    page.goto("/ui/jobs/clicks/checkpoints")
    expect(page.locator("main")).to_contain_text("keeps no checkpoint")
    check_everywhere(page, "checkpoints-none")
