"""Whether a batch has failed since memory ran out: what is refused, and what is tried again."""

from subprocess import Popen

import pytest
from py4j.protocol import Py4JNetworkError

from ashore.errors import BatchFailed, QueryRefused
from ashore.log.names import SliceName
from ashore.queries.spark.sql.memory import no_answer, out_of_memory
from ashore.topics.read.reading import KafkaAddress

NAME = SliceName("job", "ods__out")
KAFKA = KafkaAddress("none:9092", {})
GONE = Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    ("ends", "is_refused"),
    [
        ("exit 52", True),  # Spark's code where a task has found no memory
        ("kill -9 $$", False),  # by the kernel, or by a person
        ("kill -6 $$", False),  # a crash of the JVM
        ("exit 143", False),
        ("exit 0", False),
    ],
)
def test_a_jvm_that_was_killed_is_no_batch_that_is_too_large(ends: str, is_refused: bool) -> None:
    with Popen(["/bin/sh", "-c", ends]) as process:
        found = out_of_memory(GONE, NAME, KAFKA, [], lambda: process)
    assert isinstance(found, QueryRefused) == is_refused
    if not is_refused:
        assert found is None
        error = no_answer(NAME, GONE, GONE)
        assert isinstance(error, BatchFailed)  # which is tried again


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", True),
        ("java.lang.OutOfMemoryError: Requested array size exceeds VM limit", True),
        ("java.lang.OutOfMemoryError", True),
        ("java.lang.OutOfMemoryError: unable to create native thread", False),
        ("java.lang.OutOfMemoryError: Metaspace", False),
        ("java.lang.IllegalStateException: another", False),
    ],
)
def test_only_memory_for_records_counts(text: str, is_refused: bool) -> None:
    error = RuntimeError("Job aborted")
    error.__cause__ = RuntimeError(f"Lost task 0.0 in stage 0.0: {text}")
    found = out_of_memory(error, NAME, KAFKA, [], lambda: None)
    assert isinstance(found, QueryRefused) == is_refused
