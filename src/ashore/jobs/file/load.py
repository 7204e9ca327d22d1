"""The only way to read a job file: YAML, then models, then checks across keys.

What it promises: a Job that can be run as far as the file alone shows, or JobFileInvalid with
every problem at once: file, line, key, what is wrong, what to write instead.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ashore.jobs.file import checks, sql_checks
from ashore.jobs.file.all_tables import add_declared, find_unknown_targets
from ashore.jobs.file.columns import Column
from ashore.jobs.file.document import Document, read_document
from ashore.jobs.file.model import Job
from ashore.jobs.file.problems import Finding, JobFileProblem, invalid, validate
from ashore.jobs.file.section import Key, key_text, line_of
from ashore.jobs.file.tables import Table
from ashore.jobs.file.unsupported import find_unsupported
from ashore.jobs.file.values import VARIABLE, short

SchemaCheck = Callable[[str], Sequence[Column] | None]
"""Looks at DDL: raises ValueError (with `position`, the character, `reason` and `instead`, what to
write, if it knows), else may return the columns, so that keys that name columns are checked too."""

FILE_BYTES_MAX = 4 << 20  # of a job file, and of a file of SQL
_TEXT_MAPPINGS: tuple[Key, ...] = (
    ("source", "kafka", "options"),
    ("catalog", "iceberg", "properties"),
    ("sql", "producer"),
    ("spark", "conf"),
    ("labels",),
)
_SQL_AT: tuple[Key, ...] = (("sql",), ("sql", "text"))
_VARIABLES_AT: tuple[Key, ...] = (
    ("lake",),
    ("source", "kafka", "options"),
    ("catalog", "hive", "uri"),
    ("catalog", "iceberg", "uri"),
    ("catalog", "iceberg", "properties"),
    ("s3", "access_key_id"),
    ("s3", "secret_access_key"),
    ("azure", "account_key"),
    ("azure", "sas_token"),
    ("azure", "client_secret"),
    ("sql", "checkpoints"),
    ("sql", "producer"),
    ("spark", "conf"),  # handed on as it is: Spark has variables of its own
)


def load_job(
    path: str | Path,
    *,
    check_schema: SchemaCheck | None = None,
    environment: Mapping[str, str] | None = None,
) -> Job:
    """Return the job that the file at `path` describes. Raises JobFileInvalid.

    `environment` stands in for the process's own.
    """
    file = str(path)
    try:
        content = read_bounded(Path(path))
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        problem = JobFileProblem(file, 0, "", str(reason), "name the job file, as clicks.yaml")
        raise invalid(file, [problem]) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        problem = JobFileProblem(file, line, "", "the file is not UTF-8", "save it as UTF-8")
        raise invalid(file, [problem]) from None
    sides = Sides(check_schema, lambda name: _read_beside(Path(path), name))
    return _parse(text, file, sides, environment)


def read_bounded(path: Path) -> bytes:
    """Return the bytes of a file. Raises OSError, also where it is too large to be read."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")  # a pipe would never end
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > FILE_BYTES_MAX:
            raise OSError(errno.EFBIG, f"the file has more than {FILE_BYTES_MAX:,} bytes")
        return file.read(FILE_BYTES_MAX)


def _read_beside(path: Path, name: str) -> str:
    return read_bounded(path.parent / name).decode("utf-8-sig")


def parse_job(
    text: str,
    *,
    path: str = "job.yaml",
    check_schema: SchemaCheck | None = None,
    environment: Mapping[str, str] | None = None,
) -> Job:
    """Return the job that `text` describes, as `load_job`; `path` is for messages.

    No other file is read: a `sql.file` declares no tables here.
    """
    return _parse(text, path, Sides(check_schema, None), environment)


@dataclass(frozen=True, slots=True)
class Sides:
    """What a job file alone does not contain."""

    check_schema: SchemaCheck | None
    read_file: Callable[[str], str] | None  # beside the job file; raises OSError


