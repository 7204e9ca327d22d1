"""The Delta tables of a job.

What it is: `DeltaTables`: makes tables, draws the commits that an entry orders, commits them.
What it promises: a table is compared with the job before anything is written for it, and with the
log before an entry is appended. Every call may be repeated.
"""

import uuid
from collections.abc import Iterable, Mapping

import ashore
from ashore.base.clock import Clock
from ashore.errors import (
    CallsHang,
    CatalogError,
    CatalogUnreachable,
    SchemaConflict,
    StorageError,
    SyncFailed,
    fail,
)
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.log.plan_clean import ListedTable
from ashore.log.plan_commit import CommitTable
from ashore.log.tables import DELTA
from ashore.storage.base import Storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import FieldIds, Schema
from ashore.tables.delta.actions import Action, add_file, lake_path
from ashore.tables.delta.cleaning import find_orphans
from ashore.tables.delta.commit import (
    application,
    is_committed,
    require_history,
    require_no_mark,
    require_same_table,
)
from ashore.tables.delta.replaced_files import find_added, require_files, rewrite_actions
from ashore.tables.delta.schema import (
    find_conflicts,
    find_missing,
    find_unknown,
    new_metadata,
    new_protocol,
    with_columns,
)
from ashore.tables.delta.table_log import TableLog, TableState
from ashore.tables.footers import read_footer
from ashore.tables.readable import RewriteBase, SnapshotFiles
from ashore.tables.table_format import Orphans

ATTEMPTS = 8  # of a commit, while no answer comes
WINNERS_MAX = 1000  # other writers that win before it, one after the other
VERSIONS_READ = 1000  # at most, to see which of them has removed files


