"""What verification says: values for a terminal, for `--json`, for an exit code.

What it promises: frozen; `to_dict` gives what `--json` prints.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from ashore.errors import ExitCode

NAMED_MAX = 20  # offenders of a kind that are named; all are counted

Progress = Callable[[str, int, int], None]
"""Called with `(step, done, total)`; the steps are `list`, `log`, `files`, `kafka`, `values`;
total 0: not known.

Called by one thread. Must not raise and not block.
"""


def quiet(_step: str, _done: int, _total: int) -> None:
    """Report no progress."""


class ProblemKind(StrEnum):
    """What can be wrong."""

    RANGES = "ranges"  # offset ranges of a topic partition do not meet
    COUNTS = "counts"  # an entry's counts do not add up
    SPANS = "spans"  # offset spans of files contradict each other or their entry
    FILE_MISSING = "file_missing"
    PARTITION_GONE = "partition_gone"  # each file of a partition is missing
    FILE_SIZE = "file_size"
    FILE_CHECKSUM = "file_checksum"
    FILE_ROWS = "file_rows"
    FILE_UNREADABLE = "file_unreadable"
    FILE_UNLISTED = "file_unlisted"  # named as ours are, and in no entry
    FILE_FOREIGN = "file_foreign"  # not named as ours are
    PROVENANCE = "provenance"  # a file holds other offsets than its entry says
    VALUE = "value"  # a column of a row is not what its record holds
    LOST = "lost"
    DUPLICATED = "duplicated"
    # What only those who follow a job can find; `verify` stops, or says nothing of it.
    LOG_DAMAGED = "log_damaged"
    LOG_LOST = "log_lost"  # tables hold what was written after the log's end
    OFFSETS_GONE = "offsets_gone"  # the source has dropped what was still to be landed
    OFFSETS_WENT_BACK = "offsets_went_back"  # the source ends below what was landed
    HISTORY_TRUNCATED = "history_truncated"  # the source was cut below that, and has grown on
    STREAM_REPLACED = "stream_replaced"
    SUCCESS_FILE_MISSING = "success_file_missing"  # of a partition that is sealed
    CATALOG_TABLE = "catalog_table"  # the catalog has no such table, or another one
    CATALOG_LACKS = "catalog_lacks"  # a partition that was registered in it
    CATALOG_EXTRA = "catalog_extra"  # a partition where the job has never put a file
    CATALOG_ELSEWHERE = "catalog_elsewhere"  # a partition is not where its files are


@dataclass(frozen=True, slots=True)
class Difference:
    """A column of a row, as its file has it and as its record does: texts, cut where long."""

    column: str  # empty: the record is no row at all
    in_table: str
    in_source: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One offender."""

    kind: ProblemKind
    table: str  # empty where none is meant
    place: str  # a path, or a topic partition
    text: str
    offsets: tuple[int, ...] = ()  # the first of them
    difference: Difference | None = None  # of a VALUE

    def to_dict(self) -> dict[str, object]:
        """Return the problem as `--json` prints it."""
        return asdict(self)


class CheckedBy(StrEnum):
    """What the statement about a table rests on."""

    PROVENANCE = "provenance"  # every record's offset
    COUNTS = "counts"  # some files carry no offsets: only rows were counted
    EXISTENCE = "existence"  # nothing is newer than `since`: names and sizes only


class Status(StrEnum):
    """The verdict in a word."""

    OK = "ok"
    UNPROVABLE = "unprovable"
    NEVER_RAN = "never_ran"  # no log, and the source holds something, or does not answer
    WRONG = "wrong"


WRONG = "not as logged: what readers miss or see twice is unknown"
PARTLY = "nothing is lost or duplicated in what was compared"
_EXIT_CODES = {
    Status.OK: ExitCode.DONE,
    Status.WRONG: ExitCode.WRONG,
    Status.UNPROVABLE: ExitCode.UNPROVEN,
    Status.NEVER_RAN: ExitCode.UNPROVEN,
}


