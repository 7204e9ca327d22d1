"""What `verify` holds of files that a log lists: little, and all of it."""

import gc
import tracemalloc

import pytest

from ashore.log.entries import Draft, Entry, Prepare, ShardRead, Skip, read_entry, write_entry
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, Target
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.proof.evidence.ledger import LedgerBuilder, LoggedFile, PartKey
from ashore.proof.evidence.packing import Packed

NAME = SliceName("clicks", "main")
KEY = ShardKey("kafka", "clicks", 1, "0")
ENTRIES, FILES, ROWS = 20, 100, 7
BYTES_A_FILE = 80  # without packing: more than 600


def entry(number: int, body: Prepare | Skip) -> Entry:
    """Return an entry as it is read from a log."""
    draft = Draft(number, f"{number:032x}", 1, 1_000, None, None, body)
    return read_entry(write_entry(draft)[1])


def prepare(number: int) -> Prepare:
    start = number * FILES * ROWS
    target = Target("ods.clicks", Role.MAIN, f"hour={number}", (), "id BIGINT", "parquet")
    files = []
    for each in range(FILES):
        # As the writer's names and checksums are: no two alike, nothing to compress.
        name = f"{hash((number, each)) & (2**64 - 1):016x}"
        first = start + each * ROWS
        span = (FileSpan(0, first, first + ROWS, ROWS),)
        files.append(DataFile(0, each, name, ROWS, 1000 + each, name[::-1], span, first, first))
    count = FILES * ROWS
    read = ShardRead(
        KEY, OffsetRange(start, start + count), "ods.clicks", count, count, 0, 0, 0, count, None
    )
    return Prepare(number, BatchTime(1_000), (read,), (target,), tuple(files), (), None)


def builder(entries: int = ENTRIES) -> LedgerBuilder:
    made = LedgerBuilder()
    for number in range(entries):
        made.take(NAME, entry(number, prepare(number)))
    return made


def test_every_file_comes_back_as_it_was_listed():
    ledger = builder().finish()
    assert len(ledger.files) == ENTRIES * FILES
    for _ in (1, 2):  # it is read again and again
        found = list(ledger.files)
        assert [each.file for each in found] == [
            file for number in range(ENTRIES) for file in prepare(number).files
        ]
    first = found[FILES]
    target, parts = prepare(1).targets[0], (PartKey("main", 1, KEY),)
    assert first == LoggedFile(
        "main", 1, 1, 1_000, "ods.clicks", BatchPlace(NAME, 1, 1), target, first.file, parts
    )
    assert first in ledger.files
    assert prepare(1) not in ledger.files


def test_a_file_that_was_given_up_is_asked_for_no_more():
    made = builder()
    lost = prepare(ENTRIES - 1).files[3]
    made.take(NAME, entry(ENTRIES, Skip((), ENTRIES - 1, (lost.unique,), (), "ana", "gone", ())))
    ledger = made.finish()
    assert len(ledger.files) == ENTRIES * FILES - 1
    assert [each.file for each in ledger.excused_files] == [lost]
    assert lost not in [each.file for each in ledger.files]
    assert ledger.parts[-1].given_up == ROWS


def test_a_ledger_stays_as_it_was_when_more_entries_come():
    made = builder(3)
    before = made.finish()
    made.take(NAME, entry(3, prepare(3)))
    assert len(before.files) == 3 * FILES == sum(1 for _ in before.files)
    made.drain()
    assert len(before.files) == 3 * FILES == sum(1 for _ in before.files)
    assert len(made.finish().files) == 0


@pytest.mark.slow
def test_a_listed_file_takes_little_memory():
    builder(1)  # what the first use of a module takes
    gc.collect()
    tracemalloc.start()
    try:
        made = builder()
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # The list of the last entry is kept as it is: its files may be given up.
    listed_bytes = 1_000 * FILES
    assert len(made.finish().files) == ENTRIES * FILES
    assert size - listed_bytes < BYTES_A_FILE * ENTRIES * FILES


@pytest.mark.parametrize("values", [[], [1], list(range(100))])
def test_packed(values):
    packed = Packed[int]()
    packed.add(values)
    packed.add([])
    packed.add(values)
    assert list(packed) == 2 * values
    assert len(packed) == 2 * len(values)
    assert [*packed.lists()] == ([values, values] if values else [])
    copied = packed.copy()
    packed.clear()
    assert (len(packed), list(packed)) == (0, [])
    assert len(copied) == 2 * len(values)
