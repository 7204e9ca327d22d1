"""Entries of the landing log, format version 1.

What it is: one frozen value a kind of entry, and the bytes that stand in its file.
What it promises: the bytes of an entry never change with the release that writes them without a
new `format_version`; `docs/formats/landing-log.md` describes them, golden files hold them.
Reading is total: whatever the bytes are, the answer is an Entry or EntryInvalid with the reason.
What it must not know: where an entry is stored.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import ClassVar

from ashore.errors import check
from ashore.protocol import codec
from ashore.protocol.codec import Json, Malformed
from ashore.protocol.effects import Action
from ashore.protocol.files import DataFile, FileSpan, Target
from ashore.protocol.positions import OffsetRange, ShardKey, ShardRange

FORMAT_VERSION = 1

for _class in (ShardKey, OffsetRange, FileSpan, DataFile):
    codec.positional(_class)


class EntryInvalid(ValueError):
    """The bytes are not an entry that this release knows; the message says why."""


@dataclass(frozen=True, slots=True)
class Owed:
    """An effect that may be finished after its entry was closed."""

    id: str  # used once: `register:ods.clicks:date=2026-11-21`
    action: Action | str  # a string: of a later release
    table: str
    partition: str
    version: int = 0  # of the seal that it belongs to; 0: none
    rows: int = 0  # of the partition, as that seal says


@dataclass(frozen=True, slots=True)
class Failed:
    """Tries of owed effects that failed, since the entry before. They stay owed."""

    action: Action | str  # of these effects: they are tried together
    times: int
    last_ms: int  # the writer's clock at the last of them
    error: str


@dataclass(frozen=True, slots=True)
class Closing:
    """How the effects of the one unclosed entry ended, and which owed ones are done by now."""

    entry: int | None  # the number that is closed; None: only `done`
    moved: int
    already_moved: int
    registered: bool  # its partitions are in the catalog, those that are owed aside
    owed: tuple[Owed, ...]
    done: tuple[str, ...]  # ids of owed effects
    failed: tuple[Failed, ...] = codec.added(())


@dataclass(frozen=True, slots=True)
class Open:
    """A writer takes the slice over. Closes nothing."""

    kind: ClassVar[str] = "open"
    host: str
    process: int
    version: str


@dataclass(frozen=True, slots=True)
class Joined:
    """One shard that is read from now on."""

    key: ShardKey
    stream_id: str  # the identity of the stream; another one is another generation
    first_offset: int
    policy: str  # how the offset was resolved: earliest, latest, timestamp, rejoin ...


@dataclass(frozen=True, slots=True)
class Join:
    """Shards taken up, before their first read."""

    kind: ClassVar[str] = "join"
    shards: tuple[Joined, ...]


@dataclass(frozen=True, slots=True)
class ShardRead:
    """What a batch did with the records of one shard's range."""

    key: ShardKey
    offsets: OffsetRange
    table: str
    fetched: int
    landed: int  # in the main or the late table
    dead: int
    filtered: int
    dropped: int
    size_bytes: int  # keys and values as fetched
    event_max_ms: int | None  # the highest plausible event time


@dataclass(frozen=True, slots=True)
class Query:
    """The batch of a streaming query that a `prepare` holds the output of."""

    query_id: str
    batch_id: int
    lineage: str  # hash chain over the batches' offsets and the plan digest


@dataclass(frozen=True, slots=True)
class Prepare:
    """One batch and all that recovery needs. Appending it is the commit point."""

    kind: ClassVar[str] = "prepare"
    batch: int
    now_ms: int
    watermarks: tuple[tuple[str, int], ...]  # table, ms: what lateness was judged by
    shards: tuple[ShardRead, ...]
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    counters: tuple[tuple[str, int], ...]  # unknown_fields, rehomed, far_future ...
    query: Query | None


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes the last entry on its own."""

    kind: ClassVar[str] = "commit"
    reason: str  # idle | stop | snapshot | recovery


@dataclass(frozen=True, slots=True)
class Reland:
    """Lost files of the unclosed entry, read again into new files. Adds no range."""

    kind: ClassVar[str] = "reland"
    entry: int
    batch: int
    now_ms: int  # of the entry: the new files are routed as the lost ones were
    watermarks: tuple[tuple[str, int], ...]
    lost: tuple[str, ...]  # `unique` of the files that are gone
    shards: tuple[ShardKey, ...]  # some of the entry's: spans refer to them
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class SealedPartition:
    """A table partition that is complete as far as the logs were read."""

    table: str
    partition: str
    version: int  # from 1
    rows: int
    added: int  # rows since the version before
    now_ms: int


@dataclass(frozen=True, slots=True)
class Seal:
    """Table partitions that are complete, and how far each slice's log was read."""

    kind: ClassVar[str] = "seal"
    partitions: tuple[SealedPartition, ...]
    actions: tuple[Action | str, ...]  # what each of them owes
    read_to: tuple[tuple[str, int], ...]  # slice, entry number


