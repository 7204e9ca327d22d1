"""The batches of a query that count, as the entries of its slice record them.

What it is: `read_batches`, from a history to its batches by number; a rollback undoes some.
What it promises: pure. Of each batch, the files that are in the table: those given up, or dropped
with their partition, are not among them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ashore.log.entries import (
    Body,
    Define,
    Entry,
    LeaveOut,
    Migrate,
    Plan,
    Prepare,
    Query,
    Retire,
    Rollback,
    Skip,
)
from ashore.log.entries.slices import merge_definitions
from ashore.log.files import DataFile, PartitionKey, Target
from ashore.log.positions import ShardRange
from ashore.log.query import Letter, choose_letters, merge_letters
from ashore.log.tables import TableDefinition


def tables_in(body: Body) -> tuple[TableDefinition, ...]:
    """Return the tables that an entry defines."""
    match body:
        case Rollback(undo=Migrate(tables=tables)) if tables:
            return tables
        case Define(tables=tables) | Migrate(tables=tables) | Rollback(tables=tables):
            return tables
        case _:
            return ()


def find_tables(
    entries: Iterable[Entry], number: int, now: Mapping[str, TableDefinition]
) -> tuple[TableDefinition, ...]:
    """Return the tables that were defined otherwise before an entry than they are.

    `entries`: from the first of a slice on.
    """
    known: dict[str, TableDefinition] = {}
    for entry in entries:
        if entry.number >= number:
            break
        known = merge_definitions(known, tables_in(entry.body))
    return tuple(known[name] for name in sorted(known) if known[name] != now.get(name))


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """A batch of a query that the log holds."""

    entry: int
    epoch: int
    body: Prepare
    query: Query
    files: tuple[DataFile, ...]  # of the body, without those that are gone on purpose
    left_out: tuple[Letter, ...] = ()  # records that it left out, but for those too far ahead

    def target(self, file: DataFile) -> Target:
        """Return where a file of this batch is."""
        return self.body.targets[file.target]


def read_landed_batches(entries: Iterable[Entry], first: int) -> dict[int, LandedBatch]:
    """Return the batches that count, by their numbers, from number `first` on.

    Arguments:
        entries: of one slice, from its first to its last.
        first: batches below it are left out: a long history has millions.

    """
    found: dict[int, LandedBatch] = {}
    ahead = _Ahead()
    for entry in entries:
        ahead.follow(entry.body)
        match entry.body:
            case Prepare(query=Query() as query) as body:
                left_out = ahead.take(body)
                if query.batch_id >= first:
                    found[query.batch_id] = LandedBatch(
                        entry.number, entry.epoch, body, query, body.files, left_out
                    )
            case Rollback() as body:
                kept = body.query.batch_id
                found = {number: each for number, each in found.items() if number <= kept}
            case Skip() as body:
                found = _without(found, set(body.lost), set())
            case Retire() as body:
                retired = {(each.table, each.partition) for each in body.partitions}
                found = _without(found, set(), retired)
            case _:
                pass
    return found


@dataclass(slots=True)
class _Ahead:
    """What the batches to come are to leave out, as the entries so far say."""

    letters: tuple[Letter, ...] = ()
    plan: str = ""

    def follow(self, body: Body) -> None:
        match body:
            case LeaveOut():
                self.letters = (*self.letters, *body.records)
            case Plan() | Migrate():
                self.letters = self.letters if body.digest == self.plan else ()
                self.plan = body.digest
            case Rollback(undo=Migrate() as undo):
                self.letters, self.plan = (), undo.digest
            case Rollback():
                again = choose_letters(body.left_out, body.shards)
                self.letters = merge_letters(self.letters, again)
            case _:
                pass

    def take(self, body: Prepare) -> tuple[Letter, ...]:
        """Return what a batch has left out: no later one reads it."""
        if not self.letters:
            return ()
        ranges = [ShardRange(read.key, read.offsets) for read in body.shards]
        taken = choose_letters(self.letters, ranges)
        self.letters = tuple(each for each in self.letters if each not in taken)
        return taken


def _without(
    batches: dict[int, LandedBatch], unique: set[str], partitions: set[PartitionKey]
) -> dict[int, LandedBatch]:
    """Return the batches without some files: those called so, and all of some partitions."""
    return {number: _strip(batch, unique, partitions) for number, batch in batches.items()}


def _strip(batch: LandedBatch, unique: set[str], partitions: set[PartitionKey]) -> LandedBatch:
    left = tuple(
        file
        for file in batch.files
        if file.unique not in unique and batch.target(file).key not in partitions
    )
    return replace(batch, files=left)
