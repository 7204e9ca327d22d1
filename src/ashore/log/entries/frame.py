"""The frame of an entry, and the bytes that stand in its file: format version 1.

What it is: `Entry`, with what every entry has besides its body; writing and reading one.
What it promises: the bytes of an entry never change with the release that writes them without a
new `format_version`; `docs/formats/landing-log.md` describes them, golden files hold them.
Reading is total: whatever the bytes are, the answer is an Entry or EntryInvalid with the reason.
"""

import hashlib
import json
from dataclasses import dataclass, fields

from ashore.base import codec
from ashore.base.codec import Json, Malformed, UnknownKeys
from ashore.errors import check
from ashore.log.entries.batch import Commit, Prepare
from ashore.log.entries.compaction import Compact, ReplacedFile
from ashore.log.entries.losses import Reland, Skip
from ashore.log.entries.partitions import Retire, Seal
from ashore.log.entries.queries import Begin, LeaveOut, Migrate, Plan, Rollback, Version
from ashore.log.entries.slices import Define, Join, Open, ResetClock
from ashore.log.files import DataFile, FileSpan
from ashore.log.fold import Closing
from ashore.log.positions import OffsetRange, ShardKey

FORMAT_VERSION = 1

for _class in (ShardKey, OffsetRange, FileSpan, DataFile, ReplacedFile):
    codec.positional(_class)


class EntryInvalid(ValueError):
    """The bytes are not an entry that this release knows; the message says why."""


class EntryNewer(EntryInvalid):
    """The bytes are whole, and of a later release: a format, a kind or keys that are not known."""


Body = (
    Open
    | Join
    | Prepare
    | Commit
    | Reland
    | Seal
    | Skip
    | Retire
    | Rollback
    | Plan
    | Define
    | ResetClock
    | Version
    | LeaveOut
    | Begin
    | Migrate
    | Compact
)
KINDS: dict[str, type[Body]] = {
    body.kind: body
    for body in (
        *(Open, Join, Prepare, Commit, Reland, Seal, Skip, Retire, Rollback),
        *(Plan, Define, ResetClock, Version, LeaveOut, Begin, Migrate, Compact),
    )
}


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry before its bytes are fixed."""

    number: int
    id: str  # 32 hexadecimal digits, used once
    epoch: int
    written_ms: int
    previous: str | None  # checksum of entry number - 1
    closing: Closing | None
    body: Body


@dataclass(frozen=True, slots=True)
class Entry(Draft):
    """One entry as it stands in the log."""

    checksum: str  # SHA-256 over the bytes before it

    @property
    def kind(self) -> str:
        """The kind of the body."""
        return self.body.kind


_TAIL = b',"checksum":"'


def write_checksummed(document: dict[str, Json]) -> bytes:
    """Return compact JSON with a last key `checksum`: SHA-256 over all bytes before that key."""
    check("checksum" not in document, "a document has one checksum")
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    # Only lone surrogates have no UTF-8 (a command line may hold some): JSON can spell them out.
    head = text.encode(errors="backslashreplace")[:-1]
    digest = hashlib.sha256(head).hexdigest().encode()
    return head + _TAIL + digest + b'"}\n'


def split_checksum(data: bytes) -> tuple[bytes, str]:
    """Return the bytes before the checksum, and the checksum, of them. Raises EntryInvalid."""
    if not data:
        raise EntryInvalid("the file is empty")
    head, tail, rest = data.rpartition(_TAIL)
    if not tail or len(rest) != 67 or not rest.endswith(b'"}\n'):
        raise EntryInvalid("the bytes do not end with a checksum")
    checksum = hashlib.sha256(head).hexdigest()
    if checksum.encode() != rest[:64]:
        raise EntryInvalid("the checksum does not match the bytes")
    return head, checksum


def read_checksummed(data: bytes) -> dict[str, Json]:
    """Return the document that `write_checksummed` made, checksum included. Raises EntryInvalid."""
    head, _ = split_checksum(data)
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
        is_newer = type(version) is int and version > FORMAT_VERSION
        invalid = EntryNewer if is_newer else EntryInvalid
        raise invalid(f"format version {version!r} is not supported by this release")
    return document


def _distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key appears twice in an object")
    return document


def write_entry(draft: Draft) -> tuple[Entry, bytes]:
    """Return the entry of a draft, and the bytes of its file."""
    data = write_checksummed(
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
    parts = {each.name: getattr(draft, each.name) for each in fields(Draft)}
    return Entry(**parts, checksum=data[-67:-3].decode()), data


def entry_bytes(entry: Entry) -> bytes:
    """Return the bytes of an entry's file."""
    return write_entry(entry)[1]


def read_entry(data: bytes) -> Entry:
    """Return the entry that `data` holds. Raises EntryInvalid, and nothing else."""
    document = read_checksummed(data)
    kind = document.get("kind")
    body_type = KINDS.get(kind) if isinstance(kind, str) else None
    if body_type is None:
        invalid = EntryNewer if isinstance(kind, str) else EntryInvalid
        raise invalid(f"kind {kind!r} is not supported by this release")
    try:
        body: Body = codec.decode(body_type, document.get("body"), "body")
        head = {key: document[key] for key in document if key not in ("kind", "body")}
        frame = codec.decode(_Frame, head)
    except UnknownKeys as error:
        raise EntryNewer(str(error)) from None
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
