"""Partitions that are gone as a whole: somebody has dropped them, and told no log.

What it is: `find_gone`, from the files that are missing.
What it promises: pure. A partition is gone if each of its files that the log asks for is; while an
entry that fills it is not closed, it is not called gone.
What it must not know: how files are looked for.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ashore.control.verify.ledger import Ledger, LoggedFile, PartKey
from ashore.control.verify.result import Problem, ProblemKind
from ashore.protocol import names
from ashore.protocol.files import PartitionKey


@dataclass(frozen=True, slots=True)
class Gone:
    """What is missing, as few things as it is."""

    problems: tuple[Problem, ...]  # one a partition that is gone
    files: frozenset[LoggedFile]  # of these partitions
    rows: Counter[PartKey]  # that were in them: what else is lost of a part is reported separately


def find_gone(ledger: Ledger, missing: Iterable[LoggedFile], job_file: str) -> Gone:
    """Return the partitions that are gone. `job_file`: for the line to type."""
    asked = Counter(file.target.key for file in ledger.files)
    by_key: dict[PartitionKey, list[LoggedFile]] = {}
    for file in missing:
        if file.target.partition and not ledger.is_in_flight(file):
            by_key.setdefault(file.target.key, []).append(file)
    gone = {key: files for key, files in by_key.items() if len(files) == asked[key]}
    rows: Counter[PartKey] = Counter()
    for files in gone.values():
        for file in files:
            for span in file.file.spans:
                rows[PartKey(file.slice, file.entry, file.shards[span.shard])] += span.rows
    problems = tuple(_problem(key, gone[key], job_file) for key in sorted(gone))
    return Gone(problems, frozenset(file for files in gone.values() for file in files), rows)


def _problem(key: PartitionKey, files: list[LoggedFile], job_file: str) -> Problem:
    table, partition = key
    rows = sum(file.file.rows for file in files)
    text = f"the partition is gone, with {len(files):,} files and {rows:,} rows; if it was dropped "
    text += f"on purpose: ashore retire {job_file} {table} {partition}"
    place = names.join(names.table_path(table), partition)
    return Problem(ProblemKind.PARTITION_GONE, files[0].table, place, text)
