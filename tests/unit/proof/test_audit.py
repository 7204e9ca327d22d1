"""The auditor: each kind of finding is raised in the interval that can see it, and cleared."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import CLICKS_0, TABLE, Lake, describe, fill, kinds, make_lake
from tests.unit.proof.watching import INTERVAL_S, Gate, Watch

from ashore.errors import StorageError
from ashore.log import names
from ashore.log.entries import (
    Commit,
    Entry,
    Join,
    Joined,
    Prepare,
    Reland,
    Retire,
    RetiredPartition,
    Skip,
)
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.proof.audit.auditor import FAILING_AGAIN, audit_once, follow_job
from ashore.proof.audit.result import AuditReport, Pace
from ashore.proof.evidence.adopted_files import adopted_path, write_adopted
from ashore.proof.evidence.result import ProblemKind
from ashore.storage.base import Staged
from ashore_lab.testing import FailBefore, FaultyStorage

CLICKS_1 = StreamShard("clicks", "1")


def raised(report: AuditReport) -> list[ProblemKind]:
    return sorted(finding.problem.kind for finding in report.raised)


def cleared(report: AuditReport) -> list[ProblemKind]:
    return sorted(finding.problem.kind for finding in report.cleared)


@pytest.fixture
def lake() -> Lake:
    """A lake in order whose last entry is closed: all its files must be final."""
    lake = make_lake()
    lake.append(Commit("idle"))
    return lake


@pytest.fixture
def watch(lake: Lake) -> Watch:
    """An auditor that has found all well."""
    watch = Watch(lake)
    assert (watch.first.findings, watch.first.exit_code) == ((), 0)
    return watch


# ---- in order


def test_one_pass_over_a_lake_in_order(lake: Lake):
    report = audit_once(lake.opened())
    assert (report.findings, report.exit_code, report.unproven) == ((), 0, 0)
    assert (report.gauge.lag, report.gauge.unaccounted, report.gauge.unprovable) == (0, 0, 0)
    assert report.entries == {"main": 5}


def test_a_job_that_never_started_has_nothing_wrong():
    lake = Lake()
    lake.source.create("clicks")
    assert audit_once(lake.opened()).exit_code == 0


def test_what_is_not_landed_yet_is_lag_and_not_unaccounted(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 7)
    report = watch.tick()
    assert (report.gauge.lag, report.gauge.unaccounted, report.exit_code) == (7, 0, 0)
    lake.land({lake.key(0): (100, 107)})
    assert watch.tick().gauge.lag == 0


def test_markers_and_aborted_records_are_explained_by_the_source(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 3)
    lake.source.leave_hole(CLICKS_0, 5)
    fill(lake.source, "clicks", 0, 2)
    lake.land({lake.key(0): (100, 110)})
    report = watch.tick()
    assert (report.gauge.unaccounted, report.findings, report.exit_code) == (0, (), 0)


def test_files_on_their_way_are_no_finding(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 4)
    entry = lake.land({lake.key(0): (100, 104)}, is_moved=False)
    assert watch.tick().findings == ()
    for _, pending, final in lake.files(entry):
        lake.storage.publish(Staged(pending), final)
        assert watch.tick().findings == ()
    lake.append(Commit("idle"))
    assert watch.tick().findings == ()


# ---- files


def test_a_missing_file_is_raised_once_and_cleared(lake: Lake, watch: Watch):
    path = lake.final(lake.entries[2])
    data, rows = lake.storage.read(path), lake.files(lake.entries[2])[0][0].rows
    lake.storage.delete(path)
    report = watch.tick()
    assert raised(report) == [ProblemKind.FILE_MISSING]
    assert report.raised[0].problem.place == path
    assert report.raised[0].first_seen_ms == report.now_ms
    assert (report.gauge.unaccounted, report.exit_code) == (rows, 5)
    again = watch.tick()
    assert (again.raised, again.findings) == ((), report.raised)
    lake.storage.create(path, data)
    mended = watch.tick()
    assert cleared(mended) == [ProblemKind.FILE_MISSING]
    assert (mended.gauge.unaccounted, mended.findings, mended.exit_code) == (0, (), 0)


def test_a_pending_file_that_is_gone_is_raised_while_its_entry_is_unclosed(lake, watch):
    fill(lake.source, "clicks", 0, 1)
    entry = lake.land({lake.key(0): (100, 101)}, is_moved=False)
    assert watch.tick().findings == ()
    lake.storage.delete(lake.files(entry)[0][1])
    assert raised(watch.tick()) == [ProblemKind.FILE_MISSING]


def test_a_changed_size_is_raised(lake: Lake, watch: Watch):
    path = lake.final(lake.entries[2])
    lake.overwrite(path, lake.storage.read(path)[:-9])
    assert ProblemKind.FILE_SIZE in raised(watch.tick())


def test_a_flipped_byte_is_raised_in_the_interval_that_sees_another_time(lake, watch):
    path = lake.final(lake.entries[2])
    flip(lake, path)
    assert raised(watch.tick()) == [ProblemKind.FILE_CHECKSUM]


def test_a_byte_that_flips_without_a_trace_is_found_by_the_round(lake: Lake):
    lake.clock.advance(1)
    watch = Watch(lake, Pace(INTERVAL_S, round_every_s=3 * INTERVAL_S))
    path = lake.final(lake.entries[2])
    stat = lake.storage.stat(path)
    flip(lake, path)
    lake.storage._find_file(path, "age").modified_ms = stat.modified_ms
    found = [raised(watch.tick()) for _ in range(3)]
    assert [kinds for kinds in found if kinds] == [[ProblemKind.FILE_CHECKSUM]]


def test_a_foreign_file_is_raised_and_cleared(lake: Lake, watch: Watch):
    path = "ods.db/clicks/date=2026-11-20/part-0.parquet"
    lake.storage.create(path, b"x")
    assert raised(watch.tick()) == [ProblemKind.FILE_FOREIGN]
    lake.storage.delete(path)
    assert cleared(watch.tick()) == [ProblemKind.FILE_FOREIGN]


def test_an_adopted_file_is_no_orphan(lake: Lake, watch: Watch):
    path = "ods.db/clicks/date=2026-11-20/part-0.parquet"
    lake.storage.create(path, b"x")
    lake.storage.create(adopted_path("clicks", "0" * 16), write_adopted(TABLE, "Spark", (path,)))
    assert watch.tick().findings == ()
    lake.storage.create(adopted_path("clicks", "1" * 16), b"not a list")
    lake.storage.create(path + "2", b"x")
    assert raised(watch.tick()) == [ProblemKind.FILE_FOREIGN, ProblemKind.LOG_DAMAGED]


def test_an_unlisted_file_of_ours_is_raised(lake: Lake, watch: Watch):
    path = lake.final(lake.entries[2]).replace("a-main-1-0-", "a-main-1-9-")
    lake.storage.create(path, b"x")
    # A batch that the log does not have: its entry may be gone.
    assert set(raised(watch.tick())) == {ProblemKind.FILE_UNLISTED, ProblemKind.LOG_LOST}


# ---- records


def test_a_record_that_is_in_no_file_is_lost(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 5)
    lake.land({lake.key(0): (100, 105)}, forgotten={103})
    report = watch.tick()
    assert raised(report) == [ProblemKind.LOST]
    assert report.raised[0].problem.offsets == (103,)
    assert report.gauge.unaccounted == 1


def test_a_record_that_stands_twice_is_raised(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 5)
    lake.land({lake.key(0): (100, 105)}, twice={103})
    report = watch.tick()
    assert ProblemKind.DUPLICATED in raised(report)
    assert report.gauge.unaccounted == 1


def test_a_hole_between_ranges_is_unaccounted(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 10)
    lake.land({lake.key(0): (104, 110)})
    report = watch.tick()
    assert raised(report) == [ProblemKind.RANGES]
    assert report.gauge.unaccounted == 4
    assert watch.tick().findings == report.findings


def test_ranges_that_overlap_stay_a_finding(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 5)
    lake.land({lake.key(0): (98, 105)})
    report = watch.tick()
    assert raised(report) == [ProblemKind.RANGES]
    assert report.gauge.unaccounted == 2
    for _ in range(2):
        assert watch.tick().findings == report.findings


def test_skipped_offsets_are_accounted_for(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 10)
    skipped = (ShardRange(lake.key(0), OffsetRange(100, 104)),)
    lake.append(Skip(skipped, None, (), (), "me", "retention"))
    lake.land({lake.key(0): (104, 110)})
    assert watch.tick().findings == ()


def test_counts_that_do_not_add_up_stay_a_finding(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 5)
    body = lake.land({lake.key(0): (100, 105)}).body
    assert isinstance(body, Prepare)
    wrong = replace(body.shards[0], filtered=1)
    lake.rewrite(replace(body, shards=(wrong,)))
    assert raised(watch.tick()) == [ProblemKind.COUNTS]
    assert watch.tick().findings[0].problem.kind is ProblemKind.COUNTS


def test_a_lost_file_is_a_loss_until_it_is_back(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 2)
    entry = lake.land({lake.key(0): (100, 102)})
    path = lake.final(entry)
    data = lake.storage.read(path)
    lake.storage.delete(path)
    report = watch.tick()
    assert raised(report) == [ProblemKind.FILE_MISSING, ProblemKind.LOST]
    assert report.gauge.unaccounted == 1
    lake.append(Commit("idle"))
    assert watch.tick().gauge.unaccounted == 1  # it is not counted twice
    lake.storage.create(path, data)
    report = watch.tick()
    assert (report.findings, report.gauge.unaccounted) == ((), 0)


def test_many_lost_files_are_counted_once_each(lake: Lake, watch: Watch):
    lost = 2 * FAILING_AGAIN
    for offset in range(100, 100 + lost):
        fill(lake.source, "clicks", 0, 1)
        lake.storage.delete(lake.final(lake.land({lake.key(0): (offset, offset + 1)})))
    for _ in range(3):  # the last entry is unclosed: its file is looked for in every interval
        assert watch.tick().gauge.unaccounted == lost


def test_a_lost_file_that_is_given_up_is_no_finding_any_more(lake: Lake, watch: Watch):
    entry = lose(lake)
    assert raised(watch.tick()) == [ProblemKind.FILE_MISSING, ProblemKind.LOST]
    lake.open()
    lost = lake.files(entry)[0][0].unique
    lake.append(Skip((), entry.number, (lost,), ((lake.key(0), 2),), "me", "gone"))
    report = watch.tick()
    assert (report.findings, report.gauge.unaccounted) == ((), 0)
    assert audit_once(lake.opened()).exit_code == 0


@pytest.mark.parametrize("is_seen_lost", [True, False])
def test_a_lost_file_that_is_landed_again_is_no_finding_any_more(
    lake: Lake, watch: Watch, is_seen_lost: bool
):
    entry = lose(lake)
    if is_seen_lost:
        assert raised(watch.tick()) == [ProblemKind.FILE_MISSING, ProblemKind.LOST]
    reland(lake, entry)
    report = watch.tick()
    assert (report.findings, report.gauge.unaccounted) == ((), 0)
    assert audit_once(lake.opened()).exit_code == 0


def test_files_of_a_retired_partition_may_go(lake: Lake, watch: Watch):
    path = lake.final(lake.entries[2])
    lake.storage.delete(path)
    assert raised(watch.tick()) == [ProblemKind.FILE_MISSING]
    partition = names.parent(path).removeprefix("ods.db/clicks/")
    lake.append(Retire((RetiredPartition(TABLE, partition),), "me", "old"))
    report = watch.tick()
    assert (report.findings, report.gauge.unaccounted) == ((), 0)


# ---- the pace


def test_names_and_sizes_of_a_long_history_are_seen_before_it_is_read(lake: Lake):
    lake.storage.delete(lake.final(lake.entries[2]))
    path = lake.final(lake.entries[2], 1)
    lake.overwrite(path, lake.storage.read(path) + b"x")
    watch = Watch(lake, Pace(INTERVAL_S, read_bytes_per_s=0))
    assert {ProblemKind.FILE_MISSING, ProblemKind.FILE_SIZE} <= set(raised(watch.first))
    assert watch.first.unproven == 2


def test_history_is_read_at_the_rate_that_is_allowed_the_newest_first(lake: Lake):
    fill(lake.source, "clicks", 0, 5)
    lake.land({lake.key(0): (100, 105)}, forgotten={103})
    watch = Watch(lake, Pace(1.0, read_bytes_per_s=1))
    assert raised(watch.first) == [ProblemKind.LOST]
    left = [watch.first.unproven, watch.tick().unproven, watch.tick().unproven]
    assert left == [2, 1, 0]


@pytest.mark.parametrize("is_reachable", [True, False])
def test_a_flipped_byte_in_the_history_is_found_when_it_is_read(lake: Lake, is_reachable: bool):
    flip(lake, lake.final(lake.entries[2]))
    lake.source.is_reachable = is_reachable
    watch = Watch(lake)
    assert raised(watch.first) == [ProblemKind.FILE_CHECKSUM]
    assert watch.first.unproven == (0 if is_reachable else 1)  # one has a hole


def test_directories_have_their_turn_also_if_the_lake_was_away(lake: Lake):
    lake.clock.advance(2 * 3600)
    gate = Gate(lake.storage)
    watch = Watch(lake, Pace(INTERVAL_S, listings=1), storage=gate)
    path = lake.final(lake.entries[2])
    lake.storage.delete(path)
    gate.closed_for = names.parent(path)
    while watch.tick().lake.since_ms is None:
        pass
    gate.closed_for = None
    while not (report := watch.tick()).raised:
        pass
    assert report.listing.took_ms is None  # still in the first round


def test_what_lands_while_directories_are_listed_is_no_orphan(lake: Lake):
    gate = Gate(lake.storage)
    watch = Watch(lake, storage=gate)
    fill(lake.source, "clicks", 0, 2)

    def land_once() -> None:
        gate.before_table = None
        lake.land({lake.key(0): (100, 102)})

    gate.before_table = land_once
    report = watch.tick()
    assert gate.before_table is None
    assert (report.findings, report.gauge.lag) == ((), 0)


# ---- the source


def test_offsets_that_the_source_drops_before_they_land_are_raised(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 10)
    lake.source.expire(CLICKS_0, 104)
    report = watch.tick()
    assert raised(report) == [ProblemKind.OFFSETS_GONE]
    assert (report.gauge.unaccounted, report.gauge.lag) == (4, 6)


def test_a_topic_that_was_created_again_is_raised(lake: Lake, watch: Watch):
    lake.source.delete_and_recreate("clicks", 2)
    assert raised(watch.tick()) == [ProblemKind.STREAM_REPLACED]


def test_a_source_that_ends_below_what_landed_is_raised(lake: Lake, watch: Watch):
    lake.source._streams["clicks"].shards["0"].end = 90
    assert raised(watch.tick()) == [ProblemKind.OFFSETS_WENT_BACK]


def test_a_history_that_was_cut_and_has_grown_on_is_raised(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 10)
    lake.leader = 0
    lake.land({lake.key(0): (100, 110)})
    assert watch.tick().findings == ()
    lake.source.elect(CLICKS_0)
    assert watch.tick().findings == (), "another leader with the same records"
    lake.source.elect(CLICKS_0, cut_at=105)
    fill(lake.source, "clicks", 0, 20)
    report = watch.tick()
    assert raised(report) == [ProblemKind.HISTORY_TRUNCATED]
    assert "ashore skip JOB.yaml clicks/0 --to 110" in report.raised[0].problem.text
    assert [each.problem.kind for each in watch.tick().findings] == raised(report)
    nothing = ShardRange(lake.key(0), OffsetRange(110, 110))
    lake.append(Skip((nothing,), None, (), (), "me", "kept", leader_epochs=((lake.key(0), 2),)))
    assert watch.tick().findings == ()


def test_a_history_that_only_a_query_reads_and_that_was_cut_is_raised(lake: Lake):
    lake.source.create("views", 1)
    shard = StreamShard("views", "0")
    fill(lake.source, "views", 0, 10)
    query = lake.new_slice("ods__per_view")
    key = ShardKey(names.query_source(query.name), "views", 1, "0")
    stream_id = lake.source.describe_streams(["views"])["views"].stream_id
    query.open()
    query.append(Join((Joined(key, stream_id, 0, "earliest"),)))
    query.leader = 0
    query.land({key: (0, 10)})
    query.append(Commit("idle"))
    watch = Watch(lake)
    assert [each.problem.kind for each in watch.first.findings] == []
    lag = watch.first.gauge.lag
    lake.source.elect(shard)
    assert watch.tick().findings == (), "another leader with the same records"
    lake.source.elect(shard, cut_at=5)
    fill(lake.source, "views", 0, 20)
    report = watch.tick()
    assert raised(report) == [ProblemKind.HISTORY_TRUNCATED]
    assert "--table ods.per_view" in report.raised[0].problem.text
    assert report.gauge.lag == lag, "how far a query is, its checkpoint tells"


def test_entries_wait_for_a_source_that_is_away(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 2)
    lake.source.leave_hole(CLICKS_0, 3)
    lake.land({lake.key(0): (100, 105)})
    lake.source.is_reachable = False
    for times in (1, 2):
        report = watch.tick()
        assert (report.gauge.lag, report.gauge.unaccounted, report.unproven) == (None, 3, 1)
        assert (report.findings, report.kafka.times, report.exit_code) == ((), times, 6)
    lake.source.is_reachable = True
    report = watch.tick()
    assert (report.gauge.unaccounted, report.unproven, report.exit_code) == (0, 0, 0)
    assert (report.kafka.times, report.kafka.since_ms) == (2, None)


def test_a_hole_that_the_source_no_longer_has_is_not_provable(lake: Lake):
    lake.source.expire(CLICKS_0, 100)
    report = audit_once(lake.opened())
    assert (report.findings, report.exit_code) == ((), 6)
    assert report.gauge.unprovable == 1


# ---- the lake


def test_a_lake_that_is_away_is_counted_and_what_was_found_stays(lake: Lake):
    gate = Gate(lake.storage)
    lake.storage.delete(lake.final(lake.entries[2]))
    watch = Watch(lake, storage=gate)
    found = watch.first.findings
    assert found
    gate.is_open = False
    for times in (1, 2):
        report = watch.tick()
        assert (report.lake.times, report.findings, report.exit_code) == (times, found, 5)
        assert (report.raised, report.cleared) == ((), ())
    gate.is_open = True
    assert watch.tick().lake.since_ms is None


def test_one_pass_fails_where_the_lake_is_away(lake: Lake):
    gate = Gate(lake.storage)
    gate.is_open = False
    with pytest.raises(StorageError):
        audit_once(replace(lake.opened(), storage=gate))


@pytest.mark.parametrize("number", range(1, 60, 3))
def test_whatever_call_fails_the_findings_are_the_same_two_intervals_later(lake: Lake, number: int):
    watch = Watch(lake, storage=FaultyStorage(lake.storage, [FailBefore(number)]))
    watch.tick()
    path = lake.final(lake.entries[2])
    lake.storage.delete(path)
    flip(lake, lake.final(lake.entries[3]))
    fill(lake.source, "clicks", 0, 5)
    lake.land({lake.key(0): (100, 105)}, forgotten={103})
    for _ in range(3):
        report = watch.tick()
    kinds = {finding.problem.kind for finding in report.findings}
    assert kinds == {ProblemKind.FILE_MISSING, ProblemKind.FILE_CHECKSUM, ProblemKind.LOST}
    assert len(report.findings) == 3


def test_a_damaged_entry_is_raised_and_cleared(lake: Lake, watch: Watch):
    fill(lake.source, "clicks", 0, 2)
    entry = lake.land({lake.key(0): (100, 102)})
    path = names.entry_path(lake.name, entry.number)
    data = lake.storage.read(path)
    lake.overwrite(path, data[:-20])
    report = watch.tick()
    assert raised(report) == [ProblemKind.LOG_DAMAGED]
    lake.overwrite(path, data)
    report = watch.tick()
    assert (report.findings, report.entries) == ((), {"main": 6})


def test_an_interval_costs_the_same_however_long_the_log_is(lake: Lake):
    costs = []
    for _ in range(2):
        for _ in range(20):
            land_two(lake)
        storage = FaultyStorage(lake.storage)
        watch = Watch(lake, storage=storage)
        before = len(storage.calls)
        watch.tick()
        idle = len(storage.calls)
        land_two(lake)
        assert watch.tick().findings == ()
        costs.append((idle - before, len(storage.calls) - idle))
    assert costs[0] == costs[1]
    assert {call.kind for call in storage.calls} == {"list", "stat", "read"}


# ---- the verifier


@pytest.mark.parametrize("has_followed", [True, False])
@pytest.mark.parametrize(
    "spoil", ["nothing", "delete", "flip", "forget", "twice", "foreign", "gap"]
)
def test_it_says_what_verify_says(lake: Lake, spoil: str, has_followed: bool):
    watch = Watch(lake)
    fill(lake.source, "clicks", 0, 20)
    start = 103 if spoil == "gap" else 100
    wrongly = {"forget": {"forgotten": {106}}, "twice": {"twice": {107, 108}}}
    entry = lake.land({lake.key(0): (start, 110)}, **wrongly.get(spoil, {}))
    match spoil:
        case "delete":
            lake.storage.delete(lake.final(entry))
        case "flip":
            flip(lake, lake.final(entry))
        case "foreign":
            lake.storage.create("ods.db/clicks/part-0.parquet", b"x")
    report = watch.tick() if has_followed else audit_once(lake.opened())
    verdict = lake.verify()
    assert {each.problem.kind for each in report.findings} == kinds(verdict)
    assert report.exit_code == verdict.exit_code
    gap = start - 100
    wrong = verdict.totals.lost + verdict.totals.duplicated + gap
    assert report.gauge.unaccounted == wrong


# ---- many intervals


def test_following_ends_when_it_is_reported_to(lake: Lake):
    reports: list[AuditReport] = []
    reports.extend(follow_job(lake.opened(), Pace(INTERVAL_S), lambda: len(reports) == 3))
    assert [report.tick for report in reports] == [1, 2, 3]
    assert reports[2].now_ms - reports[1].now_ms == pytest.approx(INTERVAL_S * 1000, abs=1)


def flip(lake: Lake, path: str) -> None:
    data = bytearray(lake.storage.read(path))
    data[20] ^= 1
    lake.overwrite(path, bytes(data))


def lose(lake: Lake) -> Entry:
    """Land offsets 100 to 104; the file of the even ones is lost on its way."""
    fill(lake.source, "clicks", 0, 4)
    entry = lake.land({lake.key(0): (100, 104)}, is_moved=False)
    lost, other = lake.files(entry)
    lake.storage.publish(Staged(other[1]), other[2])
    lake.storage.delete(lost[1])
    return entry


def reland(lake: Lake, entry: Entry) -> None:
    """Land the lost file of an entry again."""
    body = entry.body
    assert isinstance(body, Prepare)
    lake.open()
    data = lake.render([("clicks", 0, offset) for offset in (100, 102)])
    again = Reland(
        entry=entry.number,
        batch=body.batch,
        time=body.time,
        lost=(lake.files(entry)[0][0].unique,),
        shards=tuple(read.key for read in body.shards),
        targets=(body.targets[0],),
        files=(describe(0, [(0, offset) for offset in (100, 102)], data),),
    )
    lake.storage.create(lake.final(lake.append(again)), data)


def land_two(lake: Lake) -> None:
    """Land two records more of shard 1."""
    start = lake.source.read_offsets([CLICKS_1])[CLICKS_1].end
    fill(lake.source, "clicks", 1, 2)
    lake.land({lake.key(1): (start, start + 2)})


def test_the_lag_of_a_topic_that_does_not_exist_is_not_known(lake: Lake, watch: Watch):
    lake.source.delete("clicks")
    report = watch.tick()
    assert (report.gauge.lag, report.exit_code) == (None, 6)
