# ruff: noqa: INP001 - a folder of files, not a package
"""The statements of Nexmark with what is known of them, read from the comments above each.

What it is: `load_queries`, for the reference page and for the tests that hold it.
What it promises: pure but for reading the files beside this one. The comments are: number, title
and meaning; then `grows`, where state only grows; `rewritten: how`; `refused: why`.
What it must not know: Spark.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
# Into tables, as updates, and as the benchmark has them where that is another text.
TABLES, UPDATES, AS_WRITTEN = "nexmark.sql", "updates.sql", "as_written.sql"


@dataclass(frozen=True, slots=True)
class Query:
    """One statement. `select` is without its INSERT."""

    number: int
    title: str
    file: str
    select: str
    grows: bool
    rewritten: str
    refused: str

    @property
    def name(self) -> str:
        """Return `q5`."""
        return f"q{self.number}"


def load_queries() -> list[Query]:
    """Return all statements, by number."""
    found = [query for file in (TABLES, UPDATES, AS_WRITTEN) for query in _load(file)]
    return sorted(found, key=lambda query: query.number)


def _load(file: str) -> list[Query]:
    text = (FOLDER / file).read_text("utf-8")
    return [
        _parse(file, part.strip())
        for part in text.split(";\n")
        if re.search(r"^-- q\d", part, re.MULTILINE)
    ]


def _parse(file: str, part: str) -> Query:
    part = part[part.index("-- q") :]
    comments = {
        name: value.strip()
        for name, _, value in re.findall(r"^-- (\w+)(:?)(.*)$", part, re.MULTILINE)
    }
    first = next(iter(comments))
    body = re.sub(r"^(?:--.*|INSERT INTO .*)\n", "", part, flags=re.MULTILINE)
    return Query(
        number=int(first[1:]),
        title=comments[first],
        file=file,
        select=body.strip().rstrip(";"),
        grows="grows" in comments,
        rewritten=comments.get("rewritten", ""),
        refused=comments.get("refused", ""),
    )
