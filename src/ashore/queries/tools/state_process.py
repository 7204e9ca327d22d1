"""Spark for one verb of `ashore checkpoint`.

What it is: `run_state_process`, which starts it and passes on its events; `take_answer`, which
returns its answer; `follow`, the events of a process that is started elsewhere.
What it promises: its error is raised here, as it was raised there. It ends when this one does.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ashore.errors import AshoreError, JobProcessEnded, error_of
from ashore.jobs.events import Event, StateStep
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.jobs.requests import write_request

E = TypeVar("E")


def run_state_process(
    command: str, where: str, request: object, *, debug: bool = False
) -> Iterator[Event]:
    """Start Spark for a verb, and yield the events of the process, until it has ended.

    Arguments:
        command: of `ashore.queries.spark.state.main`.
        where: the checkpoint, for people who list processes.
        request: of the command.
        debug: what it says on stderr is shown.

    Raises JavaMissing, JarMismatch, ServiceError; the error of the process.

    """
    options = LaunchOptions(
        is_state=True, debug=debug, name=f"checkpoint-{command}", request=write_request(request)
    )
    launch = JobLaunch(command, where, options)
    with launch:
        yield from follow(launch)


def follow(launch: JobLaunch) -> Iterator[Event]:
    """Yield the events of a process, until it has ended. Raises its error, then."""
    failure: Failed | None = None
    for event in launch.events():
        if isinstance(event, Failed):
            failure = event
        else:
            yield event
    code = launch.wait()
    if failure is not None or code:
        raise _error(code, failure, launch)


def take_answer(
    events: Iterable[Event],
    kind: type[E],
    report: Callable[[StateStep], None],
) -> E:
    """Follow a process that rewrites state, and return its answer.

    Arguments:
        events: of the process.
        kind: of the event that is the answer.
        report: called with each step.

    Raises what reading the events raises; JobProcessEnded where there is no answer among them.

    """
    answer: E | None = None
    for event in events:
        if isinstance(event, StateStep):
            report(event)
        elif isinstance(event, kind):
            answer = event
    if answer is None:
        raise JobProcessEnded("the state process has ended without an answer")
    return answer


def _error(code: int, failure: Failed | None, launch: JobLaunch) -> AshoreError:
    if failure is not None:
        return error_of(failure.code, failure.message, hint=failure.hint or "", **failure.more)
    return JobProcessEnded(
        f"the Spark process exited with {code if code >= 0 else 128 - code} without an error "
        "message; nothing was switched",
        hint="try again; its log says more",
        log=str(launch.log_path),
    )
