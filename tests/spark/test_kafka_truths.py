"""What Kafka does to a topic, and what becomes of the table: nothing lost, nothing made up."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kafka_tools import (
    Transaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
)
from tests.spark.compaction import SETTINGS, produce_compacted
from tests.spark.site import Around, Site, events, table_of

from ashore.errors import OffsetsGone, StreamReplaced
from ashore.log.entries import Prepare, Skip
from ashore.log.positions import OffsetRange, ShardKey
from ashore.topics.loop.recovery import rejoin
from ashore.topics.loop.worker import Tick

Replaceable = tuple[str, Callable[[], None]]


def ids(site: Site, table: str = "ods.events") -> list[int]:
    return sorted(site.landed_ids(table).values())


# --- transactions --------------------------------------------------------------------------------


def test_aborted_records_never_land_and_open_ones_wait(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 10))
    with Transaction(site.servers, topic, f"aborted-{topic}") as aborted:
        aborted.send(events(900, 5))
        aborted.abort()
    site.produce(topic, events(10, 10))
    job_file = site.job_file(table_of(topic))
    writer = site.writer(job_file)
    writer.loop.open()
    with Transaction(site.servers, topic, f"open-{topic}") as held:
        held.send(events(20, 3))
        site.produce(topic, events(30, 4))  # behind the open transaction: not stable either

        assert writer.ticks() == [Tick.LANDED, Tick.IDLE]
        assert ids(site) == list(range(20))

        held.commit()
    assert writer.ticks() == [Tick.LANDED, Tick.IDLE]

    assert site.landed_ids() == site.committed_ids(topic)
    assert ids(site) == [*range(23), *range(30, 34)]
    site.prove(job_file)


def test_latest_begins_before_an_open_transaction(site: Site) -> None:
    """The high watermark would cut inside it, and lose what was sent before the first start."""
    topic = site.topic()
    site.produce(topic, events(0, 5))
    job_file = site.job_file(table_of(topic), first_start="latest")
    with Transaction(site.servers, topic, f"open-{topic}") as held:
        held.send(events(100, 3))
        site.writer(job_file).drain()
        held.commit()
    site.produce(topic, events(200, 2))

    site.writer(job_file).drain()  # another process: `latest` is not resolved again

    assert ids(site) == [100, 101, 102, 200, 201]
    site.prove(job_file)


def test_a_range_of_markers_only_is_a_batch_without_files(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 3))
    job_file = site.job_file(table_of(topic))
    writer = site.writer(job_file)
    writer.drain()
    with Transaction(site.servers, topic, f"aborted-{topic}") as aborted:
        aborted.send(events(900, 5))

    site.writer(job_file).drain()

    last = [entry.body for entry in site.history() if isinstance(entry.body, Prepare)][-1]
    assert (last.files, last.shards[0].fetched) == ((), 0)
    assert last.shards[0].offsets == OffsetRange(3, 9)  # five records and the marker
    site.produce(topic, events(3, 1))
    site.writer(job_file).drain()
    assert ids(site) == [0, 1, 2, 3]
    site.prove(job_file)


# --- compaction and retention --------------------------------------------------------------------


def test_holes_of_compaction_are_no_gaps(site: Site) -> None:
    topic = site.topic(**SETTINGS)
    number = produce_compacted(site, topic, 0, 200)
    job_file = site.job_file(table_of(topic), batch={"max_records": 60})

    site.writer(job_file).drain()

    landed = site.landed_ids()
    assert landed == site.committed_ids(topic)
    assert len(landed) < number
    totals = site.prove(job_file).totals
    assert totals.fetched == totals.landed == len(landed)


def test_a_gap_stops_the_job_and_is_named(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 5), partition=1)
    job_file = site.job_file(table_of(topic))
    site.writer(job_file).drain()
    site.produce(topic, events(5, 10), partition=1)
    delete_records(site.servers, topic, 1, 12)

    with pytest.raises(OffsetsGone) as caught:
        site.writer(job_file).drain()

    assert f"{topic}/1 [5, 12)" in caught.value.message
    assert "gap: skip" in caught.value.hint
    assert ids(site) == [0, 1, 2, 3, 4]


def test_a_gap_is_recorded_where_the_job_says_skip(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 5), partition=1)
    job_file = site.job_file(table_of(topic), gap="skip")
    site.writer(job_file).drain()
    site.produce(topic, events(5, 10), partition=1)
    delete_records(site.servers, topic, 1, 12)

    site.writer(job_file).drain()

    skips = [entry.body for entry in site.history() if isinstance(entry.body, Skip)]
    assert [str(each) for skip in skips for each in skip.ranges] == [f"{topic}/1 [5, 12)"]
    assert ids(site) == [0, 1, 2, 3, 4, 12, 13, 14]
    assert site.prove(job_file).totals.skipped == 7


def test_retention_under_a_running_batch_fails_it_and_names_the_gap(site: Site) -> None:
    """Spark finds records gone that the plan has seen; the next plan finds the gap."""
    topic = site.topic()
    site.produce(topic, events(0, 30))
    job_file = site.job_file(table_of(topic))

    def expire() -> None:
        delete_records(site.servers, topic, 0, 20)

    with pytest.raises(OffsetsGone) as caught:
        site.writer(job_file, wrap=lambda runner: Around(runner, before=expire)).drain()

    assert f"{topic}/0 [0, 20)" in caught.value.message
    assert site.files() == []


# --- topics that change --------------------------------------------------------------------------


def test_a_topic_created_again_stops_the_job_until_it_rejoins(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, [*events(0, 20), b"no JSON"], partition=0)
    job_file = site.job_file(table_of(topic))
    site.writer(job_file).drain()
    delete_topic(site.servers, topic)
    create_topic(site.servers, topic, 2)
    # Offsets go on past those that were landed.
    site.produce(topic, [*events(100, 20), b"no JSON", *events(120, 10)], partition=0)

    with pytest.raises(StreamReplaced) as caught:
        site.writer(job_file).drain()
    assert ids(site) == list(range(20))
    assert f"ashore rejoin JOB.yaml {topic}" in caught.value.hint

    helper = site.writer(job_file)
    joined = rejoin(helper.parts.committer(), helper.source, topic)
    site.writer(job_file).drain()

    assert joined == 2
    rows = site.read().select("id", "kafka_offset").collect()
    assert sorted(row.id for row in rows) == [*range(20), *range(100, 130)]
    assert {row.kafka_offset for row in rows if row.id < 20} == set(range(20))  # they collide
    assert {row.kafka_offset for row in rows if row.id >= 100} == set(range(31)) - {20}
    assert site.fold().shards[ShardKey("kafka", topic, 2, "0")].next == 31
    for table, prefix in (("ods.events", "kafka_"), ("ods.events__dead", "")):
        found = pa.concat_tables(pq.ParquetFile(each).read() for each in site.files(table))
        columns = [f"{prefix}{name}" for name in ("topic", "partition", "offset")]
        assert len(found.group_by(columns).aggregate([])) < len(found)
        unique = found.group_by([*columns, f"{prefix}generation"]).aggregate([])
        assert len(unique) == len(found)
    totals = site.prove(job_file).totals
    assert (totals.landed, totals.dead, totals.duplicated) == (50, 2, 0)


@pytest.fixture
def replaceable(site: Site) -> Replaceable:
    """Return a topic with the ids 0 to 19, and what replaces it by one with 100 to 119."""
    topic = site.topic()
    site.produce(topic, events(0, 20))

    def replace() -> None:
        delete_topic(site.servers, topic)
        create_topic(site.servers, topic, 1)
        site.produce(topic, events(100, 20))

    return topic, replace


@pytest.mark.parametrize(
    ("reader", "when"),
    [
        ("native", "before"),  # the reader notices: the batch fails, and is planned again
        ("python", "before"),
        ("python", "after"),
    ],
)
def test_a_topic_replaced_while_it_is_read_is_not_prepared(
    site: Site, replaceable: Replaceable, reader: str, when: str
) -> None:
    topic, replace = replaceable
    job_file = site.job_file(table_of(topic), reader=reader)

    with pytest.raises(StreamReplaced):
        site.writer(job_file, wrap=lambda runner: Around(runner, **{when: replace})).drain()

    assert site.files() == []
    assert not any(isinstance(entry.body, Prepare) for entry in site.history())


def test_what_was_read_by_its_id_lands_though_the_topic_is_replaced_then(
    site: Site, replaceable: Replaceable
) -> None:
    topic, replace = replaceable
    job_file = site.job_file(table_of(topic), reader="native")

    site.writer(job_file, wrap=lambda runner: Around(runner, after=replace)).drain()

    assert ids(site) == [*range(20)]
    with pytest.raises(StreamReplaced):
        site.writer(job_file).drain()
    assert ids(site) == [*range(20)]


def test_added_partitions_join_from_their_beginning(site: Site) -> None:
    topic = site.topic(1)
    job_file = site.job_file(table_of(topic), first_start="latest")
    writer = site.writer(job_file)
    writer.loop.open()
    assert writer.ticks() == [Tick.IDLE]
    site.produce(topic, events(0, 5))
    add_partitions(site.servers, topic, 3)
    site.produce(topic, events(100, 5), partition=2)

    assert writer.ticks() == [Tick.LANDED, Tick.IDLE]

    assert ids(site) == [*range(5), *range(100, 105)]
    site.prove(job_file)


def test_a_topic_found_later_begins_at_its_beginning_in_a_table_of_its_own(site: Site) -> None:
    first = site.topic(1, "shop")
    family = first.removeprefix("shop-")
    site.produce(first, events(0, 5))
    job_file = site.job_file(
        table_of(f"/.*-{family}/", "ods.{topic}"), first_start="latest", gap="skip"
    )
    writer = site.writer(job_file)
    writer.loop.open()
    assert writer.ticks() == [Tick.IDLE]
    site.produce(first, events(5, 2))
    later = f"bank-{family}"
    create_topic(site.servers, later, 2)
    site.produce(later, events(100, 5), partition=1)

    assert writer.ticks() == [Tick.LANDED, Tick.IDLE]

    assert ids(site, f"ods.shop_{family}") == [5, 6]
    assert ids(site, f"ods.bank_{family}") == [100, 101, 102, 103, 104]
    assert (site.path_of(f"ods.bank_{family}") / ".ashore" / "owner-0.json").exists()
    site.prove(job_file)


def test_a_topic_that_is_gone_does_not_hold_up_the_others(site: Site) -> None:
    staying = site.topic(1, "shop")
    family = staying.removeprefix("shop-")
    leaving = f"bank-{family}"
    create_topic(site.servers, leaving, 1)
    site.produce(leaving, events(100, 5))
    job_file = site.job_file(table_of(f"/.*-{family}/", "ods.{topic}"), batch={"max_records": 10})
    writer = site.writer(job_file)
    writer.loop.open()
    writer.ticks()
    delete_topic(site.servers, leaving)
    site.produce(staying, events(0, 25))

    assert writer.ticks() == [Tick.BEHIND, Tick.BEHIND, Tick.LANDED, Tick.IDLE]

    assert ids(site, f"ods.shop_{family}") == list(range(25))
    assert ids(site, f"ods.bank_{family}") == [100, 101, 102, 103, 104]
    site.prove(job_file)
