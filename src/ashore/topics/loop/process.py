"""A job process: its arguments, its events, and how it ends.

What it is: `JobProcess`, the frame around whatever a job runs on: Spark, or processes of this
machine. Started by the control plane, which loads neither.
What it promises: events on stdout, talk on stderr, the exit codes of `ashore.errors`. SIGTERM and
SIGINT are an orderly stop; SIGKILL is always safe. It does not outlive its parent by more than
ORPHAN_S: it would be unseen, and the job may already have been started again.
"""

import argparse
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Generic, Protocol, TypeVar

from ashore.base.clock import CLOCK_VARIABLE, Clock, SteeredClock, SystemClock
from ashore.base.operator import operator
from ashore.errors import AshoreError
from ashore.jobs import events
from ashore.jobs.events import Ended, Relanded, Started, Starting
from ashore.jobs.failure import Failed
from ashore.jobs.file import Job
from ashore.jobs.heartbeat import Heart
from ashore.jobs.listener import Listener, Verb
from ashore.jobs.mailbox import Mailbox
from ashore.jobs.requests import StopDone, StopRequest, read_asked, write_request
from ashore.jobs.writer import EventWriter, watch_parent
from ashore.storage import count_calls, count_hanging_calls
from ashore.topics.loop.assembly import kafka_address
from ashore.topics.loop.job import load_job_file, mailbox_in_lake
from ashore.topics.loop.job_loop import JobLoop
from ashore.topics.loop.recovery import open_and_find_lost, reland
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.write.batch import BatchRunner

ORPHAN_S = 1.0
ORPHAN = "`ashore run`, its parent process, no longer exists"
AGAIN = "start it again: it resumes from its log; if this happens again, please report it"


class RunnableJob(Protocol):
    """A job put together with all that it works with."""

    @property
    def runner(self) -> BatchRunner:
        """What reads and writes the batches of its topics; it tries the lake out as well."""
        ...

    def slice(self) -> SliceLoop:
        """Return the worker that lands its topics."""
        ...

    def loop(self, *, until_drained: bool) -> JobLoop:
        """Return what runs all that it does."""
        ...


R = TypeVar("R", bound=RunnableJob)
R_co = TypeVar("R_co", covariant=True, bound=RunnableJob)

VerbsOf = Callable[[R, JobLoop], Mapping[str, Verb]]
"""What a job can be asked, beside to stop, while it runs: between two of its batches, say."""


class Engine(Protocol[R_co]):
    """What the batches of a job run on. Used once: started, used, stopped."""

    def start(self, job: Job) -> None:
        """Start it with the options of a job. Has no deadline."""
        ...

    def warm(self) -> None:
        """Do what the first batch would otherwise wait for, as far as that can be done."""
        ...

    def assemble(
        self, job: Job, events: EventWriter, clock: Clock, accepted_by: str
    ) -> AbstractContextManager[R_co]:
        """Put a job together. Nothing is read or written yet. `accepted_by`: see Environment."""
        ...

    def stop(self) -> None:
        """Stop it. Nothing of the job is under way."""
        ...


