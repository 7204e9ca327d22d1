"""Which errors a row is to blame for, and how they are told. The texts are Spark's own."""

from traceback import format_exception_only

import pytest

from ashore.errors import (
    AshoreError,
    BatchFailed,
    HistoryTruncated,
    OffsetsGone,
    RowNotComputed,
    SourceUnreachable,
    StreamReplaced,
)
from ashore.jobs.file.source_text import Place
from ashore.queries.spark.sql.refusals import explain_failure
from ashore.queries.spark.sql.row_errors import RowError, find_row_error

CAST = """\
An error occurred while calling o321.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed
Lost task 0.2 in stage 1.0 (TID 3) (executor driver): \
org.apache.spark.SparkNumberFormatException: \
[CAST_INVALID_INPUT] The value 'v1.5 x' of the type "STRING" cannot be cast to "INT" because it is \
malformed. Correct the value as per the syntax, or change its target type. Use `try_cast` to \
tolerate malformed input and return NULL instead. SQLSTATE: 22018
== SQL (line 1, position 8) ==
SELECT CAST(country AS INT) AS c FROM clicks
       ^^^^^^^^^^^^^^^^^^^^

\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInput(QueryExecutionErrors.scala:147)
Caused by: java.lang.Nothing: no
"""
RANGE = (
    "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] The 123.45 rounded half up from 123.45 cannot be \
represented as Decimal(3, 1). SQLSTATE: 22003"
)
WRAPPED = f"[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. Reason: Traceback\n{CAST}"


@pytest.mark.parametrize("text", [CAST, WRAPPED])
def test_a_cast_is_reported_with_value_place_and_what_to_write(text: str) -> None:
    found = find_row_error(text)
    assert found is not None
    assert found.condition == "CAST_INVALID_INPUT"
    assert found.part == "CAST(country AS INT)"
    assert found.sentence == (
        'The value \'v1.5 x\' of the type "STRING" cannot be cast to "INT" because it is malformed'
    )
    assert "try_cast" in found.advice


def test_a_condition_below_another_is_known_by_that() -> None:
    found = find_row_error(RANGE)
    assert found is not None
    assert found.condition == "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
    assert found.part == ""
    assert found.sentence.endswith("Decimal(3, 1)")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030",
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file. SQLSTATE: KD001",
        "a row said [CAST_INVALID_INPUT], and went on",  # no message of Spark follows
    ],
)
def test_what_may_pass_is_nobodys_fault(text: str) -> None:
    assert find_row_error(text) is None


def locate(found: RowError) -> Place:
    return Place("job.yaml", found.line, found.column)


def test_the_place_of_a_view_is_counted_in_its_select() -> None:
    found = find_row_error(CAST.replace("== SQL (", "== SQL of VIEW german ("))
    assert found is not None
    assert (found.view, found.line, found.column, found.part) == (
        *("german", 1, 8),
        "CAST(country AS INT)",
    )


def test_a_query_that_fails_for_a_row_is_reported_in_a_sentence_and_is_not_run_again() -> None:
    failed = RuntimeError("[STREAM_FAILED] ...")
    error = explain_failure("j/ods__big", failed, RuntimeError(CAST), locate)
    assert isinstance(error, RowNotComputed)
    assert error.exit_code == 9
    assert error.message.startswith("job.yaml:1:8: j/ods__big: ")
    assert " in `CAST(country AS INT)`: The value" in error.message
    assert "\n" not in error.message
    assert "try_cast" in error.hint
    assert "on_error" in error.hint
    # Where Spark computes a joined table before it calls back, the stream alone tells.
    told = f"[STREAM_FAILED] Query [id = d8, runId = 37] terminated with exception: {RANGE}"
    stream = explain_failure("j/ods__big", RuntimeError(told), None, locate)
    assert isinstance(stream, RowNotComputed)
    assert "NUMERIC_VALUE_OUT_OF_RANGE" in stream.message
    other = explain_failure("j/ods__big", failed, None, locate)
    assert isinstance(other, BatchFailed)


@pytest.mark.parametrize(
    "error",
    [
        OffsetsGone("Kafka no longer has clicks/0 [2, 5)"),
        HistoryTruncated("clicks/0 was truncated below offset 3: it ends at 1"),
        StreamReplaced("topic clicks was deleted and created again"),
        SourceUnreachable("no broker answers"),
    ],
)
def test_what_the_source_of_topics_raises_is_raised_again(error: AshoreError) -> None:
    traceback = "".join(format_exception_only(error))
    text = f"[STREAM_FAILED] Query [id = d8] terminated with exception: Traceback:\n{traceback}"
    found = explain_failure("j/ods__big", RuntimeError(text), None, locate)
    assert type(found) is type(error)
    assert found.message == f"j/ods__big: {error.message}"
    assert found.hint
