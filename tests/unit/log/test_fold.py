"""Every rule that the fold holds entries to, broken once."""

from dataclasses import replace

import pytest
from tests.strategies import START_MS, TABLE, Chain, Part, key_of, target_of

from ashore.errors import LogDamaged
from ashore.log.entries import (
    Closing,
    Commit,
    DeferredAction,
    FailedTries,
    Join,
    Joined,
    Open,
    Plan,
    Prepare,
    Query,
    Retire,
    RetiredPartition,
    Seal,
    SealedPartition,
    Skip,
    Version,
    next_version,
)
from ashore.log.files import Role
from ashore.log.fold import Failing
from ashore.log.positions import BatchTime, OffsetRange, ShardRange
from ashore.log.query import PlanState, QueryState, VersionState
from ashore.log.snapshot import read_snapshot, write_snapshot

KEY, OTHER = key_of(0), key_of(1)
EIGHT = target_of(8).partition
NO_CLOSING = Closing(None, 0, 0, registered=False, deferred=(), done=())


@pytest.fixture
def chain() -> Chain:
    """A log whose last entry is an unclosed `prepare` of three rows from each of two shards."""
    chain = Chain.started(KEY, OTHER)
    chain.prepare()
    return chain


def refuse(chain: Chain, reason: str, body=None, **changes: object) -> None:
    draft = chain.draft(body or Commit("idle"), chain.closing())
    before = chain.fold
    with pytest.raises(LogDamaged, match=reason) as caught:
        chain.append(replace(draft, **changes))
    assert caught.value.fields["entry"] == changes.get("number", before.end + 1)
    assert chain.fold == before


# ---- the chain


@pytest.mark.parametrize("number", [0, 2, 4, -1])
def test_a_wrong_number(chain: Chain, number: int):
    refuse(chain, f"number {number} after 2", number=number)


@pytest.mark.parametrize("previous", [None, "", "0" * 64])
def test_a_wrong_predecessor(chain: Chain, previous: str | None):
    refuse(chain, "another predecessor", previous=previous)


def test_a_first_entry_with_a_predecessor():
    refuse(Chain(), "another predecessor", Open("h", 1, "v"), epoch=1, previous="0" * 64)


@pytest.mark.parametrize("epoch", [-1, 0, 1, 3])
def test_an_open_whose_epoch_is_not_the_next(chain: Chain, epoch: int):
    refuse(
        chain, f"epoch {epoch} opened after epoch 1", Open("h", 1, "v"), epoch=epoch, closing=None
    )


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_entry_of_another_epoch(chain: Chain, epoch: int):
    refuse(chain, f"epoch {epoch} wrote while epoch 1 owned the slice", epoch=epoch)


def test_an_entry_of_a_writer_that_was_taken_over(chain: Chain):
    chain.open()
    refuse(chain, "epoch 1 wrote while epoch 2", epoch=1)


def test_a_log_that_does_not_begin_with_an_open():
    refuse(Chain(), "epoch 1 wrote while epoch 0", epoch=1, closing=NO_CLOSING)


# ---- at most one entry is unclosed


def test_an_entry_that_closes_nothing_while_one_is_unclosed(chain: Chain):
    for body in (Commit("idle"), chain.batch(), Join(()), Retire((), "", "")):
        refuse(chain, "it closes entry None, unclosed is 2", body, closing=None)
        refuse(chain, "it closes entry None, unclosed is 2", body, closing=NO_CLOSING)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_an_entry_that_closes_another(chain: Chain, number: int):
    closing = Closing(number, 2, 0, registered=True, deferred=(), done=())
    refuse(chain, f"it closes entry {number}, unclosed is 2", closing=closing)


def test_an_entry_that_closes_what_is_closed(chain: Chain):
    chain.commit()
    closing = Closing(2, 2, 0, registered=True, deferred=(), done=())
    refuse(chain, "it closes entry 2, unclosed is None", closing=closing)


def test_an_open_that_closes(chain: Chain):
    for closing in (chain.closing(), NO_CLOSING):
        refuse(chain, "it closes something", Open("h", 1, "v"), epoch=2, closing=closing)


def test_a_commit_without_a_closing(chain: Chain):
    chain.commit()
    refuse(chain, "it closes nothing", closing=None)


