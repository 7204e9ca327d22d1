"""Events of a job process: taken until it ends, or printed as lines of JSON."""

import json
import sys
from collections.abc import Callable

from ashore.cli.output import now_text, print_line
from ashore.jobs.events import Event, encode_event
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch
from ashore.topics.use.run_job import failure_of


def take_events(launch: JobLaunch, take: Callable[[Event], object]) -> Failed | None:
    """Start a process, have its events taken until it ends, and return how it failed, if so."""
    failed: Failed | None = None
    with launch:
        for event in launch.events():
            failed = event if isinstance(event, Failed) else failed
            take(event)
        code = launch.wait()
    return failure_of(code, failed, launch)


def print_event(event: Event) -> None:
    """Print one event of a job process as a line of JSON to stdout, with the time: `at`."""
    print_line(encode_event(event))


def print_log(line: str, event: Event) -> None:
    """Print a line of talk as JSON to stderr, with the time and what the event says."""
    document = {"at": now_text(), "message": line, **encode_event(event)}
    sys.stderr.write(json.dumps(document, default=str) + "\n")
    sys.stderr.flush()
