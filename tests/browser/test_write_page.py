"""The page on which a job file is written."""

from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere

GOOD = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
"""


def test_a_job_file_is_checked_as_one_types_and_saved(served, open_page):
    page = open_page("/ui/write")
    page.get_by_label("Name of the job").fill("clicks")
    text = page.get_by_label("Job file", exact=True)
    text.fill(GOOD.replace("schema:", "shcema:"))
    findings = page.locator("#findings")
    expect(findings).to_contain_text("line 7, column 5")
    expect(findings).to_contain_text("did you mean `schema`?")
    check_everywhere(page, "write")
    page.get_by_role("link", name="line 7, column 5").click()
    expect(text).to_be_focused()
    text.fill(GOOD)
    expect(findings).to_contain_text("The job file can be run")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved as clicks.yaml")).to_be_visible()
    assert (served.lakes.directory / "clicks.yaml").read_text("utf-8") == GOOD


def test_a_token_that_may_only_read_checks_and_saves_nothing(served, open_page):
    page = open_page("/ui/write", token="may-read")
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    page.get_by_label("Name of the job").fill("clicks")
    page.get_by_label("Job file", exact=True).fill(GOOD)
    expect(page.locator("#findings")).to_contain_text("The job file can be run")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("may only read")


def test_brokers_that_do_not_answer_are_named_with_what_to_do(served, open_page):
    page = open_page("/ui/write")
    page.get_by_label("Brokers").fill("127.0.0.1:1")
    page.get_by_label("Topics").fill("clicks")
    page.get_by_role("button", name="propose").click()
    expect(page.get_by_role("alert")).to_contain_text("next")
    assert page.get_by_label("Topics").input_value() == "clicks"
    check_everywhere(page, "write-unreachable")
