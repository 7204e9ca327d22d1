"""Why Spark says that something failed, in one line.

What it is: the causes in the text of an error of Spark, or of Py4J.
What it promises: never a stack trace, never empty, also once the JVM has ended.
"""

import re

from py4j.protocol import Py4JError, Py4JNetworkError

from ashore.topics.run.spark.daemon import why_no_worker

LENGTH_MAX = 500
DETAIL_LENGTH_MAX = 20_000  # letters of its own text that an error of Ashore keeps
JVM_GONE = (Py4JNetworkError, ConnectionError)  # what any call raises once the JVM has ended
JVM_ENDED = "its JVM has ended"  # the text of an error that nothing else is known of
# Py4J writes the first cause after `: `.
_OF_JVM = re.compile(r"(?:^|Caused by): ([^\n]+)", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception): [^\n]+)", re.MULTILINE)
_STOPPED = re.compile(r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: (.*)")
_STATE_OF_STOPPED = " SQLSTATE: XXKST"


def text_of(error: BaseException) -> str:
    """Return the text of an error. Py4J asks the JVM for it, which may have ended since."""
    try:
        return str(error)
    except (Py4JError, ConnectionError):
        return JVM_ENDED


def outermost_cause(error: Exception) -> str:
    """Return what an error says first of why."""
    return _causes(text_of(error))[0]


def innermost_cause(text: str) -> str:
    """Return what the text of an error says last of why."""
    return _causes(text)[-1]


def _causes(text: str) -> list[str]:
    if no_worker := why_no_worker(text):
        return [no_worker]
    # Of what Python has raised the JVM knows only that something was raised.
    found = _OF_PYTHON.findall(text)[-1:] or _OF_JVM.findall(text)
    return [cause.strip()[:LENGTH_MAX] for cause in found or [_first_line(text)]]


def _first_line(text: str) -> str:
    """Return the first line, without the query that has stopped: the caller knows which."""
    first = next((line for line in text.splitlines() if line.strip()), "unknown")
    stopped = _STOPPED.match(first)
    return stopped[1].removesuffix(_STATE_OF_STOPPED) if stopped else first
