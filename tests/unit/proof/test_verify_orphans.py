"""What readers see in files that no entry lists, and the last line that people paste."""

import pytest
from tests.unit.proof.lakes import DATE, Lake, kinds, make_lake

from ashore.log import names
from ashore.proof.evidence.result import ProblemKind, VerifyResult

NOTHING_WRONG = "lost 0, duplicated 0"
COPY = f"ods.db/clicks/{DATE}/hour=00/copy.parquet"


def lose_log(lake: Lake, keep: int = 0) -> None:
    for entry in lake.entries[keep:]:
        lake.storage.delete(names.entry_path(lake.name, entry.number))


def rows_of(lake: Lake, path: str) -> int:
    return next(
        file.rows
        for entry in lake.entries[2:]
        for file, _, final in lake.files(entry)
        if final == path
    )


def checked(result: VerifyResult) -> VerifyResult:
    """Return a result that is wrong, having checked that its last line does not say otherwise."""
    assert result.exit_code == 5
    assert not result.summary.startswith(NOTHING_WRONG)
    return result


def test_a_copied_file_is_seen_twice():
    lake = make_lake()
    path = lake.final(lake.entries[2])
    lake.storage.create(COPY, lake.storage.read(path))
    result = checked(lake.verify())
    assert result.totals.duplicated == rows_of(lake, path)
    assert result.tables[0].tally.duplicated == result.totals.duplicated
    assert kinds(result) == {ProblemKind.FILE_FOREIGN, ProblemKind.DUPLICATED}


def test_two_copies_are_seen_three_times():
    lake = make_lake()
    path = lake.final(lake.entries[2])
    for number in range(2):
        lake.storage.create(f"{COPY}-{number}.parquet", lake.storage.read(path))
    assert checked(lake.verify()).totals.duplicated == 2 * rows_of(lake, path)


def test_what_was_landed_again_after_the_log_was_lost_is_counted():
    lake = make_lake()
    whole = lake.verify().totals
    lose_log(lake)
    lake.entries.clear()
    lake.batch = lake.epoch = 0
    lake.open()
    lake.join(0, 1)
    lake.land({lake.key(0): (0, 100), lake.key(1): (0, 40)}, dead={7}, filtered={10, 11})
    result = checked(lake.verify())
    assert result.totals.duplicated == whole.landed + whole.dead
    assert "lost 0, duplicated 133" in result.summary


def test_a_log_that_is_lost_leaves_rows_that_no_entry_lists():
    lake = make_lake()
    whole = lake.verify().totals
    lose_log(lake)
    totals = checked(lake.verify()).totals
    assert (totals.unlisted, totals.duplicated) == (whole.landed + whole.dead, 0)


@pytest.mark.parametrize("provenance", [True, False])
def test_what_cannot_be_compared_is_said(provenance: bool):
    lake = make_lake(provenance=provenance)
    content = b"x" if provenance else lake.storage.read(lake.final(lake.entries[2]))
    lake.storage.create(COPY, content)
    result = checked(lake.verify())
    assert result.uncounted_files == 1
    assert "is unknown" in result.summary
    assert "cannot be compared 1" in result.summary


def test_what_was_not_read_cannot_be_compared():
    lake = make_lake()
    lake.storage.create(COPY, lake.storage.read(lake.final(lake.entries[2])))
    lake.clock.advance(3600)
    result = checked(lake.verify(since="1m"))
    assert result.uncounted_files == 1


def test_a_flipped_bit_says_nothing_of_rows():
    lake = make_lake()
    path = lake.final(lake.entries[2])
    data = bytearray(lake.storage.read(path))
    data[len(data) // 2] ^= 1
    lake.overwrite(path, bytes(data))
    assert kinds(lake.verify()) & {ProblemKind.FILE_CHECKSUM, ProblemKind.FILE_UNREADABLE}
    checked(lake.verify())
