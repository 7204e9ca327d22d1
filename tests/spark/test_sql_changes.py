"""Other SQL on a state that is there: refused where it means something else, written down else."""

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.log.entries import Plan
from ashore.log.names import SliceName
from ashore.log.progress import Quiet
from ashore.log.store.reader import read_history, read_log
from ashore.plans.graph import read_stored
from ashore.plans.operators import describe_operators
from ashore.proof.status.query_versions import RecordedVersion, read_versions
from ashore.queries.spark.sql.validate import describe_queries

NAME = SliceName("landing", "ods__per_minute")
OTHER = PER_MINUTE.replace("sum(id)", "max(id)")  # of the same type: Spark takes it
WAS_AND_IS = r"was `sum\([\w-]+\.id\)`, is `max\([\w-]+\.id\)`"  # columns are a topic's
HALVED = PER_MINUTE.replace("sum(id) AS ids", "sum(id) * 2 AS ids")


def plans_of(site: Site) -> list[Plan]:
    entries = read_history(site.storage, NAME)
    return [entry.body for entry in entries if isinstance(entry.body, Plan)]


def ids_of(site: Site) -> list[int]:
    rows = site.read("ods.per_minute").selectExpr("unix_millis(minute) AS at", "country", "ids")
    return [row.ids for row in rows.orderBy("at", "country").collect()]


def sums(count: int, factor: int = 1) -> list[int]:
    """What the first minutes hold, in the order of `ids_of`."""
    found: dict[tuple[int, str], int] = {}
    for number, country, at_ms in clicks(0, count * 60):
        key = ((at_ms - START_MS) // MINUTE_MS, country)
        found[key] = found.get(key, 0) + number * factor
    return [found[key] for key in sorted(found)]


def test_sql_that_means_something_else_is_refused_before_spark_sees_the_checkpoint(
    site: Site,
) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))  # one minute is over, one is in the state
    run(site, sql_job(site, PER_MINUTE, *tables))
    assert ids_of(site) == sums(1)
    (plan,) = plans_of(site)
    (operator,) = describe_operators(read_stored(plan.document).graph)
    assert "country" in operator.keys

    site.produce(topic, encode(clicks(100, 100)))
    other = sql_job(site, OTHER, *tables)
    before = sorted(str(each) for each in site.lake.rglob("*") if "_checkpoints" in str(each))
    with pytest.raises(QueryRefused, match=WAS_AND_IS) as refused:
        describe_queries(site.writer(other).job)
    assert f"`{operator.name}` is lost (" in refused.value.message
    assert "lost sum(" in refused.value.message
    assert refused.value.fields["operators"] == [{"name": operator.name, "verdict": "lost"}]
    assert before == sorted(
        str(each) for each in site.lake.rglob("*") if "_checkpoints" in str(each)
    )
    with pytest.raises(QueryRefused, match=WAS_AND_IS):
        run(site, other)
    assert plans_of(site) == [plan]
    assert ids_of(site) == sums(1)

    run(site, sql_job(site, PER_MINUTE, *tables))  # as the hint says
    assert ids_of(site) == sums(3)
    assert plans_of(site) == [plan]


