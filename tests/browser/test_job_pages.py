"""The pages of one job: its overview, its log, its dead letters."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.checkpoint_files import unpack
from tests.unit.proof.lakes import Lake, fill, make_lake

from ashore.fleet.records.history import JobSample, write_sample
from ashore.log.entries import Commit, Open
from ashore.log.names import SliceName, checkpoint_directory
from ashore.queries.state.attempts import Attempts
from ashore.storage import LocalStorage

PARTS = ("", "/log", "/log/main/3", "/dead-letters", "/file")


def served_lake(served):
    lake = served.lakes.add("clicks", make_lake())
    for number in range(6):
        fill(lake.source, "clicks", 1, 100)
        start = 40 + 100 * number
        lake.land({lake.key(1): (start, start + 100)})
    lake.append(Commit("idle"))
    fill(lake.source, "clicks", 1, 1_234)
    return lake


def test_pages_of_a_job_are_for_everybody(served, open_page):
    served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks")
    for part in PARTS:
        page.goto(f"/ui/jobs/clicks{part}")
        check_everywhere(page, "job" + part.replace("/", "-"))


def put_dead_letters(lake: Lake) -> None:
    """Put what a task writes where the lake of tests has a file of dead letters."""
    fill(lake.source, "clicks", 0, 2)
    entry = lake.land({lake.key(0): (100, 102)}, dead=[100, 101])
    rows = {
        "value": pa.array([b'{"id": "<b>ten</b>"}', None], pa.binary()),
        "key": pa.array([None, b"k"], pa.binary()),
        "topic": pa.array(["clicks", "clicks"]),
        "partition": pa.array([0, 0], pa.int32()),
        "offset": pa.array([100, 101], pa.int64()),
        "timestamp": pa.array([1_763_000_000_000_000] * 2, pa.timestamp("us", "UTC")),
        "reason": pa.array(['wrong-type: id BIGINT "ten"', "empty"]),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink)
    lake.relist(entry, 0, sink.getvalue())


def test_dead_letters_are_shown_with_reasons_and_what_to_do(served, open_page):
    lake = served.lakes.add("clicks", make_lake())
    put_dead_letters(lake)
    served.watch.look()
    page = open_page("/ui/jobs/clicks/dead-letters")
    main = page.locator("main")
    expect(main).to_contain_text("4 records of this job are no row")
    expect(main).to_contain_text('another type than its column: id BIGINT "ten"')
    expect(main).to_contain_text("the record has no value")
    expect(main).to_contain_text('{"id": "<b>ten</b>"}')
    expect(main).to_contain_text("ask the producer's team")
    expect(main).to_contain_text("does not exist in schema")  # of the files of make_lake
    check_everywhere(page)


def test_the_log_is_walked_by_keys_and_shows_another_writer(served, open_page):
    lake = served_lake(served)
    for _ in range(50):
        lake.epoch += 1
        lake.append(Open("there", 7, "1"))
    served.watch.look()
    page = open_page("/ui/jobs/clicks/log")
    expect(page.locator("#timeline")).to_contain_text("60 open")
    expect(page.locator("#timeline")).to_contain_text("another writer")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**to=20")
    expect(page.locator("#timeline")).to_contain_text("20 open")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**to=60")
    page.get_by_role("link", name="60 open").click()
    page.wait_for_url("**/log/main/60")  # loaded with its script, which hears the keys
    expect(page.locator("main")).to_contain_text("process 7 on there")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("heading", name="Entry 59: open")).to_be_visible()


def test_an_entry_leads_to_the_history_of_its_files(served, open_page):
    served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks/log/main/5")
    page.locator("main table a").first.click()
    expect(page.get_by_text("in its table", exact=True)).to_be_visible()
    expect(page.locator(".timeline")).to_contain_text("5 prepared")
    expect(page.locator(".timeline")).to_contain_text("its entry is closed")
    check_everywhere(page, "file")


def test_a_page_is_live(served, open_page):
    lake = served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks")
    expect(page.locator("#facts")).to_contain_text("1,234")
    page.locator("summary", has_text="topic partitions").focus()
    page.keyboard.press("Enter")
    lake.land({lake.key(1): (640, 700)})
    expect(page.locator("#facts")).to_contain_text("1,174")
    expect(page.get_by_role("cell", name="1,174")).to_be_visible()  # what was opened stays open
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_pages_that_cannot_be_read_say_what_to_do(served, open_page):
    served_lake(served)
    (served.lakes.directory / "bad.yaml").write_text("job: bad\nlake: nowhere\n", "utf-8")
    served.watch.look()
    page = open_page("/ui/jobs")
    for path, said in (
        ("/ui/jobs/none", "there is no job file none.yaml"),
        ("/ui/jobs/bad", "a lake is a URI"),
        ("/ui/jobs/bad/log", "a lake is a URI"),
        ("/ui/jobs/clicks/log/main/999", "it has entries 0 to"),
        ("/ui/jobs/clicks/log?part=nope", "there is main"),
    ):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(said)
        expect(page.locator("main")).to_contain_text("next")
    check_everywhere(page, "message")


def test_a_job_shows_lag_batches_and_what_it_waits_for(served, open_page):
    served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks")
    expect(page.locator("#facts")).to_contain_text("1,234")
    expect(page.locator("svg.waterfall")).to_be_visible()
    expect(page.locator("svg.waterfall text", has_text="batch 7")).to_be_visible()


def test_what_blocks_each_seal_is_named(served, open_page):
    lake = served.lakes.add("clicks", make_lake())
    lake.clock.advance(4 * 86_400)
    fill(lake.source, "clicks", 1, 25)
    served.watch.look()
    page = open_page("/ui/jobs/clicks")
    blocked = page.locator("h2", has_text="What blocks seals").locator("+ ul > li")
    expect(blocked).to_have_count(2)
    for each in blocked.all_text_contents():
        assert each.startswith("ods.clicks date=")
        assert "an event time" in each
    check_everywhere(page, "job-blocked")


CHECKPOINTED = """\
job: queries
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:1"}}}}
tables:
  - {{topic: clicks, table: ods.clicks, schema: "id BIGINT", land: false, on_invalid: drop}}
  - {{table: ods.big, format: jsonl}}
