"""Files that a streaming frame reads as tables, listed anew."""

from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from ashore.queries.spark.internals.reading import leaves_of
from ashore.topics.run.spark.internals import jvm


def reads_files(frame: DataFrame) -> bool:
    """Return whether a frame reads files as a table, not as a stream. Raises SparkUnknown."""
    return any(True for _ in _file_relations(frame))


def refresh_files(frame: DataFrame) -> None:
    """List the files anew that a frame reads as tables: the next batch of its query sees them.

    Spark lists them once, where a relation is made; the query that is started with the frame has
    the very same relations. Where it fails, the lists from before stay. It also fails where a
    directory is gone, which Spark would take for an empty one; but not where it goes meanwhile.
    Raises Py4JError, or what PySpark makes of Spark's exception.
    """
    session_state = jvm.SESSION_STATE(jvm.session_of(frame.sparkSession))
    for relation in _file_relations(frame):
        settings = jvm.HADOOP_SETTINGS(session_state, jvm.FILE_OPTIONS(relation))
        for path in jvm.items(jvm.ROOT_PATHS(jvm.FILE_INDEX(relation))):
            jvm.FILE_STATUS(jvm.FILE_SYSTEM(path, settings), path)
    jvm.REFRESH(jvm.analyzed_plan(frame))


def _file_relations(frame: DataFrame) -> Iterator[JavaObject]:
    for leaf in leaves_of(frame):
        if jvm.class_name(leaf) == "LogicalRelation":
            relation = jvm.BATCH_RELATION(leaf)
            if jvm.class_name(relation) == "HadoopFsRelation":
                yield relation
