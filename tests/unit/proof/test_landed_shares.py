"""Dead letters and records without event time are reported above a share of the last ones."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import CLICKS_0, JOB, TABLE, Lake

from ashore.jobs.file import parse_job
from ashore.log.entries import Prepare
from ashore.log.query import Query
from ashore.proof.evidence.record_shares import _known, _looked
from ashore.proof.status.health import Allowed, check_health, worst_ailment
from ashore.proof.status.status import JobStatus, Warned, read_status
from ashore.topics.loop.shares import ShareWindow, find_bad, summarize


def a_lake(records: int) -> Lake:
    _looked.clear()
    _known.clear()  # each lake of these tests has the same name
    lake = Lake()
    lake.source.create("clicks", 1)
    lake.source.append(CLICKS_0, *[b"{}"] * records)
    lake.open()
    lake.join(0)
    return lake


def warnings_of(lake: Lake) -> list[Warned]:
    return [each for each in status_of(lake).warnings if each.kind == "bad_records"]


def status_of(lake: Lake) -> JobStatus:
    return read_status(lake.opened())


def code_of(lake: Lake) -> int:
    return worst_ailment(check_health(lake.opened(), status_of(lake), Allowed()))


def test_a_job_that_lands_nothing_is_not_healthy():
    lake = a_lake(50)
    lake.land({lake.key(): (0, 50)}, dead=range(50))
    (warned,) = warnings_of(lake)
    assert warned.subject == TABLE
    assert f"50 records of {TABLE} (100 %)" in warned.text
    assert "dead letters" in warned.text
    assert code_of(lake) == 1


def test_a_few_dead_letters_of_many_records_are_healthy():
    lake = a_lake(2_000)
    lake.land({lake.key(): (0, 2_000)}, dead=range(20))
    assert warnings_of(lake) == []
    assert code_of(lake) == 0


def test_one_dead_letter_of_a_small_topic_is_no_warning():
    lake = a_lake(20)
    lake.land({lake.key(): (0, 20)}, dead={7})
    assert warnings_of(lake) == []


def test_the_share_is_of_the_last_records():
    lake = a_lake(400)
    lake.job = lake.job.model_copy(update={"health": replace_health(lake, records=100)})
    lake.land({lake.key(): (0, 100)}, dead=range(100))
    lake.land({lake.key(): (100, 200)})
    assert warnings_of(lake) == []
    lake.land({lake.key(): (200, 300)}, dead=range(200, 250))
    assert "50 of the last 100 records" in warnings_of(lake)[0].text


def replace_health(lake: Lake, **changes: int):
    return lake.job.health.model_copy(update=changes)


def test_records_without_event_time_are_reported():
    lake = a_lake(300)
    entry = lake.land({lake.key(): (0, 300)})
    assert isinstance(entry.body, Prepare)
    lake.rewrite(replace(entry.body, counters=(("no_event_time", 300),)))
    (warned,) = warnings_of(lake)
    assert f"300 records of {TABLE} (100 %)" in warned.text
    assert "no event time" in warned.text
    assert "event_time" in warned.hint
    assert code_of(lake) == 1


@pytest.mark.parametrize("counter", ["no_event_time", "near_1970", "far_future"])
def test_each_kind_of_bad_time_is_explained_by_a_record(counter: str):
    lake = a_lake(300)
    lake.job = parse_job(JOB.replace("    late:", "    event_time: {column: ts}\n    late:"))
    lake.source.append(CLICKS_0, b'{"ts": 1764000000}')
    entry = lake.land({lake.key(): (0, 301)})
    assert isinstance(entry.body, Prepare)
    lake.rewrite(replace(entry.body, counters=((counter, 300),)))
    (warned,) = warnings_of(lake)
    assert "`ts` of clicks/0 offset 300 is 1764000000" in warned.text
    assert code_of(lake) == 1
    notes = lake.verify().notes
    assert warned.text in notes


def test_records_that_are_dropped_count_as_dead_letters_do():
    lake = a_lake(50)
    lake.land({lake.key(): (0, 50)}, dropped=range(50))
    (warned,) = warnings_of(lake)
    assert "50 of the last 50 records" in warned.text
    assert "were dropped" in warned.text
    assert "on_invalid: dead_letter" in warned.hint


def test_bad_records_of_a_query_are_a_share_of_the_offsets_that_it_read():
    lake = a_lake(200)
    entry = lake.land({lake.key(): (0, 200)})
    body = entry.body
    assert isinstance(body, Prepare)
    counters = (("far_future", 1), ("records_undecodable", 150), ("records_untimed", 12))
    reads = tuple(replace(each, fetched=0, landed=0) for each in body.shards)
    query = Query("query", 0, "lineage", 0)
    lake.rewrite(replace(body, shards=reads, counters=counters, query=query))
    found = [each.text for each in find_bad([summarize(lake.entries[-1].body)], 10_000, 0.01)]
    bad, untimed = (each.partition(" (")[0] for each in found)
    assert (bad[:4], untimed[:3]) == ("150 ", "12 ")
    assert bad.endswith(f"200 offsets read for {TABLE}")
    assert untimed.endswith(f"200 offsets read for {TABLE}")
    assert "cannot be decoded" in found[0]


WHERE = JOB.replace("    late:", "    where: id > 100\n    late:")


def filtering(records: int) -> Lake:
    lake = a_lake(records)
    lake.job = parse_job(WHERE)
    lake.job = lake.job.model_copy(update={"health": replace_health(lake, records=100)})
    return lake


def filter_warnings_of(lake: Lake) -> list[Warned]:
    return [each for each in status_of(lake).warnings if each.kind == "all_filtered"]


def test_a_filter_that_passes_nothing_is_reported_with_its_condition_and_a_record():
    lake = filtering(150)
    lake.source.append(CLICKS_0, b'{"id": 7}')
    lake.land({lake.key(): (0, 99)}, filtered=range(99))
    assert filter_warnings_of(lake) == []  # few records: it may be right
    lake.land({lake.key(): (99, 151)}, filtered=range(99, 151))
    (warned,) = filter_warnings_of(lake)
    assert warned.subject == TABLE
    assert f" 151 records of {TABLE} passes its `where`: id > 100" in warned.text
    assert warned.text.endswith('; clicks/0 offset 150 is {"id": 7}')
    assert "health.records" in warned.hint
    assert code_of(lake) == 1
    assert warned.text in lake.verify().notes


def test_a_filter_that_passes_one_record_of_the_last_ones_is_healthy():
    lake = filtering(250)
    lake.land({lake.key(): (0, 150)}, filtered=range(149))
    assert code_of(lake) == 0
    lake.land({lake.key(): (150, 240)}, filtered=range(150, 240))
    assert code_of(lake) == 0
    lake.land({lake.key(): (240, 250)}, filtered=range(240, 250))
    assert "the last 100 records" in filter_warnings_of(lake)[0].text


def test_a_running_job_reports_a_filter_that_passes_nothing_once():
    lake = a_lake(500)
    window = ShareWindow(150, 0.01)

    def take(start: int, filtered: range) -> list[str]:
        entry = lake.land({lake.key(): (start, start + 100)}, filtered=filtered)
        assert isinstance(entry.body, Prepare)
        return list(window.take(entry.body))

    assert take(0, range(100)) == []
    (text,) = take(100, range(100, 200))
    assert f"200 records of {TABLE} passes its `where`" in text
    assert take(200, range(200, 300)) == []
    assert take(300, range(300, 399)) == []
    assert take(400, range(400, 500)) == []


def test_a_running_job_reports_a_share_once_and_again_after_it_was_right():
    lake = a_lake(500)
    window = ShareWindow(100, 0.01)

    def take(start: int, dead: range) -> list[str]:
        entry = lake.land({lake.key(): (start, start + 100)}, dead=dead)
        assert isinstance(entry.body, Prepare)
        return list(window.take(entry.body))

    (text,) = take(0, range(100))
    assert "100 of the last 100 records" in text
    assert take(100, range(100, 200)) == []
    assert take(200, range(0)) == []
    assert len(take(300, range(300, 400))) == 1
