"""Log snapshots: a fold as bytes, so that a start reads the snapshot and the tail only.

What it promises: `read_snapshot(write_snapshot(fold))` is the fold, except its `base`. A snapshot
ends at a closed entry and carries that entry's checksum, so that the chain continues from it.
"""

from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed, UnknownKeys
from ashore.errors import check
from ashore.log.entries import (
    FORMAT_VERSION,
    DeferredAction,
    EntryInvalid,
    EntryNewer,
    read_checksummed,
    write_checksummed,
)
from ashore.log.files import TableCommit
from ashore.log.fold import Failing, Fold, PartitionState, ShardState
from ashore.log.query import EditsState, Letter, MigrationState, PlanState, QueryState, VersionState
from ashore.log.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class _Document:
    """A fold without its unclosed entry, in lists: what stands in the file."""

    format_version: int
    number: int
    epoch: int
    last: str | None
    written_ms: int
    now_ms: int
    next_batch: int
    shards: tuple[ShardState, ...]
    watermarks: tuple[tuple[str, int], ...]
    partitions: tuple[PartitionState, ...]
    deferred: tuple[DeferredAction, ...]
    counters: tuple[tuple[str, int], ...]
    checksum: str
    failing: tuple[Failing, ...] = codec.added(())
    query: QueryState | None = codec.added(None)  # noqa: RUF009 - it makes a field
    plan: PlanState | None = codec.added(None)  # noqa: RUF009
    tables: tuple[TableDefinition, ...] = codec.added(())
    version: VersionState | None = codec.added(None)  # noqa: RUF009
    left_out: tuple[Letter, ...] = codec.added(())
    migrations: tuple[MigrationState, ...] = codec.added(())
    attempt: int = codec.added(0)
    edits: EditsState | None = codec.added(None)  # noqa: RUF009
    commits: tuple[TableCommit, ...] = codec.added(())


def write_snapshot(fold: Fold) -> bytes:
    """Return the bytes of the snapshot that ends where `fold` ends. Requires: nothing unclosed."""
    check(fold.unclosed is None and fold.end >= 0, "a snapshot ends at a closed entry")
    document = _Document(
        format_version=FORMAT_VERSION,
        number=fold.end,
        epoch=fold.epoch,
        last=fold.last,
        written_ms=fold.written_ms,
        now_ms=fold.now_ms,
        next_batch=fold.next_batch,
        shards=tuple(fold.shards[key] for key in sorted(fold.shards)),
        watermarks=tuple(sorted(fold.watermarks.items())),
        partitions=tuple(fold.partitions[key] for key in sorted(fold.partitions)),
        deferred=tuple(fold.deferred[key] for key in sorted(fold.deferred)),
        counters=tuple(sorted(fold.counters.items())),
        checksum="",
        failing=tuple(fold.failing[key] for key in sorted(fold.failing)),
        query=fold.query,
        plan=fold.plan,
        tables=tuple(fold.tables[key] for key in sorted(fold.tables)),
        version=fold.version,
        left_out=fold.left_out,
        migrations=fold.migrations,
        attempt=fold.attempt,
        edits=fold.edits,
        commits=tuple(fold.commits[key] for key in sorted(fold.commits)),
    )
    encoded = codec.encode_object(document)
    return write_checksummed({key: encoded[key] for key in encoded if key != "checksum"})


def read_snapshot(data: bytes) -> Fold:
    """Return the fold that `data` holds. Raises EntryInvalid, and nothing else."""
    try:
        document = codec.decode(_Document, dict(read_checksummed(data)))
    except UnknownKeys as error:
        raise EntryNewer(str(error)) from None
    except Malformed as error:
        raise EntryInvalid(str(error)) from None
    return Fold(
        end=document.number,
        epoch=document.epoch,
        last=document.last,
        written_ms=document.written_ms,
        now_ms=document.now_ms,
        next_batch=document.next_batch,
        shards={state.key: state for state in document.shards},
        watermarks=dict(document.watermarks),
        partitions={(state.table, state.partition): state for state in document.partitions},
        deferred={deferred.id: deferred for deferred in document.deferred},
        failing={each.action: each for each in document.failing},
        counters=dict(document.counters),
        query=document.query,
        plan=document.plan,
        left_out=document.left_out,
        tables={each.table: each for each in document.tables},
        version=document.version,
        migrations=document.migrations,
        attempt=document.attempt,
        edits=document.edits,
        commits={each.table: each for each in document.commits},
        base=document.number,
    )