def test_opens_leave_the_entry_unclosed_for_the_next_writer(chain: Chain):
    unclosed = chain.fold.unclosed
    chain.open()
    chain.open()
    assert chain.fold.unclosed == unclosed
    assert unclosed.epoch == 1
    chain.commit()
    assert chain.fold.unclosed is None


def test_only_prepare_reland_and_seal_have_effects_to_be_closed(chain: Chain):
    assert chain.fold.unclosed.number == 2
    chain.commit()
    chain.join(key_of(2))
    chain.add(Retire((), "ana", "old"))
    chain.add(Skip((), None, (), (), "ana", "gap"))
    assert chain.fold.unclosed is None
    chain.add(Seal((), (), ()))
    assert chain.fold.unclosed.number == chain.fold.end


# ---- deferred actions

DEFERRED = DeferredAction("register:8", "register", TABLE, EIGHT)


def test_what_is_owed_stays_until_it_is_done(chain: Chain):
    chain.prepare(deferred=[DEFERRED])
    assert chain.fold.deferred == {DEFERRED.id: DEFERRED}
    assert not chain.fold.partitions[TABLE, EIGHT].registered
    chain.prepare(Part(KEY, 1, {9: 1}))
    chain.open()
    assert chain.fold.deferred == {DEFERRED.id: DEFERRED}
    chain.prepare(Part(KEY, 1, {9: 1}), done=[DEFERRED.id])
    assert chain.fold.deferred == {}
    assert chain.fold.partitions[TABLE, EIGHT].registered


def test_tries_in_vain_are_counted_until_what_was_tried_is_done(chain: Chain):
    def fail(times: int, last_ms: int, error: str) -> None:
        failed = (FailedTries("register", times, last_ms, error),)
        chain.append(chain.draft(Commit("x"), replace(NO_CLOSING, failed=failed)))

    chain.append(
        chain.draft(
            Commit("x"),
            replace(
                chain.closing(deferred=[DEFERRED]), failed=(FailedTries("register", 1, 7, "away"),)
            ),
        )
    )
    fail(2, 9, "refused")
    chain.open()
    assert chain.fold.failing == {"register": Failing("register", 7, 3, 9, "refused")}
    chain.add(chain.batch(), done=[DEFERRED.id])
    assert chain.fold.failing == {}
    chain.commit()
    chain.prepare(deferred=[DEFERRED])
    assert chain.fold.failing == {}  # what fails is another thing than what is deferred


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        (FailedTries("http", 1, 7, "away"), "http failed, "),
        (FailedTries("register", 0, 7, "away"), "register failed 0 times"),
    ],
)
def test_a_failure_that_cannot_have_been(chain: Chain, failed: FailedTries, reason: str):
    closing = replace(chain.closing(deferred=[DEFERRED]), failed=(failed,))
    refuse(chain, reason, closing=closing)


def test_a_done_effect_that_was_never_owed(chain: Chain):
    closing = replace(chain.closing(), done=("register:9",))
    refuse(chain, "register:9 .*never deferred", closing=closing)


def test_an_effect_that_is_done_twice(chain: Chain):
    chain.prepare(deferred=[DEFERRED])
    chain.add(chain.batch(), done=[DEFERRED.id])
    refuse(chain, "was never deferred", closing=replace(chain.closing(), done=(DEFERRED.id,)))


def test_an_entry_that_closes_none_has_no_effects_to_tell(chain: Chain):
    chain.commit()
    for change in ({"deferred": (DEFERRED,)}, {"moved": 1}, {"already_moved": 1}):
        refuse(chain, "effects of an entry", closing=replace(NO_CLOSING, **change))


def test_partitions_are_registered_by_the_closing_entry_if_it_says_so(chain: Chain):
    chain.append(chain.draft(Commit("x"), replace(chain.closing(), registered=False)))
    assert not chain.fold.partitions[TABLE, EIGHT].registered
    chain.prepare()
    chain.commit()
    assert chain.fold.partitions[TABLE, EIGHT].registered


# ---- joins


def joined(*shards: tuple[int, int, str]) -> Join:
    """Shards of `clicks`: (shard, generation, identity)."""
    return Join(
        tuple(
            Joined(key_of(shard, generation=generation), identity, 0, "earliest")
            for shard, generation, identity in shards
        )
    )