@dataclass(frozen=True, slots=True)
class Tally:
    """Records and files, counted."""

    batches: int = 0
    fetched: int = 0
    landed: int = 0
    dead: int = 0
    filtered: int = 0
    dropped: int = 0
    skipped: int = 0  # offsets that a `skip` entry gave up
    given_up: int = 0  # rows of lost files that a `skip` entry gave up
    retired: int = 0  # rows of partitions that a `retire` entry dropped
    files: int = 0  # that should be there
    files_in_flight: int = 0  # of these: of an entry that is not closed yet
    size_bytes: int = 0
    lost: int = 0
    duplicated: int = 0  # rows that a reader sees again, in files that no entry lists too
    unlisted: int = 0  # rows of files that no entry lists, which no other file has
    unprovable: int = 0


def plain_tally(tally: Tally, *, is_whole: bool) -> dict[str, int | None]:
    """Return the counts as `--json` prints them: what was not computed is null, and not 0."""
    counts: dict[str, int | None] = asdict(tally)
    if not is_whole:
        counts |= {name: counts[name] or None for name in ("lost", "duplicated")}
    return counts


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """One main table with its late and dead tables."""

    table: str
    topics: tuple[str, ...]
    partitions: int  # topic partitions
    tally: Tally
    problems: int
    checked_by: CheckedBy
    status: Status
    is_whole: bool = True  # False: of its files or its topics something was not compared

    def to_dict(self) -> dict[str, object]:
        """Return the row as `--json` prints it."""
        return {
            "table": self.table,
            "topics": list(self.topics),
            "partitions": self.partitions,
            **plain_tally(self.tally, is_whole=self.is_whole),
            "problems": self.problems,
            "checked_by": self.checked_by.value,
            "status": self.status.value,
        }


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Rows of the sample that could not be compared."""

    table: str
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class ValuesVerdict:
    """What became of a sample of rows: each was compared, or there is a reason why not."""

    rate: float
    seed: int  # with it, the same rows are chosen again
    compared: int
    different: int  # of these
    not_compared: tuple[NotCompared, ...]

    @property
    def rows_not_compared(self) -> int:
        """How many rows of the sample could not be compared."""
        return sum(each.rows for each in self.not_compared)

    @property
    def notes(self) -> list[str]:
        """Which rows could not be compared, and why."""
        why = "were chosen and could not be compared"
        return [
            f"{each.rows:,} rows of {each.table} {why}: {each.reason}" for each in self.not_compared
        ]

    @property
    def summary(self) -> str:
        """What the last line says of it."""
        if not self.compared:
            return f"values: none of {self.rows_not_compared:,} rows could be compared"
        text = f"values of {self.compared:,} rows compared: {self.different:,} differ"
        left = self.rows_not_compared
        return f"{text}, {left:,} rows could not be compared" if left else text


@dataclass(frozen=True, slots=True)
class NotChecked:
    """Something that was not compared, since it did not answer or could not be read."""

    table: str  # empty: of every table that reads the source
    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class SliceRead:
    """How far a slice's log was read."""

    slice: str
    entries: int
    end: int  # number of the last entry
    unclosed: int | None  # its files may still be on their way


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The outcome of a verification."""

    job: str
    slices: tuple[SliceRead, ...]
    since_ms: int | None
    tables: tuple[TableVerdict, ...]
    totals: Tally
    problems: tuple[Problem, ...]  # the first of each kind
    problem_counts: dict[ProblemKind, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what could not be checked, and why
    has_run: bool = True  # False: there is no log, and the source holds what should have landed
    uncounted_files: int = 0  # that no entry lists and whose rows cannot be compared with others
    values: ValuesVerdict | None = None  # None: not requested
    not_checked: tuple[NotChecked, ...] = ()  # the lake or the source did not answer

    @property
    def status(self) -> Status:
        """The verdict in a word."""
        if self.problem_counts or self.totals.lost or self.totals.duplicated:
            return Status.WRONG
        if not self.has_run:
            return Status.NEVER_RAN
        is_unproved = self.values is not None and not self.values.compared
        is_unproved = is_unproved or bool(self.not_checked or self.totals.unprovable)
        return Status.UNPROVABLE if is_unproved else Status.OK

    @property
    def answer(self) -> str:
        """What the exit code says, in a word."""
        if self.totals.lost:
            return "lost"
        return "duplicated" if self.totals.duplicated else self.status.value.replace("_", " ")

    @property
    def exit_code(self) -> ExitCode:
        """0: all is well; 5: something is wrong; 6: not so, and not everything is provable."""
        return _EXIT_CODES[self.status]

    @property
    def summary(self) -> str:
        """The last line for people: what a reader misses and sees twice, or that it is not known.

        It is `lost 0, duplicated 0` only where nothing is wrong.
        """
        if self.status is Status.NEVER_RAN:
            return "never ran: there is no log, nothing was verified"
        totals = self.totals
        others = sum(
            count
            for kind, count in self.problem_counts.items()
            if kind not in (ProblemKind.LOST, ProblemKind.DUPLICATED, ProblemKind.VALUE)
        )
        is_counted = not others or totals.lost or totals.duplicated
        parts = [f"lost {totals.lost:,}, duplicated {totals.duplicated:,}" if is_counted else WRONG]
        if self.not_checked and not (totals.lost or totals.duplicated or others):
            parts = [PARTLY]
        if totals.unlisted:
            parts.append(f"in files that no entry lists {totals.unlisted:,}")
        if self.uncounted_files:
            parts.append(f"files whose rows cannot be compared {self.uncounted_files:,}")
        if totals.unprovable:
            parts.append(f"unprovable {totals.unprovable:,}")
        if others:
            parts.append(f"other problems {others:,}")
        if self.not_checked:
            named = list(dict.fromkeys(each.what for each in self.not_checked))
            more = f" and {len(named) - NAMED_MAX:,} more" if len(named) > NAMED_MAX else ""
            parts.append(f"not compared: {', '.join(named[:NAMED_MAX])}{more}")
        if self.values is not None:
            parts.append(self.values.summary)
        return ", ".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Return the result as `--json` prints it."""
        return {
            "job": self.job,
            "status": self.status.value,
            "exit_code": self.exit_code,
            "slices": [asdict(each) for each in self.slices],
            "since_ms": self.since_ms,
            "tables": [table.to_dict() for table in self.tables],
            "totals": plain_tally(self.totals, is_whole=not self.not_checked),
            "problems": [problem.to_dict() for problem in self.problems],
            "problem_counts": {kind.value: n for kind, n in self.problem_counts.items()},
            "notes": list(self.notes),
            "not_checked": [asdict(each) for each in self.not_checked],
            "uncounted_files": self.uncounted_files,
            "values": None if self.values is None else asdict(self.values),
        }


class Findings:
    """Collects problems: counts all, keeps the first of each kind. Used by one thread."""

    def __init__(self) -> None:
        self.counts: dict[ProblemKind, int] = {}
        self.by_table: dict[str, int] = {}
        self._named: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Take one problem."""
        count = self.counts.get(problem.kind, 0) + 1
        self.counts[problem.kind] = count
        self.by_table[problem.table] = self.by_table.get(problem.table, 0) + 1
        if count <= NAMED_MAX:
            self._named.append(problem)

    def add_all(self, problems: Iterable[Problem]) -> None:
        """Take problems as they come."""
        for problem in problems:
            self.add(problem)

    def named(self) -> tuple[Problem, ...]:
        """Return the problems that are named, a kind after the other."""
        order = list(ProblemKind)
        return tuple(sorted(self._named, key=lambda problem: order.index(problem.kind)))
