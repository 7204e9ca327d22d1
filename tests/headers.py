"""Headers that readers may stumble over, and what each reader is to make of them.

What it is: one record for each oddity, with its headers as they are sent and as they are read.
What it promises: the same expectation for every reader: ours, Python's client, Spark's source.
"""

from typing import NamedTuple

from tests.raw_headers import RawHeader, RawRecord

Read = list[dict[str, object]] | None


class Odd(NamedTuple):
    """One record."""

    sent: tuple[RawHeader, ...]
    read: Read
    is_for_clients: bool = True  # False: Python's client reads something else, or nothing


def _kept(*headers: tuple[str, bytes | None]) -> Odd:
    read: Read = [{"key": key, "value": value} for key, value in headers]
    return Odd(tuple((key.encode(), value) for key, value in headers), read)


ODD: dict[str, Odd] = {
    "none": Odd((), None),
    "one": _kept(("trace", b"4bf92f3577b34da6")),
    "the same key twice": _kept(("a", b"1"), ("b", b""), ("a", b"2")),
    "in their order": _kept(("z", b"1"), ("a", b"2"), ("m", b"3")),
    "no value": _kept(("a", None)),
    "an empty value": _kept(("a", b"")),
    "an empty key": _kept(("", b"x"), ("", None)),
    "any bytes as a value": _kept(("a", bytes(range(256)))),
    "a key of many bytes": _kept(("é" * 20_000, b"x"), ("\U0001f600", b"y")),
    "a hundred thousand": _kept(*[(f"k{each % 7}", b"v") for each in range(100_000)]),
    "a NUL in the key": Odd(((b"a\0b", b"x"), (b"\0", b""), (b"c\0d", None)), [
        {"key": "a\0b", "value": b"x"}, {"key": "\0", "value": b""}, {"key": "c\0d", "value": None}
    ], is_for_clients=False),
    "a key that is not UTF-8": Odd(((b"a\xff\xfeb", b"x"), (b"c", b"y")), [
        {"key": "a\ufffd\ufffdb", "value": b"x"}, {"key": "c", "value": b"y"}
    ], is_for_clients=False),
}  # fmt: skip


def odd_records(names: list[str]) -> list[RawRecord]:
    """Return the records of these names, each with an own id."""
    return [RawRecord(b'{"id": %d}' % number, ODD[name].sent) for number, name in enumerate(names)]
