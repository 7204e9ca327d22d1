"""Every error that Ashore raises on purpose: one root, one tree, drawn here.

* AshoreError
  + JobFileInvalid, InvariantBroken
  + StorageError
    - PathMissing, PathExists, AnswerUnknown, NotApplied, SyncFailed, CallsHang
  + LogError
    - LogDamaged, LogNewer, LogLost, Fenced, LogGrows
  + Stopped
    - OffsetsGone
    - OffsetsWentBack
      + HistoryTruncated
    - StreamReplaced, FilesLost, FileConflict, CountsDisagree, RecordsTooLarge, BadRecord
    - SchemaConflict, TableReplaced, TableRolledBack, TableOwned
    - CheckpointUnfit, QueryRefused, StateNotAccepted, QueryStopped
    - RowNotComputed, LogAhead
  + ClockAhead
  + BatchFailed
    - TooManyFiles, WorkerCrashed
  + SourceError
    - SourceUnreachable, StreamMissing
  + CatalogError
    - CatalogUnreachable
  + JobProcessEnded, JobNotRunning, JobNotAnswering, NotDone
  + ServerRefused
    - JobUnknown, OperationUnknown, NotAllowed, PathNotAllowed, RequestInvalid, ServerBusy
  + ServerDiskFailed, ServerRuns, ServerUnreachable
  + NotInstalled, MetricsNotExported, SparkNotStarted, SparkUnknown
  + ServiceError
    - JavaMissing, JarMismatch
"""

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar, NoReturn, Self


class ExitCode(IntEnum):
    """How a command, or the process of a job, ends."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Return a code with its meaning."""
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made

    DONE = 0, "done; for `verify` and `audit`: nothing lost, nothing duplicated"
    FAILED = 1, "failed; the message says why, a later try may succeed"
    USAGE = 2, "the command line or the job file is wrong"
    FENCED = 3, "fenced: another process has taken the job over; do not restart this one"
    DECISION = 4, "stopped for a decision: the hint names the command"
    WRONG = (
        5,
        (
            "`verify`, `audit` or a drill found records lost or duplicated, or files not as "
            "logged; a case of `test` failed"
        ),
    )
    UNPROVEN = 6, "`verify`, `audit` or a drill found nothing wrong, but could not check everything"
    MISSING = 7, "something outside is missing: broker, topic, Java, a server"
    QUERY_STOPPED = 8, "a query stopped, while the rest of the job continued and exited normally"
    SQL_FAILED = 9, "SQL failed on a row; the hint says what to write"
    BUG = 70, "a bug of Ashore: an invariant did not hold"
    INTERRUPTED = 130, "interrupted"


KILLED = 137  # of a run that left no exit code: killed by a signal, or its machine was restarted
_WORST_FIRST = (ExitCode.DECISION, ExitCode.WRONG, ExitCode.FAILED, ExitCode.UNPROVEN)