FIRST = "id-clicks-1"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (joined((0, 1, FIRST)), "joins a second time"),
        (joined((2, 1, FIRST), (2, 1, FIRST)), "joins a second time"),
        (joined((2, 2, FIRST)), "of another generation"),
        (joined((2, 1, "new")), "does not follow generation 1"),
        (joined((2, 3, "new")), "does not follow generation 1"),
        (joined((2, 0, "new")), "does not follow generation 1"),
        (joined((0, 2, "new"), (1, 2, "newer")), "does not follow generation 2"),
        (joined((0, 2, "new"), (2, 1, FIRST)), "does not follow generation 2"),
        (Join((Joined(key_of(0, "views", 2), "x", 0, "latest"),)), "begins with generation 2"),
        (Join((Joined(key_of(0, "views"), "x", -1, "latest"),)), "begins at offset -1"),
    ],
)
def test_a_join_that_does_not_follow(chain: Chain, body: Join, reason: str):
    refuse(chain, reason, body)


def test_a_generation_has_one_identity_also_within_the_first_join():
    chain = Chain()
    chain.open()
    refuse(chain, "does not follow generation 1", joined((0, 1, "a"), (1, 1, "b")))


def test_later_shards_join_their_generation_and_a_topic_created_again_the_next(chain: Chain):
    chain.add(joined((2, 1, FIRST)))
    chain.add(joined((0, 2, "new"), (1, 2, "new")))
    assert chain.fold.generation("kafka", "clicks") == (2, "new")
    assert sorted(chain.fold.current()) == [key_of(0, generation=2), key_of(1, generation=2)]
    assert chain.fold.shards[KEY].next == 3
    assert chain.fold.generation("kafka", "views") is None


def test_a_shard_is_active_from_its_join_on_so_that_it_holds_the_watermark():
    chain = Chain.started(KEY)
    assert chain.fold.shards[KEY].active_ms == chain.entries[-1].written_ms


# ---- prepares


def changed(body: Prepare, **changes: object) -> Prepare:
    """Return the body with fields of its first shard, or of itself, changed."""
    own = {name: value for name, value in changes.items() if name in Prepare.__slots__}
    reads = {name: value for name, value in changes.items() if name not in own}
    shards = (replace(body.shards[0], **reads), *body.shards[1:])
    return replace(body, **{"shards": shards, **own})


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ((4, 7), "4, 7"),
        ((2, 6), "2, 6"),
        ((0, 3), "0, 3"),
        ((0, 9), "0, 9"),
    ],
    ids=["gap", "overlap", "twice", "from the start again"],
)
def test_a_range_that_does_not_begin_where_the_last_ended(chain: Chain, offsets, found: str):
    body = changed(chain.batch(Part(KEY, 3, {8: 3})), offsets=OffsetRange(*offsets))
    refuse(chain, rf"range \[{found}\) while 3 ", body)


def test_the_next_offset_is_the_end_of_the_range_whatever_was_found(chain: Chain):
    chain.prepare(Part(KEY, 1000, {8: 1}))  # the rest: transaction markers, compacted away
    assert chain.fold.shards[KEY].next == 1003
    chain.prepare(Part(KEY, 0, {}))
    assert chain.fold.shards[KEY].next == 1003


def test_a_shard_that_never_joined_or_is_of_an_old_generation(chain: Chain):
    body = chain.batch(Part(KEY, 3, {8: 3}))
    refuse(chain, "clicks/7 was never joined", changed(body, key=key_of(7)))
    chain.add(joined((0, 2, "new")))
    refuse(chain, "clicks/0 .*current generation", chain.batch(Part(KEY, 3, {8: 3})))


def test_a_shard_that_stands_in_it_twice(chain: Chain):
    read = chain.batch(Part(KEY, 0, {})).shards[0]
    refuse(chain, "a shard .*twice", replace(chain.batch(), shards=(read, read)))


@pytest.mark.parametrize("batch", [0, 2, -1])
def test_a_batch_out_of_turn(chain: Chain, batch: int):
    refuse(chain, f"batch {batch}, expected 1", changed(chain.batch(Part(KEY, 0, {})), batch=batch))


