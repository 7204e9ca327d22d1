"""Inside Spark: the one folder that calls what Spark does not promise to keep.

What it is: streaming plans and their sources, read as values (`ashore.plans`) from classes of the
JVM that are internal to Spark; Spark's own check of them; what Spark refuses, in words; jobs that
ask little of the JVM.
What it promises: every call is declared in `jvm`, where a test compares it with the Spark that is
installed; an unknown version of Spark is refused before anything is called, or, for jobs of
numbered tasks, used by PySpark's public way. No query is started, and no checkpoint is touched.
"""

from ashore.queries.spark.internals.event_times import (
    TimeInput,
    TimeMark,
    count_observed,
    count_observed_once,
    move_marks,
    read_marks,
    read_time_inputs,
)
from ashore.queries.spark.internals.planning import check_state
from ashore.queries.spark.internals.reading import (
    check_streaming,
    read_plan,
    read_sources,
    reads_files,
    refresh_files,
)
from ashore.queries.spark.internals.refusals import SparkRefusal, explain_refusal, find_position
from ashore.queries.spark.internals.row_parts import read_row_parts
from ashore.queries.spark.internals.statements import (
    ParsedInsert,
    Statement,
    parse_query,
    parse_statements,
    plan_select,
)
from ashore.topics.run.spark.internals.jvm import count_partitions, process_of_jvm
from ashore.topics.run.spark.internals.version import require_known_spark

__all__ = [
    "ParsedInsert",
    "SparkRefusal",
    "Statement",
    "TimeInput",
    "TimeMark",
    "check_state",
    "check_streaming",
    "count_observed",
    "count_observed_once",
    "count_partitions",
    "explain_refusal",
    "find_position",
    "move_marks",
    "parse_query",
    "parse_statements",
    "plan_select",
    "process_of_jvm",
    "read_marks",
    "read_plan",
    "read_row_parts",
    "read_sources",
    "read_time_inputs",
    "reads_files",
    "refresh_files",
    "require_known_spark",
]
