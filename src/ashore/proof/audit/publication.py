"""What the logs say was published, and what readers are shown: success files, a catalog.

What it is: `Published`, which takes the entries of all slices, oldest first; `judge_success` and
`judge_catalog`; `CatalogLook`, which asks a catalog.
What it promises: pure but for that; computed apart from the fold. What is still deferred, or whose
entry is not closed, is not published yet.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ashore.log import names
from ashore.log.entries import Define, Entry, Migrate, Open, Prepare, Reland, Retire, Rollback, Seal
from ashore.log.files import PartitionKey
from ashore.log.fold import Action, Closing, DeferredAction, HasEffects
from ashore.log.names import SliceName
from ashore.log.query_history import tables_in
from ashore.log.store.effects import success_content
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX, TableDefinition
from ashore.proof.audit.judge import Observation
from ashore.proof.evidence.result import Problem, ProblemKind
from ashore.tables.catalog import Catalog, CatalogPartition, CatalogTable, CatalogTableSeen
from ashore.tables.names import parse_partition_path, partition_path
from ashore.topics.loop.registrar import TableShape


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """A success file that must be there."""

    slice: str
    entry: int  # that says so
    seal: DeferredAction

    @property
    def path(self) -> str:
        """Where it lies."""
        directory = names.join(names.table_path(self.seal.table), self.seal.partition)
        return names.join(directory, names.success_name(self.seal.version))


@dataclass(slots=True)
class _Open:
    """What one slice has not fully published."""

    deferred: dict[str, DeferredAction] = field(default_factory=dict)
    unclosed: HasEffects | None = None

    def is_deferred(self, table: str, partition: str) -> bool:
        return any(
            each.action == Action.REGISTER and (each.table, each.partition) == (table, partition)
            for each in self.deferred.values()
        )


class Published:
    """Of all slices of a job, as far as entries were taken. Used by one thread."""

    def __init__(self) -> None:
        self.registered: set[PartitionKey] = set()
        self.filled: set[PartitionKey] = set()  # that ever had a file, retired ones too
        self.definitions: dict[str, TableDefinition] = {}
        self._success: dict[str, dict[str, SuccessFile]] = defaultdict(dict)  # directory, path
        self._slices: dict[str, _Open] = defaultdict(_Open)

    def success_files(self, directory: str) -> tuple[SuccessFile, ...]:
        """Return the success files that must be in a directory."""
        return tuple(self._success[directory].values()) if directory in self._success else ()

    def take(self, name: SliceName, entry: Entry) -> None:
        """Take the next entry of a slice."""
        state, body = self._slices[name.slice], entry.body
        if entry.closing is not None and not isinstance(body, Open):
            self._close(name.slice, entry, entry.closing)
        if isinstance(body, HasEffects):
            state.unclosed = body
        match body:
            case Define() | Migrate() | Rollback():
                self.definitions |= {each.table: each for each in tables_in(body)}
            case Prepare() | Reland():
                self.filled |= {target.key for target in body.targets}
            case Retire():
                for key in body.partitions:
                    self.registered.discard((key.table, key.partition))
                    path = names.join(names.table_path(key.table), key.partition)
                    self._success.pop(path, None)
            case _:
                pass

    def _close(self, slice_name: str, entry: Entry, closing: Closing) -> None:
        state = self._slices[slice_name]
        done = [state.deferred.pop(each) for each in closing.done if each in state.deferred]
        state.deferred |= {each.id: each for each in closing.deferred}
        if closing.entry is not None:
            done += (each for each in _effects_of(state, closing) if each.id not in state.deferred)
            state.unclosed = None
        for each in done:
            if each.action == Action.REGISTER:
                self.registered.add((each.table, each.partition))
            if each.action == Action.SUCCESS_FILE:
                found = SuccessFile(slice_name, entry.number, each)
                self._success[names.parent(found.path)][found.path] = found


def _effects_of(state: _Open, closing: Closing) -> Iterator[DeferredAction]:
    """Yield the effects that the closed entry had, but for registrations that are deferred."""
    match state.unclosed:
        case Seal() as seal:
            for action in seal.actions:
                for each in seal.partitions:
                    key = f"{action}:{each.table}:{each.partition}:{each.version}"
                    place = (each.table, each.partition)
                    if action != Action.REGISTER or closing.registered:
                        yield DeferredAction(key, action, *place, each.version, each.rows)
        case Prepare() | Reland() as landed if closing.registered:
            for target in landed.targets:
                if not state.is_deferred(*target.key):
                    yield DeferredAction("", Action.REGISTER, *target.key)
        case _:
            pass


NAMED_MAX = 5  # partitions of a finding


def judge_success(job: str, due: Iterable[SuccessFile], there: Collection[str]) -> Observation:
    """Say which success files of a directory are gone. `there`: the paths that it has."""
    return Observation(
        tuple(
            Problem(
                ProblemKind.SUCCESS_FILE_MISSING,
                each.seal.table,
                each.path,
                "the log says that it was written, but it no longer exists: whatever waits for it "
                "does not see that the partition is complete. Create it with this line: "
                + success_content(job, each.seal).decode().rstrip(),
            )
            for each in due
            if each.path not in there
        )
    )


def judge_catalog(
    table: CatalogTable,
    seen: CatalogTableSeen | None,
    registered: Collection[str],
    filled: Collection[str],
) -> Iterator[Problem]:
    """Yield how a catalog differs from what the log says was published to it.

    Partitions are `registered` as the log says, and `filled` where files are, or were.
    """
    name = table.full_name
    due = {CatalogPartition(each).values: each for each in registered if each}
    if seen is None:
        text = "the table is not in the catalog. Start the job again, which creates it"
        repair = f"; then run MSCK REPAIR TABLE {name}" if due else ""
        yield Problem(ProblemKind.CATALOG_TABLE, name, name, text + repair)
        return
    if seen.differences:
        text = f"the table in the catalog differs from the log: {'; '.join(seen.differences)}. "
        text += "Change it back there; a start of the job adds missing columns"
        yield Problem(ProblemKind.CATALOG_TABLE, name, name, text)
    lacking = sorted(path for values, path in due.items() if values not in seen.partitions)
    if lacking:
        text = f"not in the catalog: {_some(lacking)}; run MSCK REPAIR TABLE {name}"
        yield Problem(ProblemKind.CATALOG_LACKS, name, name, text)
    known = {CatalogPartition(each).values for each in filled if each}
    columns = table.partition_columns.names
    extra = sorted(partition_path(columns, each) for each in seen.partitions - known)
    if extra:
        text = f"the catalog has {_some(extra)}, where this job has never written a file: run "
        text += f"ALTER TABLE {name} DROP PARTITION {_spec(extra[0])}"
        yield Problem(ProblemKind.CATALOG_EXTRA, name, name, text)
    for partition, location in seen.elsewhere.items():
        if partition.path in registered:
            home = f"{table.location}/{partition.path}"
            text = f"the catalog has it at {location}, but its files are at {home}: run "
            text += f"ALTER TABLE {name} PARTITION {_spec(partition.path)} SET LOCATION '{home}'"
            yield Problem(ProblemKind.CATALOG_ELSEWHERE, name, f"{name} {partition.path}", text)


def _some(partitions: Sequence[str]) -> str:
    named = ", ".join(partitions[:NAMED_MAX])
    more = len(partitions) - NAMED_MAX
    return named if more <= 0 else f"{len(partitions):,} partitions ({named} and {more:,} more)"


def _spec(partition: str) -> str:
    """Return a partition as SQL names it: `(date='2026-11-21', hour='08')`."""
    pairs = parse_partition_path(partition)
    doubled = ((column, value.replace("'", "''")) for column, value in pairs)
    quoted = (f"{column}='{value}'" for column, value in doubled)
    return f"({', '.join(quoted)})"


class CatalogLook:
    """What a catalog has of a job's tables, against what the log says. Used by one thread."""

    def __init__(self, catalog: Catalog, lake: str, job: str) -> None:
        self._catalog = catalog
        self._lake = lake
        self._job = job
        self._next: dict[str, int] = defaultdict(int)  # whose turn it is to be located
        self._elsewhere: dict[str, dict[CatalogPartition, str]] = defaultdict(dict)
        self._seen: list[tuple[CatalogTable, CatalogTableSeen | None]] = []
        self._before: Mapping[str, set[str]] = {}

    def look(self, published: Published, count: int | None) -> None:
        """Ask about each table that the log defines and says to be registered.

        Comes before the log is read once more, and `judge`. Raises CatalogError.

        Arguments:
            published: what the log says.
            count: how many partitions of a table are located, others in the next look; None: all.

        """
        self._seen = []
        self._before = by_table(published.registered)
        for name, partitions in sorted(self._before.items()):
            table = self._find_table(name, published.definitions)
            if table is not None:
                turn = self._take_turn(name, sorted(each for each in partitions if each), count)
                seen = self._catalog.observe(table, turn)
                self._seen.append((table, seen and self._remember(name, turn, seen)))

    def judge(
        self, published: Published, adopted: Iterable[PartitionKey]
    ) -> Iterator[tuple[str, Observation]]:
        """Yield what is to be said of each table that was looked at.

        `adopted`: partitions that have files of another writer.
        """
        after, filled = by_table(published.registered), by_table((*published.filled, *adopted))
        for table, seen in self._seen:
            name = table.full_name
            due = self._before[name] & after.get(name, set())  # not those retired meanwhile
            if not due:
                yield name, Observation()
                continue
            yield name, Observation(tuple(judge_catalog(table, seen, due, filled[name])))

    def _find_table(
        self, name: str, definitions: Mapping[str, TableDefinition]
    ) -> CatalogTable | None:
        """Return a table of the log; None: an older release wrote it, which defined none."""
        for suffix in ("", LATE_SUFFIX, DEAD_SUFFIX):
            definition = definitions.get(name.removesuffix(suffix))
            if definition is not None and name.endswith(suffix):
                return TableShape.of(definition).catalog_table(suffix, self._lake, self._job)
        return None

    def _take_turn(
        self, name: str, partitions: list[str], count: int | None
    ) -> list[CatalogPartition]:
        start, count = self._next[name], len(partitions) if count is None else count
        turn = partitions[start : start + count]
        self._next[name] = start + count if start + count < len(partitions) else 0
        return [CatalogPartition(each) for each in turn]

    def _remember(
        self, name: str, turn: Sequence[CatalogPartition], seen: CatalogTableSeen
    ) -> CatalogTableSeen:
        """Return what was seen, with the places that were found in earlier turns."""
        known = self._elsewhere[name]
        for each in turn:
            known.pop(each, None)
        known.update(seen.elsewhere)
        return replace(
            seen,
            elsewhere={each: at for each, at in known.items() if each.values in seen.partitions},
        )


def by_table(keys: Iterable[PartitionKey]) -> dict[str, set[str]]:
    """Return partitions by their table."""
    found: dict[str, set[str]] = defaultdict(set)
    for table, partition in keys:
        found[table].add(partition)
    return found
