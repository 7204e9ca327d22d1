"""SQL over topics, into tables: the rows are those of one run over the whole input."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.kafka_tools import create_topic, delete_topic
from tests.spark.site import At, Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    forget_commit,
    last_commit,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.errors import (
    BadRecord,
    CheckpointUnfit,
    FilesLost,
    QueryRefused,
    QueryStopped,
    StreamReplaced,
)
from ashore.log.entries import Prepare
from ashore.log.names import SliceName, entry_path
from ashore.log.plan_commit import places_of
from ashore.log.store.reader import read_history, read_log
from ashore.plans.query import DescribedQuery
from ashore.proof.audit.auditor import Auditor, Pace
from ashore.proof.status.status import read_status
from ashore.queries.spark.sql.settings import JOIN_FORMAT
from ashore.queries.spark.sql.validate import describe_queries
from ashore.queries.tools.roll_back import apply as roll_back
from ashore.queries.tools.roll_back import plan as preview_rollback
from ashore.queries.tools.stopped_query import find_query
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import plan_clean_job
from ashore.topics.use.take_over import accept_losses, is_relandable, rejoin_topic

SLICE = "ods__per_minute"


def test_windows_are_counted_once_over_restarts_and_replays(site: Site) -> None:
    topic = site.topic(2)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    path = checkpoint(site, SLICE)
    for start in (0, 120, 240):
        part = encode(clicks(start, 120))
        site.produce(topic, part[::2], 0)
        site.produce(topic, part[1::2], 1)
        run(site, job_file)
        expected = per_minute(
            clicks(0, start + 120), watermark_ms=START_MS + (start + 119) * 1000 - 10_000
        )
        assert read_per_minute(site) == expected

        forget_commit(path, last_commit(path))  # as if killed before Spark was told
        run(site, job_file)
        assert read_per_minute(site) == expected
    verdict = site.prove(job_file)
    assert any("written by SQL" in note for note in verdict.notes)
    with open_job(job_file) as opened:
        (query,) = [each for each in read_status(opened).slices if each.slice == SLICE]
        assert query.lag == 0
        assert query.query is not None
        assert query.query.batch_id == last_commit(path)


def test_a_checkpoint_that_is_not_the_tables_is_refused(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    path = checkpoint(site, SLICE)
    site.produce(topic, encode(clicks(0, 200)))
    run(site, job_file)
    before, kept = read_per_minute(site), site.directory / "kept"
    shutil.copytree(path, kept)

    shutil.rmtree(path)
    with pytest.raises(CheckpointUnfit) as refused:
        run(site, job_file)
    assert refused.value.fields["why"] == "empty_checkpoint"

    assert read_per_minute(site) == before


@pytest.mark.long
def test_an_older_checkpoint_catches_up_with_its_table(site: Site) -> None:
    """Batches that the table holds run again, cut as they were: the state is what it was."""
    topic = site.topic(2)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    path, kept = checkpoint(site, SLICE), site.directory / "kept"
    for number in range(4):
        site.produce(topic, encode(clicks(number * 90, 90)), number % 2)
        run(site, job_file)
        if number == 0:
            shutil.copytree(path, kept)
    assert last_commit(path) - last_commit(kept) >= 3
    shutil.rmtree(path)
    shutil.copytree(kept, path)

    site.produce(topic, encode(clicks(360, 90)), 0)
    reported = At("never", lambda: None)
    run(site, job_file, reported)

    assert any("to rebuild the state" in warning for warning in reported.warnings)
    watermark_ms = START_MS + 449_000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 450), watermark_ms=watermark_ms)
    site.prove(job_file)


RIGHT = PER_MINUTE.replace("sum(id) AS", "sum(id) + 1 AS")  # the state is the same


def test_a_query_goes_back_to_an_earlier_batch_and_counts_on_with_other_sql(site: Site) -> None:
    topic, name = site.topic(2), SliceName("landing", SLICE)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    for number in range(4):
        site.produce(topic, encode(clicks(number * 90, 90)), number % 2)
        run(site, job_file)
    path = checkpoint(site, SLICE)
    last, to_batch = last_commit(path), 2
    assert last > to_batch + 1
    with open_job(job_file) as opened:
        auditor = Auditor(opened, Pace(1.0))
        assert auditor.tick().findings == ()
        query = find_query(opened, "ods.per_minute")
        plan = preview_rollback(opened, query, to_batch)
        assert (plan.from_batch, plan.to_batch) == (last, to_batch)
        assert read_per_minute(site) == per_minute(
            clicks(0, 360), watermark_ms=START_MS + 359_000 - 10_000
        )

        assert roll_back(opened, query, to_batch, "the SQL was wrong", takes_over=True) == plan

        assert auditor.tick().findings == ()
    assert len(read_per_minute(site)) < 2 * (359 - 10) // 60
    assert last_commit(checkpoint(site, SLICE)) == to_batch
    site.prove(job_file)

    changed = sql_job(site, RIGHT, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(360, 90)), 0)
    run(site, changed)

    watermark_ms = START_MS + 449_000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 450), watermark_ms=watermark_ms)
    verdict = site.prove(changed)
    assert any("written by SQL" in note for note in verdict.notes)
    aside = list(site.lake.glob("ods.db/per_minute/_aside-*/**/*.parquet"))
    assert len(aside) == plan.files
    strange = aside[0].relative_to(site.lake / "ods.db/per_minute")
    shutil.copy(aside[0], site.lake / "ods.db/per_minute" / Path(*strange.parts[1:]))
    with open_job(changed) as opened:
        again = Auditor(opened, Pace(1.0))
        assert any("no entry" in str(each.problem) for each in again.tick().findings)
    assert read_log(site.storage, name).unclosed is None


SHAPES = """
    CREATE TEMPORARY VIEW german AS SELECT * FROM clicks WHERE country = 'DE';
    -- one row for each id, however often it came; the comment holds a ;
    INSERT INTO ods.firsts
        SELECT id, max(country) AS country FROM clicks GROUP BY id, window(event_time, '1 second');
    INSERT INTO ods.pairs
        SELECT a.id, b.id AS other FROM german a JOIN orders b
        ON a.id = b.id AND b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 5 SECONDS;
    INSERT INTO ods.unmatched
        SELECT a.id, b.id AS other FROM clicks a LEFT JOIN orders b
        ON a.id = b.id AND b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 5 SECONDS;
    INSERT INTO ods.both SELECT id, 'a;b' AS kind FROM clicks WHERE id < 3
        UNION ALL SELECT id, 'order' FROM orders;
    INSERT INTO ods.twice SELECT a.id, a.kafka_offset, b.kafka_offset AS other
        FROM clicks a JOIN clicks b ON a.id = b.id AND a.event_time = b.event_time;
