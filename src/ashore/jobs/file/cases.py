"""Files of test cases: input records for a job's SQL, and the rows that are expected.

What it promises: `load_cases` returns complete cases, or raises JobFileInvalid with every problem
at once, each with file and line.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PrivateAttr, StrictInt, model_validator

from ashore.jobs.file.document import read_document
from ashore.jobs.file.naming import NonEmpty, instant_ms
from ashore.jobs.file.problems import Finding, invalid, locate_problem, read_file_text, validate
from ashore.jobs.file.section import Section, line_of
from ashore.jobs.file.values import SOME, DurationMs

Row = Annotated[dict[str, Any], Field()]


def _instant(value: object) -> object:
    return None if value is None else instant_ms(value)


class GivenRecord(Section):
    """One record of a topic."""

    value: Any = Field(
        description="A mapping is written as a JSON object; text is the record's value as it is."
    )
    at: Annotated[int | None, BeforeValidator(_instant)] = Field(
        default=None,
        description="The record's timestamp in Kafka, and the value of its `event_time` column "
        "where `value` has none. Default: that of the previous record.",
    )
    key: str | None = Field(default=None, description="The record's key.")
    headers: dict[str, str | None] = Field(
        default={}, description="The record's headers, for a table with `provenance: headers`."
    )
    partition: StrictInt = Field(default=0, ge=0, description="The topic partition.")


class GivenBatch(Section):
    """Records that one batch reads."""

    topic: NonEmpty = Field(description="The topic of the records.")
    records: tuple[GivenRecord, ...] = Field(description="In the order of their offsets.")
    after_ms: DurationMs = Field(
        default=0,
        alias="after",
        description="How long after the batch before it this one is read. A topic without records "
        "for `seal.idle_after` is idle: the watermark advances without it.",
    )


class GivenView(Section):
    """Rows in the place of a view that the SQL makes: of a database, of files."""

    view: NonEmpty = Field(description="Its name.")
    schema_ddl: NonEmpty = Field(alias="schema", description="Its columns as Spark DDL.")
    rows: tuple[Row, ...] = Field(description="Its rows.")


class ExpectedLetter(Section):
    """A record that must be a dead letter."""

    topic: NonEmpty = Field(description="The topic of the record.")
    partition: StrictInt = Field(default=0, ge=0, description="Its topic partition.")
    offset: StrictInt = Field(
        ge=0, description="Its offset: records are counted by topic partition, from 0."
    )
    reason: str = Field(default="", description="A part of the reason. Default: any reason.")


class Expected(Section):
    """All rows, and all dead letters, that a table or topic must have at the end, in any order."""

    table: NonEmpty = Field(
        description="A table or topic that the SQL writes (a topic also as `topic`); for "
        "`dead_letters` also the table in which a topic lands."
    )
    rows: tuple[Row, ...] | None = Field(
        default=None,
        description="The rows. Columns that no row names are not compared. Default: rows are not "
        "compared.",
    )
    dead_letters: tuple[ExpectedLetter, ...] | None = Field(
        default=None, description="The dead letters. Default: an INSERT must have none."
    )

    @model_validator(mode="before")
    @classmethod
    def _take_topic(cls, data: object) -> object:
        """Return the data with `table` for `topic`: both name what an INSERT writes."""
        if not isinstance(data, dict) or "table" in data:
            return data
        return {"table" if key == "topic" else key: value for key, value in data.items()}


class Case(Section):
    """One case."""

    name: NonEmpty = Field(description="What the case shows, in a sentence.")
    batches: Annotated[tuple[GivenBatch, ...], SOME] = Field(
        alias="given", description="The batches, in order."
    )
    views: tuple[GivenView, ...] = Field(default=(), description="Rows in the place of views.")
    expect: Annotated[tuple[Expected, ...], SOME] = Field(
        description="The expected rows, of each table or topic."
    )

    _file: str = PrivateAttr("")
    _line: int = PrivateAttr(0)

    @property
    def place(self) -> str:
        """Where the case stands: file and line."""
        return f"{self._file}:{self._line}"

    def read_from(self, file: str, line: int) -> None:
        """Note where the case was read. Called once, by the loader."""
        self._file, self._line = file, line


class CaseFile(Section):
    """A file of cases."""

    cases: Annotated[tuple[Case, ...], SOME] = Field(description="The cases.")


def load_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases in a file. Raises JobFileInvalid."""
    text = read_file_text(path, "name a file of cases, such as clicks.cases.yaml")
    return parse_cases(text, str(path))


def parse_cases(text: str, file: str = "job.cases.yaml") -> tuple[Case, ...]:
    """Return the cases in a text; `file` is for messages. Raises JobFileInvalid."""
    document = read_document(text)
    findings = list(document.findings)
    read = None if findings else validate(CaseFile, document.data, findings)
    cases = read.cases if read else ()
    findings += [*_same_names(cases), *_nothing_expected(cases)]
    if findings:
        raise invalid(file, locate_problem(findings, file, document.lines))
    for index, case in enumerate(cases):
        case.read_from(file, line_of(document.lines, ("cases", index)))
    return cases


def _same_names(cases: tuple[Case, ...]) -> list[Finding]:
    first: dict[str, int] = {}
    return [
        Finding(("cases", index, "name"), "another case has this name", "choose another one")
        for index, case in enumerate(cases)
        if first.setdefault(case.name, index) != index
    ]


def _nothing_expected(cases: tuple[Case, ...]) -> list[Finding]:
    return [
        Finding(
            ("cases", index, "expect", place),
            "neither `rows` nor `dead_letters` is given",
            "write rows: [...]; rows: [] means that there are none",
        )
        for index, case in enumerate(cases)
        for place, expected in enumerate(case.expect)
        if expected.rows is None and expected.dead_letters is None
    ]


def named_columns(rows: tuple[Mapping[str, Any], ...]) -> tuple[str, ...]:
    """Return the columns that rows name, in the order of their first mention."""
    return tuple(dict.fromkeys(name for row in rows for name in row))
