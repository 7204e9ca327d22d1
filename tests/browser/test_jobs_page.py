"""The page of all jobs, as somebody with a browser sees it."""

from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.unit.control.lakes import fill, make_lake


def test_a_job_is_shown_with_what_it_needs(served, open_page):
    lake = served.lakes.add("clicks", make_lake())
    fill(lake.source, "clicks", 1, 25)
    (served.lakes.directory / "broken.yaml").write_text("job: broken\nlake: nowhere\n", "utf-8")
    page = open_page("/ui/jobs")
    expect(page.get_by_role("link", name="clicks")).to_be_visible()
    expect(page.locator("#jobs")).to_contain_text("25")
    expect(page.locator("#jobs")).to_contain_text("not readable")
    expect(page.locator("#jobs")).to_contain_text("next")
    check_everywhere(page, "jobs")
