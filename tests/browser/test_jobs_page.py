"""The page of all jobs, as somebody with a browser sees it."""

from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.unit.proof.lakes import fill, make_lake


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


def test_a_job_has_a_sparkline_of_its_rate_that_says_what_it_is(served, open_page):
    lake = served.lakes.add("clicks", make_lake())
    served.watch.look()
    for number in range(4):
        fill(lake.source, "clicks", 1, 100)
        start = 40 + 100 * number
        lake.land({lake.key(1): (start, start + 100)})
        served.watch.look()
    page = open_page("/ui/jobs")
    spark = page.get_by_role("img", name="records per second of clicks, lately")
    expect(spark).to_be_visible()
    assert spark.locator("path").get_attribute("d").count("L") >= 2, "a line over several looks"
    check_everywhere(page, "jobs-sparkline")


def test_a_state_of_the_summary_leads_to_its_jobs(served, open_page):
    served.lakes.add("clicks", make_lake())
    (served.lakes.directory / "broken.yaml").write_text("job: broken\nlake: nowhere\n", "utf-8")
    served.watch.look()
    page = open_page("/ui/jobs")
    expect(page.locator("nav").get_by_role("link", name="Drills")).to_have_count(0)
    page.locator("#summary div", has_text="not readable").get_by_role("link", name="1").click()
    expect(page.locator("#jobs tbody tr:visible")).to_have_count(1)
    expect(page.locator("#jobs")).to_contain_text("broken")


def test_the_wall_shows_each_job_and_whether_one_needs_a_person(served, open_page):
    served.lakes.add("clicks", make_lake())
    served.watch.look()
    page = open_page("/ui/wall")
    expect(page.locator(".verdict")).to_have_text("1 job, none needs a person")
    (served.lakes.directory / "broken.yaml").write_text("job: broken\nlake: nowhere\n", "utf-8")
    served.watch.look()
    expect(page.locator(".verdict")).to_have_text("1 of 2 jobs needs a person")  # by itself
    expect(page.locator(".cells li")).to_have_count(2)
    expect(page.locator(".cells .bad")).to_contain_text("broken")
    expect(page.locator(".needs")).to_contain_text("broken")
    check_everywhere(page, "wall")
    page.locator(".cells").get_by_role("link", name="clicks").click()
    expect(page.get_by_role("heading", name="clicks")).to_be_visible()
