"""Keeping jobs as they are wanted: a loop over all jobs of a server.

What it is: `Supervisor`, one thread that looks, decides and acts, and `ManagedJob`, where a job is.
What it promises: what it knows it has from files, so the next one continues where it ended, at
any moment. A job that cannot be started, or a file that cannot be read, keeps no other from its
turn. Readers of views never wait.
"""

import json
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ashore.base import codec
from ashore.base.clock import Clock, SystemClock
from ashore.base.unique import unique
from ashore.errors import KILLED, AshoreError
from ashore.fleet.machine.background import END_S, Background
from ashore.fleet.machine.processes import LivingProcess, Memory, Processes, ServerLimits
from ashore.fleet.records.job_files import JobFile, JobFiles
from ashore.fleet.records.journal import Happened
from ashore.fleet.records.server_files import (
    DESIRED,
    RUNS,
    Desired,
    DesiredState,
    ExitRecord,
    PhaseRecord,
    ProcessRecord,
    RetryRecord,
    RunFiles,
    RunSeen,
    ServerFiles,
    desired_name,
)
from ashore.fleet.records.store import FileMark, mark_of, read_record, write_hint, write_record
from ashore.fleet.supervise.decide import NEEDING, Act, Decision, Facts, Phase, after_exit, decide

LOOK_S = 1.0
STOP_AGAIN_MS = 10_000  # a process that was asked to stop is asked again
KILL_BEYOND_GRACE_MS = 30_000
OVER_MEMORY = (
    "raise --max-job-memory or reduce memory use: smaller batches (`batch.max_records`), less "
    "memory for Spark's driver"
)


@dataclass(frozen=True, slots=True)
class ManagedJob:
    """Where a job of a server is. Frozen: readers keep it as long as they like."""

    name: str
    file: JobFile | None
    desired: Desired
    decision: Decision
    since_ms: int  # when it came to its phase, as far as is known
    process: ProcessRecord | None  # of the process that lives
    last: ExitRecord | None  # how the last run ended
    retry: RetryRecord | None
    seen: RunSeen | None  # as the run that lives, or the last one, wrote it
    memory_bytes: int | None = None  # of its processes, when they were looked at last

    @property
    def phase(self) -> Phase:
        """Where it is."""
        return self.decision.phase

    @property
    def failures(self) -> int:
        """How often it failed in a row."""
        return self.retry.failures if self.retry and self.last and self.last.code else 0

    @property
    def needs_person(self) -> bool:
        """Whether it waits for a person to act."""
        return self.phase in NEEDING and self.process is None

    @property
    def running(self) -> RunSeen | None:
        """What the process that lives wrote last; None: none lives, or it wrote nothing yet."""
        is_own = self.seen and self.process and self.seen.run == self.process.run
        return self.seen if is_own else None

    @property
    def is_changed(self) -> bool:
        """Whether its process runs with an older file than there is."""
        if self.process is None or self.file is None or not self.file.is_checked:
            return False
        return self.process.digest != self.file.digest


@dataclass
class _Managed:
    """What the supervisor remembers of a job between two looks.

    Its paths are made once: of 200 jobs that was half of the time of a look.
    """

    name: str
    run: RunFiles
    desired_name: str
    living: LivingProcess | None = None
    is_new: bool = True  # to this server: it may run already
    phase: Phase | None = None
    since_ms: int = 0
    stop_asked_ms: int | None = None
    stop_began_ms: int | None = None
    seen: RunSeen | None = None
    seen_mark: FileMark | None = None
    last: ExitRecord | None = None
    over_bytes: int = 0  # what the process used that is stopped for it; 0: it is not
    settled: str = ""  # the run whose exit was in the file when it was looked at last
    retry: RetryRecord | None = None
    desired: Desired | None = None
    desired_mark: FileMark | None = None
    digest: str = ""
    view: ManagedJob | None = field(default=None, repr=False)


