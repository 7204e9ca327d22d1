"""Verification record by record: lost, twice, unprovable, given up on purpose."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import (
    CLICKS_0,
    TABLE,
    Lake,
    describe,
    fill,
    kinds,
    make_lake,
    only_problem,
)

from ashore.log.entries import Reland, Retire, RetiredPartition, Skip
from ashore.log.files import Role
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.proof.evidence.result import ProblemKind, Status
from ashore.storage.base import Staged

# ---- offsets


def test_a_record_that_no_count_knows_is_lost():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    lake.land({lake.key(1): (40, 50)}, forgotten={43}, filtered={44})
    result = lake.verify()
    assert kinds(result) == {ProblemKind.LOST}
    assert result.totals.lost == 1
    # Either may be the filtered one: both are named.
    assert only_problem(result, ProblemKind.LOST).offsets == (43, 44)


def test_holes_in_the_source_are_not_lost():
    lake = make_lake()
    for _ in range(5):
        fill(lake.source, "clicks", 1, 10)
        lake.source.leave_hole(StreamShard("clicks", "1"), 3)
    lake.land({lake.key(1): (40, 105)}, filtered={45, 46})
    result = lake.verify()
    assert (result.exit_code, result.totals.unprovable) == (0, 0)
    assert len(lake.source.asked) == 2  # one range a shard


def test_a_record_twice_in_one_file_is_seen():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    lake.land({lake.key(1): (40, 50)}, twice={44})
    result = lake.verify()
    assert (result.totals.duplicated, result.totals.lost) == (1, 0)
    assert only_problem(result, ProblemKind.DUPLICATED).offsets == (44,)


def test_a_record_twice_in_place_of_another_is_one_of_each():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    lake.land({lake.key(1): (40, 50)}, twice={44}, forgotten={46})
    result = lake.verify()
    assert kinds(result) == {ProblemKind.LOST, ProblemKind.DUPLICATED}
    assert (result.totals.duplicated, result.totals.lost) == (1, 1)


def test_the_rows_of_a_file_under_a_second_name_are_seen():
    """A batch that claims offsets of its own and holds those of the batch before."""
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    entry = lake.land({lake.key(1): (40, 50)})
    rows = [("clicks", 1, offset) for offset in (30, 32, 34, 36, 38)]
    lake.relist(entry, 0, lake.render(rows))
    result = lake.verify()
    assert kinds(result) == {ProblemKind.PROVENANCE, ProblemKind.LOST, ProblemKind.DUPLICATED}
    assert (result.totals.lost, result.totals.duplicated) == (5, 5)
    assert only_problem(result, ProblemKind.DUPLICATED).offsets == (30, 32, 34, 36, 38)


def test_a_record_in_the_main_and_the_dead_table_is_there_twice():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)}, dead={42, 43})
    body = entry.body
    roles = [body.targets[file.target].role for file in body.files]
    rows = [("clicks", 1, offset) for offset in (40, 41)]
    lake.relist(entry, roles.index(Role.DEAD), lake.render(rows, is_dead=True))
    result = lake.verify()
    assert (result.totals.lost, result.totals.duplicated) == (2, 2)


def test_rows_of_a_topic_that_the_entry_does_not_list_are_seen():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 2)
    entry = lake.land({lake.key(1): (40, 42)})
    lake.relist(entry, 0, lake.render([("orders", 1, 40)]))
    result = lake.verify()
    assert "orders/1" in only_problem(result, ProblemKind.PROVENANCE).text
    assert result.totals.lost == 1


def test_rows_of_one_shard_in_place_of_another_are_seen():
    lake = make_lake()
    for shard in (0, 1):
        fill(lake.source, "clicks", shard, 4)
    entry = lake.land({lake.key(0): (100, 104), lake.key(1): (40, 44)})
    wanted = [("clicks", 0, 100), ("clicks", 0, 102), ("clicks", 1, 40), ("clicks", 1, 42)]
    assert lake.storage.read(lake.final(entry)) == lake.render(wanted)
    lake.relist(entry, 0, lake.render([*wanted[:3], ("clicks", 0, 101)]))
    result = lake.verify()
    assert result.problem_counts[ProblemKind.PROVENANCE] == 2
    assert (result.totals.lost, result.totals.duplicated) == (1, 1)


def test_offsets_of_two_generations_do_not_collide():
    lake = make_lake()
    lake.source.delete_and_recreate("clicks", 2)
    fill(lake.source, "clicks", 0, 70)
    lake.join(0, 1, generation=2)
    lake.land({lake.key(0, 2): (0, 70)})
    result = lake.verify()
    assert result.totals.duplicated == 0
    # The old generation cannot be asked. Shard 0: three records went elsewhere, and one offset
    # more is missing, the marker: nobody can tell that it was one.
    assert (result.totals.lost, result.totals.unprovable) == (0, 1)
    assert (result.exit_code, result.summary) == (6, "lost 0, duplicated 0, unprovable 1")


def test_an_old_generation_is_complete_where_every_record_fetched_is_there():
    lake = Lake()
    lake.source.create("clicks")
    fill(lake.source, "clicks", 0, 5)
    lake.source.leave_hole(CLICKS_0, 5)
    lake.open()
    lake.join(0)
    lake.land({lake.key(0): (0, 10)})
    lake.source.delete_and_recreate("clicks")
    lake.join(0, generation=2)
    result = lake.verify()
    assert (result.exit_code, result.totals.unprovable) == (0, 0)


# ---- what the source can no longer tell


def test_expired_offsets_are_unprovable():
    lake = make_lake()
    lake.source.expire(CLICKS_0, 55)
    result = lake.verify()
    assert (result.exit_code, result.totals.unprovable) == (6, 1)
    assert result.tables[0].status is Status.UNPROVABLE


def test_expired_offsets_that_counts_explain_are_proved():
    lake = make_lake()
    lake.source.expire(StreamShard("clicks", "1"), 40)
    assert lake.verify().exit_code == 0


def test_a_lost_record_is_lost_though_others_have_expired():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 20)
    lake.land({lake.key(1): (40, 60)}, forgotten={41, 55})
    lake.source.expire(StreamShard("clicks", "1"), 50)
    result = lake.verify()
    assert (result.totals.lost, result.totals.unprovable) == (1, 1)
    assert result.exit_code == 5


def test_offsets_that_expire_while_they_are_read_are_no_holes():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 20)
    lake.land({lake.key(1): (40, 60)}, forgotten={41})
    read_again = lake.source.read_again

    def expire_and_read(shard, offsets):
        if shard.shard == "1":
            lake.source.expire(shard, 45)
            return iter(())  # as a consumer that was reset to the earliest offset
        return read_again(shard, offsets)

    lake.source.read_again = expire_and_read
    assert lake.verify().totals.unprovable == 1


def test_a_topic_that_was_replaced_is_not_taken_for_the_old_one():
    lake = make_lake()
    lake.source.delete_and_recreate("clicks", 2)
    lake.source.leave_hole(CLICKS_0, 1000)
    result = lake.verify()
    assert (result.exit_code, result.totals.unprovable) == (6, 1)
    assert "created again" in result.notes[0]


def test_an_unreachable_source_leaves_things_unprovable():
    lake = make_lake()
    lake.source.is_reachable = False
    result = lake.verify()
    assert (result.exit_code, result.totals.unprovable) == (6, 1)
    assert "no broker answers" in result.notes[0]


# ---- given up on purpose


def test_relanded_files_take_the_place_of_lost_ones():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)}, is_moved=False)
    body = entry.body
    lost = lake.files(entry)[0]
    _, pending, final = lake.files(entry)[1]
    lake.storage.publish(Staged(pending), final)
    lake.storage.delete(lost[1])
    assert lake.verify().totals.lost == 2
    lake.open()
    offsets = [40, 42]
    data = lake.render([("clicks", 1, offset) for offset in offsets])
    file = describe(0, [(0, offset) for offset in offsets], data)
    reland = lake.append(
        Reland(
            entry=entry.number,
            batch=body.batch,
            time=body.time,
            lost=(lost[0].unique,),
            shards=tuple(read.key for read in body.shards),
            targets=(body.targets[lost[0].target],),
            files=(file,),
        )
    )
    lake.storage.create(lake.final(reland), data)
    result = lake.verify()
    assert (result.exit_code, result.problems) == (0, ())
    assert lake.source.asked[-1][0] == CLICKS_0  # nothing of shard 1 is unaccounted for
    lake.storage.delete(lake.final(reland))
    assert lake.verify().totals.lost == 2
    lake.rewrite(replace(reland.body, files=()))
    result = lake.verify()
    assert "0 rows landed again, 2 " in only_problem(result, ProblemKind.COUNTS).text
    assert result.totals.lost == 2


def test_lost_files_that_a_skip_gave_up_are_excused():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)}, is_moved=False)
    lost = lake.files(entry)[0]
    _, pending, final = lake.files(entry)[1]
    lake.storage.publish(Staged(pending), final)
    lake.storage.delete(lost[1])
    lake.open()
    given_up = ((lake.key(1), 2),)
    lake.append(Skip((), entry.number, (lost[0].unique,), given_up, "somebody", "gone"))
    result = lake.verify()
    assert (result.exit_code, result.totals.given_up, result.totals.lost) == (0, 2, 0)


def test_skipped_ranges_are_no_holes():
    lake = make_lake()
    skipped = ShardRange(lake.key(1), OffsetRange(40, 70))
    lake.append(Skip((skipped,), None, (), (), "job", "gap: skip"))
    result = lake.verify()
    assert (result.exit_code, result.totals.skipped) == (0, 30)


def test_retired_partitions_are_not_asked_for_and_may_be_half_gone():
    lake = make_lake()
    gone = RetiredPartition(TABLE, "date=2026-11-21/hour=00")
    lake.append(Retire((gone,), "somebody", "old"))
    paths = [path for e in lake.entries[2:4] for _, _, path in lake.files(e) if "hour=00" in path]
    lake.storage.delete(paths[0])
    result = lake.verify()
    assert (result.exit_code, result.problems) == (0, ())
    assert result.totals.retired > 0
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)})
    later = next(path for _, _, path in lake.files(entry) if "hour=00" in path)
    lake.storage.delete(later)
    assert lake.verify().totals.lost == 2  # retired before it was landed: asked for


@pytest.mark.parametrize("is_dead", [False, True])
@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
@pytest.mark.parametrize(("generation", "is_right"), [(1, True), (2, False)])
def test_rows_of_another_generation_than_their_entry_are_found(
    extension: str, generation: int, is_right: bool, is_dead: bool
):
    lake = make_lake(extension=extension)
    fill(lake.source, "clicks", 0, 4)
    lake.generation = generation
    entry = lake.land({lake.key(0): (100, 104)}, dead={100, 101, 102, 103} if is_dead else ())
    assert entry.body.targets[0].role is (Role.DEAD if is_dead else Role.MAIN)
    result = lake.verify()
    if is_right:
        assert (result.exit_code, result.problems) == (0, ())
    else:
        assert result.exit_code == 5
        assert {each.kind for each in result.problems} == {ProblemKind.PROVENANCE}
        assert "clicks/0 have generation 2, its entry 1" in result.problems[0].text
