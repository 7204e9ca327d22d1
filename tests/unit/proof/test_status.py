"""Status: what the log says, what the source says, what is to be done."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.proof.lakes import JOB, TABLE, Lake, fill, make_lake

from ashore.errors import AshoreError, SourceError
from ashore.jobs.file import parse_job
from ashore.log.entries import Closing, Commit, DeferredAction, FailedTries, Skip
from ashore.log.files import TableCommit
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.proof.status.health import DECIDE, Allowed, check_health, worst_ailment
from ashore.proof.status.recent import rate_of
from ashore.proof.status.status import DeferredStatus, JobStatus, Warned, read_status
from ashore.topics.use.preflight import check_job

CLICKS_0, CLICKS_1 = StreamShard("clicks", "0"), StreamShard("clicks", "1")


def status_of(lake: Lake) -> JobStatus:
    return read_status(lake.opened())


def only_warning(lake: Lake) -> Warned:
    (warned,) = status_of(lake).warnings
    return warned


def test_a_job_that_never_started():
    lake = Lake()
    found = status_of(lake)
    assert (found.state, found.slices, found.warnings) == ("never started", (), ())


def test_a_job_that_has_read_everything():
    found = status_of(make_lake())
    assert (found.state, found.is_source_reachable, found.warnings) == ("running", True, ())
    (main,) = found.slices
    assert (main.slice, main.epoch, main.lag) == ("main", 1, 0)
    assert (main.last.number, main.last.kind, main.last.age_ms) == (3, "prepare", 0)
    assert (main.unclosed.number, main.unclosed.kind) == (3, "prepare")
    assert (main.fetched, main.landed, main.dead) == (139, 131, 2)
    assert [(shard.shard, shard.next, shard.end) for shard in main.shards] == [
        ("0", 100, 100),
        ("1", 40, 40),
    ]
    tables = {each.table: (each.partitions, each.unsealed, each.rows) for each in main.tables}
    assert tables == {TABLE: (2, 2, 131), f"{TABLE}__dead": (1, 1, 2)}


def test_a_table_in_a_table_format_has_the_snapshot_of_the_log():
    lake = make_lake()
    assert {each.snapshot_id for each in status_of(lake).slices[0].tables} == {None}
    body = lake.entries[-1].body
    lake.rewrite(replace(body, commits=(TableCommit(TABLE, "uuid", 0, 0, 1 << 62),)))
    (main,) = status_of(lake).slices
    found = {each.table: each.snapshot_id for each in main.tables}
    assert found == {TABLE: 1 << 62, f"{TABLE}__dead": None}
    table, dead = sorted(main.tables, key=lambda each: each.table)
    assert (table.format, table.last_snapshot) == ("iceberg", f"snapshot {1 << 62}")
    assert table.snapshot == main.last
    assert (dead.format, dead.last_snapshot, dead.snapshot) == (None, "", None)


def test_a_snapshot_has_its_entry_also_after_others():
    lake = make_lake()
    entry = lake.entries[-1]
    commit = TableCommit(TABLE, "uuid", 0, 0, 7, "delta")
    lake.rewrite(replace(entry.body, commits=(commit,)))
    lake.append(Commit("idle"))
    lake.clock.advance(5)
    table = status_of(lake).slices[0].tables[0]
    assert table.last_snapshot == "version 8 or later"
    assert (table.snapshot.number, table.snapshot.age_ms) == (entry.number, 6_000)


def test_a_state_has_a_since_and_a_reason():
    lake = make_lake()
    found = status_of(lake)
    assert found.since_ms == found.now_ms
    assert "just grown" in found.why
    lake.append(Commit("stop"))
    lake.clock.advance(100)
    found = status_of(lake)
    assert (found.state, found.now_ms - found.since_ms) == ("stopped", 100_000)


def test_lag_counts_what_the_log_has_not():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 25)
    (main,) = status_of(lake).slices
    assert [shard.lag for shard in main.shards] == [0, 25]
    assert main.lag == 25


def test_rates_are_reported_over_the_last_batches():
    lake = make_lake()
    (main,) = status_of(lake).slices
    assert main.records_per_s == 50  # the second batch, a second after the first
    for number in range(15):
        fill(lake.source, "clicks", 1, 100)
        start = 40 + 100 * number
        lake.land({lake.key(1): (start, start + 100)})
    (main,) = status_of(lake).slices
    assert main.records_per_s == 100


@pytest.mark.parametrize(
    ("batches", "rate"),
    [
        ([], None),
        ([(1000, 5)], None),
        ([(1000, 5), (1000, 5)], None),
        ([(3000, 10), (2000, 20), (1000, 99)], 15.0),
    ],
)
def test_a_rate_leaves_out_what_came_before_its_time(batches, rate):
    assert rate_of(batches) == rate


def test_an_entry_that_stays_unclosed_is_warned_of():
    lake = make_lake()
    lake.clock.advance(99)
    assert status_of(lake).warnings == ()
    lake.clock.advance(2)
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("unclosed", "main")
    assert "ashore recover" in warned.hint
    lake.append(Commit("idle"))
    assert status_of(lake).warnings == ()


def test_kafka_that_does_not_answer_leaves_the_lag_unknown():
    lake = make_lake()
    lake.source.is_reachable = False
    found = status_of(lake)
    assert not found.is_source_reachable
    (main,) = found.slices
    assert (main.lag, main.shards[0].lag, main.landed) == (None, None, 131)
    assert [warned.kind for warned in found.warnings] == ["kafka"]


def test_a_source_that_refuses_the_topics_is_shown_before_anything_was_read(monkeypatch):
    """As a broker without topic ids does: no offset is known, so none would be asked for."""
    lake = Lake()
    lake.open()
    assert status_of(lake).warnings == ()

    def refuse(_streams):
        raise SourceError("Kafka returns no topic id for clicks", hint="use Kafka 2.8")

    monkeypatch.setattr(lake.source, "describe_streams", refuse)
    (warned,) = status_of(lake).warnings
    assert warned.kind == "kafka"
    assert "no topic id for clicks" in warned.text
    assert warned.hint == "use Kafka 2.8"


def test_a_topic_that_was_created_again():
    lake = make_lake()
    lake.source.delete_and_recreate("clicks", 2)
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("replaced", "clicks")
    assert warned.hint.endswith("ashore rejoin JOB.yaml clicks")
    assert status_of(lake).slices[0].lag is None
    fill(lake.source, "clicks", 0, 5)
    lake.join(0, 1, generation=2)
    found = status_of(lake)
    assert (found.warnings, found.slices[0].lag) == ((), 5)
    assert found.slices[0].landed == 131  # of all generations


def test_a_topic_that_is_gone():
    lake = make_lake()
    lake.source.delete("clicks")
    assert only_warning(lake).kind == "missing"


def test_a_partition_that_is_gone():
    lake = make_lake()
    lake.source.add_shard("clicks")
    lake.join(2)
    describe = lake.source.describe_streams
    lake.source.describe_streams = lambda streams: {
        name: type(info)(info.stream, info.stream_id, ("0", "1"))
        for name, info in describe(streams).items()
    }
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("missing", "clicks/2")


def test_a_gap():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 30)
    lake.source.expire(CLICKS_1, 60)
    warned = only_warning(lake)
    assert warned.kind == "gap"
    assert "clicks/1 [40, 60)" in warned.text
    skipped = ShardRange(lake.key(1), OffsetRange(40, 60))
    lake.append(Skip((skipped,), None, (), (), "job", "gap: skip"))
    found = status_of(lake)
    assert found.warnings == ()
    assert found.slices[0].shards[1].skipped == 20


WAITING = "; the other topics wait for it: orders"
OTHER = """\
  - topic: orders
    table: ods.orders
    schema: "id BIGINT, ts BIGINT"
