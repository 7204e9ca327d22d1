"""Dead letters of a job: how many, for which reasons, and examples.

What it promises: reads only, a bounded number of files and rows. What cannot be shown is named,
with the reason.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ashore.errors import AshoreError, StorageError
from ashore.log.entries import Entry, Prepare
from ashore.log.files import BatchPlace, DataFile, Role
from ashore.log.names import SliceName
from ashore.log.store.walk import read_window
from ashore.log.tables import DEAD_DDL
from ashore.proof.evidence.offsets import Unreadable, read_file_rows
from ashore.storage.base import Storage
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.reasons import code_of, describe
from ashore.topics.open_job import OpenJob

ENTRIES, ENTRIES_AT_ONCE = 200, 20  # of each slice, the newest, are looked through
FILES = 20  # and at most this many files that they list
ROWS = 50  # of each file
SAMPLE_CHARS = 120  # of a record in a sentence
SCHEMA = parse_ddl(DEAD_DDL)
NO_ORC = "files of ORC are not shown here: ask with SQL, SELECT reason, value FROM the table"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that is no row, with where it came from. `value`: as it came; None: it had none."""

    table: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    reason: str
    value: bytes | None
    entry: int
    file: str


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What was found of a job's dead letters.

    Arguments:
        total: how many there are, since the logs began.
        looked_at: how many of them were read.
        reasons: the codes of those, with how many, most first.
        letters: of those, the newest first.
        unread: what could not be read, and why.

    """

    total: int
    looked_at: int
    reasons: tuple[tuple[str, int], ...]
    letters: tuple[DeadLetter, ...]
    unread: tuple[str, ...]


def read_dead_letters(
    opened: OpenJob, shown: int = 50, *, files_max: int = FILES, of_table: str | None = None
) -> DeadLetters:
    """Return dead letters of a job, newest first. Raises LogDamaged, StorageError.

    Arguments:
        opened: the job.
        shown: how many are returned at most.
        files_max: how many files of a slice are read at most.
        of_table: only those of this main table.

    """
    total, letters, unread = 0, list[DeadLetter](), list[str]()
    for name in opened.slices:
        fold = opened.fold(name)
        dead = sum(each.dead for each in fold.shards.values())
        total += dead
        files = _newest_files(opened.storage, name, fold.end) if dead else ()
        own = (
            (entry, body, file)
            for entry, body, file in files
            if of_table is None
            or any(body.shards[span.shard].table == of_table for span in file.spans)
        )
        for entry, body, file in islice(own, files_max):
            try:
                letters += _read(opened, name, entry, body, file)
            except (Unreadable, StorageError) as error:
                directory = body.targets[file.target].directory
                unread.append(f"entry {entry.number}, {directory}: {error}")
    reasons = Counter(code_of(each.reason) for each in letters)
    return DeadLetters(
        total, len(letters), tuple(reasons.most_common()), tuple(letters[:shown]), tuple(unread)
    )


def explain_letters(opened: OpenJob, table: str) -> str:
    """Return the end of a sentence about the dead letters of a table; empty: it is not known.

    It has the most frequent reason among the newest ones, and a record.
    """
    try:
        found = read_dead_letters(opened, files_max=1, of_table=table)
    except AshoreError:
        return ""  # the lake does not answer: that is reported elsewhere
    if not found.letters:
        return ""
    code, _ = found.reasons[0]
    letter = next(each for each in found.letters if code_of(each.reason) == code)
    value = (letter.value or b"").decode(errors="replace")
    cut = value if len(value) <= SAMPLE_CHARS else f"{value[:SAMPLE_CHARS]}..."
    place = f"{letter.topic}/{letter.partition} offset {letter.offset}"
    return f": {describe(letter.reason)}; {place} is {cut}"


def _newest_files(
    storage: Storage, name: SliceName, end: int
) -> Iterator[tuple[Entry, Prepare, DataFile]]:
    """Yield files of dead letters, the newest first; entries are read only as far as needed."""
    for stop in range(end + 1, max(0, end + 1 - ENTRIES), -ENTRIES_AT_ONCE):
        for entry in reversed(read_window(storage, name, stop - ENTRIES_AT_ONCE, stop)):
            if isinstance(body := entry.body, Prepare):
                dead = (each for each in body.files if body.targets[each.target].role is Role.DEAD)
                yield from ((entry, body, each) for each in dead)


def _read(
    opened: OpenJob, name: SliceName, entry: Entry, body: Prepare, file: DataFile
) -> list[DeadLetter]:
    """Return rows of a file, newest first. Raises Unreadable, StorageError."""
    target = body.targets[file.target]
    if target.extension == "orc":  # its parser may end the process where bytes are damaged
        raise Unreadable(NO_ORC)
    places = BatchPlace(name, entry.epoch, body.batch).place(file, target)
    final = opened.storage.stat(places.final)
    path = places.pending if final is None else places.final
    first = max(0, file.rows - ROWS)
    rows = read_file_rows(
        opened.storage, (path, file.size_bytes), target.extension, SCHEMA, [(first, file.rows)]
    )
    found = [
        DeadLetter(
            target.table,
            row["topic"],
            row["partition"],
            row["offset"],
            None if row["timestamp"] is None else row["timestamp"] // 1000,
            row["reason"],
            row["value"],
            entry.number,
            path,
        )
        for row in rows
    ]
    return found[::-1]
