"""Verification: a lake in order passes, and each way to spoil it is seen."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import (
    CLICKS_0,
    TABLE,
    Lake,
    fill,
    kinds,
    make_lake,
    only_problem,
)

from ashore.errors import JobFileInvalid, LogDamaged, StorageError
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.store.reader import read_log
from ashore.proof.evidence.result import CheckedBy, ProblemKind, Status, VerifyResult
from ashore.proof.verify.job import parse_since, verify_job
from ashore.storage.base import Staged
from ashore_lab.testing.wrapper import WrappedStorage

# ---- in order


def test_a_lake_in_order_passes():
    lake = make_lake()
    result = lake.verify()
    assert result.problems == ()
    assert (result.exit_code, result.summary) == (0, "lost 0, duplicated 0")
    (row,) = result.tables
    assert (row.table, row.topics, row.partitions) == (TABLE, ("clicks",), 2)
    tally = row.tally
    counts = (tally.fetched, tally.landed, tally.dead, tally.filtered, tally.dropped)
    # Offsets 7, 10, 11 and 12 are meant in both shards.
    assert counts == (139, 131, 2, 4, 2)
    assert (tally.batches, tally.files, tally.files_in_flight) == (2, 5, 2)
    assert row.checked_by is CheckedBy.PROVENANCE
    assert result.totals == tally
    assert (result.slices[0].end, result.slices[0].unclosed) == (3, 3)


def test_the_lake_of_these_tests_is_one_that_a_writer_could_have_made():
    lake = make_lake()
    assert read_log(lake.storage, lake.name).end == 3


def test_it_asks_only_for_offsets_that_no_count_explains():
    lake = make_lake()
    lake.verify()
    # Three records of shard 0 are accounted for, four offsets are missing: the marker.
    assert [shard for shard, _ in lake.source.asked] == [CLICKS_0]


def test_result_as_json_is_plain():
    result = make_lake().verify().to_dict()
    assert result["status"] == "ok"
    assert result["tables"][0]["landed"] == 131


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_every_format_is_read_back(extension: str):
    lake = make_lake(extension=extension)
    assert lake.verify().exit_code == 0
    entry = lake.land({lake.key(1): (40, 40)})
    assert lake.verify().problems == ()
    fill(lake.source, "clicks", 1, 3)
    entry = lake.land({lake.key(1): (40, 43)}, twice={42})
    assert lake.verify().totals.duplicated == 1
    lake.overwrite(lake.final(entry), b"not what it says\n")
    assert ProblemKind.FILE_UNREADABLE in kinds(lake.verify())


def test_a_job_that_never_started_has_nothing_wrong():
    lake = Lake()
    lake.source.create("clicks")
    result = lake.verify()
    assert (result.exit_code, result.slices) == (0, ())


# ---- files


def test_a_missing_file_is_lost():
    lake = make_lake()
    path = lake.final(lake.entries[2])
    lake.storage.delete(path)
    result = lake.verify()
    assert only_problem(result, ProblemKind.FILE_MISSING).place == path
    rows = lake.files(lake.entries[2])[0][0].rows
    assert (result.totals.lost, result.totals.duplicated) == (rows, 0)
    assert result.tables[0].status is Status.WRONG


def test_a_flipped_byte_is_seen():
    lake = make_lake()
    path = lake.final(lake.entries[3])
    data = bytearray(lake.storage.read(path))
    data[20] ^= 1
    lake.overwrite(path, bytes(data))
    assert only_problem(lake.verify(), ProblemKind.FILE_CHECKSUM).place == path


def test_a_short_file_is_seen():
    lake = make_lake()
    path = lake.final(lake.entries[2], 2)
    lake.overwrite(path, lake.storage.read(path)[:-9])
    result = lake.verify()
    assert {ProblemKind.FILE_SIZE, ProblemKind.FILE_UNREADABLE} <= kinds(result)
    assert result.totals.lost == lake.files(lake.entries[2])[2][0].rows


@pytest.mark.parametrize("table", ["ods.db/clicks", "ods.db/clicks__dead", "ods.db/clicks__late"])
def test_a_foreign_file_is_seen_in_every_table(table: str):
    lake = make_lake()
    lake.storage.create(f"{table}/date=2026-11-21/part-0.parquet", b"x")
    problem = only_problem(lake.verify(), ProblemKind.FILE_FOREIGN)
    assert (problem.table, problem.place) == (TABLE, f"{table}/date=2026-11-21/part-0.parquet")


def test_an_unlisted_file_of_ours_is_told_from_a_foreign_one():
    lake = make_lake()
    path = lake.final(lake.entries[2]).replace("a-main-1-0-", "a-main-1-9-")
    lake.storage.create(path, b"x")
    assert "batch 9" in only_problem(lake.verify(), ProblemKind.FILE_UNLISTED).text


def test_invisible_files_are_nobodys_business():
    lake = make_lake()
    for name in ("_SUCCESS", ".hidden", "_temporary/0/part-0.parquet", ".ashore/x/y.parquet"):
        lake.storage.create(f"ods.db/clicks/{name}", b"x")
    assert lake.verify().problems == ()


def test_only_the_first_twenty_of_a_kind_are_named():
    lake = make_lake()
    for number in range(25):
        lake.storage.create(f"ods.db/clicks/{number}.parquet", b"x")
    result = lake.verify()
    assert result.problem_counts == {ProblemKind.FILE_FOREIGN: 25}
    assert len(result.problems) == 20


def test_a_row_count_that_the_footer_does_not_confirm_is_seen():
    lake = make_lake()
    path = lake.final(lake.entries[3], 0)
    rows = [("clicks", 0, offset) for offset in range(60, 98, 2)]
    assert path.split("/")[3] == "hour=00"
    lake.relist(lake.entries[3], 0, lake.render(rows))
    result = lake.verify()
    assert ProblemKind.FILE_ROWS in kinds(result)
    assert result.totals.lost == 6  # offset 98 of shard 0, and 30 to 38 of shard 1


# ---- a job at work


def test_files_of_the_unclosed_entry_may_still_be_pending():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)}, is_moved=False)
    result = lake.verify()
    assert (result.exit_code, result.totals.files_in_flight) == (0, 2)
    lake.open()  # closes nothing
    assert lake.verify().exit_code == 0
    lake.append(Commit("idle"))
    result = lake.verify()
    assert result.problem_counts[ProblemKind.FILE_MISSING] == 2
    assert result.totals.lost == 4
    for _, pending, final in lake.files(entry):
        lake.storage.publish(Staged(pending), final)
    assert lake.verify().exit_code == 0


class Busy:
    """A storage where something happens when a directory of the table is first listed."""

    def __init__(self, storage, happen):
        self._storage = storage
        self._happen = happen

    def __getattr__(self, name: str):
        return getattr(self._storage, name)

    def list(self, directory: str):
        if directory.startswith("ods.db") and self._happen is not None:
            happen, self._happen = self._happen, None
            happen()
        return self._storage.list(directory)


def verify_while(lake: Lake, happen) -> VerifyResult:
    return verify_job(replace(lake.opened(), storage=Busy(lake.storage, happen)))


def test_what_lands_while_tables_are_listed_is_no_orphan():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    result = verify_while(lake, lambda: lake.land({lake.key(1): (40, 44)}))
    assert (result.problems, result.slices[0].end) == ((), 4)


def test_files_that_are_moved_while_they_are_looked_for_are_found():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 4)
    entry = lake.land({lake.key(1): (40, 44)}, is_moved=False)

    class Moving(Busy):
        """Moves the files when the first of them is looked for, at its pending place."""

        def stat(self, path: str):
            if path.endswith(".in-progress") and self._happen is not None:
                happen, self._happen = self._happen, None
                happen()
            return self._storage.stat(path)

        def list(self, directory: str):
            return self._storage.list(directory)

    def move() -> None:
        for _, pending, final in lake.files(entry):
            lake.storage.publish(Staged(pending), final)

    opened = replace(lake.opened(), storage=Moving(lake.storage, move))
    assert verify_job(opened).problems == ()


def test_a_log_that_goes_on_from_another_one_is_damaged():
    lake = make_lake()

    def append() -> None:
        lake.entries[-1] = replace(lake.entries[-1], checksum="0" * 64)
        lake.append(Commit("stop"))

    with pytest.raises(LogDamaged, match="another predecessor"):
        verify_while(lake, append)


def test_a_damaged_log_is_not_judged():
    lake = make_lake()
    lake.overwrite(names.entry_path(lake.name, 2), b"{}")
    with pytest.raises(LogDamaged):
        lake.verify()


# ---- logs that lie


def test_a_hole_between_ranges_is_seen():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    lake.land({lake.key(1): (42, 50)})
    problem = only_problem(lake.verify(), ProblemKind.RANGES)
    assert (problem.place, problem.offsets) == ("clicks/1", (40,))
    assert "hole [40, 42)" in problem.text


def test_ranges_that_overlap_are_seen_and_so_are_their_records():
    lake = make_lake()
    lake.land({lake.key(1): (38, 40)})
    result = lake.verify()
    assert kinds(result) == {ProblemKind.RANGES, ProblemKind.DUPLICATED}
    assert (result.totals.duplicated, result.totals.lost) == (2, 0)
    assert only_problem(result, ProblemKind.DUPLICATED).offsets == (38, 39)


def test_ranges_in_the_wrong_order_are_seen():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    lake.land({lake.key(1): (45, 50)})
    lake.land({lake.key(1): (40, 45)})
    result = lake.verify()
    assert result.problem_counts == {ProblemKind.RANGES: 2}
    assert result.totals.duplicated == 0


def test_a_shard_may_move_to_another_slice():
    lake = make_lake()
    fill(lake.source, "clicks", 1, 10)
    east = lake.new_slice("east")
    east.open()
    east.join(1, first=40)
    east.land({lake.key(1): (40, 50)})
    result = lake.verify()
    assert (result.exit_code, result.problems) == (0, ())
    assert [each.slice for each in result.slices] == ["east", "main"]
    lake.append(Commit("stop"))
    lake.land({lake.key(1): (40, 50)})  # and both read it
    result = lake.verify()
    assert (result.totals.duplicated, kinds(result)) == (
        10,
        {ProblemKind.RANGES, ProblemKind.DUPLICATED},
    )


def test_a_range_before_its_join_is_seen():
    lake = make_lake()
    lake.source.add_shard("clicks")
    lake.land({lake.key(2): (0, 0)})
    assert "never joined" in only_problem(lake.verify(), ProblemKind.RANGES).text


@pytest.mark.parametrize("name", ["fetched", "filtered", "dropped", "landed", "dead"])
def test_counts_that_do_not_add_up_are_seen(name: str):
    lake = make_lake()
    body = lake.entries[-1].body
    read = body.shards[0]
    wrong = replace(read, **{name: getattr(read, name) + 1})
    lake.rewrite(replace(body, shards=(wrong, *body.shards[1:])))
    assert ProblemKind.COUNTS in kinds(lake.verify())


def test_spans_that_overlap_are_seen():
    lake = make_lake()
    body = lake.entries[-1].body
    # Both main files, of odd and of even offsets, in one target: they can never overlap there.
    files = tuple(replace(file, target=0) for file in body.files)
    lake.rewrite(replace(body, files=files))
    result = lake.verify()
    assert result.problem_counts[ProblemKind.SPANS] == 2
    reported = (("overlapping_spans", 2),)
    lake.rewrite(replace(lake.entries[-1].body, counters=reported))
    assert ProblemKind.SPANS not in kinds(lake.verify())


def test_a_span_outside_of_its_range_is_seen():
    lake = make_lake()
    body = lake.entries[-1].body
    span = body.files[0].spans[0]
    file = replace(body.files[0], spans=(replace(span, end=500), *body.files[0].spans[1:]))
    lake.rewrite(replace(body, files=(file, *body.files[1:])))
    assert "500" in only_problem(lake.verify(), ProblemKind.SPANS).text


# ---- less than everything


def test_without_provenance_it_says_that_only_counts_were_checked():
    lake = make_lake(provenance=False)
    result = lake.verify()
    assert result.exit_code == 0
    assert result.tables[0].checked_by is CheckedBy.COUNTS
    (note,) = result.notes
    assert note.startswith(f"{TABLE} carries no offsets")
    entry = lake.entries[-1]
    rows = lake.files(entry)[0][0].rows
    lake.relist(entry, 0, lake.render([("clicks", 0, 0)] * (rows - 2)))
    result = lake.verify()
    assert kinds(result) == {ProblemKind.FILE_ROWS, ProblemKind.LOST}
    assert result.totals.lost == 2


def test_since_bounds_what_is_read_and_says_so():
    lake = make_lake()
    lake.append(Commit("idle"), after_s=3600)
    fill(lake.source, "clicks", 1, 4)
    late = lake.land({lake.key(1): (40, 44)})
    for entry in (lake.entries[2], late):
        path = lake.final(entry)
        data = bytearray(lake.storage.read(path))
        data[20] ^= 1
        lake.overwrite(path, bytes(data))
    result = lake.verify(since="10m")
    assert result.problem_counts == {ProblemKind.FILE_CHECKSUM: 1}
    assert result.since_ms == lake.clock.now_ms() - 600_000
    assert "not read" in result.notes[-1]
    lake.storage.delete(lake.final(lake.entries[2]))
    result = lake.verify(since="10m")
    assert result.problem_counts[ProblemKind.FILE_MISSING] == 1
    assert result.totals.lost == lake.files(lake.entries[2])[0][0].rows


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2h", 10_000_000_000 - 7_200_000),
        ("1795000000000", 1_795_000_000_000),
        ("2026-11-18T11:06:40Z", 1_795_000_000_000),
        ("2026-11-18T19:06:40+08:00", 1_795_000_000_000),
        ("2026-11-18", 1_794_960_000_000),
    ],
)
def test_since_may_be_written_in_many_ways(text: str, time_ms: int):
    assert parse_since(text, 10_000_000_000) == time_ms


def test_since_that_is_no_time_is_refused():
    with pytest.raises(JobFileInvalid, match="yesterday"):
        parse_since("yesterday", 0)


def test_progress_is_reported_of_every_step():
    lake = make_lake()
    seen = set()
    verify_job(lake.opened(), progress=lambda step, done, total: seen.add(step))
    assert seen == {"list", "log", "files", "kafka"}


def test_a_source_that_does_not_answer_is_no_zero():
    lake = make_lake()
    lake.source.is_reachable = False

    result = lake.verify()

    assert (result.exit_code, result.status) == (6, "unprovable")
    assert [(each.what, each.reason) for each in result.not_checked] == [
        ("Kafka", "no broker answers")
    ]
    assert "lost 0" not in result.summary
    assert "not compared: Kafka" in result.summary
    document = result.to_dict()
    assert document["totals"]["lost"] is None
    assert document["tables"][0]["lost"] is None
    assert document["not_checked"]


class Unreadable(WrappedStorage):
    """A storage that does not read, or list, some paths."""

    def __init__(self, inner, path: str) -> None:
        super().__init__(inner)
        self.path = path

    def read(self, path, start=0, length=None):
        self._refuse(path)
        return super().read(path, start, length)

    def list(self, path):
        self._refuse(path)
        return super().list(path)

    def _refuse(self, path: str) -> None:
        if path == self.path:
            raise StorageError(f"{path}: Input/output error")


def test_a_file_that_is_listed_and_not_read_is_named():
    lake = make_lake()
    path = lake.final(lake.entries[2])

    result = verify_job(replace(lake.opened(), storage=Unreadable(lake.storage, path)))

    assert result.exit_code == 6
    assert [each.what for each in result.not_checked] == [path]
    assert path in result.summary
    assert result.problems == ()


def test_a_directory_that_is_not_listed_is_named():
    lake = make_lake()

    opened = replace(lake.opened(), storage=Unreadable(lake.storage, "ods.db/clicks"))
    result = verify_job(opened)

    assert result.exit_code == 6
    assert [each.what for each in result.not_checked] == ["ods.db/clicks"]
    assert result.to_dict()["tables"][0]["duplicated"] is None


def test_what_is_wrong_counts_more_than_what_was_not_compared():
    lake = make_lake()
    lake.storage.delete(lake.final(lake.entries[2]))
    lake.source.is_reachable = False

    result = lake.verify()

    assert result.exit_code == 5
    assert result.totals.lost > 0
    assert "not compared: Kafka" in result.summary