"""


def two_topics(topic: str = "orders", gap: str = "fail") -> Lake:
    lake = make_lake()
    text = JOB.replace('"127.0.0.1:9092"}', f'"127.0.0.1:9092"}}, gap: {gap}')
    lake.job = parse_job(text + OTHER.replace("topic: orders", f"topic: {topic}"))
    lake.source.create("orders")
    lake.join(0, stream="orders")
    return lake


def expire(lake: Lake) -> None:
    fill(lake.source, "clicks", 1, 30)
    lake.source.expire(CLICKS_1, 60)


def go_back(lake: Lake) -> None:
    lake.append(
        Skip((ShardRange(lake.key(1), OffsetRange(40, 50)),), None, (), (), "job", "a test")
    )


@pytest.mark.parametrize(
    "spoil",
    [
        expire,
        go_back,
        lambda lake: lake.source.delete_and_recreate("clicks", 2),
        lambda lake: lake.source.delete("clicks"),
    ],
)
def test_what_stops_one_topic_names_the_others_that_wait_for_it(
    spoil: Callable[[Lake], object],
) -> None:
    lake = two_topics()
    spoil(lake)
    warned = only_warning(lake)
    assert "clicks" in warned.text
    assert warned.text.endswith(WAITING)
    with pytest.raises(AshoreError) as stopped:
        check_job(lake.opened())
    assert stopped.value.message.endswith(WAITING)  # a page that shows both says it once


def test_what_a_job_passes_over_keeps_no_topic_waiting() -> None:
    lake = two_topics(gap="skip")
    expire(lake)
    assert only_warning(lake).kind == "gap"
    assert "wait" not in only_warning(lake).text
    lake = two_topics(topic="/orders.*/")
    lake.source.delete("orders")  # of an expression: it may come and go
    assert only_warning(lake).text.startswith("topic orders does")
    assert "wait" not in only_warning(lake).text
    lake = two_topics()
    lake.job = parse_job(JOB)
    lake.source.delete("orders")  # which this job no longer lands
    assert only_warning(lake).text.startswith("topic orders does")
    assert "wait" not in only_warning(lake).text


@pytest.mark.parametrize("cut_at", [None, 45])
def test_a_history_that_was_cut_and_has_grown_on(cut_at: int | None):
    lake = Lake()
    lake.leader = 0
    lake.source.create("clicks")
    fill(lake.source, "clicks", 0, 50)
    lake.open()
    lake.join(0)
    lake.land({lake.key(0): (0, 50)})
    lake.source.elect(StreamShard("clicks", "0"), cut_at)
    fill(lake.source, "clicks", 0, 20)
    if cut_at is None:
        assert status_of(lake).warnings == ()
        return
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("truncated", "clicks/0")
    assert "was truncated below offset 50" in warned.text
    assert "ashore skip JOB.yaml clicks/0 --to 50" in warned.hint
    found = check_health(lake.opened(), status_of(lake), Allowed())
    assert worst_ailment(found) == DECIDE


def test_offsets_that_went_back():
    lake = make_lake()
    lake.append(
        Skip((ShardRange(lake.key(1), OffsetRange(40, 50)),), None, (), (), "job", "a test")
    )
    warned = only_warning(lake)
    assert warned.kind == "went_back"
    assert "ends at 40, " in warned.text
    assert "landed up to 50" in warned.text


def test_a_transaction_that_holds_a_partition_up():
    lake = make_lake()
    lake.source.hold_up(CLICKS_0)
    fill(lake.source, "clicks", 0, 7)
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("held_up", "clicks/0")
    assert "7 offsets wait" in warned.text
    assert status_of(lake).slices[0].lag == 0


def test_what_keeps_partitions_from_being_sealed_is_named():
    lake = make_lake()
    lake.clock.advance(4 * 86_400)
    assert status_of(lake).blocked_seals == ()  # all is idle: they are sealed at the next tick
    fill(lake.source, "clicks", 1, 25)
    blocked = status_of(lake).blocked_seals
    assert {each.table for each in blocked} == {TABLE}  # not that of dead letters
    assert len(blocked) == 2
    assert all("an event time" in each.why for each in blocked)


def test_what_is_owed_is_shown():
    lake = make_lake()
    deferred = DeferredAction("register:x", "register", TABLE, "date=2026-11-21/hour=00")
    lake.append(Commit("idle"), closing=Closing(3, 4, 0, True, (deferred,), ()))
    (main,) = status_of(lake).slices
    assert (main.deferred, main.unclosed) == (("register:x",), None)
    assert main.deferred_by_action == (DeferredStatus("register", 1, 0, None, None, None),)
    assert status_of(lake).warnings == ()  # nothing is wrong with it so far


def test_what_is_owed_in_vain_is_warned_of_with_since_when_how_often_and_why():
    lake = make_lake()
    deferred = DeferredAction("register:x", "register", TABLE, "date=2026-11-21/hour=00")
    began_ms = lake.clock.now_ms()
    failed = (FailedTries("register", 1, began_ms, "no metastore answers"),)
    lake.append(Commit("idle"), closing=Closing(3, 4, 0, True, (deferred,), (), failed))
    lake.clock.advance(30)
    failed = (FailedTries("register", 3, lake.clock.now_ms(), "still none"),)
    lake.append(Commit("idle"), closing=Closing(None, 0, 0, False, (), (), failed))
    lake.clock.advance(7)
    (main,) = status_of(lake).slices
    assert main.deferred_by_action == (
        DeferredStatus("register", 1, 4, 39_000, 8_000, "still none"),
    )
    warned = only_warning(lake)
    assert (warned.kind, warned.subject) == ("deferred", "main")
    assert warned.text.startswith("1 x register deferred: ")
    for part in ("failing for 39.0 s, ", "tried 4 times, ", "last 8.0 s ago: still none"):
        assert part in warned.text
    lake.append(Commit("idle"), closing=Closing(None, 0, 0, False, (), ("register:x",)))
    found = status_of(lake)
    assert (found.warnings, found.slices[0].deferred_by_action) == ((), ())


def test_as_json():
    text = json.dumps(status_of(make_lake()).to_dict())
    assert json.loads(text)["slices"][0]["shards"][0]["next"] == 100
