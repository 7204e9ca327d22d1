"""A checkpoint looked through: all its files, and which of them one batch needs.

What it is: `take_survey`: `plan_required` over a storage; `find_gaps`, in the chains of stores, by
`read_lineage`, what a change of format 2 says of the versions before it.
What it promises: reads only: a listing of each directory, a few small files and the first
bytes of changes of format 2, several at a time. Any bytes give a lineage or None.
Where a running Spark deletes old files meanwhile, it may raise PathMissing: look again.

Spark loads a version by the lineage in its change: the newest snapshot, and all versions after it.
It looks for no older snapshot than that, so that older changes do not help.

    12_<id>.changelog       "v3", then [{"version":10,"checkpointUniqueId":"<id>"},
                            {"version":11,...}], each with its length before it, as Java writes
                            them; then the rows
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.contents import HEADER, MAGIC, unpack_block
from ashore.queries.state.files import WORKERS, CheckpointFile
from ashore.queries.state.layout import BatchLog, OffsetsFile, QueryPath, StateKind, StatePath
from ashore.queries.state.required_files import (
    Chain,
    Required,
    list_batches,
    list_done,
    plan_required,
)

CODEC = "spark.sql.streaming.stateStore.compression.codec"
LZ4 = "lz4"  # what Spark takes where a batch does not say
HEAD_BYTES = 1 << 18  # of a change: its lineage is within
_WITH_LINEAGE = {b"v3", b"v4"}
_LENGTH = struct.Struct(">H")

Lineage = Mapping[int, str]  # ids by version


@dataclass(frozen=True, slots=True)
class Survey:
    """What a checkpoint holds, and what one of its batches needs.

    Arguments:
        checkpoint: that was looked through.
        files: all that are there, sorted by path.
        done: the batches that are done and whose offsets are kept, sorted.
        planned: the last batch that has offsets.
        required: what the batch needs that was asked for.

    """

    checkpoint: Checkpoint
    files: tuple[CheckpointFile, ...]
    done: tuple[int, ...]
    planned: int
    required: Required


def take_survey(checkpoint: Checkpoint, batch: int | None = None) -> Survey:
    """Look through a checkpoint.

    Arguments:
        checkpoint: of Ashore, or of any query of Spark.
        batch: that is done; without it, the newest one.

    Raises CheckpointUnfit where there is none, where it does not keep the batch, or where a file
    that the batch needs is missing or damaged; StorageError.

    """
    place = checkpoint.place
    require_checkpoint(checkpoint)
    files = checkpoint.list_files()
    done = list_done(files)
    if not done or (batch is not None and batch not in done):
        kept = f"batches {done[0]} to {done[-1]}" if done else "no finished batch"
        other = "" if batch is None else f", not batch {batch}"
        raise CheckpointUnfit(
            f"the checkpoint {place} has {kept}{other}",
            hint=f"choose one of batches {done[0]} to {done[-1]}"
            if done
            else "run the query first",
            why="forgotten" if done else "empty_checkpoint",
        )
    chosen = done[-1] if batch is None else batch
    required = plan_required(files, chosen, checkpoint.read_all, place)
    _require_lineages(checkpoint, required)
    planned = list_batches(files)[BatchLog.OFFSETS][-1]
    return Survey(checkpoint, tuple(files), tuple(done), planned, required)


def _require_lineages(checkpoint: Checkpoint, required: Required) -> None:
    """Raise where a change of format 2 continues a file that is not in its chain.

    Spark would refuse to load the store: it looks for no older snapshot than the change names.
    """
    if codec_of(required.offsets) != LZ4:
        return

    def read_head(last: StatePath) -> bytes:
        return checkpoint.read(last.path, 0, HEAD_BYTES)

    for last, gap in find_gaps(list_continuing(required), read_head):
        if gap != last:
            raise CheckpointUnfit(
                f"{checkpoint.place}/{gap.path} is missing: {last.path} continues it",
                hint="choose another batch with --batch, or restore the file",
                why="missing",
            )


def require_checkpoint(checkpoint: Checkpoint) -> None:
    """Raise CheckpointUnfit where there is none. Another directory may be large: it is not listed.

    Raises StorageError.
    """
    if checkpoint.stat(QueryPath().path) is not None:
        return
    what = "there is no file `metadata` in it" if checkpoint.stat() else "it does not exist"
    raise CheckpointUnfit(
        f"{checkpoint.place} is not a checkpoint of Spark: {what}",
        hint="name the directory that Spark's option checkpointLocation names",
        why="no_checkpoint",
    )


# ---- changes of format 2


def codec_of(offsets: OffsetsFile) -> str:
    """Return how the changes of a batch are compressed."""
    return (offsets.settings.conf if offsets.settings else {}).get(CODEC, LZ4)


def list_continuing(required: Required) -> list[Chain]:
    """Return the chains of format 2: their newest change says what it continues."""
    return [each for each in required.chains if each.changes and each.changes[-1].unique]


def find_gaps(
    chains: Sequence[Chain], read_head: Callable[[StatePath], bytes]
) -> Iterator[tuple[StatePath, StatePath]]:
    """Yield the newest change of a chain, and a file that it continues and the chain lacks.

    That file is the change itself where it cannot be read what it continues.

    Arguments:
        chains: of format 2, compressed with lz4.
        read_head: returns the first HEAD_BYTES of a change; called by several threads.

    """
    lasts = [each.changes[-1] for each in chains]
    with ThreadPoolExecutor(WORKERS) as pool:
        heads = pool.map(read_head, lasts)
    for chain, last, head in zip(chains, lasts, heads, strict=True):
        lineage = read_lineage(head)
        gap = last if lineage is None else _find_gap(chain, lineage)
        if gap is not None:
            yield last, gap


def read_lineage(head: bytes) -> Lineage | None:
    """Return what a change compressed with lz4 says; None where it says nothing."""
    data = _unpack(head)
    version, rest = _take_text(data)
    if version not in _WITH_LINEAGE:
        return None
    try:
        found = json.loads(_take_text(rest)[0])
    except (ValueError, RecursionError):
        return None
    lineage = {}
    for each in found if isinstance(found, list) else [None]:
        match each:
            case {"version": int(number), "checkpointUniqueId": str(unique)}:
                lineage[number] = unique
            case _:
                return None
    return lineage


def _find_gap(chain: Chain, lineage: Lineage) -> StatePath | None:
    """Return a file that the newest change continues, and that its chain does not have."""
    last = chain.changes[-1]
    snapshot = () if chain.snapshot is None else (chain.snapshot,)
    if all(lineage.get(each.version) == each.unique for each in (*snapshot, *chain.changes[:-1])):
        return None
    first = min(lineage, default=None)
    if first is None:
        return last
    return StatePath(last.store, first, StateKind.ROCKSDB_SNAPSHOT, lineage[first])


def _take_text(data: bytes) -> tuple[bytes, bytes]:
    """Return a text with its length before it, and what follows; nothing where it is cut off."""
    if len(data) < _LENGTH.size:
        return b"", b""
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return (data[_LENGTH.size : end], data[end:]) if end <= len(data) else (b"", b"")


def _unpack(head: bytes) -> bytes:
    """Return what the whole blocks of lz4 hold, up to the first that cannot be read."""
    found, at = b"", 0
    while len(head) - at >= HEADER.size:
        magic, token, packed, plain, _checksum = HEADER.unpack_from(head, at)
        at += HEADER.size
        if magic != MAGIC or plain <= 0 or packed < 0 or at + packed > len(head):
            break
        data = unpack_block(token, head[at : at + packed], plain)
        if data is None:
            break
        found += data
        at += packed
    return found
