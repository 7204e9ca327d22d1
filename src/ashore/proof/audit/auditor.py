"""The auditor: looks at a job's log, its source and its lake, once or each interval.

What it is: `Auditor.tick`: the log; the source's offsets; listings; the log again, so that a
running job raises no false alarm; then proofs of entries, and the round that reads files again.
What it promises: reads only, holds nothing open. New entries are proven in the interval that sees
them; everything else is bounded. A lake or a source that is away is counted; findings stay.
"""

import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, islice

from ashore.errors import CallsHang, CatalogError, LogDamaged, SourceError, StorageError
from ashore.log import names
from ashore.log.lost_end import Trace
from ashore.log.names import SliceName
from ashore.log.positions import ShardKey
from ashore.log.store.traces import find_traces
from ashore.proof.audit.judge import (
    ActivityWatch,
    Book,
    Listing,
    LogProgress,
    Observation,
    ShardLog,
    SourceAnswers,
    Subject,
    judge_source,
    split_listing,
    state_file,
)
from ashore.proof.audit.proof import Claim, Proof, claim_only, prove
from ashore.proof.audit.publication import CatalogLook, Published, SuccessFile, judge_success
from ashore.proof.audit.result import ONE_PASS, Activity, AuditReport, Away, Gauge, Pace
from ashore.proof.audit.scope import ListingRound, ReadingRound, WatchedFiles
from ashore.proof.evidence.adopted_files import read_adopted
from ashore.proof.evidence.ledger import Ledger, LoggedFile, Part
from ashore.proof.evidence.log_reading import LogReading
from ashore.proof.evidence.lost_logs import count_waiting, judge_log, read_current, slices_of
from ashore.proof.evidence.result import Problem, ProblemKind, Progress, quiet
from ashore.proof.evidence.stored_files import FileLook, look_at_file
from ashore.proof.verify.verdict import judge_orphan
from ashore.storage.base import FileStat
from ashore.tables.catalog import Catalog
from ashore.tables.readable import LISTING_THREADS
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.joins import Histories, history_truncated
from ashore.topics.open_job import OpenJob

RECENT_MS = 3_600_000  # directories that an entry has filled since are listed every interval
TOGETHER = 100  # old entries that are proven at once: each asks Kafka again
FAILING_AGAIN = 10  # entries with something wrong that are proven again in an interval
CATALOG_EVERY_MS = 60_000  # the catalog is looked at; a metastore has others to answer
SILENT_INTERVALS = 3  # of the job, in which its log should have grown if there is work
SILENT_MS_MIN = 10_000


ClaimKey = tuple[str, int]
"""Slice and number of the entry."""


DAMAGE: Subject = ("log", "damage")
LOSS: Subject = ("log", "lost")


@dataclass(frozen=True, slots=True)
class _Due:
    """Which files must be at their final places, by what the log said before the listings."""

    unclosed: Mapping[str, int]
    ends: Mapping[str, int]

    def has(self, file: LoggedFile) -> bool:
        is_known = file.listed <= self.ends.get(file.slice, -1)
        return is_known and self.unclosed.get(file.slice) != file.listed

    def is_published(self, file: SuccessFile) -> bool:
        return file.entry <= self.ends.get(file.slice, -1)


@dataclass(slots=True)
class _Budget:
    """Bytes that may be read, and until when. None: no bound."""

    size_bytes: int | None
    until_s: float
    now_s: Callable[[], float]

    def is_left(self) -> bool:
        return self.size_bytes is None or (self.size_bytes > 0 and self.now_s() < self.until_s)

    def spend(self, size_bytes: int) -> None:
        if self.size_bytes is not None:
            self.size_bytes -= size_bytes


