"""Going on where the job's own log was lost: its files come into a new one, each record once."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import DATE, JOB, Lake, fill, make_lake

from ashore.errors import ClockAhead, LogLost
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.log.entries import Commit, Retire, RetiredPartition
from ashore.log.positions import StreamShard
from ashore.log.store.owner import claim_tables
from ashore.log.store.reader import read_log
from ashore.proof.doctor.apply import diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.doctor.repair_plan import Diagnosis
from ashore.proof.doctor.steps import AdoptFiles, MoveAside
from ashore.storage.base import Staged
from ashore.topics.loop.sinks import sink_slice
from ashore_lab.testing import FakeClock

AT = FormerAt(own_files=True)


def plain_lake(generation: int | None = None) -> Lake:
    """Two shards, three batches, one hole of a transaction, one dead record, a start in between."""
    lake = Lake()
    lake.generation = generation
    lake.source.create("clicks", 2)
    fill(lake.source, "clicks", 0, 50)
    lake.source.leave_hole(StreamShard("clicks", "0"))
    fill(lake.source, "clicks", 0, 49)
    fill(lake.source, "clicks", 1, 40)
    claim_tables(lake.storage, ["ods.clicks", "ods.clicks__dead"], "clicks", 0)
    lake.open()
    lake.join(0, 1)
    lake.land({lake.key(0): (0, 30), lake.key(1): (0, 10)}, dead={7})
    lake.land({lake.key(0): (30, 60)})
    lake.open()
    lake.land({lake.key(0): (60, 100), lake.key(1): (10, 40)})
    lake.append(Commit("stop"))
    lake.clock.advance(1)
    return lake


def lose(lake: Lake, keep: int = 0) -> None:
    for entry in lake.entries[keep:]:
        lake.storage.delete(names.entry_path(lake.name, entry.number))


def treated(lake: Lake) -> Diagnosis:
    """Do what is shown; the result needs no more, and a start goes on from it."""
    said = diagnose(lake.opened(), AT)
    done = []
    left = treat(lake.opened(), AT, done.append, takes_over=False)
    assert [each.step for each in done] != [] or said.steps == ()
    assert diagnose(lake.opened(), AT).steps == ()
    if not left.refusals:
        lake.opened().log(lake.name).open()
    return left


def nexts(lake: Lake) -> dict[str, int]:
    fold = read_log(lake.storage, lake.name)
    return {key.shard: state.next for key, state in fold.current().items()}


def land_rest(lake: Lake) -> None:
    """Land what Kafka has and the log has not, as a job would."""
    opened = lake.opened()
    log = opened.log(lake.name)
    fold = log.open()
    opened.committer(lake.name)
    ends = {"0": 100, "1": 40}
    lake.epoch, lake.batch = fold.epoch, fold.next_batch
    lake.entries = list(history(lake))
    missing = [key for key in (lake.key(0), lake.key(1)) if key not in fold.shards]
    if missing:
        lake.join(*[int(key.shard) for key in missing])
    now = nexts(lake)
    lake.land({lake.key(int(s)): (now[s], ends[s]) for s in now if now[s] < ends[s]})
    lake.append(Commit("stop"))


def history(lake: Lake):
    from ashore.log.store.reader import read_history  # noqa: PLC0415

    return read_history(lake.storage, lake.name)


@pytest.mark.parametrize("keep", range(8))
def test_a_lost_log_or_a_lost_end_is_made_again_from_files(keep: int):
    lake = plain_lake()
    totals = lake.verify().totals
    lose(lake, keep)
    assert not treated(lake).refusals
    result = lake.verify()
    assert (result.exit_code, result.summary) == (0, "lost 0, duplicated 0"), result.problems
    assert (result.totals.landed, result.totals.dead) == (totals.landed, totals.dead)
    assert nexts(lake) == {"0": 100, "1": 40}
    assert read_log(lake.storage, lake.name).next_batch == 3


def test_without_it_a_start_stops():
    lake = plain_lake()
    lose(lake)
    with pytest.raises(LogLost):
        lake.opened().log(lake.name).open()


def test_a_missing_file_is_landed_again_with_all_that_comes_after_it():
    lake = plain_lake()
    gone = lake.final(lake.entries[3])
    lake.storage.delete(gone)
    lose(lake)
    found = diagnose(lake.opened(), AT)
    aside = [each for each in found.steps if isinstance(each, MoveAside)]
    (adopted,) = [each for each in found.steps if isinstance(each, AdoptFiles)]
    assert aside
    assert adopted.files
    treated(lake)
    assert nexts(lake)["0"] == 30
    land_rest(lake)
    result = lake.verify()
    assert (result.exit_code, result.totals.duplicated, result.totals.lost) == (0, 0, 0)
    assert result.totals.landed + result.totals.dead == 99 + 40


def unmoved(lake: Lake, index: int = 0) -> str:
    """Have a file of the last batch never moved, as where a writer died after its `prepare`."""
    _, pending, final = lake.files(lake.entries[5])[index]
    lake.storage.publish(Staged(final), pending)
    return pending


def test_records_of_a_file_that_was_never_moved_are_landed_again():
    lake = plain_lake()
    unmoved(lake)
    lose(lake)
    treated(lake)
    land_rest(lake)
    result = lake.verify()
    assert (result.exit_code, result.totals.landed + result.totals.dead) == (0, 139)


@pytest.mark.parametrize("keep", [0, 5])
def test_a_file_that_was_never_moved_and_that_nobody_has_besides_is_refused(keep: int):
    lake = plain_lake()
    pending = unmoved(lake)
    lose(lake, keep)
    lake.source.expire(StreamShard("clicks", "0"), 100)
    lake.source.expire(StreamShard("clicks", "1"), 40)
    text = refusal(lake)
    assert pending in text
    assert "Kafka no longer has" in text
    lake.storage.publish(Staged(pending), "elsewhere")
    assert diagnose(lake.opened(), AT).refusals == (), "given up by hand"


@pytest.mark.parametrize("keep", [0, 5])
def test_what_a_failed_attempt_has_left_keeps_nobody_from_going_on(keep: int):
    """Its records are in other files: in such as are adopted, or in such as the log has."""
    lake = plain_lake()
    path = lake.final(lake.entries[2])
    staged = names.staging_directory("ods.clicks", lake.name, 1)
    lake.storage.create(f"{staged}/{names.pending_name(0, 'f' * 16)}", lake.storage.read(path))
    lake.storage.create(f"{staged}/{names.pending_name(1, 'e' * 16)}", b"half")
    lose(lake, keep)
    lake.source.expire(StreamShard("clicks", "0"), 100)
    lake.source.expire(StreamShard("clicks", "1"), 40)
    assert not treated(lake).refusals
    assert nexts(lake) == {"0": 100, "1": 40}


@pytest.mark.parametrize("keep", [0, 5])
def test_a_clock_that_is_far_ahead_appends_nothing(keep: int):
    lake = plain_lake()
    lose(lake, keep)
    ahead = FakeClock(lake.clock.now_ms() + 10 * 365 * 86_400_000)
    opened = replace(lake.opened(), clock=ahead)
    end = read_log(lake.storage, lake.name).end
    with pytest.raises(ClockAhead):
        treat(opened, AT, lambda _: None, takes_over=True)
    assert read_log(lake.storage, lake.name).end == end
    with pytest.raises(LogLost):
        lake.opened().log(lake.name).open()
    assert not treated(lake).refusals
    assert read_log(lake.storage, lake.name).now_ms < ahead.now_ms() - 86_400_000


def test_a_lost_log_of_a_query_is_refused_and_the_topics_go_on():
    lake = plain_lake()
    lake.job = parse_job(
        f"{JOB}  - table: ods.sums\nsql: |\n  INSERT INTO ods.sums SELECT 1 AS n\n"
    )
    name = sink_slice("clicks", lake.job.tables[1])
    final = names.FinalName(name.slice, 1, 0, 0, "0" * 16, "parquet")
    lake.storage.create(f"ods.db/sums/{names.final_name(final)}", b"x")
    lose(lake)
    left = treated(lake)
    (found,) = left.refusals
    assert str(name) in found.text
    assert nexts(lake) == {"0": 100, "1": 40}


@pytest.mark.parametrize("spoil", ["cut", "other"])
def test_a_file_that_is_not_whole_is_landed_again(spoil: str):
    lake = plain_lake()
    path = lake.final(lake.entries[2])
    lake.overwrite(path, lake.storage.read(path)[:-7] if spoil == "cut" else b"x")
    lose(lake)
    treated(lake)
    assert lake.storage.stat(path) is None
    land_rest(lake)
    result = lake.verify()
    assert (result.exit_code, result.totals.landed + result.totals.dead) == (0, 139)


def test_what_was_filtered_cannot_be_told_from_what_is_lost_and_is_read_again():
    lake = make_lake()
    lose(lake)
    lake.clock.advance(1)
    treated(lake)
    assert nexts(lake).get("0", 0) <= 10
    land_rest(lake)
    assert lake.verify().exit_code == 0


def test_a_copy_of_a_file_is_moved_aside():
    lake = plain_lake()
    path = lake.final(lake.entries[2])
    copy = path.replace("-0000-", "-0001-")
    lake.storage.create(copy, lake.storage.read(path))
    lose(lake)
    found = diagnose(lake.opened(), AT)
    (moved,) = [each for each in found.steps if isinstance(each, MoveAside)]
    assert moved.source in {path, copy}
    treated(lake)
    assert lake.verify().exit_code == 0


def test_what_the_log_has_is_moved_aside():
    lake = plain_lake()
    path = lake.final(lake.entries[2])
    lake.storage.create(path.replace("a-main-1-0-", "a-main-1-9-"), lake.storage.read(path))
    treated(lake)
    assert lake.verify().exit_code == 0


def refusal(lake: Lake) -> str:
    found = diagnose(lake.opened(), AT)
    assert found.steps == ()
    return "; ".join(each.text for each in found.refusals)


@pytest.mark.parametrize(("generation", "is_refused"), [(1, False), (2, True)])
def test_files_of_another_generation_are_not_adopted(generation: int, is_refused: bool):
    """The log that is lost had followed a `rejoin`: equal offsets are of other records."""
    lake = plain_lake(generation)
    lose(lake)
    if is_refused:
        assert "clicks/0 have another generation than 1" in refusal(lake)
    else:
        treated(lake)
        assert lake.verify().exit_code == 0


def test_records_that_cannot_be_landed_again_are_refused():
    lake = plain_lake()
    path = lake.final(lake.entries[5])
    lake.storage.publish(
        Staged(path), path.replace("a-main-2-2-", "a-main-1-7-")
    )  # no writer names it so
    lose(lake)
    lake.source.expire(StreamShard("clicks", "0"), 100)
    lake.source.expire(StreamShard("clicks", "1"), 40)
    assert "Kafka no longer has" in refusal(lake)


def test_without_the_source_nothing_is_adopted():
    lake = plain_lake()
    lose(lake)
    lake.source.is_reachable = False
    assert "Kafka does not answer" in refusal(lake)


def test_a_topic_that_ends_before_the_files_is_refused():
    lake = plain_lake()
    lose(lake)
    lake.source.delete("clicks")
    lake.source.create("clicks", 2)
    assert "Kafka does not have" in refusal(lake)


def test_files_without_offsets_are_moved_aside_and_landed_again():
    lake = Lake(provenance=False)
    lake.source.create("clicks", 1)
    fill(lake.source, "clicks", 0, 10)
    lake.open()
    lake.join(0)
    lake.land({lake.key(0): (0, 10)})
    lose(lake)
    lake.clock.advance(1)
    found = diagnose(lake.opened(), AT)
    assert [type(each) for each in found.steps].count(MoveAside) == 2


def test_a_job_that_is_in_order_needs_nothing():
    found = diagnose(plain_lake().opened(), AT)
    assert (found.steps, found.refusals) == ((), ())


def test_partitions_and_roles_are_those_of_the_files():
    lake = plain_lake()
    lose(lake)
    treated(lake)
    entries = [each for each in history(lake) if each.kind == "prepare"]
    targets = {(each.table, each.role.value, each.partition) for each in entries[0].body.targets}
    assert targets == {
        ("ods.clicks", "main", f"{DATE}/hour=00"),
        ("ods.clicks", "main", f"{DATE}/hour=01"),
        ("ods.clicks__dead", "dead", DATE),
    }


# ---- partitions that were dropped on purpose


def retire(lake: Lake, partition: str = f"{DATE}/hour=00") -> None:
    """Drop a partition as `ashore retire` does: an entry says so, and its files are deleted."""
    lake.append(Retire((RetiredPartition("ods.clicks", partition),), "ana", "old"))
    for found in lake.storage.list(f"ods.db/clicks/{partition}"):
        lake.storage.delete(found.path)


def keeping(lake: Lake, retention: str) -> Lake:
    lake.job = parse_job(f"{JOB}    retention: {retention}\n")
    return lake


@pytest.mark.parametrize("evidence", ["retention", "what is left of the log"])
def test_what_may_have_been_dropped_on_purpose_is_not_landed_again_unasked(evidence: str):
    lake = plain_lake()
    if evidence == "retention":
        keeping(lake, "90d")
        retire(lake)
        lose(lake)
    else:
        retire(lake, f"{DATE}/hour=23")
        lake.land({lake.key(0): (100, 100)})
        kept = len(lake.entries)
        fill(lake.source, "clicks", 0, 20)
        entry = lake.land({lake.key(0): (100, 110)})
        lake.land({lake.key(0): (110, 120)})
        for _, _, final in lake.files(entry):  # retired, and that entry is lost too
            lake.storage.delete(final)
        lose(lake, kept)
        lake.clock.advance(1)
    refused, *_ = diagnose(lake.opened(), AT).refusals
    shown = "`retention: 90" if evidence == "retention" else "was retired from before"
    assert shown in refused.text
    assert "dropped on purpose" in refused.text
    assert "--land-missing" in refused.hint
    assert "ashore retire JOB.yaml ods.clicks" in refused.hint
    assert diagnose(lake.opened(), AT).steps == ()

    wanted = replace(AT, lands_missing=True)
    found = diagnose(lake.opened(), wanted)
    assert (found.refusals, bool(found.steps)) == ((), True)
    assert any("in no file" in note for note in found.notes)


def test_where_nothing_is_missing_or_kafka_has_it_no_more_nothing_is_asked():
    lake = keeping(plain_lake(), "90d")
    retire(lake)
    lose(lake)
    lake.source.expire(StreamShard("clicks", "0"), 100)
    lake.source.expire(StreamShard("clicks", "1"), 40)
    assert diagnose(lake.opened(), AT).refusals == ()
    whole = keeping(plain_lake(), "90d")
    lose(whole)
    assert not treated(whole).refusals


def test_without_a_trace_of_retiring_it_is_told_that_it_would_not_be_known():
    lake = plain_lake()
    retire(lake)
    lose(lake)
    found = diagnose(lake.opened(), AT)
    assert found.refusals == ()
    told = [note for note in found.notes if "`ashore retire` dropped" in note]
    assert told
    assert "landed again from offset 2 " in told[0]