def test_a_time_or_a_watermark_that_goes_back(chain: Chain):
    body = changed(chain.batch(Part(KEY, 0, {})), time=BatchTime(START_MS, ((TABLE, 50),)))
    chain.add(body)
    early = changed(chain.batch(Part(KEY, 0, {})), time=BatchTime(START_MS - 1))
    refuse(chain, "below the log's last", early)
    back = changed(chain.batch(Part(KEY, 0, {})), time=BatchTime(START_MS, ((TABLE, 49),)))
    refuse(chain, f"{TABLE}: watermark", back)
    chain.add(changed(chain.batch(Part(KEY, 0, {})), time=BatchTime(START_MS)))
    assert chain.fold.watermarks == {TABLE: 50}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fetched": 4}, "4 fetched, 3 accounted for"),
        ({"filtered": 1}, "3 fetched, 4 accounted for"),
        ({"dropped": 1}, "3 fetched, 4 accounted for"),
        ({"landed": 2, "filtered": 1}, "3 rows and 0 dead .*, 2 landed and 0 dead"),
        ({"landed": 2, "dead": 1}, "3 rows and 0 dead .*, 2 landed and 1 dead"),
        ({"landed": 4, "dead": -1}, "a count below zero"),
        ({"size_bytes": -1}, "a count below zero"),
        ({"offsets": OffsetRange(3, 5)}, "more records than offsets"),
    ],
)
def test_records_that_do_not_add_up(chain: Chain, change: dict[str, object], reason: str):
    refuse(chain, reason, changed(chain.batch(Part(KEY, 3, {8: 3})), **change))


def with_file(body: Prepare, **changes: object) -> Prepare:
    return replace(body, files=(replace(body.files[0], **changes), *body.files[1:]))


def with_span(body: Prepare, **changes: object) -> Prepare:
    return with_file(body, spans=(replace(body.files[0].spans[0], **changes),))


def test_a_file_that_does_not_fit_its_entry(chain: Chain):
    body = chain.batch(Part(KEY, 4, {8: 3}, dead=1))
    for target in (-1, 2):
        refuse(chain, "has no target", with_file(body, target=target))
    for shard in (-1, 1):
        refuse(chain, "has no shard", with_span(body, shard=shard))
    refuse(chain, "4 rows, 3 in its spans", with_file(body, rows=4))
    refuse(chain, "3 rows, 0 in its spans", with_file(body, spans=()))
    refuse(chain, "a count below zero", with_file(body, rows=-3))
    refuse(chain, "5 rows in a span", with_span(body, rows=5))
    refuse(chain, "offsets outside of clicks/0", with_span(body, start=2))
    refuse(chain, "offsets outside of clicks/0", with_span(body, end=8))
    refuse(chain, "is in it twice", replace(body, files=(*body.files, body.files[0])))
    refuse(chain, "3 rows and 0 dead rows", replace(body, files=body.files[:1]))
    chain.add(body)


def test_dead_rows_count_as_dead(chain: Chain):
    body = chain.batch(Part(KEY, 4, {8: 3}, dead=1))
    swapped = tuple(replace(each, role=Role.MAIN) for each in body.targets)
    refuse(
        chain,
        "4 rows and 0 dead .*, 3 landed and 1 dead",
        replace(body, targets=swapped),
    )


@pytest.fixture
def query_chain() -> Chain:
    """A log that no batch stands in yet."""
    return Chain.started(KEY, OTHER)


def query_batch(chain: Chain, batch_id: int, query_id: str = "q") -> Prepare:
    query = Query(query_id, batch_id, f"lineage-{batch_id}")
    file = replace(chain.batch(Part(KEY, 3, {8: 3})).files[0], spans=(), rows=7)
    return changed(
        chain.batch(Part(KEY, 0, {})), query=query, targets=(target_of(),), files=(file,)
    )


def test_a_query_counts_files_only_and_its_ranges_may_be_empty(query_chain: Chain):
    query_chain.add(query_batch(query_chain, 0))
    assert query_chain.fold.partitions[TABLE, EIGHT].rows == 7
    assert query_chain.fold.query == QueryState("q", 0, "lineage-0", "")


def test_the_fold_remembers_the_last_two_batches_of_a_query(query_chain: Chain):
    for number in range(3):
        query_chain.add(query_batch(query_chain, number))
    query_chain.add(Commit("query"))
    expected = QueryState("q", 2, "lineage-2", "lineage-1")
    assert query_chain.fold.query == expected
    assert read_snapshot(write_snapshot(query_chain.fold)).query == expected


