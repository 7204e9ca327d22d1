"""What a streaming frame reads.

What it promises: sources in the order in which the plan names them, with what is read of them, and
no option that may hold a secret.
What it must not know: the job file; where a source stands at present.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from ashore.spark.internals import jvm
from ashore.spark.internals.trees import parse_tree
from ashore.spark.internals.version import require_known_spark

# Of the options of Spark's Kafka source, those that say what is read; their words.
TOPICS = {"subscribe": "", "subscribepattern": "topics like ", "assign": "partitions "}


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A leaf of a plan."""

    name: str
    format: str
    reads: str
    is_streaming: bool


def describe_sources(frame: DataFrame) -> list[PlanSource]:
    """Return what a frame reads, each as often as the plan reads it. Raises SparkUnknown."""
    return [_describe(leaf) for leaf in _leaves(frame)]


def list_topics(frame: DataFrame) -> list[list[str]]:
    """Return the topics of each stream of Kafka that a frame reads, as often as it reads it.

    They are in the order of the plan, which is that of the offsets in a checkpoint.
    Raises SparkUnknown.
    """
    found = describe_sources(frame)
    return [each.reads.split(",") for each in found if each.is_streaming and each.format == "kafka"]


def find_columns(frame: DataFrame) -> dict[int, str]:
    """Return the source's name for the expression id of each column that a source has."""
    found: dict[int, str] = {}
    for leaf in _leaves(frame):
        name = _describe(leaf).name
        for attribute in jvm.items(jvm.PLAN_OUTPUT(leaf)):
            number = parse_tree(jvm.TO_JSON(attribute)).number_of("exprId")
            if number is not None:
                found[number] = name
    return found


def reads_files(frame: DataFrame) -> bool:
    """Tell whether a frame reads files as a table, not as a stream. Raises SparkUnknown."""
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
    for leaf in _leaves(frame):
        if jvm.class_name(leaf) == "LogicalRelation":
            relation = jvm.BATCH_RELATION(leaf)
            if jvm.class_name(relation) == "HadoopFsRelation":
                yield relation


def _leaves(frame: DataFrame) -> Iterator[JavaObject]:
    require_known_spark(frame.sparkSession)
    return jvm.items(jvm.LEAVES(jvm.analyzed_plan(frame)))


def _describe(leaf: JavaObject) -> PlanSource:
    match jvm.class_name(leaf):
        case "StreamingRelationV2":
            return _describe_stream(leaf)
        case "StreamingRelation":
            return _describe_files(leaf)
        case "LogicalRelation":
            return _describe_relation(jvm.BATCH_RELATION(leaf))
        case kind:
            # Rows in memory, tables of a catalog: as Spark writes it, without the columns' ids.
            text = re.sub(r"\s*\[[^]]*#[^]]*\]", "", str(jvm.TEXT(leaf))).partition(",")[0]
            return PlanSource(text.strip(), kind, text.strip(), bool(jvm.IS_STREAMING(leaf)))


def _describe_stream(leaf: JavaObject) -> PlanSource:
    written = str(jvm.V2_FORMAT(leaf))
    options = jvm.V2_OPTIONS(leaf)
    found = ((words, jvm.OPTION_VALUE(options, option)) for option, words in TOPICS.items())
    reads = next((f"{words}{value}" for words, value in found if value is not None), written)
    return PlanSource(_given_name(leaf) or reads, written, reads, True)


def _describe_files(leaf: JavaObject) -> PlanSource:
    """A source of files is called `FileSource[path]`."""
    written, _, path = str(jvm.V1_NAME(leaf)).rstrip("]").partition("[")
    name = _given_name(leaf) or path.rstrip("/").rpartition("/")[2]
    return PlanSource(name or written, written, path or written, True)


def _describe_relation(relation: JavaObject) -> PlanSource:
    """Files, or what else Spark reads in batches, JDBC tables among it."""
    text = str(jvm.TEXT(relation))
    if jvm.class_name(relation) != "HadoopFsRelation":
        return PlanSource(text, "relation", text, False)
    paths = jvm.items(jvm.ROOT_PATHS(jvm.FILE_INDEX(relation)))
    reads = ", ".join(str(jvm.TEXT(path)) for path in paths)
    return PlanSource(reads.rpartition("/")[2], text, reads, False)


def _given_name(leaf: JavaObject) -> str:
    """Return the name that the query gave its source; empty where it gave none."""
    name = jvm.GIVEN_NAME(jvm.SOURCE_NAME(leaf))
    return str(jvm.OPTION_GET(name)) if jvm.IS_DEFINED(name) else ""