sql: |
  INSERT INTO ods.big SELECT id FROM clicks WHERE id > 10;
"""


def test_partitions_of_a_state_are_shown_with_bars_of_their_size(served, open_page, tmp_path):
    """The state is one that Spark wrote, with 7,842 and 11,757 bytes."""
    path = served.lakes.directory / "queries.yaml"
    path.write_text(CHECKPOINTED.format(lake=tmp_path / "lake"))
    directory = checkpoint_directory(SliceName("queries", "ods__big"))
    lake = tmp_path / "lake"
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb-changelog", lake / directory).rename(lake / attempts.attempt(1).path)
    served.watch.look()
    page = open_page("/ui/jobs/queries/checkpoints")
    table = page.get_by_role("region", name="Partitions of").first
    bars = table.locator("svg.bar")
    expect(bars).to_have_count(2)
    widths = [each.bounding_box()["width"] for each in bars.locator("rect").all()]
    assert abs(widths[0] / widths[1] - 7_842 / 11_757) < 0.02
    said = [each.get_attribute("aria-label") for each in bars.all()]
    assert said == ["67% of the largest", "100% of the largest"], "and in words"
    expect(page.locator("main")).to_contain_text("Even: the largest partition has 1.2 times")
    check_everywhere(page, "checkpoints")
    expect(page.locator("main")).to_contain_text("None beside the job's log.")
    page.get_by_role("button", name="Take a savepoint").click()
    expect(page.locator("main")).to_contain_text("checkpoint savepoint")
    expect(page.locator("main")).to_contain_text('"kind": "full"')
    page.goto("/ui/jobs/queries/checkpoints")
    expect(page.locator("main")).to_contain_text("_savepoints/ods__big/savepoint-")


def test_the_log_of_the_process_is_read_and_filtered(served, open_page):
    served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks/output")
    expect(page.locator("#output")).to_contain_text("once it starts")
    path = served.plane.run_files("clicks").log
    path.parent.mkdir(parents=True)
    lines = [
        {"at": "2026-01-02T03:04:05Z", "kind": "landed", "slice": "main", "batch": 1, "rows": 2},
        {"at": "2026-01-02T03:04:06Z", "kind": "warning", "message": "<b>no broker</b>"},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    page.reload()
    rows = page.locator("#output tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("<b>no broker</b>")
    check_everywhere(page, "output")
    page.get_by_label("Filter").fill("landed")
    expect(page.locator("#output tbody tr:visible")).to_have_count(1)


def test_charts_of_an_hour_a_day_and_a_week(served, open_page):
    served_lake(served)
    served.watch.look()
    page = open_page("/ui/jobs/clicks")
    expect(page.locator("#history svg")).to_have_count(0)
    path, now_ms = served.plane.run_files("clicks").history, served.plane.now_ms()
    path.parent.mkdir(parents=True)
    for ago_ms in range(2 * 86_400_000, 0, -600_000):
        write_sample(path, JobSample(now_ms - ago_ms, 5, 900, 0, 3, 1_500))
    page.reload()
    history = page.locator("#history")
    expect(history.get_by_role("img")).to_have_count(4)
    expect(history.get_by_role("heading", name="Last hour")).to_be_visible()
    check_everywhere(page, "history")
    history.get_by_role("link", name="week").click()
    expect(history.get_by_role("heading", name="Last week")).to_be_visible()
    expect(history.get_by_role("img", name="dead letters")).to_be_visible()
    check_everywhere(page, "history-week")


def test_the_job_file_is_shown_with_line_numbers_and_without_secrets(served, open_page):
    served_lake(served)
    served.job_file("clicks").write_text("job: clicks\nsource: {password: hidden}\n", "utf-8")
    served.watch.look()
    page = open_page("/ui/jobs/clicks/job-file")
    expect(page.locator(".text ol li")).to_have_count(2)
    expect(page.locator(".text ol")).not_to_contain_text("hidden")
    check_everywhere(page, "job-file")