def worst_code(codes: Iterable[int]) -> ExitCode:
    """Return the exit code of several findings or jobs: that of the worst one."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), ExitCode.DONE)


class AshoreError(Exception):
    """Root of the tree.

    Arguments:
        message: one sentence: what happened, with the names of the things involved.
        hint: one sentence: what to do next, with the command where there is one.
        fields: machine-readable facts, shown by `--json`.

    """

    code: ClassVar[str] = "error"  # of a class below: its name, as `log-lost` for LogLost
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    def __init__(self, message: str, *, hint: str = "", **fields: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def to_dict(self) -> dict[str, object]:
        """Return the error as `--json` prints it."""
        return {"code": self.code, "message": self.message, "hint": self.hint, **self.fields}


class JobFileInvalid(AshoreError):
    """The job file is invalid."""

    exit_code = ExitCode.USAGE


class InvariantBroken(AshoreError):
    """A promise of the code did not hold. This is a bug of Ashore, never of the user."""

    exit_code = ExitCode.BUG


class StorageError(AshoreError):
    """A storage call failed. Whether it was applied is not known."""


class PathMissing(StorageError):
    """The path does not exist: an answer, not a failure."""


class PathExists(StorageError):
    """The path already exists: an answer, not a failure."""


class AnswerUnknown(StorageError):
    """No answer came within the deadline. The call may still be applied, once or twice."""


class NotApplied(StorageError):
    """No server took the call: it was not applied and never will be. It may be made again."""


class SyncFailed(StorageError):
    """A sync failed: what was written may not be durable. Never repeated, the process stops."""

    exit_code = ExitCode.DECISION


class CallsHang(StorageError):
    """Too many storage calls of this process hang: it exits and is started again."""


class LogError(AshoreError):
    """The landing log cannot be read or written."""


class LogDamaged(LogError):
    """A file of the log is not what a writer wrote. Named, never skipped."""

    exit_code = ExitCode.DECISION


class LogNewer(LogError):
    """A later release has written the log, and this one does not know what. Nothing was changed.

    The log is whole: nothing is to be restored or repaired.
    """

    exit_code = ExitCode.DECISION


class LogLost(LogError):
    """Tables hold what was written after the end of their log: entries are gone, or all of it.

    Nothing was appended. Continuing would land the same records again.
    """

    exit_code = ExitCode.DECISION


class Fenced(LogError):
    """Another writer has taken the slice over. A supervisor does not restart this process."""

    exit_code = ExitCode.FENCED


class LogGrows(LogError):
    """The job runs: its process is there, or its log grows. The command needs `--take-over`."""

    exit_code = ExitCode.DECISION


class Stopped(AshoreError):
    """The job stops until an operator decides. Everything is kept."""

    exit_code = ExitCode.DECISION


class OffsetsGone(Stopped):
    """The source no longer has the offsets that come next."""


class OffsetsWentBack(Stopped):
    """The source ends below what was landed."""


class HistoryTruncated(OffsetsWentBack):
    """A topic partition was truncated below what was landed, and has other records there now."""


class StreamReplaced(Stopped):
    """A topic was deleted and created again."""


class FilesLost(Stopped):
    """Prepared files are neither at their source nor at their target."""

    @property
    def unique(self) -> tuple[str, ...]:
        """The unique parts of the lost files' names."""
        found = self.fields.get("unique")
        return tuple(found) if isinstance(found, list) else ()


class FileConflict(Stopped):
    """A target differs from what its entry says."""


class CountsDisagree(Stopped):
    """The records of a batch do not add up. Nothing was prepared."""


class RecordsTooLarge(Stopped):
    """A record, or a batch of Kafka when decompressed, exceeds the `limits` of the job file.

    What comes before these offsets has landed. Nothing of them was read.
    """


class BadRecord(Stopped):
    """A record is invalid and its table says `on_invalid: fail`; or its headers cannot be read."""


class SchemaConflict(Stopped):
    """The table on the lake has another schema."""


class TableReplaced(Stopped):
    """A table in a catalog was dropped and created again."""


class TableRolledBack(Stopped):
    """A table in a table format no longer has a snapshot that the log has committed."""


class TableOwned(Stopped):
    """Another job owns the table."""


class CheckpointUnfit(Stopped):
    """A checkpoint is incomplete or damaged, or is not that of its table. Nothing was written."""


class QueryRefused(Stopped):
    """Spark does not run the SQL as a streaming query; the hint says what to write instead."""

    exit_code = ExitCode.USAGE


class StateNotAccepted(Stopped):
    """A migration loses more of a query's state than was agreed to. Nothing was changed."""


class QueryStopped(Stopped):
    """Queries stopped, each for its own reason; the rest of the job exited normally."""

    exit_code = ExitCode.QUERY_STOPPED


class RowNotComputed(Stopped):
    """SQL cannot compute a row, and its query has no dead letters. Nothing was prepared."""

    exit_code = ExitCode.SQL_FAILED


class LogAhead(Stopped):
    """The log has times in the future: a clock was ahead, or is behind now."""


class ClockAhead(AshoreError):
    """The clock is far ahead of the clocks of the storage and of Kafka. Nothing was planned.

    A running job waits until the clock is set right. One that ends by it is not to be started
    again before: where the lake's clock is the machine's own, a start would believe it.
    """

    exit_code = ExitCode.DECISION


class BatchFailed(AshoreError):
    """Reading or writing a batch failed. Nothing was prepared; the batch is planned again."""


class TooManyFiles(BatchFailed):
    """A batch has more files than an entry of the log may list. The next plan is smaller.

    `records`: how many had been written when the limit was exceeded.
    """


