"""How long a commit to a Delta table takes, as versions come to be many.

    python -m bench.delta_commits

One slice lands a file of one row in each version, on local disk: what `draw` and `commit` take, in
the versions around the 100th, the 1,000th and the 10,000th. Writing the file is not counted.
"""

import io
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from ashore.base.clock import SystemClock
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import CommitTable
from ashore.storage.open import open_storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import Schema, parse_ddl
from ashore.tables.delta.delta_tables import DeltaTables
from bench.table import Row

NAME, TABLE, DDL = SliceName("bench", "main"), "ods.events", "id BIGINT, text STRING"
MARKS = 100, 1_000, 10_000
AROUND = 100  # versions before each mark
SLOWER_MAX = 2.0  # the last ones against the first ones


def time_commits(directory: Path, count: int) -> list[float]:
    """Return the seconds of each of so many commits."""
    lake = f"file://{directory}"
    storage = open_storage(lake)
    tables = DeltaTables(storage, SystemClock())
    place = f"{lake}/ods.db/events"
    table = CatalogTable("ods", "events", parse_ddl(DDL), Schema(()), place, "delta", NAME.job)
    tables.ensure([table])
    target = Target(TABLE, Role.MAIN, "", (), "", "parquet")
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "text": ["x" * 40]}), buffer)
    data = buffer.getvalue()
    last: dict[str, TableCommit] = {}
    seconds = []
    for number in range(count):
        file = DataFile(0, 0, f"{number:016x}", 1, len(data), "", (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, target)
        storage.create(place.final, data)
        began_s = time.perf_counter()
        (drawn,) = tables.draw(NAME, [TABLE], last)
        tables.commit(NAME, CommitTable(drawn, number, ((place, target),)))
        seconds.append(time.perf_counter() - began_s)
        last = {TABLE: drawn}
    return seconds


def main() -> list[Row]:
    directory = Path(tempfile.mkdtemp())
    try:
        seconds = time_commits(directory, max(MARKS))
    finally:
        shutil.rmtree(directory)
    groups = {mark: seconds[mark - AROUND : mark] for mark in MARKS}
    rows = [
        Row(f"commit to a Delta table of {mark:,} versions, p50", 1000 * median(group), "ms")
        for mark, group in groups.items()
    ]
    first, last = (median(groups[mark]) for mark in (MARKS[0], MARKS[-1]))
    longest = Row("the longest of the last 100: with a checkpoint", max(groups[MARKS[-1]]), "s")
    ratio = Row("10,000 versions v. 100", last / first, at_most=SLOWER_MAX)
    return [*rows, longest, ratio]


if __name__ == "__main__":
    for row in main():
        print(row.question, f"{row.figure:.3g}", row.unit, row.aim)