@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets or lost files given up on purpose."""

    kind: ClassVar[str] = "skip"
    ranges: tuple[ShardRange, ...]
    entry: int | None  # the unclosed entry whose files are lost
    lost: tuple[str, ...]  # `unique` of these files
    lost_rows: tuple[tuple[ShardKey, int], ...]
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class RetiredPartition:
    """A table partition dropped on purpose."""

    table: str
    partition: str


@dataclass(frozen=True, slots=True)
class Retire:
    """Table partitions dropped on purpose: verification no longer asks for their files."""

    kind: ClassVar[str] = "retire"
    partitions: tuple[RetiredPartition, ...]
    by: str
    why: str


@codec.positional
@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A final file that is no part of its table any more."""

    epoch: int  # of the `prepare` that listed it
    batch: int  # of that entry
    file: DataFile  # its target is an index into the targets of the `rewind`


@dataclass(frozen=True, slots=True)
class Rewind:
    """The table of a query goes back to the end of an earlier batch of it.

    Later batches come to nothing: their offsets are read again, and their files go aside.
    """

    kind: ClassVar[str] = "rewind"
    entry: int  # the `prepare` of the batch that the table goes back to
    query: Query  # that batch
    before: str  # the lineage of the batch before it; empty for batch 0
    shards: tuple[ShardRange, ...]  # offsets given back: from the end of that batch on
    targets: tuple[Target, ...]
    files: tuple[Withdrawn, ...]
    by: str
    why: str


Body = Open | Join | Prepare | Commit | Reland | Seal | Skip | Retire | Rewind
KINDS: dict[str, type[Body]] = {
    body.kind: body for body in (Open, Join, Prepare, Commit, Reland, Seal, Skip, Retire, Rewind)
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it stands in the log."""

    number: int
    id: str  # 32 hexadecimal digits, used once
    epoch: int
    written_ms: int
    previous: str | None  # checksum of entry number - 1
    closing: Closing | None
    body: Body
    checksum: str  # SHA-256 over the bytes before it

    @property
    def kind(self) -> str:
        """The kind of the body."""
        return self.body.kind


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry before its bytes are fixed."""

    number: int
    id: str
    epoch: int
    written_ms: int
    previous: str | None
    closing: Closing | None
    body: Body


_TAIL = b',"checksum":"'


def seal_bytes(document: dict[str, Json]) -> bytes:
    """Return compact JSON with a last key `checksum`: SHA-256 over all bytes before that key."""
    check("checksum" not in document, "a sealed document has one checksum")
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    # Only lone surrogates have no UTF-8 (a command line may hold some): JSON can spell them out.
    head = text.encode(errors="backslashreplace")[:-1]
    digest = hashlib.sha256(head).hexdigest().encode()
    return head + _TAIL + digest + b'"}\n'


def open_bytes(data: bytes) -> dict[str, Json]:
    """Return the document that `seal_bytes` made, checksum included. Raises EntryInvalid."""
    if not data:
        raise EntryInvalid("the file is empty")
    head, tail, rest = data.rpartition(_TAIL)
    if not tail or len(rest) != 67 or not rest.endswith(b'"}\n'):
        raise EntryInvalid("the bytes do not end in a checksum")
    if hashlib.sha256(head).hexdigest().encode() != rest[:64]:
        raise EntryInvalid("the checksum does not fit the bytes")
    if b"\n" in head:
        raise EntryInvalid("the bytes are more than one line, which an archive cannot hold")
    try:
        document = json.loads(data.decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        raise EntryInvalid("the bytes are not JSON") from None
    if not isinstance(document, dict):
        raise EntryInvalid("the bytes are not a JSON object")
    version = document.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise EntryInvalid(f"format version {version!r} is not known to this release")
    return document


def _distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return document


def write_entry(draft: Draft) -> tuple[Entry, bytes]:
    """Return the entry of a draft, and the bytes of its file."""
    data = seal_bytes(
        {
            "format_version": FORMAT_VERSION,
            "number": draft.number,
            "kind": draft.body.kind,
            "id": draft.id,
            "epoch": draft.epoch,
            "written_ms": draft.written_ms,
            "previous": draft.previous,
            "closing": codec.encode(draft.closing),
            "body": codec.encode(draft.body),
        }
    )
    checksum = data[-67:-3].decode()
    entry = Entry(
        draft.number,
        draft.id,
        draft.epoch,
        draft.written_ms,
        draft.previous,
        draft.closing,
        draft.body,
        checksum,
    )
    return entry, data


def read_entry(data: bytes) -> Entry:
    """Return the entry that `data` holds. Raises EntryInvalid, and nothing else."""
    document = open_bytes(data)
    kind = document.get("kind")
    body_type = KINDS.get(kind) if isinstance(kind, str) else None
    if body_type is None:
        raise EntryInvalid(f"kind {kind!r} is not known to this release")
    try:
        body: Body = codec.decode(body_type, document.get("body"), "body")
        head = {key: document[key] for key in document if key not in ("kind", "body")}
        frame = codec.decode(_Frame, head)
    except Malformed as error:
        raise EntryInvalid(str(error)) from None
    return Entry(
        frame.number,
        frame.id,
        frame.epoch,
        frame.written_ms,
        frame.previous,
        frame.closing,
        body,
        frame.checksum,
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """What every entry has besides its body."""

    format_version: int
    number: int
    id: str
    epoch: int
    written_ms: int
    previous: str | None
    closing: Closing | None
    checksum: str
