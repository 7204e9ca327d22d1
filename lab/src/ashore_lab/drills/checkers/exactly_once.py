"""Exactly once: what was produced against what can be read, and the log's own verdict.

What it is: two proofs that share no code: the rows of all visible files are compared with the
workload, record by record; and `verify` compares log, files and source.
What it promises: reads visible files as any reader would, without the log. A row counts only if it
is, byte for byte, what was produced. Reads only.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.orc as po
import pyarrow.parquet as pq

from ashore.errors import AshoreError, ExitCode
from ashore.log import names
from ashore.proof.verify.job import verify_job
from ashore.storage.base import Storage
from ashore.topics.open_job import OpenJob
from ashore_lab.drills.workloads.numbers import Numbered, Produced

NAMED_MAX = 5  # offenders that are named; all are counted
READERS = 8  # files that are read at a time
TOGETHER = 64  # and at most in memory
PartitionOffset = tuple[int, int]  # partition, offset


@dataclass(frozen=True, slots=True)
class Account:
    """What became of the records of one lake."""

    produced: int
    read: int  # rows of visible files, dead letters too
    lost: int
    duplicated: int
    altered: int
    problems: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def check_exactly_once(opened: OpenJob, produced: Produced, table: str) -> Account:
    """Compare a lake with what was produced. Never raises for what it finds."""
    try:
        seen, altered = read_places(opened.storage, produced.workload, table)
    except (AshoreError, OSError, ValueError) as error:
        problem = f"the table cannot be read: {error}"
        return Account(produced.total, 0, 0, 0, 0, (problem,))
    account = compare(produced, seen, altered)
    problems, doubts = _ask_verify(opened)
    return Account(
        account.produced,
        account.read,
        account.lost,
        account.duplicated,
        account.altered,
        (*account.problems, *problems),
        doubts,
    )


def compare(
    produced: Produced, seen: Counter[PartitionOffset], altered: list[PartitionOffset]
) -> Account:
    """Say what is missing, there twice, made up. Pure."""
    there = {(p, n) for p, count in enumerate(produced.counts) for n in range(count)}
    there -= produced.gone
    lost = sorted(there - seen.keys())
    twice = sorted(record for record, times in seen.items() if times > 1)
    made_up = sorted(seen.keys() - there)
    found = (("lost", lost), ("duplicated", twice), ("altered", altered), ("made up", made_up))
    return Account(
        produced=produced.total,
        read=seen.total(),
        lost=len(lost),
        duplicated=sum(seen[record] - 1 for record in twice),
        altered=len(altered) + len(made_up),
        problems=tuple(_name(kind, records) for kind, records in found if records),
    )


def read_places(
    storage: Storage, workload: Numbered, table: str
) -> tuple[Counter[PartitionOffset], list[PartitionOffset]]:
    """Return how often each record can be read, and where content is not what was produced."""
    seen: Counter[PartitionOffset] = Counter()
    altered: list[PartitionOffset] = []
    for row in read_files(storage, find_visible(storage, names.table_path(table))):
        partition, offset = int(str(row["kafka_partition"])), int(str(row["kafka_offset"]))
        record = (partition, workload.find_number(partition, offset, row["id"]))
        seen[record] += 1
        is_same = workload.row(*record) == tuple(row[n] for n in ("id", "ts", "country", "text"))
        if not is_same or workload.is_poisoned(*record):
            altered.append(record)
    for row in read_files(storage, find_visible(storage, names.table_path(f"{table}__dead"))):
        record = (int(str(row["partition"])), int(str(row["offset"])))
        seen[record] += 1
        if not workload.is_poisoned(*record) or row["value"] != workload.value(*record):
            altered.append(record)
    return seen, altered


def find_visible(storage: Storage, directory: str) -> Iterator[str]:
    """Yield the files that readers of a table see, by listing alone."""
    for found in storage.list(directory):
        if names.leaf(found.path)[0] in "._":
            continue
        if found.is_directory:
            yield from find_visible(storage, found.path)
        else:
            yield found.path


def read_files(storage: Storage, paths: Iterable[str]) -> Iterator[dict[str, object]]:
    """Yield the rows of files, in their order."""
    left = list(paths)
    with ThreadPoolExecutor(READERS) as pool:
        for start in range(0, len(left), TOGETHER):
            part = left[start : start + TOGETHER]
            for path, content in zip(part, pool.map(storage.read, part), strict=True):
                yield from read_rows(path, content)


def read_rows(path: str, content: bytes) -> Iterator[dict[str, object]]:
    """Yield the rows of a file, with the values that its path gives to partition columns."""
    place = dict(part.split("=", 1) for part in path.split("/") if "=" in part)
    source = io.BytesIO(content)
    if path.endswith(".parquet"):
        rows = pq.read_table(source).to_pylist()
    elif path.endswith(".orc"):
        rows = po.read_table(source).to_pylist()
    else:
        rows = [json.loads(line) for line in content.splitlines()]
    for row in rows:
        yield {**place, **row}


def _ask_verify(opened: OpenJob) -> tuple[list[str], tuple[str, ...]]:
    """Return what `ashore verify` finds wrong, and what it cannot prove."""
    try:
        result = verify_job(opened)
    except AshoreError as error:
        return [f"verify: {error.message}"], ()
    problems = [f"verify: {each.kind}: {each.place}: {each.text}" for each in result.problems]
    if result.exit_code is ExitCode.WRONG and not problems:
        problems.append(f"verify: {result.summary}")
    doubts = () if result.exit_code is not ExitCode.UNPROVEN else (f"verify: {result.summary}",)
    return problems[:NAMED_MAX], doubts


def _name(kind: str, records: list[PartitionOffset]) -> str:
    shown = ", ".join(f"{partition}/{offset}" for partition, offset in records[:NAMED_MAX])
    more = "" if len(records) <= NAMED_MAX else ", ..."
    return f"{kind}: {len(records):,} records (partition/offset {shown}{more})"