class DeltaTables:
    """Used by the threads of a job's slices, one call at a time for each table."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._logs: dict[str, TableLog] = {}
        self._known: dict[str, CatalogTable] = {}

    def ensure(self, tables: Iterable[CatalogTable]) -> None:
        """Create tables, or add the columns that existing ones lack.

        Raises SchemaConflict before anything is changed, where a table contradicts the job;
        StorageError.
        """
        for each in tables:
            if each.full_name not in self._known:
                self._ensure(each)
                self._known[each.full_name] = each

    def field_ids(self) -> dict[str, FieldIds]:
        """Return none: files name their fields by their names."""
        return {}

    def draw(
        self, name: SliceName, tables: Iterable[str], last: Mapping[str, TableCommit]
    ) -> tuple[TableCommit, ...]:
        """See TableFormat. Raises StorageError, and SchemaConflict where a table has changed."""
        drawn = []
        for table in sorted({*tables} & self._known.keys()):
            log, before = self._log(table), last.get(table)
            state = log.read()
            if before is not None:
                state = require_same_table(state, before)
                require_history(log, state, name, before)
            elif state is None:
                raise CatalogError(f"Delta table {table} is gone", hint="start the job again")
            else:
                require_no_mark(state, name, table)
            _require_fit(state, self._known[table])
            drawn.append(TableCommit(table, state.metadata["id"], 0, 0, state.version, DELTA))
        return tuple(drawn)

    def commit(self, name: SliceName, step: CommitTable) -> None:
        """Create the version that an entry orders, unless it is there. May be repeated.

        Raises TableReplaced, TableRolledBack, TableOwned, FileConflict, SchemaConflict;
        StorageError where no answer came for long: whether it has happened is looked up the next
        time. If interrupted: the version is there as a whole, or not at all.
        """
        log = self._log(step.commit.table)
        failures = 0
        for _ in range(WINNERS_MAX):
            try:
                if self._try_commit(log, name, step):
                    return
            except (SyncFailed, CallsHang):
                raise
            except StorageError:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                self._clock.sleep(min(0.05 * 2**failures, 2.0))
        raise CatalogUnreachable(
            f"other writers of {log.table} have won {WINNERS_MAX} times",
            hint="the job tries again; nothing was lost",
        )

    def begin_rewrite(self, name: SliceName, last: TableCommit) -> RewriteBase:
        """See TableFormat. Raises StorageError."""
        log = self._log(last.table)
        state = require_same_table(log.read(), last)
        require_history(log, state, name, last)
        added = find_added(log, state, self._storage)
        refused = "; ".join(find_unknown(state.protocol))
        return RewriteBase(state.version, frozenset(added), state.version, refused)

    def readable(self, table: str) -> SnapshotFiles | None:
        """See TableFormat. None too where there is no such table."""
        log = self._log(table)
        state = log.read()
        if state is None:
            return None
        unknown = "; ".join(find_unknown(state.protocol))
        if unknown:
            raise CatalogError(
                f"Delta table {table} cannot be read by this release: {unknown}",
                hint="read it by another engine",
            )
        root = self._storage.describe().rstrip("/") + "/"
        files = log.files(state)
        sizes = {
            lake_path(table, path, root): int(action["add"]["size"])
            for path, action in files.added.items()
        }
        marks = {app: str(version) for app, version in state.transactions.items()}
        rewritten, begins = _find_rewrite(log, state)
        return SnapshotFiles(sizes, rewritten, marks, begins=begins)

    def find_orphans(self, listed: ListedTable) -> Orphans:
        """See TableFormat. Raises TableOwned and CatalogError too."""
        return find_orphans(TableLog(self._storage, listed.table), listed, self._storage)

    def close(self) -> None:
        """Forget what was read. A later call reads it again."""
        self._logs.clear()

    def _log(self, table: str) -> TableLog:
        return self._logs.setdefault(table, TableLog(self._storage, table))

    def _try_commit(self, log: TableLog, name: SliceName, step: CommitTable) -> bool:
        """Return whether the version of a step is there; False: another writer has won."""
        state = require_same_table(log.read(), step.commit)
        if is_committed(log, state, name, step.commit, step.number):
            return True
        known = self._known.get(log.table)
        if known is not None:
            _require_fit(state, known)
        elif unknown := "; ".join(find_unknown(state.protocol)):
            raise _conflict(log.table, [unknown])
        replaced = require_files(log, state, self._storage, step) if step.replaced else {}
        if not log.create(state.version + 1, self._actions(state, name, step, replaced)):
            return False
        self._write_checkpoint(log)
        return True

    def _write_checkpoint(self, log: TableLog) -> None:
        """Write a checkpoint where it is time for one: the version is there without it too."""
        try:
            state = log.read()
            if state is not None:
                log.checkpoint(state, self._clock.now_ms())
        except (SyncFailed, CallsHang):
            raise
        except (StorageError, CatalogError):
            log.forget()  # the next commit reads what another writer has left, and tries again

    def _actions(
        self, state: TableState, name: SliceName, step: CommitTable, replaced: dict[str, Action]
    ) -> list[Action]:
        now_ms = self._clock.now_ms()
        mark = {"appId": application(name), "version": step.number, "lastUpdated": now_ms}
        own = {"job": name.job, "slice": name.slice, "entry": step.number}
        if replaced:
            actions = rewrite_actions(self._storage, state, step, replaced, now_ms)
            actions[0]["commitInfo"]["ashore"] = own
            return [actions[0], {"txn": mark}, *actions[1:]]
        partitions = {*state.metadata["partitionColumns"]}
        known = self._known.get(step.commit.table)
        columns = known.columns if known else Schema(())
        adds = [
            add_file(place, target, columns, read_footer(self._storage, place), now_ms)
            for place, target in step.files
        ]
        if any({*each["add"]["partitionValues"]} != partitions for each in adds):
            raise _conflict(step.commit.table, ["it is partitioned otherwise than the new files"])
        info = {
            "timestamp": now_ms,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "readVersion": state.version,
            "isBlindAppend": True,
            "engineInfo": f"ashore/{ashore.__version__}",
            "ashore": own,
        }
        return [{"commitInfo": info}, {"txn": mark}, *adds]

    def _ensure(self, expected: CatalogTable) -> None:
        log = self._log(expected.full_name)
        for _ in range(WINNERS_MAX):
            state = log.read()
            if state is None:
                protocol = new_protocol(expected)
                metadata = new_metadata(expected, str(uuid.uuid4()), self._clock.now_ms())
                _require_fit(TableState(-1, protocol, metadata), expected)
                actions: list[Action] = [{"protocol": protocol}, {"metaData": metadata}]
                self._change(log, 0, "CREATE TABLE", actions)
                continue
            _require_fit(state, expected)
            missing = find_missing(state.metadata, expected)
            if not missing:
                return
            changed = with_columns(state.metadata, missing)
            self._change(log, state.version + 1, "CHANGE COLUMNS", [{"metaData": changed}])
        fail(f"{expected.full_name} changes all the time")

    def _change(self, log: TableLog, number: int, operation: str, actions: list[Action]) -> None:
        """Try to create a version without files: read the state again then."""
        info = {
            "timestamp": self._clock.now_ms(),
            "operation": operation,
            "operationParameters": {},
            "engineInfo": f"ashore/{ashore.__version__}",
        }
        log.create(number, [{"commitInfo": info}, *actions])


def _require_fit(state: TableState, expected: CatalogTable) -> None:
    conflicts = [*find_conflicts(state.metadata, state.protocol, expected)]
    if conflicts:
        raise _conflict(expected.full_name, conflicts)


def _conflict(table: str, conflicts: list[str]) -> SchemaConflict:
    return SchemaConflict(
        f"Delta table {table}: {'; '.join(conflicts)}",
        hint="change the job file or the table, or land in a table of another name",
        tables=[table],
        conflicts=conflicts,
    )


def _find_rewrite(log: TableLog, state: TableState) -> tuple[str, int]:
    """Return which version, the newest, has removed files of a table, in words; empty: none.

    One that was set back by RESTORE is none of those: its rows are lost. The number is that of the
    oldest version that was read: whether older ones have removed files is not known.
    """
    at = state.version
    for _ in range(VERSIONS_READ):
        version = log.version(at) if at >= 0 else None
        if version is None:
            break
        if version.restored is not None:
            at = version.restored
            continue
        if version.removes and not version.is_own:
            return f"version {at} ({version.operation or 'unknown'}) has removed files", 0
        at -= 1
    return "", at + 1
