"""Which topics of a job wait for one that cannot be landed.

What it is: `find_waiting` and its sentence, and `naming_waiting`, which adds that to an error. An
error of the lake that has a path below a table gets the names of the table and of its topics too.
What it promises: the batches of a job are of all its topics, so one topic or table that stops them
stops every other one. The error, the status and the pages show both: which one it is, and
which wait. A view that compares texts finds the same one everywhere.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ashore.errors import (
    AnswerUnknown,
    AshoreError,
    BatchFailed,
    NotApplied,
    SourceError,
    Stopped,
    StorageError,
)
from ashore.log.names import table_path
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX

TOPICS_SHOWN = 5

_STREAM_FIELDS = ("stream", "streams", "topic", "topics")
_TABLE_FIELDS = ("table", "tables")
_PATH_FIELDS = ("path", "paths")
_TABLE_PATH = re.compile(r"(?<![\w./-])(\w+)\.db/(\w+)(?=[/:,;\s]|$)")  # as `table_path` writes it
_OF_LAKE = (AnswerUnknown, NotApplied)  # it is away: a path in them says nothing of a table


def show_waiting(waiting: Sequence[str]) -> str:
    """Return the end of a sentence about a topic that cannot be landed; empty: none waits."""
    if not waiting:
        return ""
    shown = ", ".join(waiting[:TOPICS_SHOWN])
    more = len(waiting) - TOPICS_SHOWN
    return f"; the other topics wait for it: {shown}{f' and {more:,} more' if more > 0 else ''}"


def find_waiting(error: AshoreError, tables: Mapping[str, str]) -> list[str]:
    """Return the topics that wait for the topics or tables that an error names; it names none: [].

    `tables`: of each topic of the job.
    """
    if not isinstance(error, Stopped | SourceError) and not find_stored(error, tables):
        return []  # of the lake, or of all topics
    named = _values(error, _STREAM_FIELDS)
    if not named:
        places, paths = _values(error, _TABLE_FIELDS), _values(error, _PATH_FIELDS)
        named = {topic for topic, table in tables.items() if _is_named(table, places, paths)}
    return sorted(tables.keys() - named) if named & tables.keys() else []


def find_stored(error: AshoreError, tables: Mapping[str, str]) -> list[str]:
    """Return the topics whose tables a failed storage call was for; the lake is away: [].

    `tables`: of each topic of the job.
    """
    if not isinstance(error, StorageError | BatchFailed) or isinstance(error, _OF_LAKE):
        return []
    texts = [error.message, *_values(error, _PATH_FIELDS)]
    found = {f"{each[1]}.{each[2]}" for text in texts for each in _TABLE_PATH.finditer(text)}
    mains = {name.removesuffix(DEAD_SUFFIX).removesuffix(LATE_SUFFIX) for name in found}
    return sorted(topic for topic, table in tables.items() if table in found | mains)


def _name_stored(error: AshoreError, topics: Sequence[str], tables: Mapping[str, str]) -> None:
    """Add the tables that a failed storage call was for to its error, with their topics."""
    named = sorted({tables[topic] for topic in topics})
    shown = ", ".join(topics[:TOPICS_SHOWN])
    more = len(topics) - TOPICS_SHOWN
    more_shown = f" and {more:,} more" if more > 0 else ""
    error.message += f" (table {', '.join(named[:TOPICS_SHOWN])} of topic {shown}{more_shown})"
    error.args = (error.message,)
    error.fields.update(tables=named, topics=list(topics))


@contextmanager
def naming_waiting(tables: Mapping[str, str]) -> Iterator[None]:
    """Add to an error that names topics or tables which others wait, once.

    `tables`: of each topic of the job, as it is when the error is raised.
    """
    try:
        yield
    except AshoreError as error:
        stored = [] if "topics" in error.fields else find_stored(error, tables)
        if stored:
            _name_stored(error, stored, tables)
        waiting = [] if "waiting" in error.fields else find_waiting(error, tables)
        if waiting:
            error.message += show_waiting(waiting)
            error.args = (error.message,)
            error.fields["waiting"] = waiting
        raise


def _values(error: AshoreError, names: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        value = error.fields.get(name)
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, list | tuple):
            found.update(str(each) for each in value)
    return found


def _is_named(table: str, places: set[str], paths: set[str]) -> bool:
    own = [table, f"{table}{DEAD_SUFFIX}", f"{table}{LATE_SUFFIX}"]
    roots = tuple(f"{table_path(each)}/" for each in own)
    return not places.isdisjoint(own) or any(path.startswith(roots) for path in paths)
