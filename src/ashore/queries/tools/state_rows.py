"""Rows of state, and how two batches of it differ: what is behind `inspect --rows` and `diff`.

What it is: `read_state_rows`, from the options of a person to what the state process returns.
What it promises: the checkpoint is only read, also beside a running query: what a batch needs is
copied first, and Spark reads the copy, which is deleted at the end. What the files alone show
is refused before Spark is started.
"""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore.base.clock import Clock
from ashore.errors import (
    CheckpointUnfit,
    JobFileInvalid,
    StorageError,
)
from ashore.jobs.events import Event, StateChanges, StateProgress, StateRows, StateStep
from ashore.jobs.requests import (
    CheckpointAddress,
    RowsRequest,
    SparkRequest,
    StateBatch,
    StateTable,
)
from ashore.log import names
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.contents import local_sum_path
from ashore.queries.state.files import link_between
from ashore.queries.state.layout import (
    CheckpointPath,
    ChecksumPath,
    MigrationPath,
    SourcePath,
    StatePath,
    TablePath,
    VersionPath,
)
from ashore.queries.state.savepoints.save import copy_newest
from ashore.queries.state.savepoints.transfer import (
    Advance,
    ExpectedFile,
    transfer_files,
)
from ashore.queries.state.state_tables import choose_tables, plan_tables
from ashore.queries.state.survey import Survey, require_checkpoint, take_survey
from ashore.queries.state.versions import KeptVersion, read_kept
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.inspect import read_schemas
from ashore.queries.tools.state_process import run_state_process
from ashore.storage import LocalStorage

ENDS = (".parquet", ".arrow")  # of names of files that rows are written to
_MASTER = "local[*]"
_NOW, _BEFORE = "now", "before"  # what the copies are called


@dataclass(frozen=True, slots=True)
class RowsOptions:
    """What a person has typed.

    Arguments:
        where: a job file, or the directory of a checkpoint.
        query: of the job file; None where it has one.
        batch: whose state is shown; None: the newest that is done.
        before: an earlier batch that it is compared with; None: rows are shown.
        operator: its number or a name of it; None: all.
        store: the name of a table; None: all.
        partition: None: all.
        keys: `NAME=VALUE`, or `NAME` for NULL.
        limit: how many rows of each table; None: all.
        to: a file that is written instead.
        debug: what Spark says on stderr is shown.

    """

    where: str
    query: str | None = None
    batch: int | None = None
    before: int | None = None
    operator: str | None = None
    store: str | None = None
    partition: int | None = None
    keys: tuple[str, ...] = ()
    limit: int | None = None
    to: str | None = None
    debug: bool = False


@dataclass(frozen=True, slots=True)
class RowsFound:
    """State that was read.

    Arguments:
        place: of the checkpoint.
        batch: whose state it is.
        before: the batch that it was compared with.
        version: of the job, whose names the columns have where that is said of them.
        tables: as the state process has reported them.

    """

    place: str
    batch: int
    before: int | None
    version: KeptVersion | None
    tables: tuple[StateRows | StateChanges, ...]


@dataclass(frozen=True, slots=True)
class RowsProgress:
    """Reports of long work: files that are copied, Spark that is started, its tasks."""

    copied: Advance
    starting: Callable[[], None]
    report: Callable[[StateStep | StateProgress], None]


@dataclass(frozen=True, slots=True)
class Prepared:
    """State that was copied, and the request to the state process."""

    request: RowsRequest
    version: KeptVersion | None


@dataclass(frozen=True, slots=True)
class _Plan:
    survey: Survey
    before: Survey | None
    version: KeptVersion | None
    tables: tuple[StateTable, ...]


