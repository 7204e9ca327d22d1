"""Tables that a job's SQL declares itself: `CREATE TABLE` beside its INSERTs.

What it promises: pure. Statements become items of `tables`, or of `sql.topics` (`USING kafka`); an
option is a key of such an item, with dots where it is nested. What is not understood is refused.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ashore.plans.text import cut, normalise_sql

_LISTS = frozenset({"seal.actions", "key"})
_ONLY_IN_YAML = frozenset({"select"})
_NAMES = frozenset({"word", "literal"})  # kinds of pieces that a name is made of
_KNOWN = "columns, `USING`, `PARTITIONED BY (...)` and `OPTIONS (...)`"
_EXAMPLE = (
    "write CREATE TABLE ods.per_minute (minute TIMESTAMP, clicks BIGINT) PARTITIONED BY (date) "
    "OPTIONS ('event_time.column' = 'minute');"
)

_TOPIC_EXAMPLE = (
    "write CREATE TABLE totals USING kafka OPTIONS ('mode' = 'upsert', 'key' = 'country');"
)


class NotDeclared(ValueError):
    """A `CREATE TABLE` declares no table of a job. `start`: the character that is in the way."""

    def __init__(self, start: int, message: str, instead: str = _EXAMPLE) -> None:
        super().__init__(message)
        self.start = start
        self.message = message
        self.instead = instead


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """One `CREATE TABLE`.

    Arguments:
        item: what it says, as an item of `tables`, or of `sql.topics`.
        start: its first character in the SQL.
        end: the first one after its semicolon.
        starts: where it says what, by keys with dots.

    """

    item: Mapping[str, object]
    start: int
    end: int
    starts: Mapping[str, int]
    is_topic: bool = False  # a topic that SQL writes

    @property
    def name(self) -> str:
        """The table, or the topic."""
        return str(self.item["topic" if self.is_topic else "table"])

    def start_of(self, key: str) -> int:
        """Return where a key is said; the beginning of the statement where it is not."""
        while key and key not in self.starts:
            key = key.rpartition(".")[0]
        return self.starts.get(key, self.start)


@dataclass(frozen=True, slots=True)
class _Token:
    start: int
    kind: str
    text: str

    @property
    def word(self) -> str:
        """A word in capitals, a sign as it is; nothing of a literal."""
        return "" if self.kind == "literal" else self.text.upper()

    @property
    def value(self) -> str:
        if self.kind != "literal":
            return self.text
        quote = self.text[0]
        inner = self.text[1:-1]
        return inner.replace(quote * 2, quote) if quote == "`" else re.sub(r"\\(.)", r"\1", inner)


def declared_tables(text: str) -> tuple[DeclaredTable, ...]:
    """Return the tables that SQL declares, in their order. Raises NotDeclared."""
    return tuple(
        _Reader(text, statement).read() for statement in _statements(text) if _is_table(statement)
    )


def insert_targets(text: str) -> Iterator[tuple[int, str]]:
    """Yield where each INSERT begins, and the table or topic that it fills.

    One that does not begin with `INSERT INTO` and a name is left to Spark's parser.
    """
    for statement in _statements(text):
        if [each.word for each in statement[:2]] != ["INSERT", "INTO"]:
            continue
        rest = statement[2:]
        if len(rest) > 1 and rest[0].word == "TABLE" and rest[1].kind in _NAMES:
            rest = rest[1:]
        parts = [each.value for each in rest[:1] if each.kind in _NAMES]
        while parts and len(rest) > 2 and rest[1].word == "." and rest[2].kind in _NAMES:
            parts.append(rest[2].value)
            rest = rest[2:]
        if parts:
            yield statement[0].start, ".".join(parts)


def blank_tables(text: str) -> str:
    """Return SQL with white space for each `CREATE TABLE`: places stay. Raises NotDeclared."""
    for each in declared_tables(text):
        white = re.sub(r"[^\r\n]", " ", text[each.start : each.end])
        text = text[: each.start] + white + text[each.end :]
    return text


def _statements(text: str) -> Iterator[list[_Token]]:
    found: list[_Token] = []
    for start, kind, part in cut(text):
        if kind in {"space", "line", "comment"}:
            continue
        found.append(_Token(start, kind, part))
        if kind == "other" and part == ";":
            yield found
            found = []
    yield found


def _is_table(statement: list[_Token]) -> bool:
    return [each.word for each in statement[:2]] == ["CREATE", "TABLE"]


class _Reader:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._first = tokens[0]
        last = tokens[-1]
        self._end = last.start + len(last.text)
        self._tokens = [each for each in tokens[2:] if each.word != ";"]
        self._item: dict[str, object] = {}
        self._starts: dict[str, int] = {}

    def read(self) -> DeclaredTable:
        if [each.word for each in self._tokens[:3]] == ["IF", "NOT", "EXISTS"]:
            self._tokens = self._tokens[3:]
        self._say("table", self._name(), self._first.start)
        while self._tokens:
            self._clause(self._tokens.pop(0))
        is_topic = str(self._item.get("format", "")).casefold() == "kafka"
        item = self._topic() if is_topic else self._item
        return DeclaredTable(item, self._first.start, self._end, self._starts, is_topic)

    def _topic(self) -> dict[str, object]:
        """Return what was said as an item of `sql.topics`: the name is that of the topic."""
        if "topic" in self._starts:
            words = "the table's name is the topic, where it is USING kafka"
            raise NotDeclared(self._starts["topic"], words, "remove the option")
        if "schema" in self._starts:
            words = "the columns of a topic's records are those of the SELECT"
            raise NotDeclared(self._starts["schema"], words, _TOPIC_EXAMPLE)
        others = {name: self._item[name] for name in self._item if name not in {"table", "format"}}
        return {"topic": self._item["table"], **others}

    def _clause(self, first: _Token) -> None:
        match first.word:
            case "(":
                start, end = self._to_the_end_of(first)
                self._say("schema", normalise_sql(self._text[start:end]), start)
            case "USING":
                self._say("format", self._next(first).value, first.start)
            case "PARTITIONED":
                self._expect("BY", first)
                self._say("partition_by", list(self._partitions(first)), first.start)
            case "OPTIONS" | "TBLPROPERTIES":
                self._expect("(", first)
                self._options(first)
            case "WITH":
                words = "`CREATE TABLE ... WITH` is Flink's"
                raise NotDeclared(self._first.start, words)
            case _:
                raise NotDeclared(
                    first.start,
                    f"`CREATE TABLE` of a job has {_KNOWN}; {first.text} is none of them",
                )

    def _name(self) -> str:
        parts = [self._next(self._first).value]
        while self._tokens and self._tokens[0].word == ".":
            parts.append(self._next(self._tokens.pop(0)).value)
        return ".".join(parts)

    def _options(self, first: _Token) -> None:
        while True:
            token = self._next(first)
            if token.word == ")":
                return
            key, start = token.value, token.start
            while self._tokens and self._tokens[0].word == ".":
                key += "." + self._next(self._tokens.pop(0)).value
            if self._tokens and self._tokens[0].word == "=":
                self._tokens.pop(0)
            self._option(key, self._value(token), start)
            if self._tokens and self._tokens[0].word == ",":
                self._tokens.pop(0)

    def _option(self, key: str, value: str, start: int) -> None:
        if key in _ONLY_IN_YAML:
            words = f"{key} is a list of expressions, not an option"
            raise NotDeclared(
                start, words, "write it in the job file, or define a view of the topic"
            )
        if key in _LISTS:
            self._say(key, [each.strip() for each in value.split(",")], start)
            return
        self._say(key, {"true": True, "false": False}.get(value.casefold(), value), start)

    def _value(self, before: _Token) -> str:
        token = self._next(before)
        if token.kind == "other":
            raise NotDeclared(token.start, "the value of an option is missing", "write 'key' = 'x'")
        return token.value

    def _say(self, key: str, value: object, start: int) -> None:
        if key in self._starts:
            raise NotDeclared(start, f"{key} is given twice", "remove one")
        self._starts[key] = start
        *above, last = key.split(".")
        inside = self._item
        for name in above:
            known = inside.setdefault(name, {})
            if not isinstance(known, dict):
                raise NotDeclared(start, f"{name} is given twice", "remove one")
            inside = known
        inside[last] = value

    def _partitions(self, first: _Token) -> Iterator[str]:
        """Yield columns, and transforms as they are written."""
        self._expect("(", first)
        while True:
            token = self._next(first)
            if token.word == ")":
                return
            if token.word == ",":
                continue
            if self._tokens and self._tokens[0].word == "(":
                _, end = self._to_the_end_of(self._tokens.pop(0))
                yield self._text[token.start : end + 1]
            else:
                yield token.value

    def _to_the_end_of(self, opened: _Token) -> tuple[int, int]:
        depth = 1
        while depth:
            token = self._next(opened)
            depth += {"(": 1, ")": -1}.get(token.word, 0)
        return opened.start + 1, token.start

    def _next(self, before: _Token) -> _Token:
        if not self._tokens:
            raise NotDeclared(before.start, f"`CREATE TABLE` ends after {before.text}")
        return self._tokens.pop(0)

    def _expect(self, word: str, before: _Token) -> None:
        token = self._next(before)
        if token.word != word:
            raise NotDeclared(token.start, f"expected `{word}`, got {token.text}")
