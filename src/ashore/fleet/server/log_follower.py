"""Following the landing logs of jobs, to report seals and changes of tables.

What it is: `LogFollower`, which remembers how far it has read each log, and `notices_of`.
What it promises: each seal and each change of a table is reported once its entry is in the log,
also if the job, this server or both were dead meanwhile: how far a log was read is kept, and moves
past an entry only when what it says was taken. So one may be reported twice, with the same id, and
none is left out. What was there before the server knew the job is not reported, and neither is what
came before the file of that was damaged or deleted.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ashore.base.clock import Clock
from ashore.fleet.records.journal import Happened
from ashore.fleet.records.server_files import ServerFiles
from ashore.fleet.records.store import read_record, write_record
from ashore.log.entries import Define, Entry, Migrate, Rollback, Seal
from ashore.log.names import SliceName
from ashore.log.query_history import tables_in
from ashore.log.store.reader import read_history, read_log
from ashore.log.store.walk import read_window
from ashore.log.tables import TableDefinition
from ashore.storage.base import Storage
from ashore.topics.loop.definitions import plan_define
from ashore.topics.open_job import OpenJob

ENTRIES_MAX = 200  # of a log, read at once; the rest follows with the next look
PARTITIONS_MAX = 500  # that one notice lists
KEPT_EVERY = 1_000  # entries: a restart reads again what came since

Known = Mapping[str, TableDefinition]


@dataclass(frozen=True, slots=True)
class Followed:
    """How far the logs of a job were read, as a file keeps it.

    Arguments:
        lake: that they are on.
        since_ms: of logs that are not in `read`, entries count from then on.
        read: the last entry that was read of each slice.

    """

    lake: str
    since_ms: int
    read: tuple[tuple[str, int], ...] = ()


def notices_of(entry: Entry, part: str, known: Known) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the reports of an entry: `sealed` or `schema`, and its fields.

    Arguments:
        entry: of the log of a slice.
        part: that slice.
        known: the tables as they were defined before.

    """
    at = {"slice": part, "entry": entry.number}
    match entry.body:
        case Seal() as seal:
            for table in sorted({each.table for each in seal.partitions}):
                found = [
                    {"partition": each.partition, "version": each.version, "rows": each.rows}
                    for each in seal.partitions
                    if each.table == table
                ]
                for start in range(0, len(found), PARTITIONS_MAX):
                    listed = found[start : start + PARTITIONS_MAX]
                    yield "sealed", {**at, "table": table, "partitions": listed}
        case (Define() | Migrate() | Rollback()) as body if defined := tables_in(body):
            tables = [each.table for each in defined]
            yield (
                "schema",
                {
                    **at,
                    "tables": tables,
                    "new": [each for each in tables if each not in known],
                    "changes": _changes_of(body, known),
                    "accepted_by": body.by,
                },
            )


def _changes_of(body: Define | Migrate | Rollback, known: Known) -> list[str]:
    """Return what an entry changes in tables, in words. `known`: as they were before."""
    if isinstance(body, Define) and (body.changes or body.accepted):
        return [*body.changes, *body.accepted]
    tables = {**known, **{each.table: each for each in tables_in(body)}}
    plan = plan_define(known, tables.values())
    return [*plan.notes, *(f"{table}: {each.text}" for table, each in plan.changes)]


@dataclass
class _Following:
    """How far a job was read, and what of it is in the file."""

    job: str
    lake: str
    since_ms: int
    read: dict[str, int]
    kept: dict[str, int]
    known: dict[str, dict[str, TableDefinition]] = field(default_factory=dict)  # by slice
    has_reported: bool = False  # since the file was written