def read_state_rows(criteria: RowsOptions, clock: Clock, progress: RowsProgress) -> RowsFound:
    """Return rows of the state of a batch, or how it differs from an earlier one.

    If interrupted: a directory may stay where this machine keeps temporary files.

    Raises JobFileInvalid, CheckpointUnfit, StorageError; NotDone where the key is another one;
    JobProcessEnded, with the error of the state process.
    """
    checkpoint = find_checkpoint(criteria.where, criteria.query, clock)
    with tempfile.TemporaryDirectory(prefix="ashore-state-") as directory:
        prepared = prepare(checkpoint, criteria, Path(directory), progress.copied)
        request = prepared.request
        progress.starting()
        events = run_state_process("rows", checkpoint.uri, request, debug=criteria.debug)
        tables = tuple(_listen(events, progress))
    before = request.before.batch if request.before else None
    return RowsFound(request.now.place, request.now.batch, before, prepared.version, tables)


def prepare(
    checkpoint: Checkpoint, criteria: RowsOptions, directory: Path, advance: Advance
) -> Prepared:
    """Copy the selected state to an empty directory of this machine.

    Raises as `read_state_rows`, but for what Spark finds.
    """
    keys = tuple(map(_parse_key, criteria.keys))
    _require_file(criteria.to)
    with _named(directory):
        plan = _copy_state(checkpoint, criteria, directory, advance)
    place = checkpoint.place
    required = plan.survey.required
    request = RowsRequest(
        spark=SparkRequest(_MASTER, ()),
        state_format=required.commit.state_format,
        now=_state(directory, _NOW, plan.survey, place),
        before=_state(directory, _BEFORE, plan.before, place) if plan.before else None,
        tables=plan.tables,
        partition=criteria.partition,
        keys=keys,
        limit=criteria.limit,
        to=criteria.to and str(Path(criteria.to).absolute()),
    )
    return Prepared(request, plan.version)


def _listen(events: Iterator[Event], progress: RowsProgress) -> Iterator[StateRows | StateChanges]:
    for event in events:
        match event:
            case StateRows() | StateChanges():
                yield event
            case StateStep() | StateProgress():
                progress.report(event)


def _copy_state(
    checkpoint: Checkpoint, criteria: RowsOptions, directory: Path, advance: Advance
) -> _Plan:

    def copy() -> _Plan:
        for each in directory.iterdir():  # of an older batch
            shutil.rmtree(each)
        plan = _plan(checkpoint, criteria)
        selection = StateSelection({each.operator for each in plan.tables}, criteria.partition)
        extract(plan.survey, selection, _copy(directory, _NOW), advance)
        if plan.before is not None:
            extract(plan.before, selection, _copy(directory, _BEFORE), advance)
        return plan

    return copy_newest(checkpoint, criteria.batch, copy)


def _plan(checkpoint: Checkpoint, criteria: RowsOptions) -> _Plan:
    place = checkpoint.place
    survey = take_survey(checkpoint, criteria.batch)
    before = None if criteria.before is None else take_survey(checkpoint, criteria.before)
    version = read_kept(checkpoint)
    tables = choose_tables(
        plan_tables(survey.required, read_schemas(survey)),
        (criteria.operator, criteria.store),
        version.content if version else None,
        place,
    )
    _require_partition(survey, tables, criteria.partition, place)
    if criteria.to is not None and len(tables) > 1:
        known = "; ".join(f"--operator {each.operator} --store {each.name}" for each in tables)
        raise JobFileInvalid(
            f"{place} has {len(tables)} tables of state, and one file holds one table",
            hint=f"choose one: {known}",
        )
    return _Plan(survey, before, version, tables)


def _require_partition(
    survey: Survey, tables: tuple[StateTable, ...], partition: int | None, place: str
) -> None:
    operators = {each.operator for each in tables}
    chains = survey.required.chains
    known = {each.store.partition for each in chains if each.store.operator in operators}
    if partition is not None and partition not in known:
        raise CheckpointUnfit(
            f"{place} has no partition {partition}",
            hint=f"its partitions are 0 to {max(known, default=0)}",
            why="no_partition",
        )