class JobProcess(Generic[R]):
    """One job in this process.

    Arguments:
        job: the job file.
        engine: what its batches run on.
        is_waiting: whether it waits for `release` once the engine is up.
        accepts_schema: whether what is risky about changed tables is accepted, by who runs it.
        verbs_of: what it can be asked once it runs.

    """

    def __init__(
        self,
        job: Job,
        engine: Engine[R],
        *,
        is_waiting: bool = False,
        accepts_schema: bool = False,
        verbs_of: "VerbsOf[R]" = lambda _job, _loop: {},
    ) -> None:
        self.events = EventWriter(count_hanging_calls, count_calls)
        self._job = job
        self._engine = engine
        self._released = threading.Event() if is_waiting else None
        self._loop: JobLoop | None = None
        self._is_stopped = False
        self._is_orphan = False
        self._accepted_by = operator() if accepts_schema else ""
        self._verbs_of = verbs_of

    def run(self, *, until_drained: bool) -> None:
        """Land until stopped, or until everything that was there has landed."""
        if self._released is None:
            with self._beating() as signs, self.assembled() as job:
                self._run(job, *signs, until_drained=until_drained)
        else:  # while it waits, another process may run the job: that one beats and is asked
            with self.assembled() as job, self._beating() as signs:
                self._run(job, *signs, until_drained=until_drained)

    def _run(self, job: R, heart: Heart, listeners: list[Listener], *, until_drained: bool) -> None:
        self._loop = job.loop(until_drained=until_drained)
        if self._is_stopped:
            return
        verbs = self._verbs_of(job, self._loop)
        for listener in listeners:
            listener.offer(verbs)
        heart.reader = kafka_address(self._job).describe_reader()
        self.events.send(Started(self._job.job, heart.reader))
        self._loop.run(probe=job.runner)

    def reland(self) -> None:
        """Read lost files again. Sends how many rows; none where nothing is lost."""
        with self.assembled() as job:
            worker = job.slice()
            lost = open_and_find_lost(worker.parts.committer())
            rows = reland(worker.plan, worker.parts, lost) if lost else 0
            self.events.send(Relanded(rows, len(lost.files) if lost else 0))

    def stop(self, *, finishes: bool = False) -> None:
        """Stop in order; the second time as well. `finishes`: see JobLoop."""
        self._is_stopped = True
        self.release()
        if self._loop is not None:
            self._loop.stop(finishes=finishes)

    def abandon(self) -> None:
        """Stop in order, as the parent is gone: without a request."""
        self._is_orphan = True
        self.stop()

    def release(self) -> None:
        """Continue, where the process waits with an engine that is up."""
        if self._released is not None:
            self._released.set()

    @property
    def job(self) -> Job:
        """The job file."""
        return self._job

    @contextmanager
    def _beating(self) -> Iterator[tuple[Heart, list[Listener]]]:
        """Have the heartbeat written, and requests answered, while inside.

        The last heartbeat says how the job ended; then what was asked is answered.
        """
        job, reported = self._job, self.events
        name = (job.job, str(job.lake))
        heart = Heart(*name, reported.at_work, reported.beat, reported.workers)
        verbs = {"stop": Verb(self._begin_stop, ends_job=True)}
        listen = partial(
            Listener, own=heart.own, verbs=verbs, report=lambda line: reported.note("", line)
        )
        listeners = [listen(Mailbox(*name))]
        if in_lake := mailbox_in_lake(job, heart.last):
            listeners.append(listen(in_lake))
        heart.start()
        for each in listeners:
            each.start()
        try:
            yield heart, listeners
        except BaseException as error:
            why = str(error) or type(error).__name__
            heart.end(why)
            failed = error if isinstance(error, AshoreError) else AshoreError(why)
            for each in listeners:
                each.end(self._describe_stop, failed)
            raise
        finally:
            reported.report_calls()
        heart.end(ORPHAN if self._is_orphan else None)
        for each in listeners:
            each.end(self._describe_stop)

    def _begin_stop(self, text: str) -> str:
        self.stop(finishes=read_asked(StopRequest, text).finishes)
        return ""

    def _describe_stop(self) -> str:
        return write_request(StopDone(self._loop.log_ends() if self._loop else ()))

    @contextmanager
    def assembled(self, instead: Job | None = None) -> Iterator[R]:
        """Start the engine, put the job together, and release both at the end.

        `instead`: what is put together in the place of the process's own job.
        """
        job = instead or self._job
        self.events.send(Starting(job.job, str(job.lake)))
        clock = self._clock()
        self._engine.start(job)
        try:
            if self._released is not None:
                self._engine.warm()
                self._released.wait()
                job = load_job_file(job.path)  # what it says now counts
            with self._engine.assemble(job, self.events, clock, self._accepted_by) as assembled:
                yield assembled
        finally:
            self._engine.stop()

    def _clock(self) -> Clock:
        """Return the machine's clock; in drills and benchmarks one that is steered, and say so."""
        path = os.environ.get(CLOCK_VARIABLE)
        if not path:
            return SystemClock()
        self.events.send(events.ClockSteered(path))
        try:
            return SteeredClock(Path(path))
        except ValueError as error:
            hint = f"unset {CLOCK_VARIABLE}: it is for drills and benchmarks"
            raise AshoreError(f"{CLOCK_VARIABLE}: {error}", hint=hint) from error


def run_process(
    module: str,
    arguments: list[str] | None,
    make_engine: Callable[[argparse.Namespace], Engine[R]],
    more: Mapping[str, Callable[[JobProcess[R], str], None]],
    verbs_of: "VerbsOf[R]" = lambda _job, _loop: {},
) -> int:
    """Run a job process and return its exit code.

    Arguments:
        module: that was started, for its help.
        arguments: of its command line; None: those of this process.
        make_engine: from the options.
        more: commands that this engine has beside `run` and `reland`, called with `--request`.
        verbs_of: what a job can be asked once it runs, beside to stop.

    """
    options = _parse(module, arguments, [*more])
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    writer = EventWriter(count_hanging_calls)

    def work() -> None:
        job = load_job_file(options.job_file)
        process = JobProcess(
            job,
            make_engine(options),
            is_waiting=options.hold,
            accepts_schema=options.accept_schema,
            verbs_of=verbs_of,
        )
        _listen(process.stop, process.abandon, process.release)
        match options.command:
            case "run":
                process.run(until_drained=options.available_now)
            case "reland":
                process.reland()
            case command:
                more[command](process, options.request)

    return ended_in_words(writer, work, debug=options.debug)


def ended_in_words(writer: EventWriter, work: Callable[[], None], *, debug: bool) -> int:
    """Do what a process is for, send how it ended, and return the exit code.

    `debug`: tracebacks of errors that were raised on purpose go to stderr, too.
    """
    try:
        work()
    except AshoreError as error:
        if debug:
            traceback.print_exc()
        writer.send(Failed.of(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last line of the process: sent as an event
        traceback.print_exc()
        words = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        unknown = AshoreError(f"the job failed with an unexpected error: {words}", hint=AGAIN)
        writer.send(Failed.of(unknown))
        return unknown.exit_code
    writer.send(Ended())
    return 0


def _parse(module: str, arguments: list[str] | None, more: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("command", choices=["run", "reland", *more])
    parser.add_argument("job_file")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--accept-schema", action="store_true")
    parser.add_argument("--hold", action="store_true", help="get ready; wait for a line on stdin")
    parser.add_argument("--jar", action="append", default=[], type=Path)
    parser.add_argument("--java-options", default="", help="of Spark's driver, beside the job's")
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--request", default="", help="the arguments of the command, as JSON")
    return parser.parse_args(arguments)


def _listen(
    stop: Callable[[], None], abandon: Callable[[], None], release: Callable[[], None]
) -> None:
    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop()

    def on_gone() -> None:
        abandon()
        SystemClock().sleep(ORPHAN_S)
        end_at_once()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    watch_parent(on_gone, lambda _line: release())


def end_at_once() -> None:
    """End this process and what it has started, as SIGKILL does: the log needs no farewell."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # another process leads the group: only this process
