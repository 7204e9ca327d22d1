"""Events of a job process as lines of JSON."""

import json
import sys

from ashore.cli.output import now_text, print_line
from ashore.jobs.events import Event, encode_event


def print_event(event: Event) -> None:
    """Print one event of a job process as a line of JSON to stdout, with the time: `at`."""
    print_line(encode_event(event))


def print_log(line: str, event: Event) -> None:
    """Print a line of talk as JSON to stderr, with the time and what the event says."""
    document = {"at": now_text(), "message": line, **encode_event(event)}
    sys.stderr.write(json.dumps(document, default=str) + "\n")
    sys.stderr.flush()