"""


@pytest.mark.long
def test_joins_unions_and_deduplication(site: Site) -> None:
    clicked, ordered = site.topic(1, "clicks"), site.topic(1, "orders")
    sinks = [{"table": f"ods.{name}"} for name in ("firsts", "pairs", "unmatched", "both", "twice")]
    job_file = sql_job(
        *(site, SHAPES, read_only(clicked), read_only(ordered, "orders"), *sinks),
        clean={"every": "1s"},
    )
    for start in (0, 50):
        part = clicks(start, 50)
        site.produce(clicked, [*encode(part), b"{broken", *encode(part[:1])])
        late = [(number, country, at_ms + 2000) for number, country, at_ms in part[::10]]
        site.produce(ordered, encode(late))
        run(site, job_file)
    # Beyond the watermark: what came before is final.
    site.produce(clicked, encode(clicks(10_000, 1)))
    site.produce(ordered, encode(clicks(10_001, 1)))
    reported = At("never", lambda: None)
    run(site, job_file, reported)

    ids = list(range(100))
    read = site.read
    firsts = read("ods.firsts").collect()
    assert sorted(row.id for row in firsts) == ids
    ten = [number for number in ids if number % 10 == 0]
    pairs = sorted(tuple(row) for row in read("ods.pairs").collect())
    # The first id of each part was clicked twice, and CN's are not of the view.
    german = [number for number in ten if number % 3]
    assert pairs == sorted(
        (number, number) for number in [*german, *(n for n in (50,) if n in german)]
    )
    unmatched = [row.id for row in read("ods.unmatched").collect() if row.other is None]
    assert sorted(unmatched) == [number for number in ids if number not in ten]
    both = sorted(tuple(row) for row in read("ods.both").collect())
    expected = [(0, "a;b"), (0, "a;b"), (1, "a;b"), (2, "a;b"), (10_001, "order")]
    assert both == sorted([*expected, *((number, "order") for number in ten)])
    twice = [row.id for row in read("ods.twice").collect()]
    assert sorted(twice) == sorted([*ids, 10_000, *[0, 0, 0], *[50, 50, 50]])
    assert all("cannot be decoded" not in warning for warning in reported.warnings)
    site.prove(job_file)


@pytest.mark.long  # state formats: test_state_rows.py
def test_a_join_that_was_begun_with_four_stores_keeps_them(site: Site) -> None:
    topic = site.topic(1)
    sql = """
        INSERT INTO ods.twice SELECT a.id FROM clicks a JOIN clicks b
        ON a.id = b.id AND a.event_time = b.event_time;
    """
    tables = [read_only(topic), {"table": "ods.twice"}]
    site.produce(topic, encode(clicks(0, 5)))
    run(site, sql_job(site, sql, *tables, spark={"conf": {JOIN_FORMAT: "2"}}))
    job_file = sql_job(site, sql, *tables)
    site.produce(topic, encode(clicks(3, 5)))
    run(site, job_file)
    # 3 and 4 came twice, and each of the two met both.
    ids = [row.id for row in site.read("ods.twice").orderBy("id").collect()]
    assert ids == [0, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 6, 7]
    stores = checkpoint(site, "ods__twice") / "state" / "0" / "0"
    assert len([each for each in stores.iterdir() if each.is_dir()]) == 4
    site.prove(job_file)


def test_sources_that_change_places_are_refused_and_nothing_is_planned(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "others"), {"table": "ods.both"}]
    sql = "INSERT INTO ods.both SELECT id FROM clicks UNION ALL SELECT id FROM others;"
    job_file = sql_job(site, sql, *tables)
    for start in (0, 10):
        site.produce(first, encode(clicks(start, 2)))
        site.produce(second, encode(clicks(start + 5, 2)))
        if start == 0:
            run(site, job_file)
    swapped = sql.replace("clicks", "?").replace("others", "clicks").replace("?", "others")
    with pytest.raises(QueryRefused, match="written with different sources"):
        run(site, sql_job(site, swapped, *tables))
    run(site, sql_job(site, sql, *tables))  # as the hint says
    assert sorted(row.id for row in site.read("ods.both").collect()) == [0, 1, 5, 6, 10, 11, 15, 16]
    site.prove(job_file)


@pytest.mark.long  # see test_moved_sources.py
def test_a_view_that_is_read_twice_keeps_its_place(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    sql = """
        INSERT INTO ods.all SELECT id FROM clicks UNION ALL SELECT id FROM clicks
        UNION ALL SELECT id FROM others UNION ALL SELECT id FROM clicks;
    """
    tables = [read_only(first), read_only(second, "others"), {"table": "ods.all"}]
    job_file = sql_job(site, sql, *tables)
    for start in (0, 2):
        site.produce(first, encode(clicks(start, 2)))
        site.produce(second, encode(clicks(start + 10, 2)))
        run(site, job_file)
    counted = Counter(row.id for row in site.read("ods.all").collect())
    assert counted == {**dict.fromkeys(range(4), 3), **dict.fromkeys(range(10, 14), 1)}
    site.prove(job_file)


def test_a_query_knows_the_topics_that_it_reads_and_no_others(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "others"), {"table": "ods.a"}, {"table": "ods.b"}]
    sql = "INSERT INTO ods.a SELECT id FROM clicks; INSERT INTO ods.b SELECT id FROM others;"
    job_file = sql_job(site, sql, *tables)
    site.produce(first, encode(clicks(0, 2)))
    run(site, job_file)
    with open_job(job_file) as opened:
        known = {each.slice: each.shards for each in read_status(opened).slices}
    assert [each.stream for each in known["ods__a"]] == [first]
    assert [each.stream for each in known["ods__b"]] == [second]

    delete_topic(site.servers, second)
    create_topic(site.servers, second, 1)
    site.produce(first, encode(clicks(2, 2)))
    with pytest.raises(QueryStopped, match=second) as stopped:
        run(site, job_file)
    assert [each["code"] for each in stopped.value.fields["stopped"]] == [StreamReplaced.code]
    assert sorted(row.id for row in site.read("ods.a").collect()) == [0, 1, 2, 3]


def test_sql_gives_a_watermark_where_its_topic_has_none(site: Site) -> None:
    topic = site.topic(1)
    timed = {"event_time", "late"}
    read = {name: value for name, value in read_only(topic).items() if name not in timed}
    clause = "FROM clicks WATERMARK timestamp_millis(ts) AS at DELAY OF INTERVAL 10 SECONDS"
    sql = PER_MINUTE.replace("FROM clicks", clause).replace("event_time", "at")
    job_file = sql_job(site, sql, read, PER_MINUTE_TABLE)
    for start in (0, 120):
        site.produce(topic, encode(clicks(start, 120)))
        run(site, job_file)
        latest_ms = START_MS + (start + 119) * 1000
        expected = per_minute(clicks(0, start + 120), watermark_ms=latest_ms - 10_000)
        assert read_per_minute(site) == expected
    site.prove(job_file)


@pytest.mark.long  # first offsets: tests/unit/queries
def test_a_topic_that_a_view_gets_later_is_read_from_its_beginning(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    sql = "INSERT INTO ods.a SELECT id FROM clicks;"
    for topic in (first, second):
        site.produce(topic, encode(clicks(0, 3)))  # before anybody reads
    run(site, sql_job(site, sql, read_only(first), {"table": "ods.a"}, first_start="latest"))
    both = [read_only(first), read_only(second), {"table": "ods.a"}]
    job_file = sql_job(site, sql, *both, first_start="latest")
    site.produce(first, encode(clicks(3, 3)))
    run(site, job_file)
    assert sorted(row.id for row in site.read("ods.a").collect()) == [0, 1, 2, 3, 4, 5]
    shards = read_log(site.storage, SliceName("landing", "ods__a")).shards.values()
    assert {state.key.stream: (state.first, state.next) for state in shards} == {
        first: (3, 6),
        second: (0, 3),  # as Spark has it, which asks nobody about a topic that comes later
    }
    site.prove(job_file)


def test_validate_tells_of_the_state_that_is_there(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 2)))
    run(site, sql_job(site, PER_MINUTE, *tables))

    def describe(**sql: object) -> tuple[DescribedQuery, ...]:
        path = sql_job(site, "", *tables, sql={"text": PER_MINUTE, **sql})
        job = site.writer(path).job
        return describe_queries(job)

    (query,) = describe()
    (operator,) = query.operators
    assert operator.state_partitions == 2  # a first start would have more
    with pytest.raises(CheckpointUnfit, match=r"2 partitions, .* 4"):
        describe(state_partitions=4)


@pytest.mark.long  # attempts: tests/crash/test_checkpoint_attempts.py
@pytest.mark.long
def test_a_join_goes_on_after_the_root_that_it_was_begun_in_is_gone(site: Site) -> None:
    topic, roots = site.topic(1), set()
    sql = """
        INSERT INTO ods.twice SELECT a.id FROM clicks a JOIN clicks b
        ON a.id = b.id AND a.event_time = b.event_time;
    """
    tables = [read_only(topic), {"table": "ods.twice"}]
    job_file = sql_job(site, sql, *tables)
    for click in clicks(0, 3):
        site.produce(topic, encode([click]))
        run(site, job_file)
        roots.add(root := checkpoint(site, "ods__twice"))
        for left in root.parent.glob("left-*.json"):
            left.unlink()  # as if killed: the next start makes a root of its own
        for older in roots - {root}:
            shutil.rmtree(older, ignore_errors=True)  # as after `clean.ttl`
    assert len(roots) == 3
    site.produce(topic, encode(clicks(0, 5)))
    run(site, job_file)
    ids = [row.id for row in site.read("ods.twice").orderBy("id").collect()]
    assert ids == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 4]
    site.prove(job_file)

    # Spark finds the columns of the state, which it compares, by an absolute path.
    site.produce(topic, encode(clicks(5, 1)))
    with pytest.raises(QueryRefused, match="checkpoint was made"):
        run(site, sql_job(site, sql.replace("a.id = b.id", "a.country = b.country"), *tables))


def test_bad_records_are_reported_of(site: Site) -> None:
    topic = site.topic(1)
    sql = "INSERT INTO ods.big SELECT id FROM clicks;"
    job_file = sql_job(site, sql, read_only(topic), {"table": "ods.big"})
    site.produce(topic, [b"{broken", *encode(clicks(0, 3)), None])
    reported = At("never", lambda: None)
    run(site, job_file, reported)
    assert [row.id for row in site.read("ods.big").orderBy("id").collect()] == [0, 1, 2]
    assert any(each.startswith("batch 0: 2 records of clicks ") for each in reported.warnings)


def test_a_bad_record_stops_a_query_that_is_to_fail(site: Site) -> None:
    topic = site.topic(1)
    sql = "INSERT INTO ods.strict SELECT id FROM clicks;"
    job_file = sql_job(site, sql, read_only(topic, on_invalid="fail"), {"table": "ods.strict"})
    site.produce(topic, [b"{broken", *encode(clicks(0, 3))])
    with pytest.raises(BadRecord, match=f"{topic}/0/0 cannot be decoded"):
        run(site, job_file)


REFUSED = [
    ("SELECT country, count(*) AS n FROM clicks GROUP BY country", "event time"),
    ("SELECT id FROM clicks ORDER BY id", "cannot be sorted"),
    ("SELECT nope FROM clicks", "nope"),
    ("SELECT id FROM ods.clicks", "ods"),
    ("SELECT 1 AS id", "reads no topic"),
    ("SELECT id, id FROM clicks", "id"),
]


def test_what_spark_refuses_is_reported_in_words(site: Site) -> None:
    topic = site.topic(1)
    for number, (select, words) in enumerate(REFUSED):
        sql = f"INSERT INTO ods.big {select};"
        job_file = sql_job(site, sql, read_only(topic), {"table": "ods.big"}, job=f"job{number}")
        with pytest.raises(QueryRefused, match=words) as refused:
            run(site, job_file)
        assert refused.value.hint
        assert "\n" not in refused.value.message


STATEMENTS = [
    ("INSERT INTO ods.big SELEC id FROM clicks;", r"\.yaml:\d+:\d+: Syntax error"),
    ("SELECT id FROM clicks;", "neither a view nor"),
    ("INSERT OVERWRITE ods.big SELECT id FROM clicks;", "INSERT OVERWRITE is not"),
    ("CREATE TEMPORARY VIEW v AS SELECT id FROM clicks;", "no INSERT writes ods.big"),
    (2 * "INSERT INTO ods.big SELECT id FROM clicks;", "two statements"),
    ("WITH w AS (SELECT id FROM clicks) INSERT INTO ods.big SELECT * FROM w;", "before its"),
    ("INSERT INTO ods.big (id) SELECT id FROM clicks;", "a column list is not"),
]


def test_statements_that_are_none_of_a_job(site: Site) -> None:
    topic = site.topic(1)
    for number, (sql, words) in enumerate(STATEMENTS):
        job_file = sql_job(site, sql, read_only(topic), {"table": "ods.big"}, job=f"job{number}")
        with pytest.raises(QueryRefused, match=words):
            run(site, job_file)


def test_a_stream_is_joined_with_a_file_and_its_sessions_are_counted(site: Site) -> None:
    topic = site.topic(1)
    names = site.directory / "names.json"
    names.write_text('{"code": "DE", "name": "Germany"}\n{"code": "FR", "name": "France"}\n')
    sql = f"""
        CREATE TEMPORARY VIEW names USING json OPTIONS (path '{names}');
        INSERT INTO ods.named SELECT id, name FROM clicks LEFT JOIN names ON country = code;
        INSERT INTO ods.sessions SELECT session_window.start AS began, country, count(*) AS clicks
            FROM clicks GROUP BY session_window(event_time, '5 seconds'), country;
    """
    sinks = [{"table": "ods.named"}, {"table": "ods.sessions"}]
    job_file = sql_job(site, sql, read_only(topic), *sinks)
    site.produce(topic, encode([*clicks(0, 3), *clicks(20, 2), *clicks(100, 1)]))

    run(site, job_file)

    named = {row.id: row.name for row in site.read("ods.named").collect()}
    assert named == {0: None, 1: "Germany", 2: "Germany", 20: "Germany", 21: None, 100: "Germany"}
    rows = site.read("ods.sessions").selectExpr("unix_millis(began)", "country", "clicks").collect()
    assert sorted(((row[0] - START_MS) // 1000, row[1], row[2]) for row in rows) == [
        *((0, "CN", 1), (1, "DE", 2), (20, "DE", 1), (21, "CN", 1))
    ]
    site.prove(job_file)


def test_a_backlog_is_many_batches(site: Site) -> None:
    topic, name = site.topic(2), SliceName("landing", "ods__big")
    tables = [read_only(topic), {"table": "ods.big"}]
    for partition in range(2):
        site.produce(topic, encode(clicks(partition * 100, 100)), partition)
    sql = "INSERT INTO ods.big SELECT id FROM clicks;"
    record_bytes = len(encode(clicks(0, 1))[0])
    limits = {"interval": "300ms", "max_bytes": f"{record_bytes * 60}B"}
    job_file = sql_job(site, sql, *tables, batch=limits)
    run(site, job_file)
    bodies = (entry.body for entry in read_history(site.storage, name))
    sizes = [
        sum(read.offsets.size for read in body.shards)
        for body in bodies
        if isinstance(body, Prepare)
    ]
    assert sum(sizes) == 200
    assert len(sizes) >= 4
    assert max(sizes) <= 60
    assert sorted(row.id for row in site.read("ods.big").collect()) == list(range(200))
    site.prove(job_file)


def test_sql_that_does_not_fit_the_state_is_refused(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(0, 200)))
    run(site, job_file)
    more = PER_MINUTE.replace("sum(id) AS ids", "sum(id) AS ids, max(id) AS most")
    job_file = sql_job(site, more, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(200, 100)))
    with pytest.raises(QueryRefused, match="checkpoint was made"):
        run(site, job_file)


def test_validate_tells_what_the_queries_would_be(site: Site) -> None:
    """Without a topic, a checkpoint or a row."""
    sql = PER_MINUTE + "INSERT INTO ods.big SELECT id FROM clicks WHERE id > 4;"
    sql += "INSERT INTO ods.odd SELECT uuid() AS u, current_timestamp() AS t FROM clicks"
    sql += " WHERE rand() < 0.5;"
    tables = (PER_MINUTE_TABLE, {"table": "ods.big"}, {"table": "ods.odd"})
    job_file = sql_job(site, sql, read_only("nowhere"), *tables)
    job = site.writer(job_file).job

    counted, big, odd = describe_queries(job)

    assert counted.warnings == big.warnings == ()
    assert [each.split("`")[1] for each in odd.warnings] == [
        "rand()",
        "uuid()",
        "current_timestamp",
    ]
    assert (counted.table, counted.slice) == ("ods.per_minute", SLICE)
    assert counted.checkpoint == f"file://{checkpoint(site, SLICE).parent}"
    assert [each.reads for each in counted.sources] == ["nowhere"]
    (operator,) = counted.operators
    assert operator.name == "aggregate by window 1 minute, country"
    assert (operator.state_partitions, operator.is_bounded) == (2, True)
    assert [each.name for each in operator.state_columns] == ["count(*)", "sum(id)"]
    assert (big.operators, big.columns) == ((), "`id` bigint")
    assert list(site.lake.iterdir()) == []


def test_a_topic_lands_and_is_read_by_sql_from_a_file(site: Site) -> None:
    topic = site.topic(1)
    landed = read_only(topic, land=True, on_invalid="dead_letter", partition_by=[])
    del landed["late"]
    (site.directory / "big.sql").write_text(
        "INSERT INTO ods.big SELECT id FROM clicks WHERE id > 4"
    )
    job_file = sql_job(site, "", landed, {"table": "ods.big"}, sql={"file": "big.sql"})
    site.produce(topic, [*encode(clicks(0, 10)), b"{broken"])

    run(site, job_file)

    assert site.read("ods.clicks").count() == 10
    assert site.read("ods.clicks__dead").count() == 1
    assert sorted(row.id for row in site.read("ods.big").collect()) == [5, 6, 7, 8, 9]
    with open_job(job_file) as opened:
        auditor = Auditor(opened, Pace(1.0))
        for _ in range(3):
            audited = auditor.tick()
            assert audited.findings == ()
        assert (audited.gauge.lag, audited.gauge.unaccounted) == (0, 0)
    verdict = site.prove(job_file)
    assert {table.table: table.tally.landed for table in verdict.tables}["ods.big"] == 5


def test_lost_files_of_a_query_are_given_up_on_purpose_only(site: Site) -> None:
    topic, name = site.topic(1), SliceName("landing", "ods__firsts")
    sql = """
        INSERT INTO ods.firsts SELECT id, max(country) AS country FROM clicks
        GROUP BY id, window(event_time, '1 second');
    """
    job_file = sql_job(site, sql, read_only(topic), {"table": "ods.firsts"})
    for start in (0, 200):
        site.produce(topic, encode(clicks(start, 200)))
        run(site, job_file)
    # As if killed before the last entry was closed; and then its files are gone.
    (site.lake / entry_path(name, read_log(site.storage, name).end)).unlink()
    unclosed = read_log(site.storage, name).unclosed
    assert unclosed is not None
    assert isinstance(unclosed.body, Prepare)
    lost = sum(file.rows for file in unclosed.body.files)
    assert lost == 200
    for place in places_of(name, unclosed):
        (site.lake / place.final).unlink()

    with pytest.raises(FilesLost, match="are gone"):
        run(site, job_file)
    with open_job(job_file) as opened:
        with pytest.raises(QueryRefused, match="cannot be read again"):
            is_relandable(opened, takes_over=True)
        with pytest.raises(QueryRefused, match="read by SQL only"):
            rejoin_topic(opened, topic, takes_over=True)
        assert accept_losses(opened, "the disk is gone", takes_over=True).rows == lost
        assert accept_losses(opened, "again", takes_over=True).files == 0
        assert not is_relandable(opened, takes_over=True)
        assert plan_clean_job(opened).steps == ()
    site.produce(topic, encode(clicks(400, 100)))
    run(site, job_file)
    ids = sorted(row.id for row in site.read("ods.firsts").select("id").collect())
    assert ids == [*range(189), *range(389, 489)]
    site.prove(job_file)
