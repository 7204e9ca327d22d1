"""Step 5, and what a seal brings about: actions that may come late but are never forgotten.

What it is: `Effects`, which runs deferred actions: success files, catalog calls, HTTP calls;
`Sealer`, which makes the body of the next `seal` entry from what is due, and writes nothing.
What it promises: each effect may be repeated. A failure delays an effect and never stops landing:
what is not done stays deferred in the log, with how often it was tried, and is tried again after a
pause.
"""

import contextlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ashore.base.clock import Clock
from ashore.base.http_post import post_json
from ashore.errors import AshoreError, PathExists, StorageError, SyncFailed
from ashore.log import names
from ashore.log.entries import DeferredAction, FailedTries, Seal, SealedPartition
from ashore.log.fold import Action, Fold
from ashore.log.names import SliceName
from ashore.log.plan_commit import Tried
from ashore.log.plan_seal import SealRule, plan_seal
from ashore.log.positions import BatchTime
from ashore.log.progress import Progress, TablePartitions
from ashore.storage.base import Storage

PAUSE_S = 30.0  # after a failure, so that a catalog that is down does not slow batches
ERROR_LENGTH_MAX = 300  # it goes into the log with each try

Register = Callable[[str, Sequence[str]], None]  # table, partitions: one batched, repeatable call
MarkSealed = Callable[[Sequence[DeferredAction]], None]  # as `Register`: one call, repeatable
Post = Callable[[str, bytes], None]


class Effects:
    """Runs deferred actions for one slice. Used by its thread."""

    def __init__(  # noqa: PLR0913 - given by name
        self,
        name: SliceName,
        *,
        storage: Storage,
        clock: Clock,
        progress: Progress,
        register: Register | None = None,
        mark_sealed: MarkSealed | None = None,
        address_of: Callable[[str], str | None] = lambda _table: None,
        post: Post = post_json,
    ) -> None:
        """`register`, `mark_sealed`: None without a catalog. `address_of`: of a seal's POST."""
        self._name = name
        self._storage = storage
        self._clock = clock
        self._progress = progress
        self._register_all = register
        self._mark_all_sealed = mark_sealed
        self._address_of = address_of
        self._post = post
        self._paused_until_s: dict[str, float] = {}  # by action

    def run(self, deferred: Sequence[DeferredAction]) -> Tried:
        """Try effects, but those that failed a moment ago. Never raises but SyncFailed."""
        by_action: dict[Action | str, list[DeferredAction]] = defaultdict(list)
        for each in deferred:
            by_action[each.action].append(each)
        done: set[str] = set()
        failed: list[FailedTries] = []
        for action, effects in sorted(by_action.items()):
            if self._clock.monotonic_s() < self._paused_until_s.get(action, float("-inf")):
                continue
            try:
                done |= self._do(action, effects)
            except SyncFailed:
                raise
            except (AshoreError, OSError) as error:
                self._paused_until_s[action] = self._clock.monotonic_s() + PAUSE_S
                now_ms, reason = self._clock.now_ms(), str(error)[:ERROR_LENGTH_MAX]
                failed.append(FailedTries(action, 1, now_ms, reason))
                what = f"{len(effects)} x {action} deferred: {reason}"
                self._progress.warn(self._name.slice, what)
        return Tried(frozenset(done), tuple(failed))

    def _do(self, action: Action | str, effects: Sequence[DeferredAction]) -> set[str]:
        match action:
            case Action.REGISTER:
                return self._register(effects)
            case Action.SUCCESS_FILE:
                return self._write_success_files(effects)
            case Action.CATALOG:
                return self._mark_sealed(effects)
            case Action.HTTP:
                return self._call(effects)
            case _:
                raise StorageError(f"this release does not support the effect {action}")

    def _register(self, effects: Sequence[DeferredAction]) -> set[str]:
        by_table: dict[str, list[DeferredAction]] = defaultdict(list)
        for each in effects:
            by_table[each.table].append(each)
        if self._register_all is None:
            return {each.id for each in effects}  # the job has no catalog any more
        for table, found in by_table.items():
            self._register_all(table, [each.partition for each in found])
        registered = TablePartitions.of((each.table, each.partition) for each in effects)
        self._progress.registered(self._name.slice, registered)
        return {each.id for each in effects}

    def _mark_sealed(self, effects: Sequence[DeferredAction]) -> set[str]:
        if self._mark_all_sealed is not None:
            self._mark_all_sealed(effects)
        return {each.id for each in effects}

    def _write_success_files(self, effects: Sequence[DeferredAction]) -> set[str]:
        directories = set()
        for each in effects:
            directory = names.join(names.table_path(each.table), each.partition)
            path = names.join(directory, names.success_name(each.version))
            content = success_content(self._name.job, each)
            try:
                self._storage.create(path, content)
            except PathExists:
                if self._storage.read(path) != content:
                    warning = f"{path} was not written by Ashore; it was not changed"
                    self._progress.warn(self._name.slice, warning)
            directories.add(directory)
        self._storage.sync(sorted(directories))
        return {each.id for each in effects}

    def _call(self, effects: Sequence[DeferredAction]) -> set[str]:
        for each in effects:
            address = self._address_of(each.table)
            if address is not None:
                self._post(address, success_content(self._name.job, each))
        return {each.id for each in effects}


def success_content(job: str, effect: DeferredAction) -> bytes:
    """Return the content of a success file, and of the HTTP call: the same for the same seal."""
    document = {
        "job": job,
        "table": effect.table,
        "partition": effect.partition,
        "version": effect.version,
        "rows": effect.rows,
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def is_success_of(job: str, content: bytes) -> bool:
    """Return whether a success file is one of a job's."""
    try:
        document = json.loads(content)
    except ValueError:
        return False
    return isinstance(document, dict) and document.get("job") == job


def next_free_version(storage: Storage, table: str, partition: str, version: int) -> int:
    """Return `version`, or the next one whose success file does not exist yet.

    A success file that is not ours means the next version.
    """
    directory = names.join(names.table_path(table), partition)
    with contextlib.suppress(StorageError):  # the file is then written, or found, by the effect
        while storage.stat(names.join(directory, names.success_name(version))) is not None:
            version += 1
    return version


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals for a job. One slice of a job has it."""

    storage: Storage
    rules: Callable[[], Sequence[SealRule]]  # a job may find more tables while it runs

    def plan(self, name: SliceName, fold: Fold, time: BatchTime) -> Seal | None:
        """Return the next seal, or None where nothing is due.

        One entry holds tables that ask for the same actions; others follow with the next one.
        """
        rules = {rule.table: rule for rule in self.rules()}
        due = plan_seal(fold, {}, rules.values(), time).partitions
        if not due:
            return None
        actions = rules[due[0].table].actions
        partitions = tuple(
            self._numbered(each) for each in due if rules[each.table].actions == actions
        )
        return Seal(partitions, actions, ((name.slice, fold.end),))

    def _numbered(self, sealed: SealedPartition) -> SealedPartition:
        version = next_free_version(self.storage, sealed.table, sealed.partition, sealed.version)
        return replace(sealed, version=version)
