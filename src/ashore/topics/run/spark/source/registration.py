"""The source `ashore` made known to a session.

What it is: `register_source`, which may be called for a session any number of times, by any thread.
What it promises: the session that is active in the thread stays so. Spark looks there, and not in
the session itself, whether a source of that name exists, and refuses it then.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ashore.topics.run.spark.internals.active_session import active_session
from ashore.topics.run.spark.source.data_source import SparkSource

_KNOWN = "DATA_SOURCE_ALREADY_EXISTS"


def register_source(spark: SparkSession) -> None:
    """Let a session know the source; one that was cloned from such a session does."""
    with active_session(spark):
        try:
            spark.dataSource.register(SparkSource)
        except AnalysisException as error:
            if error.getCondition() != _KNOWN:
                raise