def _require_file(to: str | None) -> None:
    if to is None:
        return
    path = Path(to)
    if path.suffix not in ENDS:
        raise JobFileInvalid(
            f"rows are written to Parquet or Arrow, and {to} is neither",
            hint=f"end its name with {' or '.join(ENDS)}",
        )
    if path.exists() or not path.absolute().parent.is_dir():
        what = "already exists" if path.exists() else "is in a directory that does not exist"
        raise JobFileInvalid(f"{to} {what}", hint="name a new file in a directory that exists")


def _parse_key(text: str) -> tuple[str, str | None]:
    name, is_given, value = text.partition("=")
    return name, value if is_given else None


def _copy(directory: Path, name: str) -> Checkpoint:
    storage = LocalStorage(str(directory.parent))
    return Checkpoint(storage, names.join(directory.name, name), f"file://{directory}/{name}")


@contextmanager
def _named(directory: Path) -> Iterator[None]:
    """Add the directory of the copy to an error: the user has not named it."""
    try:
        yield
    except StorageError as error:
        if not str(error.fields.get("path", "")).startswith(f"{directory.name}/"):
            raise
        raise type(error)(
            f"the state is copied to {directory.parent}: {error.message}",
            hint="the environment variable TMPDIR names another directory for it",
            path=error.fields["path"],
        ) from error


def _state(directory: Path, name: str, survey: Survey, place: str) -> StateBatch:
    address = CheckpointAddress(f"file://{directory}/{name}", ())
    return StateBatch(address, survey.required.batch, place)


def choose_batches(
    where: str, query: str | None, batches: tuple[int | None, int | None], clock: Clock
) -> tuple[int, int]:
    """Return the two batches that are compared: without numbers, the last two that are done.

    Raises JobFileInvalid where the second is not the later one; CheckpointUnfit where there is only
    one; as `find_checkpoint`.
    """
    checkpoint = find_checkpoint(where, query, clock)
    place = checkpoint.place
    require_checkpoint(checkpoint)
    done = checkpoint.list_finished()
    first, last = batches
    last = last if last is not None else max(done, default=0)
    first = (
        first if first is not None else max((each for each in done if each < last), default=None)
    )
    if first is None:
        raise CheckpointUnfit(
            f"{place} keeps no finished batch before {last}",
            hint="`ashore checkpoint inspect --rows` shows the rows of one batch",
            why="forgotten",
        )
    if first >= last:
        raise JobFileInvalid(
            f"batch {first} is not before batch {last}", hint="name the earlier batch first"
        )
    return first, last


@dataclass(frozen=True, slots=True)
class StateSelection:
    """Whose state is selected: of some operators, and of one partition or of all."""

    operators: Collection[int]
    partition: int | None = None

    def has(self, path: CheckpointPath) -> bool:
        """Return whether a file is needed for it."""
        match path:
            case SourcePath() | VersionPath() | MigrationPath():
                return False
            case ChecksumPath(of):
                return self.has(of)
            case StatePath(store) | TablePath(store):
                # Spark finds schemas in partition 0, and reads each partition that it finds.
                partitions = {0, self.partition} if self.partition is not None else None
                is_wanted = partitions is None or store.partition in partitions
                return store.operator in self.operators and is_wanted
            case _:
                return True


def extract(
    survey: Survey, selection: StateSelection, target: Checkpoint, advance: Advance
) -> None:
    """Copy what a batch needs to an empty directory of this machine, or give it second names.

    The checkpoint is only read: Spark never sees it. The copy has what the batch needs of some
    operators and partitions, and nothing else, so that Spark cannot take another file for one that
    is damaged. Checksums that a local file system keeps come along.
    If interrupted: some files are there.

    Raises StorageError; PathMissing where a running Spark has deleted a file; CheckpointUnfit where
    one is not as it was listed.
    """
    files = [each for each in survey.required.files if selection.has(each.of)]
    sums = {
        local_sum_path(each.path) for each in files if isinstance(each.of, StatePath | TablePath)
    }
    files += [each for each in survey.files if each.path in sums]
    expected = [ExpectedFile(each.path, each.size_bytes) for each in files]
    link = link_between(survey.checkpoint, target)
    transfer_files(expected, survey.checkpoint, target, link, advance)
