"""The session by whose settings Spark parses, and in which it looks for sources, in this thread."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from ashore.topics.run.spark.internals import jvm


@contextmanager
def active_session(session: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread while inside; then the one before, or none.

    PySpark's `getActiveSession` returns the last session that Python has made active, whatever the
    thread is.
    """
    before = jvm.GET_ACTIVE(session)
    jvm.SET_ACTIVE(session, jvm.session_of(session))
    try:
        yield
    finally:
        if jvm.IS_DEFINED(before):
            jvm.SET_ACTIVE(session, jvm.OPTION_GET(before))
        else:
            jvm.CLEAR_ACTIVE(session)
