"""The tables of a job: those of its file, and those that its SQL declares.

What it is: `add_declared`, from a job file as data to the same with one list of `tables`, and the
way from a key of that list to where it is written.
What it promises: of a table that both name, both say the same, or the job is refused. Nothing that
one of them says is left out.
What it must not know: what is right in an item.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ashore.config.declared import DeclaredTable, NotDeclared, find_tables
from ashore.config.document import Document
from ashore.config.problems import Finding, JobFileProblem, locate
from ashore.config.section import Key, key_text
from ashore.config.written import WrittenText, written_file


@dataclass(frozen=True, slots=True)
class Declared:
    """What of `tables` stands in the SQL."""

    sql: WrittenText | None = None
    items: Mapping[int, DeclaredTable] = field(default_factory=dict)  # by their place in the list
    is_known: bool = True  # False: the SQL cannot be read, and may declare some

    def locate(
        self, findings: Sequence[Finding], file: str, lines: Mapping[Key, int]
    ) -> list[JobFileProblem]:
        """Return findings as problems, each in the file and line where its key is written."""
        here = [each for each in findings if self._item(each.key) is None]
        there = [each for each in findings if self._item(each.key) is not None]
        return [*locate(here, file, lines), *sorted({self._problem(each) for each in there})]

    def _item(self, key: Key) -> DeclaredTable | None:
        is_item = len(key) > 1 and key[0] == "tables"
        return self.items.get(key[1]) if is_item and isinstance(key[1], int) else None

    def _problem(self, finding: Finding) -> JobFileProblem:
        item, sql = self._item(finding.key), self.sql
        if item is None or sql is None:
            return JobFileProblem("", 0, key_text(finding.key), finding.message, finding.instead)
        own = finding.key[2:]
        said = ".".join(each for each in own if isinstance(each, str))
        place = sql.place(item.start_of(said))
        name = f"CREATE TABLE {item.item['table']}"
        key = f"{name}: {key_text(own)}" if own else name
        return JobFileProblem(place.file, place.line, key, finding.message, finding.instead)


def add_declared(
    document: Document, path: str, read_file: Callable[[str], str] | None
) -> tuple[Document, Declared]:
    """Return a job file with the tables that its SQL declares among its own.

    Arguments:
        document: the job file.
        path: of the job file.
        read_file: reads a file beside it; None: no other file is read.

    """
    sql, findings = _read_sql(document, path, read_file)
    key: Key = ("sql",) if sql is None or sql.file == path else ("sql", "file")
    found: tuple[DeclaredTable, ...] = ()
    try:
        found = find_tables(sql.text) if sql else ()
    except NotDeclared as error:
        place = sql.place(error.start) if sql else path
        findings.append(Finding(key, f"{place}: {error.message}", error.instead))
    if findings or not found or sql is None:
        told = replace(document, findings=[*document.findings, *findings])
        return told, Declared(is_known=not findings)
    return _add(document, sql, key, found)


def _add(
    document: Document, sql: WrittenText, key: Key, found: Sequence[DeclaredTable]
) -> tuple[Document, Declared]:
    """Return a job file with the tables that were found among its own. `key`: of its SQL."""
    data: dict[str, object] = document.data if isinstance(document.data, dict) else {}
    own = data.get("tables")
    if own is not None and not isinstance(own, list):
        return document, Declared()  # that is told anyway
    tables: list[object] = list(own or [])
    named = [item.get("table") if isinstance(item, dict) else None for item in tables]
    items: dict[int, DeclaredTable] = {}
    findings: list[Finding] = []
    for each in found:
        name = each.item["table"]
        if name not in named:
            items[len(tables)] = each
            tables.append(dict(each.item))
            named.append(str(name))
            continue
        index = named.index(name)
        known = tables[index]
        if named.count(name) > 1 or index in items or not isinstance(known, dict):
            message = f"{sql.place(each.start)}: {name} is declared by more than this statement"
            findings.append(Finding(key, message, "declare it once"))
            continue
        findings += _differing(("tables", index), known, _Said(sql, each, "", each.item))
        tables[index] = _merge(known, each.item)
    line = document.lines.get(key, 1)  # messages of a running job name the job file
    merged = replace(
        document,
        data={**data, "tables": tables},
        lines={**document.lines, **{("tables", index): line for index in items}},
        findings=[*document.findings, *findings],
    )
    return merged, Declared(sql, items)


def _read_sql(
    document: Document, path: str, read_file: Callable[[str], str] | None
) -> tuple[WrittenText | None, list[Finding]]:
    """Return the SQL of a job file, as far as it can be read."""
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


def _differing(key: Key, own: Mapping[str, object], sql: "_Said") -> Iterator[Finding]:
    """Yield what an item of the job file says otherwise than the SQL does."""
    for name in own.keys() & sql.values.keys():
        here, there = own[name], sql.values[name]
        inner = sql.under(name)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differing((*key, name), here, inner)
        elif _plain(here) != _plain(there):
            message = f"the SQL says otherwise, in {inner.place}: {_plain(there)}"
            yield Finding((*key, name), message, "let one of them say it")


@dataclass(frozen=True, slots=True)
class _Said:
    """What a declared table says at a key, and below."""

    sql: WrittenText
    table: DeclaredTable
    key: str
    values: Mapping[str, object]

    def under(self, name: str) -> "_Said":
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