def _parse(text: str, path: str, sides: Sides, environment: Mapping[str, str] | None) -> Job:
    variables = dict(os.environ if environment is None else environment)
    alone = read_document(text, _TEXT_MAPPINGS, _SQL_AT)
    document, declared = add_declared(alone, path, sides.read_file)
    findings = list(document.findings)
    job: Job | None = None
    if isinstance(document.data, dict) and document.data:
        broken: list[Finding] = []
        job = validate(Job, document.data, broken, {"environment": variables})
        unsupported = find_unsupported(_replaced(document.data, variables))
        reported = {each.key for each in unsupported}  # which say more than that a key is not known
        findings += [each for each in broken if each.key not in reported] + unsupported
        findings += _stray_variables(document.data, ())
        findings += _together(document, sides.check_schema)
        if not findings and declared.is_known:  # else a name of an item may be what is wrong
            findings += find_unknown_targets(document.data, declared, path)
    elif not findings:
        empty = not document.data and not isinstance(document.data, list)
        message = "the file is empty" if empty else "a job file is a mapping of keys to values"
        findings.append(Finding((), message, "begin with job: NAME and lake: URI"))
    if not declared.is_known:
        findings = [each for each in findings if each.key != ("tables",)]
    if findings or job is None:
        raise invalid(path, declared.locate(findings, path, document.lines))
    scalar = next((document.scalars[key] for key in _SQL_AT if key in document.scalars), None)
    return job.read_from(path, document.lines, scalar)


def _replaced(data: object, environment: Mapping[str, str]) -> object:
    """Return `data` with variables replaced where they are known, for looks at values only."""
    match data:
        case dict():
            return {key: _replaced(value, environment) for key, value in data.items()}
        case list():
            return [_replaced(value, environment) for value in data]
        case str():
            return VARIABLE.sub(lambda match: environment.get(match[1], match[0]), data)
        case _:
            return data


def _stray_variables(data: object, key: Key) -> list[Finding]:
    """Return where `${NAME}` stands but is not replaced: it would be taken as it is."""
    if key in _VARIABLES_AT:
        return []
    match data:
        case dict():
            parts: Sequence[tuple[str | int, object]] = list(data.items())
        case list():
            parts = list(enumerate(data))
        case str() if VARIABLE.search(data):
            places = ", ".join(key_text(place) for place in _VARIABLES_AT[:3])
            message = "${NAME} is not supported here"
            return [Finding(key, message, f"write the value; variables are for {places}")]
        case _:
            return []
    return [found for part, value in parts for found in _stray_variables(value, (*key, part))]


def _together(document: Document, check_schema: SchemaCheck | None) -> list[Finding]:
    data = document.data
    tables = data.get("tables") if isinstance(data, dict) else None
    written = dict(enumerate(tables if isinstance(tables, list) else []))
    items = {
        index: item
        for index, each in written.items()
        if (item := validate(Table, each, [])) is not None  # the models have reported it
    }
    findings: list[Finding] = []

    def line(key: Key) -> int:
        return line_of(document.lines, key)

    for index, each in written.items():
        findings += _columns_of(index, each, items.get(index), check_schema)
    for index, item in items.items():
        findings += checks.check_item(index, item)
    findings += checks.check_topics(items, line)
    findings += checks.check_tables(items, line)
    findings += checks.check_hdfs(data)
    findings += checks.check_iceberg(data, items)
    findings += checks.check_bucket(data)
    findings += checks.check_spark(data, items)
    findings += sql_checks.check_sql(data, items)
    source = data.get("source") if isinstance(data, dict) else None
    if isinstance(source, dict) and items and len(items) == len(written):
        findings += checks.check_first_start(source.get("first_start"), items)
    return findings


def _columns_of(
    index: int, data: object, item: Table | None, check_schema: SchemaCheck | None
) -> list[Finding]:
    """Return what is wrong with a schema, also where the rest of its item is broken."""
    ddl = item.ddl if item else data.get("schema") if isinstance(data, dict) else None
    if check_schema is None or not isinstance(ddl, str) or not ddl.strip():
        return []
    try:
        columns = check_schema(ddl)
    except ValueError as error:
        position = getattr(error, "position", None)
        place = ""
        if isinstance(position, int):
            near = repr(short(ddl[position:])) if ddl[position:] else "the end"
            place = f" (at character {position + 1}: {near})"
        reason = getattr(error, "reason", error)
        instead = getattr(error, "instead", "") or "write name TYPE, name TYPE, ..."
        return [Finding(("tables", index, "schema"), f"{reason}{place}", instead)]
    return list(checks.check_columns(index, item, columns)) if item and columns else []