def test_what_is_made_of_a_state_may_change_and_is_written_down(site: Site) -> None:
    topic, unread = site.topic(1), site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))
    run(site, sql_job(site, PER_MINUTE, *tables))
    spaced = PER_MINUTE.replace("SELECT", "SELECT /*+ id('minutes') */ -- for the record\n")
    more = [*tables, read_only(unread, "unread")]
    view = "CREATE TEMPORARY VIEW aside AS SELECT * FROM unread;"
    run(site, sql_job(site, view + spaced, *more))  # the same, to who reads it
    assert len(plans_of(site)) == 1

    site.produce(topic, encode(clicks(100, 100)))
    halved = sql_job(site, HALVED, *tables)
    (described,) = describe_queries(site.writer(halved).job)
    assert described.slice == NAME.slice
    run(site, halved)
    assert ids_of(site) == [*sums(1), *sums(3, 2)[2:]]
    assert [plan.digest for plan in plans_of(site)][1] == read_log(site.storage, NAME).plan.digest
    site.prove(halved)
    third, second, first = versions_of(site)  # the second reads a topic more
    assert [each.version for each in (third, second, first)] == [3, 2, 1]
    assert first.batch == 0 < third.batch
    assert "sum(id) AS ids" in first.content.sql[-1]
    assert "-- for the record" in second.content.sql[-1]
    assert [each.id for each in second.content.operators] == ["minutes"]
    (operator,) = third.content.operators
    assert operator.name.startswith("aggregate by ")
    # A copy lies beside the state of the attempt, and Spark has gone on.
    newest = max((site.lake / ".ashore/landing/_checkpoints/ods__per_minute").glob("[0-9]*"))
    copies = {path.name for path in newest.glob("ashore-version-*")}
    assert copies >= {"ashore-version-1.json", "ashore-version-3.json"}


def test_a_start_like_the_one_before_is_no_version_and_another_setting_is(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))
    job = sql_job(site, PER_MINUTE, *tables)
    run(site, job)
    run(site, job)
    assert [each.version for each in versions_of(site)] == [1]
    site.produce(topic, encode(clicks(100, 100)))
    other = {**PER_MINUTE_TABLE, "roll": {"size": "1MB"}}
    run(site, sql_job(site, PER_MINUTE, read_only(topic), other))
    assert [each.version for each in versions_of(site)] == [2, 1]


def versions_of(site: Site) -> list[RecordedVersion]:
    return list(read_versions(site.storage, NAME))


def test_validate_refuses_other_sql_for_a_batch_that_is_half_done(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))
    run(site, sql_job(site, PER_MINUTE, *tables))
    root = max((site.lake / ".ashore/landing/_checkpoints/ods__per_minute").glob("[0-9]*"))
    newest = max(int(each.name) for each in (root / "commits").iterdir() if each.name.isdigit())
    (root / "commits" / str(newest)).unlink()
    for path in (root / "commits").glob(f".{newest}.*"):
        path.unlink()
    describe_queries(site.writer(sql_job(site, PER_MINUTE, *tables)).job)
    changed = sql_job(site, HALVED, *tables)
    for refuse in (
        lambda: describe_queries(site.writer(changed).job),
        lambda: run(site, changed),
    ):
        with pytest.raises(CheckpointUnfit) as refused:
            refuse()
        assert refused.value.fields["why"] == "other_lineage"
    assert read_per_minute(site)


class Told(Quiet):
    """A progress that keeps what is said."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def warn(self, slice_name: str, message: str) -> None:
        self.messages.append(message)

    def note(self, slice_name: str, message: str) -> None:
        self.messages.append(message)


def test_a_filter_below_an_aggregate_may_change_and_is_reported_once(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    site.produce(topic, encode(clicks(0, 100)))
    run(site, sql_job(site, PER_MINUTE, *tables))
    site.produce(topic, encode(clicks(100, 100)))
    filtered = sql_job(
        site, PER_MINUTE.replace("FROM clicks", "FROM clicks WHERE id % 2 = 0"), *tables
    )
    told = Told()
    run(site, filtered, told)
    assert sum("those of a replay" in each for each in told.messages) == 1
    found: dict[tuple[int, str], int] = {}
    for number, country, at_ms in clicks(0, 180):
        key = ((at_ms - START_MS) // MINUTE_MS, country)
        found[key] = found.get(key, 0) + (number if number < 100 or number % 2 == 0 else 0)
    assert ids_of(site) == [found[key] for key in sorted(found)]
    again = Told()
    run(site, filtered, again)
    assert not again.messages

    german = sql_job(site, f"{PER_MINUTE.strip().rstrip(';')} HAVING country = 'DE';", *tables)
    with pytest.raises(QueryRefused, match="country") as refused:
        run(site, german)
    assert "migrate check" in refused.value.hint
