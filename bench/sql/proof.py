"""What DuckDB says of an engine's rows: those that the query must give, and no others.

What it is: the result of a query computed from the copies of its topics, compared row by row, with
their number, with what is in the files that the engine wrote.
What it promises: rows of windows that are open at the end are left out on both sides.
What it must not know: how an engine works.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench.peers.packages import open_duckdb
from bench.sql.inputs import FAMILIES, columns_of
from bench.sql.queries import OPEN_MS, Query

TYPES = {"STRING": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class Proof:
    """How many rows there must be, and how many of them differ."""

    rows: int
    missing: int
    extra: int

    @property
    def is_right(self) -> bool:
        """There are rows, and those that must be there."""
        return bool(self.rows) and not self.missing and not self.extra


class Prover:
    """Compares the rows of a query over topics whose copies are in a folder.

    Arguments:
        query: the query.
        folder: of the copies.

    """

    def __init__(self, query: Query, folder: Path) -> None:
        self._query = query
        self._db = open_duckdb()
        family = FAMILIES[query.family]
        newest = []
        for view in family.views:
            columns = {name: TYPES.get(kind, kind) for name, kind in columns_of(view).items()}
            self._db.execute(
                f"CREATE TABLE {view} AS SELECT * FROM read_json('{folder}/{view}.jsonl', "
                f"format = 'newline_delimited', columns = {json.dumps(columns)})"
            )
            time = family.time if family.time == "ts" else f"epoch_ms({family.time})"
            newest.append(f"(SELECT max({time}) FROM {view})")
        until_ms = f"least({', '.join(newest)}) - {OPEN_MS}"
        self._where = f"WHERE {query.final_ms} <= {until_ms}" if query.final_ms else ""
        text = query.expected or f"SELECT {query.shown} FROM ({_duckdb(query.spark)})"
        self._db.execute(f"CREATE TABLE wanted AS SELECT * FROM ({text}) {self._where}")

    def compare(self, found: str) -> Proof:
        """Compare a SELECT of DuckDB with what must be there."""
        self._db.execute(f"CREATE OR REPLACE TABLE found AS SELECT * FROM ({found}) {self._where}")
        names = "SELECT column_name FROM (DESCRIBE wanted)"
        columns = ", ".join(f'"{row[0]}"' for row in self._db.execute(names).fetchall())

        def count(left: str, right: str) -> int:
            rows = f"SELECT {columns} FROM {left} EXCEPT ALL SELECT {columns} FROM {right}"
            return self._number(f"SELECT count(*) FROM ({rows})")

        rows = self._number("SELECT count(*) FROM wanted")
        return Proof(rows, count("wanted", "found"), count("found", "wanted"))

    def select_files(self, files: Sequence[Path], *, with_path: bool = False) -> str:
        """Return the SELECT of the shown columns of an engine's files."""
        if not files:
            return "SELECT * FROM wanted LIMIT 0"
        paths = ", ".join(f"'{path}'" for path in files)
        also = ", filename" if with_path else ""
        return f"SELECT {self._query.shown}{also} FROM read_parquet([{paths}], filename = true)"

    def select_records(self, records: Path) -> str:
        """Return the SELECT of the shown columns of records of a topic: the newest of each key."""
        (first, *_), total = self._query.key, self._query.shown.split(", ")[-1]
        return f"""SELECT {first}, sum({total})::BIGINT AS {total} FROM (
          SELECT (value->>'{first}')::BIGINT AS {first}, (value->>'{total}')::BIGINT AS {total}
          FROM read_json('{records}', format = 'newline_delimited',
            columns = {{place: 'BIGINT', key: 'VARCHAR', value: 'JSON'}})
          QUALIFY row_number() OVER (PARTITION BY key ORDER BY place DESC) = 1
        ) GROUP BY {first}"""

    def waits_s(self, seen_ms: Mapping[Path, float], from_ms: float) -> list[float]:
        """Return p50 and p99 of the seconds from when rows could be known until they were seen."""
        rows = self.select_files(list(seen_ms), with_path=True)
        self._db.execute("CREATE OR REPLACE TABLE seen (filename VARCHAR, at_ms DOUBLE)")
        pairs = [(str(path), at_ms) for path, at_ms in seen_ms.items()]
        self._db.executemany("INSERT INTO seen VALUES (?, ?)", pairs)
        known = self._query.known_ms
        shares = f"""SELECT quantile_cont((at_ms - known_ms) / 1000, [0.5, 0.99])
          FROM (SELECT filename, {known} AS known_ms FROM ({rows})) JOIN seen USING (filename)
          WHERE known_ms >= {from_ms}"""
        return cast("list[float]", self._db.execute(shares).fetchone()[0] or [])

    def _number(self, text: str) -> int:
        return int(self._db.execute(text).fetchone()[0])


def _duckdb(text: str) -> str:
    return text.replace("`", '"')