class Auditor:
    """Follows one job. Used by one thread."""

    def __init__(
        self,
        opened: OpenJob,
        pace: Pace,
        progress: Progress = quiet,
        catalog: Catalog | None = None,
    ) -> None:
        opened.refuse_snapshots("ashore audit")
        self._opened = opened
        self._storage = opened.storage
        self._clock = opened.clock
        self._pace = pace
        self._progress = progress
        self._published = Published()
        self._log = LogReading(opened.storage, opened.job.job, progress, self._published.take)
        self._ledger: Ledger = self._log.builder.drain()
        self._book = Book()
        self._watched = WatchedFiles()
        self._adopted: set[str] = set()  # files that another writer had put there before
        self._filled_ms: dict[str, int] = {}  # directory: when an entry put a file there last
        self._new: dict[ClaimKey, Claim] = {}  # seen in this interval
        self._old: dict[ClaimKey, Claim] = {}  # there before the auditor was
        self._waiting: dict[ClaimKey, Claim] = {}  # for the source
        self._failing: dict[ClaimKey, Claim] = {}
        self._listing = ListingRound()
        self._reading = ReadingRound(pace.round_every_s, opened.clock.now_ms())
        self._kafka = self._lake = self._away = Away(0, None, None)
        lake = lake_of(opened.job).uri
        self._catalog = CatalogLook(catalog, lake, opened.job.job) if catalog else None
        self._catalog_due_ms = 0
        silent_ms = SILENT_INTERVALS * opened.job.batch.interval_ms
        self._activity = ActivityWatch(max(silent_ms, SILENT_MS_MIN))
        self._lag: int | None = None
        self._histories = Histories(opened.source)
        self._tables: dict[SliceName, set[str]] | None = None  # that slices fill
        self._ticks = 0
        self._has_history = False  # the log was read to its end once

    def tick(self) -> AuditReport:
        """Look once. With ONE_PASS everything; a StorageError is raised then."""
        self._ticks += 1
        failed: str | None = None
        try:
            self._look()
        except CallsHang:
            raise
        except StorageError as error:
            if self._pace is ONE_PASS:
                raise
            failed = error.message
        now_ms = self._clock.now_ms()
        self._lake = self._lake.after(failed, now_ms)
        raised, cleared = self._book.turn(now_ms)
        claims = (self._new, self._old, self._waiting)
        return AuditReport(
            job=self._opened.job.job,
            tick=self._ticks,
            now_ms=now_ms,
            gauge=Gauge(self._lag, self._book.unaccounted, self._book.unprovable),
            entries={each.slice: each.entries for each in self._log.slices(self._ledger)},
            unproven=sum(len(each) for each in claims),
            raised=raised,
            cleared=cleared,
            findings=self._book.findings,
            listing=self._listing.state,
            reading=self._reading.state,
            kafka=self._kafka,
            lake=self._lake,
            catalog=self._away,
            activity=self._look_for_job(now_ms),
        )

    def _look_for_job(self, now_ms: int) -> Activity:
        if self._lake.since_ms is not None:
            return self._activity.look_away(self._log.last_written_ms)
        entries = sum(each.entries for each in self._log.slices(self._ledger))
        seen = LogProgress(entries, self._log.last_written_ms, bool(self._ledger.unclosed))
        return self._activity.look(seen, self._lag, now_ms)

    def _look(self) -> None:
        traces = self._find_traces()
        self._read_log()
        self._judge_loss(traces)
        ends = {each.slice: each.end for each in self._log.slices(self._ledger)}
        before, due = self._log.builder.positions(), _Due(self._ledger.unclosed, ends)
        seen = self._ask_source(before)
        listings = self._list()
        is_catalog_seen = self._look_at_catalog()
        self._read_log()
        if seen is not None:
            statement, self._lag = judge_source(self._shards(), seen)
            if not any(each.entries for each in self._log.slices(self._ledger)):
                self._lag = count_waiting(self._opened)  # nothing has joined yet: all of it waits
            self._book.say(("source", ""), statement)
        for directory, listing in listings.items():
            self._judge_directory(directory, listing.files, due)
            published = filter(due.is_published, self._published.success_files(directory))
            statement = judge_success(self._opened.job.job, published, listing.success)
            self._book.say(("success", directory), statement)
        if is_catalog_seen:
            self._judge_catalog()
        self._prove_claims()
        self._read_again(due)

    # ---- the log

    def _find_traces(self) -> dict[SliceName, list[Trace]]:
        """Return what slices have left in their tables. Comes before the log is read."""
        with contextlib.suppress(LogDamaged):  # it is reported where the log is read
            if self._tables is None:  # which topics there are is asked for once: the log has others
                slices = slices_of(self._opened)
                self._tables = {name: set(self._opened.tables(name)) for name in slices}
            self._tables[self._opened.name] |= self._ledger.table_of.keys()
            return {
                name: find_traces(self._storage, name, tables)
                for name, tables in self._tables.items()
            }
        return {}

    def _judge_loss(self, traces: Mapping[SliceName, Sequence[Trace]]) -> None:
        if self._book.has(DAMAGE):
            return
        errors = {name: judge_log(name, self._log.end(name), traces[name]) for name in traces}
        problems = [
            Problem(ProblemKind.LOG_LOST, "", names.log_directory(name), error.message)
            for name, error in errors.items()
            if error is not None
        ]
        self._book.say(LOSS, Observation(tuple(problems)))

    @contextlib.contextmanager
    def _damage_of(self, subject: Subject) -> Iterator[None]:
        problems: tuple[Problem, ...] = ()
        try:
            yield
        except LogDamaged as error:
            path = str(error.fields.get("path", ""))
            problems = (Problem(ProblemKind.LOG_DAMAGED, "", path, error.message),)
        self._book.say(subject, Observation(problems))

    def _read_log(self) -> None:
        with self._damage_of(DAMAGE):
            self._log.read_on()
        self._ledger = self._log.builder.drain()
        self._take(self._ledger)
        self._has_history = True

    def _take(self, ledger: Ledger) -> None:
        ranges = [each for each in ledger.problems if each.kind is ProblemKind.RANGES]
        others = [each for each in ledger.problems if each.kind is not ProblemKind.RANGES]
        seams = self._log.builder.find_seams()
        offsets = sum(abs(seam.found - seam.expected) for seam in seams)
        self._book.say(("log", "ranges"), Observation(tuple(ranges), offsets))
        self._book.add(("log", "entries"), others)
        claims = self._new if self._has_history else self._old
        parts: dict[ClaimKey, list[Part]] = {}
        for part in ledger.parts:
            key = (part.key.slice, part.key.entry)
            parts.setdefault(key, []).append(part)
        for key, added in parts.items():
            claims.setdefault(key, Claim(*key)).parts.add(added)
        every = chain(ledger.files, ledger.excused_files)
        for key, group in groupby(every, lambda file: (file.slice, file.entry)):
            listed = list(group)
            claim = self._find_claim(key) or claims.setdefault(key, Claim(*key))
            claim.add(listed)
            self._watch(listed)

    def _watch(self, listed: Sequence[LoggedFile]) -> None:
        by_directory: dict[str, list[LoggedFile]] = defaultdict(list)
        for file in listed:
            by_directory[names.parent(file.final)].append(file)
        for directory, files in by_directory.items():
            self._watched.add(directory, files)
            filled_ms = max(file.written_ms for file in files)
            self._filled_ms[directory] = max(self._filled_ms.get(directory, 0), filled_ms)

    def _find_claim(self, key: ClaimKey) -> Claim | None:
        """Return a claim that is not settled yet: what was landed again belongs to it."""
        unsettled = (self._failing, self._waiting, self._old, self._new)
        return next((found for claims in unsettled if (found := claims.get(key))), None)

    def _shards(self) -> Iterator[ShardLog]:
        for key, offset in self._log.builder.positions().items():
            generation, stream_id = self._ledger.generations[key.source, key.stream]
            of_query = names.parse_query_source(key.source)
            source = of_query.source if of_query else key.source
            if key.generation == generation and source == self._opened.source.name:
                table = self._ledger.table_of_shard.get(key, "")
                yield ShardLog(key, stream_id, offset, table, self._log.builder.leaders.get(key))

    # ---- the source

    def _ask_source(self, before: dict[ShardKey, int]) -> SourceAnswers | None:
        source, now_ms = self._opened.source, self._clock.now_ms()
        logged = list(self._shards())
        if not logged:
            return SourceAnswers(before, {}, {}, {})
        try:
            streams, offsets = read_current(
                source, ((each.shard, each.stream_id) for each in logged)
            )
            there = {each.key: offsets[each.shard] for each in logged if each.shard in offsets}
            cut = {
                each.key: history_truncated(each.key, each.next, reason)
                for each, reason in self._histories.find(logged, there).items()
            }
        except SourceError as error:
            self._kafka = self._kafka.after(error.message, now_ms)
            self._lag = None
            return None
        self._kafka = self._kafka.after(None, now_ms)
        return SourceAnswers(before, streams, offsets, cut)

    # ---- the lake

    def _list(self) -> dict[str, Listing]:
        now_ms = self._clock.now_ms()
        roots = {names.table_path(table) for table in self._ledger.table_of}
        self._listing.begin(roots | set(self._watched.directories), now_ms)
        found: dict[str, Listing] = {}
        count = sys.maxsize if self._pace.listings is None else self._pace.listings
        recent = sorted(
            (each for each, ms in self._filled_ms.items() if ms > now_ms - RECENT_MS),
            key=lambda each: -self._filled_ms[each],
        )
        level = recent[:count] or self._listing.take(count)
        with ThreadPoolExecutor(LISTING_THREADS, "ashore-audit") as pool:
            while level:
                try:
                    listings = list(pool.map(self._storage.list, level))
                except StorageError:
                    self._listing.put_back(level)
                    raise
                for directory, stats in zip(level, listings, strict=True):
                    found[directory] = split_listing(stats)
                    self._listing.add(found[directory].below)
                count -= len(level)
                level = [each for each in self._listing.take(max(0, count)) if each not in found]
        self._listing.end(now_ms)
        return found

    def _judge_directory(self, directory: str, there: dict[str, FileStat], due: _Due) -> None:
        known = self._watched.open(directory)
        if not self._book.has(DAMAGE):  # else entries that cannot be read may list them
            left = self._log.builder.has_left
            orphaned = {path for path in there if path not in known or left(known[path].file)}
            if orphaned - self._adopted:
                self._read_adopted()
            table_of = self._ledger.table_of
            orphans = [judge_orphan(each, table_of) for each in sorted(orphaned - self._adopted)]
            self._book.say(("orphans", directory), Observation(tuple(orphans)))
        for path, watched in known.items():
            if self._is_excused(watched.file):
                self._book.say(("file", path), Observation())
            elif due.has(watched.file):
                stat = there.get(path)
                if watched.is_suspect(stat):
                    self._look_at(watched.file)
                watched.see(stat)
            elif path not in there:
                self._find_pending(watched.file)
        self._watched.keep(directory, known.values())

    def _read_adopted(self) -> None:
        with self._damage_of(("log", "adopted")):
            self._adopted = set(read_adopted(self._storage, self._opened.job.job))

    def _find_pending(self, file: LoggedFile) -> None:
        look = look_at_file(self._storage, file, is_in_flight=True, is_read=False)
        if look.path is None:
            self._say_file(file, look)
        elif self._book.has(("file", file.final)):
            self._say_file(file, look_at_file(self._storage, file, is_in_flight=True))

    def _look_at(self, file: LoggedFile) -> None:
        self._say_file(file, look_at_file(self._storage, file, is_in_flight=False))

    def _say_file(self, file: LoggedFile, look: FileLook) -> None:
        is_counted = (file.slice, file.entry) in self._failing
        self._book.say(("file", file.final), state_file(file, look, is_counted=is_counted))

    def _is_excused(self, file: LoggedFile) -> bool:
        return self._log.builder.excuse_of(file) is not None

    # ---- the catalog

    def _look_at_catalog(self) -> bool:
        """Look at what the catalog has, now and then, and return whether that was possible."""
        now_ms = self._clock.now_ms()
        if self._catalog is None or now_ms < self._catalog_due_ms:
            return False
        self._catalog_due_ms = now_ms + (0 if self._pace is ONE_PASS else CATALOG_EVERY_MS)
        error: str | None = None
        try:
            self._catalog.look(self._published, self._pace.listings)
        except CatalogError as raised:
            error = raised.message
        self._away = self._away.after(error, now_ms)
        return error is None

    def _judge_catalog(self) -> None:
        """Say how the catalog differs from the log, which was read once more since the look."""
        if self._catalog is None or self._book.has(DAMAGE):
            return
        self._read_adopted()
        tables = {names.table_path(table): table for table in self._published.definitions}
        adopted = {
            (tables[table], directory.removeprefix(table).strip("/"))
            for directory in map(names.parent, self._adopted)
            for table in tables
            if directory == table or directory.startswith(f"{table}/")
        }
        for table, statement in self._catalog.judge(self._published, adopted):
            self._book.say(("catalog", table), statement)

    # ---- proofs

    def _prove_claims(self) -> None:
        """Prove new entries, then as many of the others as this interval has time for."""
        for key in list(self._new):
            self._prove(self._new, key)
        if self._kafka.since_ms is None:
            for key in list(self._waiting):
                self._prove(self._waiting, key)
        for key in list(self._failing)[:FAILING_AGAIN]:
            self._prove(self._failing, key)
        budget = self._budget()
        while self._old and budget.is_left():
            keys = []
            for key in islice(reversed(self._old), TOGETHER):
                keys.append(key)
                budget.spend(self._old[key].size_bytes)
                if not budget.is_left():
                    break
            self._prove_together(keys)

    def _prove_together(self, keys: list[ClaimKey]) -> None:
        """Prove old entries at once, which is cheap; one by one only if something is amiss."""
        claims = [self._old[key] for key in keys]
        proof = self._proof_of(claims)
        if proof.is_waiting or not proof.is_sound:
            for key in keys:
                self._prove(self._old, key)
            return
        for key in keys:
            del self._old[key]
        self._book.say(("entries", str(claims[0])), proof.entry)

    def _prove(self, claims: dict[ClaimKey, Claim], key: ClaimKey) -> None:
        claim = claims[key]
        proof = self._proof_of([claim])
        del claims[key]
        if proof.is_waiting:
            self._waiting[key] = claim
        elif not proof.is_sound:
            self._failing[key] = claim  # looked at again, until it is mended
        self._book.say(("entry", str(claim)), proof.entry)
        for path, statement in proof.files.items():
            self._book.say(("file", path), statement)

    def _proof_of(self, claims: list[Claim]) -> Proof:
        logged = [file for claim in claims for file in claim.files]
        parts = self._log.builder.excuse_rows((p for c in claims for p in c.parts), logged)
        files = [file for file in logged if not self._is_excused(file)]
        source = self._opened.source if self._kafka.since_ms is None else None
        ledger = claim_only(self._ledger, list(parts), files)
        return prove(self._storage, source, ledger, self._progress)

    # ---- reading again

    def _read_again(self, due: _Due) -> None:
        if self._pace is ONE_PASS or self._old:
            return  # everything is read for the first time
        now_ms = self._clock.now_ms()
        if self._reading.is_due(now_ms):
            self._reading.begin(lambda: filter(due.has, self._watched.files()), now_ms)
        budget = self._budget()
        while budget.is_left() and (file := self._reading.next()) is not None:
            if not self._is_excused(file):
                self._look_at(file)
                budget.spend(file.file.size_bytes)
            self._reading.done(self._clock.now_ms())

    def _budget(self) -> _Budget:
        rate = self._pace.read_bytes_per_s
        if rate is None:
            return _Budget(None, 0.0, self._clock.monotonic_s)
        # A storage that is slower than that must not make the next interval late.
        until_s = self._clock.monotonic_s() + self._pace.interval_s / 2
        return _Budget(round(rate * self._pace.interval_s), until_s, self._clock.monotonic_s)


NAP_S = 0.1  # a stop is noticed within this time


def audit_once(opened: OpenJob, progress: Progress = quiet) -> AuditReport:
    """Look at everything once. Raises StorageError, NotInstalled."""
    with _open_catalog(opened) as catalog:
        return Auditor(opened, ONE_PASS, progress, catalog).tick()


def follow_job(
    opened: OpenJob, pace: Pace, is_stopping: Callable[[], bool]
) -> Iterator[AuditReport]:
    """Yield a report of each interval. Raises CallsHang: this process can look no more."""
    clock = opened.clock
    with _open_catalog(opened) as catalog:
        auditor = Auditor(opened, pace, catalog=catalog)
        while not is_stopping():
            next_s = clock.monotonic_s() + pace.interval_s
            yield auditor.tick()
            while not is_stopping() and (left_s := next_s - clock.monotonic_s()) > 0:
                clock.sleep(min(NAP_S, left_s))


@contextmanager
def _open_catalog(opened: OpenJob) -> Iterator[Catalog | None]:
    with opened.catalog() as catalog:
        yield catalog if opened.job.catalog.hive else None