class WorkerCrashed(BatchFailed):
    """A worker process died in a batch. The batch is split, in halves.

    A record that kills its worker alone goes to the dead letters. Where workers die all the same,
    the batch is planned again, as after any failure.
    """


class SourceError(AshoreError):
    """The source cannot be read."""

    exit_code = ExitCode.MISSING


class SourceUnreachable(SourceError):
    """No broker answers."""


class StreamMissing(SourceError):
    """A topic of the job file does not exist."""


class CatalogError(AshoreError):
    """The catalog refused a call. Landing continues; registrations stay deferred."""

    exit_code = ExitCode.MISSING


class CatalogUnreachable(CatalogError):
    """No catalog answers in time. The call may still be applied; repeating it is harmless."""


class JobProcessEnded(AshoreError):
    """The job process ended and could not say why; the exit code is its own, 128 and a signal."""


class JobNotRunning(AshoreError):
    """No process of the job can be asked: it was killed, or failed. The message says which."""


class JobNotAnswering(AshoreError):
    """A process of the job may exist, and whether it has done what was requested is unknown."""


class NotDone(AshoreError):
    """A job process refused what it was asked, or could not do it. The message says why."""


class ServerRefused(AshoreError):
    """A server of jobs did not do what was requested. Nothing was changed."""


class JobUnknown(ServerRefused):
    """The server has no job of this name."""

    exit_code = ExitCode.USAGE


class OperationUnknown(ServerRefused):
    """The server has no operation of this id: it was removed as old, or never was."""

    exit_code = ExitCode.USAGE


class NotAllowed(ServerRefused):
    """The token of a request is missing or unknown, or its role does not allow the request."""


class PathNotAllowed(ServerRefused):
    """A path is outside the directories that the server is confined to."""

    exit_code = ExitCode.USAGE


class RequestInvalid(ServerRefused):
    """A request is not what the API expects, or is too large. The message names what is wrong."""

    exit_code = ExitCode.USAGE


class ServerBusy(ServerRefused):
    """As much runs as the limits of the server allow. A later try may succeed."""


class ServerDiskFailed(AshoreError):
    """The disk of a server's own files did not take what was to be written."""

    exit_code = ExitCode.MISSING


class ServerRuns(AshoreError):
    """Another server has these job files. Nothing was started."""

    exit_code = ExitCode.FENCED


class ServerUnreachable(AshoreError):
    """No server answers at the address. What was requested may have been done."""

    exit_code = ExitCode.MISSING


class NotInstalled(AshoreError):
    """A package that only some jobs need is missing."""

    exit_code = ExitCode.MISSING


class MetricsNotExported(AshoreError):
    """The port of `metrics` is taken, or its file cannot be written. Nothing was started."""

    exit_code = ExitCode.MISSING


class SparkNotStarted(AshoreError):
    """Spark does not start: its master does not answer, or its JVM rejects the settings."""

    exit_code = ExitCode.MISSING


class SparkUnknown(AshoreError):
    """A release of Spark, or a part of its plans, whose internals Ashore does not know."""

    exit_code = ExitCode.MISSING


class ServiceError(AshoreError):
    """A development server could not be started or stopped."""

    exit_code = ExitCode.MISSING


class JavaMissing(ServiceError):
    """No Java 17 was found."""


class JarMismatch(ServiceError):
    """A jar is not the one that the lock list names."""


def error_of(code: str, message: str, *, hint: str = "", **fields: object) -> AshoreError:
    """Return the error that another process has reported by its code."""
    kinds = {kind.code: kind for kind in _below(AshoreError)}
    return kinds.get(code, AshoreError)(message, hint=hint, **fields)


def _below(kind: type[AshoreError]) -> list[type[AshoreError]]:
    return [kind, *(found for each in kind.__subclasses__() for found in _below(each))]


def fail(message: str) -> NoReturn:
    """Raise InvariantBroken. For branches that cannot be reached."""
    raise InvariantBroken(message, hint="please report this with the landing log of the job")


def check(condition: bool, message: str) -> None:
    """Raise InvariantBroken unless `condition` holds. Stays on under `python -O`."""
    if not condition:
        fail(message)
