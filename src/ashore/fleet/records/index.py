"""The index over a server's history: for questions that a file answers slowly.

What it is: `Index`, tables of events and operations in SQLite, or in PostgreSQL by its URL.
What it promises: files are the truth; the index is made from them, may be deleted at any time, and
is then made again. One thread asks its database: where that does not answer, or is frozen with its
connection open, who reports an event does not wait, and who asks waits `ANSWER_S` at most. What
happened meanwhile is taken from the files once it answers. An answer has every event that was
reported before the question; otherwise it is an error.
"""

import json
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field
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
from ashore.fleet.records.server_files import EVENTS, ServerFiles

T = TypeVar("T")
VERSION = 1  # of the tables: another one is made again
ANSWER_S = 5
WAITING_MAX = 1_000  # events that wait for the database; later ones are read from the files
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


_NO_NUL = r"^[^\x00]*$"


class EventQuestion(BaseModel):
    """Which events are asked for, as a request has it. None: any."""

    model_config = ConfigDict(extra="forbid")

    job: str | None = Field(default=None, max_length=100, pattern=_NO_NUL)
    event: str | None = Field(default=None, max_length=40, pattern=_NO_NUL)
    since_ms: int | None = Field(default=None, ge=0, le=1 << 53)
    until_ms: int | None = Field(default=None, ge=0, le=1 << 53)
    limit: int = Field(default=100, ge=1, le=1000)


