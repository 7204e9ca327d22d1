"""The tables of a job: those of its file, and those that its SQL declares.

What it is: `add_declared` adds those of the SQL to `tables` and `sql.topics`, with their places.
What it promises: a job is refused where both declare a table and differ. Nothing is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ashore.base.suggest import suggest
from ashore.jobs.file.document import Document
from ashore.jobs.file.problems import Finding, JobFileProblem, locate_problem
from ashore.jobs.file.section import Key, key_text
from ashore.jobs.file.source_text import WrittenText, written_file
from ashore.jobs.file.sql_tables import DeclaredTable, NotDeclared, declared_tables, insert_targets


@dataclass(frozen=True, slots=True)
class Declared:
    """What of `tables` and `sql.topics` stands in the SQL."""

    sql: WrittenText | None = None
    items: Mapping[Key, DeclaredTable] = field(default_factory=dict)  # by the keys of their items
    is_known: bool = True  # False: the SQL cannot be read, and may declare some

    def locate(
        self, findings: Sequence[Finding], file: str, lines: Mapping[Key, int]
    ) -> list[JobFileProblem]:
        """Return findings as problems, each in the file and line where its key is written."""
        here = [each for each in findings if not self._item_key(each.key)]
        there = [each for each in findings if self._item_key(each.key)]
        return [
            *locate_problem(here, file, lines),
            *sorted({self._problem(each) for each in there}),
        ]

    def _item_key(self, key: Key) -> Key:
        """Return the key of the item that a key is in; empty: it is in none of the SQL."""
        return next((each for each in self.items if key[: len(each)] == each), ())

    def _problem(self, finding: Finding) -> JobFileProblem:
        key, sql = self._item_key(finding.key), self.sql
        if not key or sql is None:
            return JobFileProblem("", 0, key_text(finding.key), finding.message, finding.instead)
        item, own = self.items[key], finding.key[len(key) :]
        path = ".".join(each for each in own if isinstance(each, str))
        place = sql.place(item.start_of(path))
        name = f"CREATE TABLE {item.name}"
        label = f"{name}: {key_text(own)}" if own else name
        return JobFileProblem(place.file, place.line, label, finding.message, finding.instead)


def add_declared(
    document: Document, path: str, read_file: Callable[[str], str] | None
) -> tuple[Document, Declared]:
    """Return a job file with the tables and topics that its SQL declares among its own.

    Arguments:
        document: the job file.
        path: of the job file.
        read_file: reads a file beside it; None: no other file is read.

    """
    sql, findings = _read_sql(document, path, read_file)
    key: Key = ("sql",) if sql is None or sql.file == path else ("sql", "file")
    found: tuple[DeclaredTable, ...] = ()
    try:
        found = declared_tables(sql.text) if sql else ()
    except NotDeclared as error:
        place = sql.place(error.start) if sql else path
        findings.append(Finding(key, f"{place}: {error.message}", error.instead))
    if findings or not found or sql is None:
        extended = replace(document, findings=[*document.findings, *findings])
        return extended, Declared(sql, is_known=not findings)
    return _add(document, sql, key, found)


def find_unknown_targets(
    data: Mapping[str, object], declared: Declared, path: str
) -> Iterator[Finding]:
    """Yield the INSERTs of a job file that fill none of its tables and topics. `data` is plain.

    `path`: of the job file. Of SQL in another file nothing is said: who may not read that file must
    not learn of its tables.
    """
    section = data.get("sql")
    topics = section.get("topics") if isinstance(section, dict) else None
    lists = [each for each in (data.get("tables") or [], topics or []) if isinstance(each, list)]
    if declared.sql is None or declared.sql.file != path or len(lists) < 2:
        return
    items = [each for some in lists for each in some if isinstance(each, dict)]
    names = [[each[key] for key in ("table", "topic") if each.get(key)] for each in items]
    sinks = {str(each[0]) for each in names if len(each) == 1}  # an item with both is landed
    for start, name in insert_targets(declared.sql.text):
        if name not in sinks:
            message, instead = refuse_target(name, sinks)
            yield Finding(("sql",), f"{declared.sql.place(start)}: {message}", instead)


def refuse_target(name: str, sinks: Iterable[str]) -> tuple[str, str]:
    """Return why an INSERT cannot fill `name`, which is none of the job's, and what to write."""
    other = "add an item without a topic for it to `tables`, or a topic to `sql.topics`"
    message = f"{name} is neither a sink table of the job nor a topic of `sql.topics`"
    return message, suggest(name, sinks, other)


