"""What the logs say was published: success files, and the partitions of a catalog.

What it is: `Published`, which takes the entries of all slices, oldest first.
What it promises: pure. It computes by itself and does not lean on the fold. What is still deferred,
or whose entry is not closed, is not published yet.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ashore.log import names
from ashore.log.effects import Action, Closing, DeferredAction, HasEffects
from ashore.log.entries import Define, Entry, Migrate, Open, Prepare, Reland, Retire, Rollback, Seal
from ashore.log.files import PartitionKey
from ashore.log.names import SliceName
from ashore.log.query_history import tables_in
from ashore.log.tables import TableDefinition


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
        """Return whether a catalog still lacks a partition."""
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
                for gone in body.partitions:
                    self.registered.discard((gone.table, gone.partition))
                    path = names.join(names.table_path(gone.table), gone.partition)
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