class Supervisor:
    """Keeps the jobs of a directory as they are wanted. `look` may be called by one thread.

    Arguments:
        layout: where files are.
        processes: starts and finds them.
        limits: how many jobs, and how much memory.
        report: called with what happened, by the thread of the supervisor.
        clock: of this machine.

    """

    def __init__(
        self,
        layout: ServerFiles,
        processes: Processes | None = None,
        limits: ServerLimits | None = None,
        report: Callable[[Happened], object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._layout = layout
        self._processes = processes or Processes(layout)
        self._limits = limits or ServerLimits()
        self._memory = Memory(self._limits)
        self._report = report or (lambda _happened: None)
        self._clock = clock or SystemClock()
        self.job_files = JobFiles(layout.jobs)  # before the start another one may be set
        self._jobs: dict[str, _Managed] = {}
        self._views: Mapping[str, ManagedJob] = {}
        self._looked = threading.Condition()
        self._looks = 0
        self._is_looking = False
        self._looked_s = self._clock.monotonic_s()
        self._thread = Background("supervisor", self._look_again)
        self._unreadable = ""  # why the directory of job files cannot be read
        self._unwritten = ""  # why what has happened cannot be written down
        self._unknown = ""  # why it is not known which processes live
        self._pending_writes: dict[Path, ExitRecord | RetryRecord] = {}  # by file

    # ---- for readers, by any thread

    @property
    def views(self) -> Mapping[str, ManagedJob]:
        """Where each job is, as of the last look: never changed, but replaced."""
        return self._views

    @property
    def problem(self) -> str:
        """Why jobs are not kept as they should be, whichever they are; empty: they are."""
        return self._unreadable or self._thread.failure or self._unknown or self._unwritten

    @property
    def is_alive(self) -> bool:
        """Whether it looks at its jobs again and again."""
        return self._thread.is_alive

    def look_age_s(self) -> float:
        """Return for how long it has not looked at its jobs."""
        return self._clock.monotonic_s() - self._looked_s

    def lakes(self) -> list[str]:
        """Return where the lakes of the job files are that can be read."""
        jobs = [view.file.job for view in self._views.values() if view.file is not None]
        return [job.lake.reveal() for job in jobs if job is not None]

    @property
    def looks(self) -> int:
        """How often it has looked."""
        return self._looks

    def wake(self) -> None:
        """Look again soon: a desired state has changed."""
        self._thread.wake()

    def wait_looked(self, timeout_s: float = 5.0) -> bool:
        """Wait until a look that begins from now on has ended; return False where it has not."""
        with self._looked:
            target = self._looks + 1 + self._is_looking
            self._thread.wake()
            return self._looked.wait_for(lambda: self._looks >= target, timeout_s)

    # ---- its life

    def start(self) -> None:
        """Look once, and begin to look often."""
        self.look()
        self._thread.start()

    def end(self) -> None:
        """Look no more. Jobs continue."""
        self._thread.end(END_S)  # a look may wait for a disk
        self.job_files.close()
        for managed in self._jobs.values():
            if managed.living is not None:
                managed.living.close()

    def _look_again(self) -> float:
        self.look()
        return LOOK_S

    # ---- one look

    def look(self) -> None:
        """Look at all jobs once, and act."""
        with self._looked:
            self._is_looking = True
        try:
            files = self.job_files.look()
        except OSError as error:
            self._unreadable = f"{self._layout.jobs} cannot be read: {error.strerror}"
            files = {name: view.file for name, view in self._views.items() if view.file is not None}
        else:
            self._unreadable = ""
        self._processes.reap()
        self._unknown = ""
        self._write_pending()
        now_ms = self._clock.now_ms()
        for name in self._names(files) - self._jobs.keys():
            paths = self._layout.run_of(name), desired_name(name)
            self._jobs[name] = _Managed(name, *paths)
        for managed in self._jobs.values():
            self._refresh(managed, now_ms)
        views = {}
        living = sum(each.living is not None for each in self._jobs.values())
        for name in sorted(self._jobs):
            managed = self._jobs[name]
            was_alive = managed.living is not None
            views[name] = self._judge(managed, files.get(name), living, now_ms)
            living += (managed.living is not None) - was_alive
        for name in [name for name, view in views.items() if _is_gone(view)]:
            del views[name], self._jobs[name]
        self._views = views
        with self._looked:
            self._looks += 1
            self._looked_s = self._clock.monotonic_s()
            self._is_looking = False
            self._looked.notify_all()

    def _names(self, files: Mapping[str, JobFile]) -> set[str]:
        """Return the jobs that have a file, that something is wanted of, or that may run."""
        found = set(files)
        for folder, suffix in ((DESIRED, ".json"), (RUNS, "")):
            there = self._layout.records.list(folder)
            found |= {name.removesuffix(suffix) for name in there if name.endswith(suffix)}
        return found

    def _refresh(self, managed: _Managed, now_ms: int) -> None:
        """Read what has changed of a job: its process, what it wrote, its desired state."""
        before = managed.living
        if before is None or before.handle is None or before.has_ended():
            if before is not None:
                before.close()
            managed.living = self._find(managed)
        if managed.living is None and (before is not None or managed.is_new):
            record = before.record if before is not None else None
            self._settle(managed, record, now_ms, was_alive=before is not None)
        elif managed.living is not None and managed.is_new:
            self._adopt(managed, managed.living, now_ms)
        managed.is_new = False
        mark = mark_of(managed.run.seen)
        if mark != managed.seen_mark:
            managed.seen_mark = mark
            managed.seen = read_record(RunSeen, managed.run.seen)
        mark = self._layout.records.mark(managed.desired_name)
        if mark != managed.desired_mark:
            managed.desired_mark = mark
            managed.desired = self._layout.records.read(Desired, managed.desired_name)
        if managed.last is None and managed.living is None:
            managed.last = read_record(ExitRecord, managed.run.exit)

    def _find(self, managed: _Managed) -> LivingProcess | None:
        try:
            return self._processes.find(managed.name)
        except OSError as error:
            self._unknown = (
                f"{managed.run.lock} cannot be read: {error.strerror}. Whether the process of "
                f"{managed.name} lives is not known, and its state is the last one that was"
            )
            return managed.living

    def _adopt(self, managed: _Managed, living: LivingProcess, now_ms: int) -> None:
        """Adopt a running job: its process was started by an earlier server, and continues."""
        if living.record is not None:
            pid, run = living.record.pid, living.record.run
            self._note("adopted", managed.name, now_ms, pid=pid, run=run)

    def _settle(
        self, managed: _Managed, record: ProcessRecord | None, now_ms: int, *, was_alive: bool
    ) -> None:
        """Take in how the last run ended. One that was killed has not said so itself."""
        run = managed.run
        process = read_record(ProcessRecord, run.process)
        last = read_record(ExitRecord, run.exit)
        retry = managed.retry or read_record(RetryRecord, run.retry)
        has_died = process is not None and (last is None or last.run != process.run)
        # A process that could write nothing has left the files of the run before.
        is_known = last is not None and last.run in {managed.settled, retry.run if retry else ""}
        managed.settled = last.run if last is not None else ""
        if has_died and process is not None:
            last = _killed(process.run, process.attempt, process.digest, now_ms)
            self._pending_writes[run.exit] = last
        elif was_alive and record is None and (last is None or is_known):
            attempt = managed.desired.attempt if managed.desired else 0
            last = _killed(f"unrecorded-{unique()}", attempt, managed.digest, now_ms)
            self._pending_writes[run.exit] = last
        if managed.over_bytes and last is not None:
            used = f"it was stopped: its processes used {self._limits.words_of(managed.over_bytes)}"
            last = self._pending_writes[run.exit] = replace(last, message=used, hint=OVER_MEMORY)
        managed.over_bytes = 0
        if last is not None and (retry is None or retry.run != last.run):
            started_ms = process.started_ms if process and process.run == last.run else None
            retry = after_exit(last, started_ms, retry, now_ms)
            self._pending_writes[run.retry] = retry
            ending = {"code": last.code, "error": last.error, "message": last.message}
            self._note("ended", managed.name, now_ms, run=last.run, **ending)
        self._write_pending()
        managed.last, managed.retry = last, retry
        managed.stop_asked_ms = managed.stop_began_ms = None

    def _write_pending(self) -> None:
        """Write down how runs ended. Where that fails it is in mind until it goes."""
        self._unwritten = ""
        for path, record in tuple(self._pending_writes.items()):
            try:
                write_record(path, record)
            except FileNotFoundError:
                del self._pending_writes[path]  # the job was removed
            except OSError as error:
                self._unwritten = (
                    f"{path} cannot be written: {error.strerror}. Jobs are kept as they are wanted "
                    "all the same; a server that is started now would not know how runs ended"
                )
            else:
                del self._pending_writes[path]

    def _judge(
        self, managed: _Managed, file: JobFile | None, living: int, now_ms: int
    ) -> ManagedJob:
        """Decide about a job, act, and return where it is."""
        desired = managed.desired or Desired(DesiredState.STOPPED, 0, 0, "", 0, "never started")
        if file is not None and file.is_checked:
            if managed.digest not in {"", file.digest}:
                self._note("changed", managed.name, now_ms, digest=file.digest)
            managed.digest = file.digest
        record = managed.living.record if managed.living else None
        memory = self._memory.look(managed.name, record, now_ms)
        is_held = bool(desired.held_by) and self._processes.is_under_way(desired.held_by)
        decision = decide(_facts(managed, file, desired, is_held=is_held), now_ms)
        if decision.act is Act.START:
            decision = self._start(managed, file, desired, living, decision)
        elif decision.act is Act.STOP:
            self._stop(managed, file, now_ms)
        elif managed.living is not None and self._uses_too_much(managed, memory, now_ms):
            decision = self._restart_for_memory(managed, file, decision, now_ms)
        self._note_phase(managed, decision, now_ms)
        return ManagedJob(
            managed.name,
            file,
            desired,
            decision,
            managed.since_ms,
            record,
            managed.last,
            managed.retry,
            managed.seen,
            memory,
        )

    def _note_phase(self, managed: _Managed, decision: Decision, now_ms: int) -> None:
        """Report that a job has come to another phase."""
        if decision.phase is managed.phase:
            return
        since_ms, run = now_ms, _run_of(managed)
        if managed.phase is None:
            since_ms = _known_since(managed, PhaseRecord(str(decision.phase), now_ms, run))
        if managed.phase is not None or decision.phase is not Phase.STOPPED:
            self._note(
                "phase",
                managed.name,
                now_ms,
                phase=str(decision.phase),
                why=decision.why,
                hint=decision.hint,
                before=str(managed.phase) if managed.phase else None,
                ms=now_ms - managed.since_ms if managed.phase else 0,
                run=managed.last.run if managed.last else "",
                digest=managed.digest,
            )
        managed.phase, managed.since_ms = decision.phase, since_ms
        record = PhaseRecord(str(decision.phase), since_ms, run)
        write_hint(managed.run.phase, json.dumps(codec.encode_object(record)))

    def _start(
        self,
        managed: _Managed,
        file: JobFile | None,
        desired: Desired,
        living: int,
        decision: Decision,
    ) -> Decision:
        full = self._limits.why_full(living, self._memory)
        if full or file is None:
            return Decision(Act.NOTHING, Phase.WAITING, full)
        try:
            self._processes.start(managed.name, file.path, desired)
        except (OSError, AshoreError) as error:
            return Decision(
                Act.NOTHING, Phase.BACKING_OFF, f"its process cannot be started: {error}"
            )
        managed.living = LivingProcess(None, None)  # its record comes in a moment
        managed.stop_asked_ms = managed.stop_began_ms = None
        code = managed.last.code if managed.last else None
        self._note("started", managed.name, self._clock.now_ms(), after=code)
        return decision

    def _stop(self, managed: _Managed, file: JobFile | None, now_ms: int) -> None:
        """Ask a process to end; kill it where it has not ended long after its grace."""
        if managed.living is None or managed.living.handle is None:
            return
        managed.stop_began_ms = managed.stop_began_ms or now_ms
        grace_ms = file.job.grace_ms if file and file.job else 60_000
        if now_ms - managed.stop_began_ms > grace_ms + KILL_BEYOND_GRACE_MS:
            managed.living.send(signal.SIGKILL)
        elif managed.stop_asked_ms is None or now_ms - managed.stop_asked_ms > STOP_AGAIN_MS:
            managed.stop_asked_ms = now_ms
            managed.living.send(signal.SIGTERM)

    def _uses_too_much(self, managed: _Managed, memory: int | None, now_ms: int) -> bool:
        """Return whether a process is above its limit, or is being stopped as it was."""
        if not managed.over_bytes and memory is not None and self._memory.is_too_much(memory):
            managed.over_bytes = memory
            self._note("memory", managed.name, now_ms, bytes=memory)
        return managed.over_bytes > 0

    def _restart_for_memory(
        self, managed: _Managed, file: JobFile | None, decision: Decision, now_ms: int
    ) -> Decision:
        self._stop(managed, file, now_ms)
        used = self._limits.words_of(managed.over_bytes)
        why = f"its processes use {used}: it is stopped, and started again"
        return Decision(decision.act, Phase.STOPPING, why, hint=OVER_MEMORY)

    def _note(self, kind: str, job: str, at_ms: int, **fields: object) -> None:
        self._report(Happened(kind, job, at_ms, fields))


def _facts(managed: _Managed, file: JobFile | None, desired: Desired, *, is_held: bool) -> Facts:
    record, seen = managed.living.record if managed.living else None, managed.seen
    is_seen = record is not None and seen is not None and seen.run == record.run
    return Facts(
        file=file,
        desired=desired,
        is_alive=managed.living is not None,
        has_begun=is_seen and seen is not None and seen.phase != "starting",
        generation=record.generation if record else None,
        last=managed.last,
        retry=managed.retry,
        is_held=is_held,
    )


def _run_of(managed: _Managed) -> str:
    """Return the run that lives, or else the last one; empty: there was none."""
    living = managed.living.record if managed.living else None
    if living is not None:
        return living.run
    return managed.last.run if managed.last else ""


def _known_since(managed: _Managed, now: PhaseRecord) -> int:
    """Return when a job came to a phase that it may have had before this server."""
    known = read_record(PhaseRecord, managed.run.phase)
    if known is not None:
        is_same = (known.phase, known.run) == (now.phase, now.run)
        return min(known.since_ms, now.since_ms) if is_same else now.since_ms
    is_down = now.phase in {Phase.STOPPED, Phase.PAUSED}
    return managed.desired.at_ms if managed.desired and is_down else now.since_ms


def _is_gone(view: ManagedJob) -> bool:
    """Return whether nothing is left of a job: no file, no process, nothing that is wanted."""
    is_known = view.file is not None or view.process is not None or view.desired.at_ms
    return not is_known and view.phase is Phase.STOPPED


def _killed(run: str, attempt: int, digest: str, now_ms: int) -> ExitRecord:
    message = "the process that ran the job is gone and left no exit code: it was killed, by the "
    message += "system because memory ran out, or by someone; or the machine was restarted"
    hint = "`dmesg` says whether memory ran out; it is started again"
    return ExitRecord(run, attempt, digest, KILLED, now_ms, "job-process-ended", message, hint)
