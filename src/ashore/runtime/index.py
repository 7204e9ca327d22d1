"""The index over a server's history: for questions that a file answers slowly.

What it is: `Index`, tables of events and operations in SQLite, or in PostgreSQL by its URL.
What it promises: files are the truth; the index is made from them, may be deleted at any time, and
is then made again. Where its database does not answer, nothing else is kept from its work; what
happened meanwhile is taken from the files once it does.
What it must not know: who asks; how jobs are run.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Integer,
    MetaData,
    Select,
    String,
    Table,
    Text,
    create_engine,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from ashore.errors import ServerRefused
from ashore.runtime.files import read_lines
from ashore.runtime.layout import ServerFiles

VERSION = 1  # of the tables: another one is made again
ANSWER_S = 5
AGAIN_S = 10.0  # until a database that did not answer is asked again

_META = MetaData()
_ABOUT = Table("ashore_index", _META, Column("version", Integer, primary_key=True))
_EVENTS = Table(
    "ashore_events",
    _META,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False, index=True),
    Column("job", String(100), nullable=False, index=True),
    Column("event", String(40), nullable=False, index=True),
    Column("document", Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """Which events are asked for. None: any."""

    job: str | None = None
    event: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 100


class Index:
    """The index of a server. May be used by many threads.

    Arguments:
        files: of the server, which the index is made from.
        url: of the database; by default a file of SQLite's beside them.

    """

    def __init__(self, files: ServerFiles, url: str | None = None) -> None:
        self._files = files
        self._url = url or f"sqlite:///{files.index}"
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._is_behind = True  # the files may have what it has not
        self._again_s = 0.0  # when it is asked again
        self.problem = ""  # why it does not answer

    def open(self) -> bool:
        """Open the index, made again where it is missing; return whether it can be asked."""
        with self._lock:
            self._try(self._catch_up)
        return not self._is_behind

    def close(self) -> None:
        """Close it."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
            self._engine, self._is_behind = None, True

    def add(self, event: Mapping[str, object]) -> None:
        """Take an event in, which is in the file already. A failure is a problem, not an error."""
        with self._lock:
            if self._is_behind:
                if time.monotonic() >= self._again_s:
                    self._try(self._catch_up)
            else:
                self._try(lambda: self._insert(event))

    def _try(self, act: Callable[[], None]) -> None:
        """Do something with the database; where that fails, leave it alone for a while."""
        try:
            act()
            self.problem = ""
        except (SQLAlchemyError, ModuleNotFoundError, ValueError) as error:
            self.problem = f"the index does not answer: {_short(error)}"
            self._is_behind, self._again_s = True, time.monotonic() + AGAIN_S

    def _insert(self, event: Mapping[str, object]) -> None:
        if self._engine is not None:
            with self._engine.begin() as connection:
                connection.execute(insert(_EVENTS), [_row(event)])

    def _catch_up(self) -> None:
        """Make the tables where they are missing, and take in what only the files have."""
        if self._engine is None:
            self._engine = create_engine(self._url, pool_pre_ping=True, connect_args=self._limits())
        _META.create_all(self._engine)
        rows = [_row(each) for each in self._history()]
        with self._engine.begin() as connection:
            if connection.scalar(select(_ABOUT.c.version)) != VERSION:
                connection.execute(delete(_EVENTS))
                connection.execute(delete(_ABOUT))
                connection.execute(insert(_ABOUT), [{"version": VERSION}])
            oldest_ms = min((each["at_ms"] for each in rows), default=0)
            asked = select(_EVENTS.c.document).where(_EVENTS.c.at_ms >= oldest_ms)
            known = set(connection.scalars(asked))
            missing = [each for each in rows if each["document"] not in known]
            if missing:
                connection.execute(insert(_EVENTS), missing)
        self._is_behind = False

    def find(self, question: EventQuestion) -> list[dict[str, object]]:
        """Return events, the newest first. Raises ServerRefused where it does not answer."""
        asked = _where(select(_EVENTS.c.document), question)
        asked = asked.order_by(_EVENTS.c.at_ms.desc(), _EVENTS.c.id.desc()).limit(question.limit)
        return [json.loads(text) for text in self._ask(asked)]

    def count(self) -> int:
        """Return how many events it has. Raises ServerRefused where it does not answer."""
        return int(str(self._ask(select(func.count()).select_from(_EVENTS))[0]))

    def _ask(self, question: "Select[Any]") -> Sequence[str]:
        if self._engine is None:
            raise self._silent()
        try:
            with self._engine.connect() as connection:
                return [str(value) for value in connection.scalars(question)]
        except SQLAlchemyError as error:
            self.problem = f"the index does not answer: {_short(error)}"
            raise self._silent() from None

    def _silent(self) -> ServerRefused:
        return ServerRefused(
            self.problem or "the index is closed",
            hint="GET /api/events has the newest; the index takes in what it has missed once it "
            "answers",
        )

    def _history(self) -> list[dict[str, object]]:
        """Return the events that the files have, the oldest first."""
        path = self._files.happened
        older = [path.with_name(f"{path.name}.{number}") for number in range(9, 0, -1)]
        return [event for each in (*older, path) for event in read_lines(each, 1 << 30)]

    def _limits(self) -> dict[str, object]:
        if self._url.startswith("sqlite"):
            return {"timeout": ANSWER_S, "check_same_thread": False}
        return {"connect_timeout": ANSWER_S, "options": f"-c statement_timeout={ANSWER_S}s"}


def _where(asked: "Select[tuple[str]]", question: EventQuestion) -> "Select[tuple[str]]":
    if question.job is not None:
        asked = asked.where(_EVENTS.c.job == question.job)
    if question.event is not None:
        asked = asked.where(_EVENTS.c.event == question.event)
    if question.since_ms is not None:
        asked = asked.where(_EVENTS.c.at_ms >= question.since_ms)
    if question.until_ms is not None:
        asked = asked.where(_EVENTS.c.at_ms < question.until_ms)
    return asked


def _row(event: Mapping[str, object]) -> dict[str, Any]:
    at_ms = event.get("at_ms")
    return {
        "at_ms": at_ms if isinstance(at_ms, int) else 0,
        "job": str(event.get("job", ""))[:100],
        "event": str(event.get("event", ""))[:40],
        "document": json.dumps(event, default=str),
    }


def _short(error: Exception) -> str:
    """Return what went wrong, without what may be a password in an address."""
    return type(error).__name__