class Index:
    """The index of a server. May be used by many threads.

    Arguments:
        files: of the server, which the index is made from.
        url: of the database; by default a file of SQLite's beside them.

    """

    def __init__(self, files: ServerFiles, url: str | None = None) -> None:
        self._files = files
        self._url = url or f"sqlite:///{files.index}"
        self._turns: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="index", daemon=True)
        self._is_open = False
        self._began_s: float | None = None  # when the thread began what it does now
        self._is_short = False  # an event was reported that did not get into the queue
        self._again_s = 0.0  # when the database is asked again
        self.problem = ""  # why it does not answer
        # Of the thread alone:
        self._engine: Engine | None = None
        self._is_behind = True  # the files may have what it has not
        self._read_s = 0.0  # when it read the files, to catch up
        self._newest: frozenset[str] = frozenset()  # documents that it read then

    def open(self) -> bool:
        """Open the index, made again where it is missing; return whether it can be asked."""
        if not self._is_open:
            self._is_open = True
            self._thread.start()
        try:
            return self._wait_for(self._reach)
        except ServerRefused:
            return False

    def close(self) -> None:
        """Close it. A database that is frozen keeps its thread, which ends with the process."""
        if self._is_open:
            self._is_open = False
            self._turns.put(None)
            self._thread.join(0 if self._is_stuck() else ANSWER_S)

    def add(self, event: Mapping[str, object]) -> None:
        """Take an event in, which is in the file already. A failure is a problem, not an error."""
        if self._turns.qsize() < WAITING_MAX:
            self._turns.put(partial(self._take, event, time.monotonic()))
        else:
            self._is_short = True

    def _work(self) -> None:
        while (turn := self._turns.get()) is not None:
            self._began_s = time.monotonic()
            turn()
            self._began_s = None
        if self._engine is not None:
            self._engine.dispose()

    def _is_stuck(self) -> bool:
        began_s = self._began_s
        return began_s is not None and time.monotonic() - began_s > ANSWER_S

    def _wait_for(self, act: Callable[[], T]) -> T:
        """Have the thread do something in its turn. Raises ServerRefused where it fails.

        Where the thread is stuck already, this does not wait: a server has few threads for
        those who ask.
        """
        answer: Future[T] = Future()

        def turn() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(act())
                except Exception as error:  # noqa: BLE001 - for the one who asked
                    answer.set_exception(error)

        failed: Exception = TimeoutError()
        if not self._is_stuck():
            self._turns.put(turn)
            try:
                return answer.result(ANSWER_S)
            except (SQLAlchemyError, TimeoutError) as error:
                answer.cancel()
                failed = error
        self.problem = _describe(failed)
        raise _refused(self.problem)

    def _take(self, event: Mapping[str, object], reported_s: float) -> None:
        if self._reach() and not self._has_read(event, reported_s):
            self._try(partial(self._insert, event))

    def _has_read(self, event: Mapping[str, object], reported_s: float) -> bool:
        """Return whether an event, which waited in the queue, came from the files meanwhile."""
        return reported_s <= self._read_s or json.dumps(event, default=str) in self._newest

    def _reach(self) -> bool:
        """Return whether it has all events so far; where it is behind, try to catch up first."""
        if self._is_short:
            self._is_short, self._is_behind = False, True
        if self._is_behind and time.monotonic() >= self._again_s:
            self._try(self._catch_up)
        return not self._is_behind

    def _try(self, act: Callable[[], None]) -> None:
        """Do something with the database; where that fails, leave it alone for a while."""
        try:
            act()
            self.problem = ""
        except Exception as error:  # noqa: BLE001 - a thread that dies would not be noticed
            self.problem = _describe(error)
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
        read_s = time.monotonic()
        rows = [_row(each) for each in self._files.records.lines(EVENTS, 1 << 30, older=True)]
        with self._engine.begin() as connection:
            if connection.scalar(select(_ABOUT.c.version)) != VERSION:
                connection.execute(delete(_EVENTS))
                connection.execute(delete(_ABOUT))
                connection.execute(insert(_ABOUT), [{"version": VERSION}])
            oldest_ms = min((each["at_ms"] for each in rows), default=0)
            query = select(_EVENTS.c.document).where(_EVENTS.c.at_ms >= oldest_ms)
            known = set(connection.scalars(query))
            missing = [each for each in rows if each["document"] not in known]
            if missing:
                connection.execute(insert(_EVENTS), missing)
        self._is_behind, self._read_s = False, read_s
        self._newest = frozenset(each["document"] for each in rows[-WAITING_MAX:])

    def find(
        self, question: EventQuestion, jobs: Collection[str] | None = None
    ) -> list[dict[str, object]]:
        """Return events, the newest first. Raises ServerRefused where it does not answer.

        `jobs`: of these alone; None: of all.
        """
        query = _where(select(_EVENTS.c.document), question)
        if jobs is not None:
            query = query.where(_EVENTS.c.job.in_(jobs))
        query = query.order_by(_EVENTS.c.at_ms.desc(), _EVENTS.c.id.desc()).limit(question.limit)
        return [json.loads(text) for text in self._ask(query)]

    def count(self) -> int:
        """Return how many events it has. Raises ServerRefused where it does not answer."""
        return int(str(self._ask(select(func.count()).select_from(_EVENTS))[0]))

    def _ask(self, question: "Select[Any]") -> Sequence[str]:
        if not self._is_open:
            raise _refused("the index is closed")
        return self._wait_for(partial(self._read_rows, question))

    def _read_rows(self, question: "Select[Any]") -> Sequence[str]:
        if not self._reach() or self._engine is None:
            raise _refused(self.problem)
        with self._engine.connect() as connection:
            return [str(value) for value in connection.scalars(question)]

    def _limits(self) -> dict[str, object]:
        if self._url.startswith("sqlite"):
            return {"timeout": ANSWER_S}
        return {
            "connect_timeout": ANSWER_S,
            "options": f"-c statement_timeout={ANSWER_S}s",
            # Where its machine is gone: else a question would wait for hours.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        }


def _where(query: "Select[tuple[str]]", question: EventQuestion) -> "Select[tuple[str]]":
    if question.job is not None:
        query = query.where(_EVENTS.c.job == question.job)
    if question.event is not None:
        query = query.where(_EVENTS.c.event == question.event)
    if question.since_ms is not None:
        query = query.where(_EVENTS.c.at_ms >= question.since_ms)
    if question.until_ms is not None:
        query = query.where(_EVENTS.c.at_ms < question.until_ms)
    return query


def _row(event: Mapping[str, object]) -> dict[str, Any]:
    at_ms = event.get("at_ms")
    return {
        "at_ms": at_ms if isinstance(at_ms, int) else 0,
        "job": str(event.get("job", ""))[:100],
        "event": str(event.get("event", ""))[:40],
        "document": json.dumps(event, default=str),
    }


def _describe(error: Exception) -> str:
    """Say what went wrong, without what may be a password in an address."""
    return f"the index does not answer: {type(error).__name__}"


def _refused(problem: str) -> ServerRefused:
    return ServerRefused(
        problem,
        hint="GET /api/events has the newest; the index takes in what it has missed once it "
        "answers",
    )