def test_versions_of_a_query_are_numbered_and_name_the_one_before(chain: Chain):
    refuse(chain, "a version in a slice", Version(1, None, 0, "d", "{}"))
    versions = Chain.started(KEY)
    refuse(versions, "the version is empty", Version(1, None, 0, "", "{}"))
    refuse(versions, "version 2, not 1", Version(2, None, 0, "d", "{}"))
    refuse(versions, "batch 1 does not", Version(1, None, 1, "d", "{}"))
    versions.add(next_version(versions.fold, "d", "{}"))
    entry = versions.fold.end
    assert versions.fold.version == VersionState(1, entry, "d")
    refuse(versions, "another version before", Version(2, entry - 1, 0, "e", "{}"))
    kept = read_snapshot(write_snapshot(versions.fold))
    assert kept.version == versions.fold.version
    versions.add(next_version(versions.fold, "e", "{}"))
    assert versions.fold.version == VersionState(2, entry + 1, "e")


def test_a_slice_has_a_plan_where_it_is_a_query_s(chain: Chain):
    refuse(chain, "a plan in a slice", Plan("0" * 64, "{}"))
    planned = Chain.started(KEY)
    refuse(planned, "the plan is empty", Plan("", "{}"))
    planned.add(Plan("0" * 64, "{}"))
    assert planned.fold.plan == PlanState("0" * 64, "{}")
    kept = read_snapshot(write_snapshot(planned.fold))
    assert kept.plan == planned.fold.plan
    refuse(planned, "without its query", planned.batch())


def test_batches_of_a_query_follow_each_other(query_chain: Chain):
    refuse(query_chain, "batch 1 .*its first", query_batch(query_chain, 1))
    query_chain.add(query_batch(query_chain, 0))
    for wrong in (0, 2):
        reason = f"batch {wrong} .*after its batch 0"
        refuse(query_chain, reason, query_batch(query_chain, wrong))
    refuse(query_chain, "query other in", query_batch(query_chain, 1, "other"))
    refuse(query_chain, "without its query", query_chain.batch(Part(KEY, 0, {})))
    query_chain.add(query_batch(query_chain, 1))


def test_a_query_does_not_share_a_slice_with_landed_topics(chain: Chain):
    refuse(chain, "that landed topics", query_batch(chain, 0))


def test_the_ledger_adds_up(chain: Chain):
    chain.prepare(Part(KEY, 10, {8: 2, 9: 3}, dead=1, dropped=2), Part(OTHER, 5, {8: 1}))
    state = chain.fold.shards[KEY]
    assert (state.fetched, state.landed, state.dead, state.dropped) == (11, 8, 1, 2)
    assert (state.first, state.next, state.size_bytes) == (0, 13, 1100)
    eight = chain.fold.partitions[TABLE, EIGHT]
    assert (eight.rows, eight.files, eight.entry) == (9, 4, chain.fold.end)
    assert chain.fold.counters == {"unknown_fields": 2}
    assert chain.fold.next_batch == 2


def test_two_topics_with_equal_partition_and_offset_are_counted_apart():
    chain = Chain.started(key_of(0), key_of(0, "views"))
    chain.prepare(Part(key_of(0), 5, {8: 5}), Part(key_of(0, "views"), 7, {9: 7}))
    assert chain.fold.shards[key_of(0)].next == 5
    assert chain.fold.shards[key_of(0, "views")].next == 7


# ---- reland, skip


def test_a_reland_replaces_lost_files_and_adds_no_range(chain: Chain):
    lost = chain.fold.unclosed.body.files[0]
    before = chain.fold
    chain.add(chain.reland(lost))
    assert chain.fold.shards == before.shards
    assert chain.fold.next_batch == before.next_batch
    assert chain.fold.partitions[TABLE, EIGHT].rows == 6
    assert chain.fold.partitions[TABLE, EIGHT].files == 2
    again = chain.fold.unclosed
    assert again.number == chain.fold.end
    chain.add(chain.reland(*again.body.files))  # what was landed again may be lost again
    chain.commit()