class LogFollower:
    """Reads logs on. Jobs may be followed at once, each by one thread at a time.

    Arguments:
        files: of the server.
        take: is given what was found; False: it is not kept, and comes again.
        clock: of this machine.

    """

    def __init__(self, files: ServerFiles, take: Callable[[Happened], bool], clock: Clock) -> None:
        self._files = files
        self._take = take
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, _Following] = {}

    def follow(self, job: str, opened: OpenJob) -> None:
        """Read on what was appended. Raises AshoreError of the lake, OSError: call it again."""
        following = self._following(job, str(opened.job.lake))
        try:
            for name in opened.slices:
                self._read_on(following, opened, name)
        finally:
            self._keep(following)

    def _following(self, job: str, lake: str) -> _Following:
        """Return how far a job was read. One that is new here counts from now on."""
        with self._lock:
            found = self._jobs.get(job)
        if found is None or found.lake != lake:
            path = self._files.run_of(job).followed
            place = read_record(Followed, path)
            if place is None or place.lake != lake:
                place = Followed(lake, self._clock.now_ms())
                path.parent.mkdir(parents=True, exist_ok=True)
                write_record(path, place)
            read = dict(place.read)
            found = _Following(job, lake, place.since_ms, read, dict(read))
            with self._lock:
                self._jobs[job] = found
        return found

    def _read_on(self, following: _Following, opened: OpenJob, name: SliceName) -> None:
        part, storage, latest = name.slice, opened.storage, opened.fold(name).end
        last = following.read.get(part)
        if last is not None and last > latest:
            last = None  # another log has its place
            following.known.pop(part, None)
        if last is None:
            last = _last_before(storage, name, latest, following.since_ms)
            following.read[part] = last
        for start in range(last + 1, latest + 1, ENTRIES_MAX):
            stop = min(latest + 1, start + ENTRIES_MAX)
            entries = read_window(storage, name, start, stop)
            known = following.known.pop(part, None)
            if known is None:
                known = _known_before(storage, name, stop, entries)
            for entry in entries:
                self._report(following, entry, part, known or {})
                if known is not None:
                    known |= {each.table: each for each in tables_in(entry.body)}
                following.read[part] = entry.number
            following.read[part] = stop - 1
            if known is not None:
                following.known[part] = known

    def _report(self, following: _Following, entry: Entry, part: str, known: Known) -> None:
        for index, (kind, fields) in enumerate(notices_of(entry, part, known)):
            report = {"id": f"{entry.id}-{index}", **fields}
            if not self._take(Happened(kind, following.job, entry.written_ms, report)):
                raise OSError(f"what entry {entry.number} of {part} says cannot be kept")
            following.has_reported = True

    def _keep(self, following: _Following) -> None:
        """Write down how far logs were read, where something was reported, and now and then."""
        moved = [
            at - following.kept.get(part, at - KEPT_EVERY) for part, at in following.read.items()
        ]
        if following.has_reported or any(not 0 <= each < KEPT_EVERY for each in moved):
            read = tuple(sorted(following.read.items()))
            place = Followed(following.lake, following.since_ms, read)
            write_record(self._files.run_of(following.job).followed, place)
            following.kept, following.has_reported = dict(following.read), False


def _last_before(storage: Storage, name: SliceName, latest: int, since_ms: int) -> int:
    """Return the last entry that was written before a time; -1: there is none."""
    stop = latest + 1
    while stop > 0:
        start = max(0, stop - ENTRIES_MAX)
        entries = read_window(storage, name, start, stop)
        early = [each.number for each in entries if each.written_ms < since_ms]
        if early:
            return early[-1]
        stop = start
    return -1


def _known_before(
    storage: Storage, name: SliceName, stop: int, entries: Sequence[Entry]
) -> dict[str, TableDefinition] | None:
    """Return the tables that a log knew before some entries; None: look again with the next ones.

    Where these define none, they are all that it knows, unless some came since.
    """
    if not any(tables_in(each.body) for each in entries):
        fold = read_log(storage, name)
        return dict(fold.tables) if fold.end < stop else None
    known: dict[str, TableDefinition] = {}
    for entry in read_history(storage, name):  # only for a change just after a restart
        if entry.number >= entries[0].number:
            break
        known |= {each.table: each for each in tables_in(entry.body)}
    return known
