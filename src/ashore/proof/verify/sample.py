"""Which rows of the files are compared with the source: a sample of blocks.

What it promises: pure; a seed chooses the same rows of the same files, one block per table or more.
Blocks are spread evenly over a table's files in the order of partitions.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from ashore.errors import JobFileInvalid
from ashore.proof.evidence.ledger import LoggedFile

BLOCK_ROWS = 1_000  # to find a row in a file, and a record in Kafka, costs about as much as these


@dataclass(frozen=True, slots=True)
class SampleRate:
    """How much is compared, and what the choice follows from."""

    rate: float  # above 0, at most 1
    seed: int


@dataclass(frozen=True, slots=True)
class FileSample:
    """The rows of one file that are compared: `[start, end)`, ascending, apart."""

    file: LoggedFile
    blocks: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """How many rows."""
        return sum(end - start for start, end in self.blocks)


def parse_rate(text: str) -> float:
    """Return the rate that `0.01` or `1%` means. Raises JobFileInvalid."""
    try:
        rate = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1:
        raise JobFileInvalid(
            f"--values {text!r} is not a rate",
            hint="write a fraction above 0: 0.01, 1%, or 1 for every row",
        )
    return rate


def choose_sample(files: Iterable[LoggedFile], sampling: SampleRate) -> list[FileSample]:
    """Return the rows of `files` to be compared, a table after the other."""
    by_table: dict[str, list[LoggedFile]] = defaultdict(list)
    for file in files:
        if file.file.rows:
            by_table[file.target.table].append(file)
    return [
        sample
        for table in sorted(by_table)
        for sample in _choose(table, sorted(by_table[table], key=_by_place), sampling)
    ]


def _by_place(file: LoggedFile) -> str:
    return file.final  # the partition comes first in it


def _choose(table: str, files: Sequence[LoggedFile], sampling: SampleRate) -> list[FileSample]:
    """Cut the blocks of a table, in order, into even stretches; of each take one."""
    ends = list(accumulate(ceil(file.file.rows / BLOCK_ROWS) for file in files))
    count = ceil(ends[-1] * sampling.rate)
    # A generator of its own, so that what another table holds changes nothing here.
    chance = random.Random(f"{sampling.seed} {table}")  # noqa: S311 - a sample is no secret
    chosen: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for turn in range(count):
        first, last = turn * ends[-1] // count, (turn + 1) * ends[-1] // count - 1
        block = chance.randint(first, last)
        index = bisect_right(ends, block)
        start = (block - (ends[index - 1] if index else 0)) * BLOCK_ROWS
        chosen[index].append((start, min(start + BLOCK_ROWS, files[index].file.rows)))
    return [FileSample(files[index], tuple(blocks)) for index, blocks in sorted(chosen.items())]
