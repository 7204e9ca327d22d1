"""Documents that notice when they were cut short or edited: a line of JSON with its own checksum.

What it promises: pure. Any bytes give a document with the keys that were asked for, or
CheckpointUnfit, which names the file. What is sealed is unsealed to the same.
"""

import hashlib
import json
from collections.abc import Collection, Mapping

from ashore.errors import CheckpointUnfit

_HINT = "choose another savepoint: `ashore checkpoint list DIR` shows them"


def seal(document: Mapping[str, object]) -> bytes:
    """Return a file: one line of JSON without spaces, and a line feed."""
    return _dump({**document, "checksum": _digest(document)}) + b"\n"


def unseal(data: bytes, place: str, keys: Mapping[int, Collection[str]]) -> Mapping[str, object]:
    """Return what was sealed. Raises CheckpointUnfit.

    Arguments:
        data: the file.
        place: where it is, for messages.
        keys: that it has, by its format version; `checksum` is one of them.

    """
    document = _parse_object(data, place)
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version not in keys:
        versions = " and ".join(map(str, keys))
        raise CheckpointUnfit(
            f"{place} has the format version {version!r}, this release reads {versions}",
            hint="restore it with the release that took it",
            why="other_version",
        )
    content = {key: value for key, value in document.items() if key != "checksum"}
    if document.keys() != set(keys[version]) or document["checksum"] != _digest(content):
        raise damaged(place, "its content does not match its checksum")
    return document


def damaged(place: str, what: str) -> CheckpointUnfit:
    """Return the error that says so."""
    return CheckpointUnfit(f"{place} is damaged: {what}", hint=_HINT, why="damaged")


def _parse_object(data: bytes, place: str) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged(place, "it is not JSON") from None
    if not isinstance(document, dict):
        raise damaged(place, "it is not an object")
    return document


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.blake2b(_dump(document), digest_size=8).hexdigest()


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
