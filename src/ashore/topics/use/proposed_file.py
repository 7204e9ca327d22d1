"""A job file for topics that are there: what `ashore init` writes.

What it is: what may be said of topics, as values; `job_text`, the file; `write_new`, which puts it
where nothing is.
What it promises: what is unsure is a comment. A file that is there is never touched, and nothing is
written unless the loader takes it.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ashore.base.unique import unique
from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job
from ashore.topics.loop.job import columns_of


@dataclass(frozen=True, slots=True)
class EventTimeGuess:
    """A column, or a field of one, that may say when a record happened."""

    column: str  # its name, or that of the field: names with dots between
    unit: str  # of a number; empty for a text
    is_sure: bool  # whether it is to be the event time
    format: str = ""  # of a text that is to stay one; empty where it is to be a TIMESTAMP

    @property
    def leaf(self) -> str:
        """The last of the names."""
        return self.column.rpartition(".")[2]

    def __str__(self) -> str:
        unit = f", unit: {self.unit}" if self.unit else ""
        form = f", format: {json.dumps(self.format)}" if self.format else ""
        return f"{{column: {json.dumps(self.column)}{unit}{form}}}"


def _plain(time: EventTimeGuess) -> dict[str, str | None]:
    """Return an event time as `--json` prints it."""
    return {"column": time.column, "unit": time.unit or None, "format": time.format or None}


@dataclass(frozen=True, slots=True)
class TableProposal:
    """What an item of `tables` may say of a topic."""

    topic: str
    table: str  # as database.table
    decode: str  # json, text or bytes
    schema: str  # DDL; empty where `decode` needs none
    times: tuple[EventTimeGuess, ...]  # columns that may be the event time, the likeliest first
    partition_by: tuple[str, ...]  # directories
    sampled: int  # how many records were looked at
    decoded: int  # how many of them are rows under this proposal
    notes: tuple[str, ...]  # what is unsure, as sentences

    @property
    def event_time(self) -> EventTimeGuess | None:
        """The event time, if one is sure."""
        return self.times[0] if self.times and self.times[0].is_sure else None

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        sure = self.event_time
        return {
            "topic": self.topic,
            "table": self.table,
            "decode": self.decode,
            "schema": self.schema or None,
            "event_time": _plain(sure) if sure else None,
            "event_time_candidates": [each.column for each in self.times],
            "partition_by": list(self.partition_by),
            "sampled": self.sampled,
            "decoded": self.decoded,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True)
class JobProposal:
    """A whole job file."""

    job: str
    lake: str
    servers: str
    options: Mapping[str, str]  # as they are written, `${NAME}` and all
    tables: tuple[TableProposal, ...]

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints, options left out."""
        tables = [each.to_dict() for each in self.tables]
        return {"job": self.job, "lake": self.lake, "servers": self.servers, "tables": tables}


def table_names(topics: Iterable[str], database: str) -> dict[str, str]:
    """Return a table for each topic, no two alike."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for topic in topics:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", topic).lstrip("_")[:90] or "topic"
        name, number = plain, 2
        while name.casefold() in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add(name.casefold())
        found[topic] = f"{database}.{name}"
    return found


def job_text(proposal: JobProposal) -> str:
    """Return the job file. Raises JobFileInvalid where the loader would refuse it."""
    kafka = f"{{bootstrap_servers: {json.dumps(proposal.servers)}}}"
    lines = [
        "# Written by `ashore init` from the newest records of each topic. Comments are what it is",
        "# not sure of: look at them, then try it with: ashore validate",
        f"job: {proposal.job}",
        f"lake: {json.dumps(proposal.lake)}",
        "source:",
    ]
    if proposal.options:
        lines += [
            "  kafka:",
            f"    bootstrap_servers: {json.dumps(proposal.servers)}",
            "    options:",
        ]
        lines += [f"      {name}: {json.dumps(value)}" for name, value in proposal.options.items()]
    else:
        lines.append(f"  kafka: {kafka}")
    lines += ["  first_start: {default: earliest}  # from the first record that Kafka still has"]
    lines.append("tables:")
    for table in proposal.tables:
        lines += _item_lines(table)
    lines.append("spark: none  # without Java; remove this line to read and write in Spark")
    text = "\n".join(lines) + "\n"
    parse_job(text, path="the proposed job file", check_schema=columns_of)
    return text


def _item_lines(table: TableProposal) -> list[str]:
    lines = [f"  # {note}" for note in table.notes]
    lines += [f"  - topic: {json.dumps(table.topic)}", f"    table: {table.table}"]
    lines.append(f"    decode: {table.decode}")
    if table.schema:
        lines.append(f"    schema: {json.dumps(table.schema, ensure_ascii=False)}")
    elif not table.sampled:
        lines.append('    # decode: json, and schema: "id BIGINT, ts BIGINT"')
    guesses = list(table.times)
    if table.event_time is not None:
        lines.append(f"    event_time: {guesses.pop(0)}")
    elif not guesses:
        lines.append("    # event_time: none was found; the timestamp of Kafka counts")
    lines += [f"    # event_time: {each}" for each in guesses[:5]]
    lines.append(f"    partition_by: [{', '.join(table.partition_by)}]")
    return lines


def write_new(path: Path, text: str) -> None:
    """Write a file where none is, whole or not at all. Raises JobFileInvalid.

    If interrupted: a file beside it, whose name begins with a dot, may be left.
    """
    beside = path.with_name(f".{path.name}.{unique()}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)  # fails where something is, unlike a rename
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise JobFileInvalid(
            f"{path} cannot be written: {error.strerror}",
            hint="name another file with --out",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def exists_already(path: Path) -> JobFileInvalid:
    """Return the error for a job file that exists already."""
    return JobFileInvalid(
        f"{path} already exists and was not changed", hint="name another file with --out"
    )
