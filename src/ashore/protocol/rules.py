"""What an entry must be by itself: rules that need nothing of the log before it.

What it is: checks of files, targets and counts, used by the fold.
What it promises: pure. A rule that does not hold raises Refused, with what was found.
What it must not know: what the log says so far.
"""

from collections.abc import Iterable

from ashore.protocol.entries import Prepare
from ashore.protocol.files import DataFile, PartitionKey, Role, Target


class Refused(Exception):
    """A rule of the protocol does not hold."""


def require(condition: bool, reason: str) -> None:
    """Raise Refused unless a condition holds."""
    if not condition:
        raise Refused(reason)


def check_files(
    files: tuple[DataFile, ...],
    targets: tuple[Target, ...],
    shard_count: int,
    *,
    has_spans: bool,
) -> None:
    """Check that files are named once, and that their indices and sums fit.

    Arguments:
        files: of the entry.
        targets: of the entry.
        shard_count: how many shards spans may refer to.
        has_spans: whether every row came from a known offset; those of a query did not.

    """
    require(len({file.unique for file in files}) == len(files), "a file stands in it twice")
    for file in files:
        if not 0 <= file.target < len(targets):
            raise Refused(f"file {file.unique} has no target")
        if file.rows < 0 or file.size_bytes < 0:
            raise Refused(f"file {file.unique}: a count below zero")
        rows = 0
        for span in file.spans:
            if not 0 <= span.shard < shard_count:
                raise Refused(f"file {file.unique}: a span has no shard")
            if not 0 <= span.rows <= span.end - span.start:
                raise Refused(f"file {file.unique}: {span.rows} rows in a span of fewer offsets")
            rows += span.rows
        if rows != file.rows and (has_spans or file.spans):
            raise Refused(f"file {file.unique}: {file.rows} rows, {rows} in its spans")


def check_counts(body: Prepare) -> None:
    """Check that the rows of the files are the records that the shards report."""
    landed, dead = [0] * len(body.shards), [0] * len(body.shards)
    for file in body.files:
        counts = dead if body.targets[file.target].role is Role.DEAD else landed
        for span in file.spans:
            read = body.shards[span.shard]
            if not read.offsets.start <= span.start < span.end <= read.offsets.end:
                raise Refused(f"file {file.unique} holds offsets outside of {read.key}")
            counts[span.shard] += span.rows
    for index, read in enumerate(body.shards):
        if (landed[index], dead[index]) != (read.landed, read.dead):
            raise Refused(
                f"{read.key}: {landed[index]} rows and {dead[index]} dead rows in files, "
                f"{read.landed} landed and {read.dead} dead"
            )


def rows_of(
    files: Iterable[DataFile], targets: tuple[Target, ...]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return rows and number of files of each partition."""
    sums: dict[PartitionKey, tuple[int, int]] = {}
    keys = [target.key for target in targets]
    for file in files:
        rows, count = sums.get(keys[file.target], (0, 0))
        sums[keys[file.target]] = (rows + file.rows, count + 1)
    return sums