def _add(
    document: Document, sql: WrittenText, key: Key, found: Sequence[DeclaredTable]
) -> tuple[Document, Declared]:
    data: dict[str, object] = document.data if isinstance(document.data, dict) else {}
    section = data.get("sql")
    inner: dict[str, object] = section if isinstance(section, dict) else {"text": section}
    own, sinks = data.get("tables"), inner.get("topics")
    if not isinstance(own, list | None) or not isinstance(sinks, list | None):
        return document, Declared()  # that is reported anyway
    tables = _Items(("tables",), "table", list(own or []))
    topics = _Items(("sql", "topics"), "topic", list(sinks or []))
    findings: list[Finding] = []
    for each in found:
        items = topics if each.is_topic else tables
        findings += items.add(each, sql, key)
    merged = dict(data)
    if tables.items:
        merged["tables"] = tables.items
    if topics.items:
        merged["sql"] = {**inner, "topics": topics.items}
    declared = {**tables.declared, **topics.declared}
    line = document.lines.get(key, 1)  # messages of a running job name the job file
    extended = replace(
        document,
        data=merged,
        lines={**document.lines, **dict.fromkeys(declared, line)},
        findings=[*document.findings, *findings],
    )
    return extended, Declared(sql, declared)


@dataclass(slots=True)
class _Items:
    """A list of the job file that the SQL adds to."""

    key: Key  # of the list
    named_by: str  # the key of an item that is its name
    items: list[object]
    declared: dict[Key, DeclaredTable] = field(default_factory=dict)  # items of the SQL alone

    def add(self, found: DeclaredTable, sql: WrittenText, sql_key: Key) -> list[Finding]:
        named = [item.get(self.named_by) if isinstance(item, dict) else None for item in self.items]
        if found.name not in named:
            self.declared[*self.key, len(self.items)] = found
            self.items.append(dict(found.item))
            return []
        index = named.index(found.name)
        key, known = (*self.key, index), self.items[index]
        if named.count(found.name) > 1 or key in self.declared or not isinstance(known, dict):
            place = sql.place(found.start)
            message = f"{place}: {found.name} is declared more than once"
            return [Finding(sql_key, message, "declare it once")]
        self.items[index] = _merge(known, found.item)
        return [*_differing(key, known, _Clause(sql, found, "", found.item))]


def _read_sql(
    document: Document, path: str, read_file: Callable[[str], str] | None
) -> tuple[WrittenText | None, list[Finding]]:
    data = document.data
    sql = data.get("sql") if isinstance(data, dict) else None
    file = sql.get("file") if isinstance(sql, dict) else None
    if isinstance(file, str) and file and read_file is not None:
        try:
            return written_file(read_file(file), str(Path(path).parent / file)), []
        except (OSError, UnicodeDecodeError) as error:
            message = f"{file} cannot be read: {error}"
            instead = "name a file beside the job file, or write an absolute path"
            return None, [Finding(("sql", "file"), message, instead)]
    for key in (("sql",), ("sql", "text")):
        text = sql.get("text") if isinstance(sql, dict) else sql
        if isinstance(text, str) and key in document.scalars:
            return WrittenText(text, path, document.scalars[key]), []
    return None, []


def _differing(key: Key, own: Mapping[str, object], sql: "_Clause") -> Iterator[Finding]:
    """Yield what an item of the job file says otherwise than the SQL does."""
    for name in own.keys() & sql.values.keys():
        here, there = own[name], sql.values[name]
        inner = sql.under(name)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differing((*key, name), here, inner)
        elif _plain(here) != _plain(there):
            message = f"the SQL has another value, in {inner.place}: {_plain(there)}"
            yield Finding((*key, name), message, "remove one of them")


@dataclass(frozen=True, slots=True)
class _Clause:
    sql: WrittenText
    table: DeclaredTable
    key: str
    values: Mapping[str, object]

    def under(self, name: str) -> "_Clause":
        values = self.values[name]
        key = f"{self.key}.{name}" if self.key else name
        return replace(self, key=key, values=values if isinstance(values, dict) else {})

    @property
    def place(self) -> str:
        return str(self.sql.place(self.table.start_of(self.key)))


def _merge(own: Mapping[str, object], declared: Mapping[str, object]) -> dict[str, object]:
    merged = {**declared, **own}
    for name in own.keys() & declared.keys():
        here, there = own[name], declared[name]
        if isinstance(here, dict) and isinstance(there, dict):
            merged[name] = _merge(here, there)
    return merged


def _plain(value: object) -> str:
    """Return a value as it is compared: an option of SQL is always text."""
    match value:
        case bool():
            return str(value).lower()
        case list() | tuple():
            return ", ".join(_plain(each) for each in value)
        case _:
            return " ".join(str(value).split())
