"""Why Spark says that something failed: texts that Spark 4.1 has written."""

import pytest

from ashore.topics.run.spark.causes import JVM_ENDED, innermost_cause, outermost_cause, text_of

WORKER = """An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/job/functions.py", line 11, in bad
    def bad(x): raise ValueError("no sail at %d"%x)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: no sail at 0
"""
STOPPED = "[STREAM_FAILED] Query [id = fdb08aa4, runId = ddc76bdd] terminated with exception: "
QUERY = """
=== Streaming Query ===
Identifier: [id = fdb08aa4, runId = ddc76bdd]
Current Committed Offsets: {RateStreamV2[rowsPerSecond=1]: 0}
"""
PROXY = """[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in \
foreach batch sink. Reason: An exception was raised by the Python Proxy. Return Message: Traceback \
(most recent call last):
  File "/python/pyspark/errors/exceptions/captured.py", line 257, in deco
    raise converted from None
pyspark.errors.exceptions.captured.PythonException: """
JVM = """An error occurred while calling o41.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2856)
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.connect0(Native Method)
"""
SAID = "ValueError: no sail at 0"


@pytest.mark.parametrize(
    ("text", "outermost", "innermost"),
    [
        (WORKER, SAID, SAID),
        (
            f"{STOPPED}[PYTHON_EXCEPTION] {WORKER} SQLSTATE: 38000 SQLSTATE: XXKST{QUERY}",
            SAID,
            SAID,
        ),
        (f"{STOPPED}{PROXY}{WORKER} SQLSTATE: 39000 SQLSTATE: XXKST{QUERY}", SAID, SAID),
        (
            f"{STOPPED}[USER_RAISED_EXCEPTION] x SQLSTATE: P0001 SQLSTATE: XXKST{QUERY}",
            "[USER_RAISED_EXCEPTION] x SQLSTATE: P0001",
            "[USER_RAISED_EXCEPTION] x SQLSTATE: P0001",
        ),
        (
            JVM,
            "org.apache.spark.SparkException: Job aborted due to stage failure",
            "java.net.ConnectException: Connection refused",
        ),
        (
            "\n[PATH_NOT_FOUND] Path does not exist: file:/x.\n'Project [*]\n",
            *["[PATH_NOT_FOUND] Path does not exist: file:/x."] * 2,
        ),
        ("", "unknown", "unknown"),
        ("x" * 10_000, "x" * 500, "x" * 500),
    ],
)
def test_a_cause_is_a_line_that_says_why(text, outermost, innermost):
    assert (outermost_cause(RuntimeError(text)), innermost_cause(text)) == (outermost, innermost)


def test_the_text_of_an_error_is_known_once_its_jvm_has_ended() -> None:
    """Py4J asks the JVM for the text of an exception when it is printed, not when it is raised."""

    class AskedTooLate(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    assert text_of(AskedTooLate()) == JVM_ENDED
    assert innermost_cause(text_of(AskedTooLate())) == JVM_ENDED
    assert outermost_cause(AskedTooLate()) == JVM_ENDED
