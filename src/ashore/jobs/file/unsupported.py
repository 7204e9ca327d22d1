"""What the job file may say one day and this release cannot do.

What it is: data; each entry goes away when its part is built.
What it promises: what is named here is refused before anything starts, never ignored.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ashore.jobs.file.problems import Finding
from ashore.jobs.file.section import Key


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A key that is refused when its value, as text, matches; a mapping always matches."""

    key: tuple[str, ...]  # `*` is every item of a list
    value: str
    what: str
    instead: str


SUPPORTED_LAKES = (
    "write file:///path, hdfs://nameservice/path, s3://bucket/path, gs://bucket/path or "
    "abfs://container@account.dfs.core.windows.net/path"
)
# Lakes that are named so and refused with a reason, not as unknown.
OTHER_LAKES = ("s3a", "s3n")

UNSUPPORTED: tuple[Unsupported, ...] = (
    Unsupported(
        ("lake",), "s3[an]://.*", "this is Hadoop's name of a bucket", "write s3://bucket/path"
    ),
    Unsupported(
        ("sql", "checkpoints"),
        "s3[an]://.*",
        "this is Hadoop's name of a bucket",
        "write s3://bucket/path",
    ),
    Unsupported(
        ("tables", "*", "shuffle"),
        "bucket",
        "shuffling by bucket is not in this release",
        "write shuffle: none",
    ),
    Unsupported(
        ("sql", "state_ttl"),
        ".*",
        "Spark's SQL has no time-to-live for state; only transformWithState has, which is not SQL",
        "let a watermark expire state: `late.after` with the source's `event_time`, and group by "
        "`window(ts, '1 hour')` or bound the join in time",
    ),
)


def find_unsupported(data: object) -> list[Finding]:
    """Return what of `data` is not in this release. `data` is plain, variables replaced."""
    return [
        Finding(key, each.what, each.instead)
        for each in UNSUPPORTED
        for key, value in _values(data, each.key, ())
        if isinstance(value, dict)
        or (isinstance(value, str) and re.fullmatch(each.value, value, re.DOTALL))
    ]


def _values(data: object, path: tuple[str, ...], key: Key) -> Iterator[tuple[Key, object]]:
    if not path:
        yield key, data
    elif path[0] == "*" and isinstance(data, list):
        for index, item in enumerate(data):
            yield from _values(item, path[1:], (*key, index))
    elif isinstance(data, dict) and path[0] in data:
        yield from _values(data[path[0]], path[1:], (*key, path[0]))
