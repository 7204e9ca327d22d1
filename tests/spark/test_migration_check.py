"""`ashore migrate check`: other SQL, compared with the state that a run has left."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kafka_tools import delete_records
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    read_only,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.base.clock import SystemClock
from ashore.cli.app import app
from ashore.cli.migrate_view import judged_lines
from ashore.errors import SchemaConflict
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.plans.change.replay import ReplayLook, TimeRange, WrongWindows
from ashore.plans.change.verdicts import SparkAlone, StateVerdict
from ashore.plans.query import PlannedQuery
from ashore.queries.change.check import judge_job, look_at_replay, look_at_replays, measure_losses
from ashore.queries.spark.sql.validate import plan_stored
from ashore.queries.state.checkpoint import open_directory
from ashore.queries.state.outline import copied_outlines
from ashore.topics.loop.job import load_job_file
from ashore.topics.open_job import open_job
from ashore.topics.read.lazy import open_later

MORE = PER_MINUTE.replace("sum(id) AS ids", "sum(id) AS ids, max(id) AS last")


@pytest.fixture
def jobs(site: Site) -> tuple[Path, Path]:
    """A job that has run, and a file with other SQL for it."""
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    old = sql_job(site, PER_MINUTE, *tables)
    site.produce(topic, encode(clicks(0, 100)))
    kept = site.directory / "old.yaml"
    kept.write_bytes(old.read_bytes())
    run(site, kept)
    return kept, sql_job(site, MORE, *tables)


def snapshot(root: Path) -> dict[str, tuple[bytes, int, int]]:
    """Return all files below a directory, with their contents, times and inodes."""
    return {
        str(each): (each.read_bytes(), each.stat().st_mtime_ns, each.stat().st_ino)
        for each in root.rglob("*")
        if each.is_file()
    }


def plan_beside(site: Site, old: Path, new: Path) -> tuple[PlannedQuery, ...]:
    """Plan other SQL, which Spark compares with the checkpoints of the job."""
    clock = SystemClock()
    with open_job(old) as opened, copied_outlines(opened) as outlines:
        directories = {each.slice: open_directory(each.path, clock) for each in outlines.copies}
        planned = plan_stored(site.writer(new).job, directories)
        return tuple(outlines.explain(each) for each in planned)


def topic_of(job_file: Path) -> str:
    return load_job_file(job_file).tables[0].topic or ""


def lines_of(site: Site, old: Path, new: Path) -> str:
    with open_job(old) as opened:
        return "\n".join(judged_lines(judge_job(opened, plan_beside(site, old, new))))


def test_the_plan_in_the_log_is_compared_with_the_new_sql(
    site: Site, jobs: tuple[Path, Path]
) -> None:
    old, new = jobs
    before = snapshot(site.lake)
    with open_job(old) as opened:
        (found,) = judge_job(opened, plan_beside(site, old, new))
        (same,) = judge_job(opened, plan_stored(site.writer(old).job))
    assert same.verdict.verdict is StateVerdict.FULL
    assert found.query == "ods.per_minute"
    assert found.verdict.verdict is StateVerdict.PARTIAL
    (operator,) = found.verdict.operators
    refused = SparkAlone(accepts=False, error="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE")
    assert found.verdict.spark == operator.spark == refused
    assert same.verdict.spark is None  # it was not asked
    assert snapshot(site.lake) == before


ALONE = {
    "sum(id) AS ids": ("max(id) AS ids", "Spark alone would start and give wrong numbers"),
    "country, count": ("upper(country) AS country, count", ""),
    "GROUP BY window(event_time, '1 minute'), country": (
        "GROUP BY window(event_time, '5 minutes'), country",
        "Spark alone would start and give wrong numbers",
    ),
    "AS clicks": ("AS clicks, avg(id) AS mean", "refuses: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
    "FROM clicks": ("FROM clicks WHERE id > 3", ""),
}


def test_what_spark_alone_would_do_is_told_where_it_differs(
    site: Site, jobs: tuple[Path, Path]
) -> None:
    old, _ = jobs
    before = snapshot(site.lake)
    topic = read_only(topic_of(old))
    for part, (other, wanted) in ALONE.items():
        assert part in PER_MINUTE
        text = lines_of(
            site, old, sql_job(site, PER_MINUTE.replace(part, other), topic, PER_MINUTE_TABLE)
        )
        assert wanted in text, text
        assert bool(wanted) == ("Spark" in text), text
    assert snapshot(site.lake) == before


def test_a_checkpoint_that_is_not_there_is_said(site: Site, jobs: tuple[Path, Path]) -> None:
    old, new = jobs
    shutil.rmtree(checkpoint(site, "ods__per_minute").parent)
    assert "known: there is no checkpoint" in lines_of(site, old, new)


OTHER_KEY = PER_MINUTE.replace("country, count", "upper(country) AS country, count").replace(
    "'1 minute'), country", "'1 minute'), upper(country)"
)


def look(site: Site, old: Path, *tables: dict[str, object]) -> tuple[ReplayLook, str]:
    new = sql_job(site, OTHER_KEY, *tables)
    with open_job(old) as opened:
        planned = plan_stored(site.writer(new).job)
        found = look_at_replays(opened, judge_job(opened, planned), planned)
        (query,) = found
        assert query.verdict.verdict is StateVerdict.REFUSED
        assert query.replay is not None
        return query.replay, "\n".join(judged_lines(found))


def test_a_replay_is_offered_only_for_what_kafka_still_has(
    site: Site, jobs: tuple[Path, Path]
) -> None:
    old, _ = jobs
    topic = topic_of(old)
    tables = (read_only(topic), PER_MINUTE_TABLE)
    complete, text = look(site, old, *tables)
    assert complete == ReplayLook()
    assert "a replay is complete" in text

    delete_records(site.servers, topic, 0, 40)
    lacking, text = look(site, old, *tables)
    (missing,) = lacking.missing
    assert (missing.key.stream, missing.key.shard, str(missing.offsets)) == (topic, "0", "[0, 40)")
    assert lacking.times is None
    assert "complete" not in text
    assert f"up to 40 records of {topic}/0" in text
    assert "only their offsets" in text


@pytest.mark.long
def test_windows_that_a_replay_may_get_wrong_are_told_where_a_table_has_their_records(
    site: Site,
) -> None:
    topic = site.topic(1)
    landed = {**read_only(topic), "land": True}
    old = sql_job(site, PER_MINUTE, landed, PER_MINUTE_TABLE)
    kept = site.directory / "old.yaml"
    kept.write_bytes(old.read_bytes())
    site.produce(topic, encode(clicks(0, 100)))
    run(site, kept)
    delete_records(site.servers, topic, 0, 40)
    lacking, text = look(site, kept, landed, PER_MINUTE_TABLE)
    assert lacking.tables == ("ods.clicks",)
    assert lacking.times == TimeRange(START_MS, START_MS + 99_000)
    end = START_MS + 2 * MINUTE_MS
    assert lacking.windows == (WrongWindows("window 1 minute", START_MS, end),)
    assert "each window 1 minute wrong" in text


def test_what_is_dropped_is_told_in_bytes(site: Site, jobs: tuple[Path, Path]) -> None:
    old, _ = jobs
    less = PER_MINUTE.replace(", sum(id) AS ids", "")
    new = sql_job(site, less, read_only(topic_of(old)), PER_MINUTE_TABLE)
    with open_job(old) as opened:
        judged = judge_job(opened, plan_stored(site.writer(new).job))
        (found,) = measure_losses(opened, judged)
    state = checkpoint(site, "ods__per_minute") / "state"
    written = [each for each in state.rglob("*.changelog") if not each.name.startswith(".")]
    assert written
    assert found.losses is not None
    (lost,) = found.losses.states
    assert lost.size_bytes == sum(each.stat().st_size for each in written)
    assert lost.rows is None  # no snapshot yet
    text = "\n".join(judged_lines([found]))
    assert "no file counts" in text
    assert "a part is dropped" in text


def test_a_renamed_column_of_the_table_is_shown_with_the_option_of_a_start(
    site: Site, jobs: tuple[Path, Path]
) -> None:
    old, _ = jobs
    renamed = PER_MINUTE.replace("AS clicks", "AS n")
    new = sql_job(site, renamed, read_only(topic_of(old)), PER_MINUTE_TABLE)
    text = lines_of(site, old, new)
    assert "\n  table: column clicks is dropped" in text
    assert "\n  table: column n BIGINT is added" in text
    assert "\nfull: " in text
    assert "--accept-schema" in text
    assert "table:" not in lines_of(site, old, old)
    with pytest.raises(SchemaConflict, match="column clicks is dropped"):
        run(site, new)


def test_a_broker_that_does_not_answer_is_no_offer(site: Site, jobs: tuple[Path, Path]) -> None:
    old, _ = jobs
    with open_job(old) as opened:
        fold = read_log(opened.storage, SliceName("landing", "ods__per_minute"))
        away = open_later("127.0.0.1:1", {}, 1.0)
        found = look_at_replay(replace(opened, source=away), fold)
    assert not found.is_complete
    assert found.unknown


@pytest.mark.long
def test_the_command_answers_with_json_and_an_exit_code(
    site: Site, jobs: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = jobs
    mapping = tmp_path / "mapping.yaml"
    arguments = ["migrate", "check", str(old), "--to", str(new), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--write-mapping", str(mapping)])
    assert result.exit_code == 4, result.stderr
    document = json.loads(result.stdout)
    assert document["verdict"] == "partial"
    (operator,) = document["operators"]
    (pair,) = document["mapping"]
    assert operator["old"] == pair["old"]
    assert {each["verdict"] for each in operator["columns"]} == {"full", "convert", "partial"}
    assert operator["spark"] == {
        "accepts": False,
        "error": "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    }
    assert document["queries"][0]["spark"]["accepts"] is False
    text = mapping.read_text("utf-8").replace("pin:", "pin: []\n_:").replace("forbid: []", "")
    mapping.write_text(text.replace("_:", "forbid:"), "utf-8")
    forbidden = CliRunner().invoke(app, [*arguments, "--mapping", str(mapping)])
    assert {each["verdict"] for each in json.loads(forbidden.stdout)["operators"]} == {
        "partial",
        "lost",
    }
