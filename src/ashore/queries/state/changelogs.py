"""What a change of format 2 says of the versions before it.

What it is: `read_lineage`, from the first bytes of a change; `find_gaps`, in the chains of stores.
What it promises: any bytes give a lineage or None. Files are read by the caller's function only.

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

from ashore.queries.state.contents import HEADER, MAGIC, unpack_block
from ashore.queries.state.files import WORKERS
from ashore.queries.state.layout import OffsetsFile, StateKind, StatePath
from ashore.queries.state.required_files import Chain, Required

CODEC = "spark.sql.streaming.stateStore.compression.codec"
LZ4 = "lz4"  # what Spark takes where a batch does not say
HEAD_BYTES = 1 << 18  # of a change: its lineage is within
_WITH_LINEAGE = {b"v3", b"v4"}
_LENGTH = struct.Struct(">H")

Lineage = Mapping[int, str]  # ids by version


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