def test_a_reland_that_does_not_fit_its_entry(chain: Chain):
    files = chain.fold.unclosed.body.files
    body = chain.reland(*files)
    entries = "of the entry"
    refuse(chain, entries, replace(body, time=replace(body.time, now_ms=START_MS + 1)))
    refuse(chain, entries, replace(body, time=replace(body.time, watermarks=((TABLE, 1),))))
    refuse(chain, entries, replace(body, batch=1))
    refuse(chain, entries, replace(body, shards=(KEY, key_of(7))))
    refuse(chain, "6 were lost", replace(body, files=body.files[:1]))
    refuse(chain, "3 were lost", replace(body, lost=body.lost[:1]))
    refuse(chain, "lands no row again", replace(body, lost=(), files=()))
    refuse(chain, "entry does not name", replace(body, lost=("f" * 16, body.lost[0])))
    refuse(chain, "lost file .*twice", replace(body, lost=(body.lost[0],) * 2))
    refuse(chain, "it does not close", replace(body, entry=1))
    elsewhere = replace(body, targets=(target_of(9),))
    refuse(
        chain, "3 rows landed again, 0 were lost|0 rows landed again, 6 were lost|6 rows", elsewhere
    )
    without = replace(body, files=tuple(replace(each, spans=()) for each in body.files))
    refuse(chain, "0 in its spans", without)
    chain.commit()
    refuse(chain, "it does not close", body, closing=NO_CLOSING)
    chain.add(Seal((), (), ()))
    refuse(chain, "that has none", replace(body, entry=chain.fold.end))


def test_a_skip_gives_offsets_up(chain: Chain):
    chain.add(Skip((ShardRange(KEY, OffsetRange(3, 10)),), None, (), (), "job", "gap: skip"))
    state = chain.fold.shards[KEY]
    assert (state.next, state.skipped, state.fetched) == (10, 7, 3)


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ([(KEY, 4, 10)], "3 is the next"),
        ([(KEY, 2, 10)], "3 is the next"),
        ([(KEY, 3, 5), (KEY, 6, 7)], "5 is the next"),
        ([(key_of(7), 0, 1)], "never joined"),
    ],
)
def test_a_skip_that_leaves_a_seam(chain: Chain, ranges, reason: str):
    skipped = tuple(ShardRange(key, OffsetRange(start, end)) for key, start, end in ranges)
    refuse(chain, reason, Skip(skipped, None, (), (), "ana", "gap"))


def test_a_skip_gives_lost_files_up(chain: Chain):
    chain.add(chain.accept_loss(chain.fold.unclosed.body.files[0]))
    assert chain.fold.shards[KEY].lost == 3
    assert chain.fold.shards[OTHER].lost == 0
    assert chain.fold.partitions[TABLE, EIGHT].rows == 3
    assert chain.fold.partitions[TABLE, EIGHT].files == 1
    assert chain.fold.unclosed is None


def test_a_skip_of_lost_files_that_does_not_fit_its_entry(chain: Chain):
    body = chain.accept_loss(chain.fold.unclosed.body.files[0])
    refuse(chain, "3 rows .*lost, 2 counted", replace(body, lost_rows=((KEY, 2),)))
    refuse(chain, "a count below zero", replace(body, lost_rows=((KEY, 4), (OTHER, -1))))
    refuse(chain, "never joined", replace(body, lost_rows=((key_of(7), 3),)))
    refuse(chain, "entry does not name", replace(body, lost=("f" * 16,)))
    refuse(chain, "gives up no file", replace(body, lost=(), lost_rows=()))
    refuse(chain, "it does not close", replace(body, entry=None))
    refuse(chain, "0 rows of shards", replace(body, entry=None, lost=()))


# ---- seal, retire


def seal(version: int) -> Seal:
    return Seal((SealedPartition(TABLE, EIGHT, version, 6, 6, START_MS),), (), (("main", 2),))


def test_the_version_of_a_seal_is_new(chain: Chain):
    refuse(chain, "version 0 is not new", seal(0))
    chain.add(seal(1))
    refuse(chain, "version 1 is not new", seal(1))
    chain.add(seal(2))
    state = chain.fold.partitions[TABLE, EIGHT]
    assert (state.sealed_version, state.sealed_rows, state.sealed_ms) == (2, 6, START_MS)


def test_a_retired_partition_is_gone(chain: Chain):
    chain.add(
        Retire((RetiredPartition(TABLE, EIGHT), RetiredPartition(TABLE, "x=1")), "ana", "old")
    )
    assert chain.fold.partitions == {}
    assert chain.fold.shards[KEY].landed == 3
