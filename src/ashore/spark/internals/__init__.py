"""Inside Spark: the one folder that calls what Spark does not promise to keep.

What it is: streaming plans, their stateful operators and sources, and Spark's own check of them,
read from classes of the JVM that are internal to Spark; what Spark refuses, in words.
What it promises: every call is declared in `jvm`, where a test compares it with the Spark that is
installed; a Spark that nobody has looked into is refused before anything is called. Nothing is
started, and no checkpoint is touched.
What it must not know: jobs and their files.
"""

from ashore.spark.internals.checks import check_streaming
from ashore.spark.internals.keys import find_hidden_keys
from ashore.spark.internals.operators import (
    OperatorKind,
    StateColumn,
    StatefulOperator,
    describe_operators,
)
from ashore.spark.internals.refusals import Refusal, explain_refusal
from ashore.spark.internals.sources import (
    PlanSource,
    describe_sources,
    list_topics,
    reads_files,
    refresh_files,
)
from ashore.spark.internals.statements import (
    ParsedInsert,
    Statement,
    parse_statements,
    plan_select,
)
from ashore.spark.internals.version import require_known_spark

__all__ = [
    "OperatorKind",
    "ParsedInsert",
    "PlanSource",
    "Refusal",
    "StateColumn",
    "StatefulOperator",
    "Statement",
    "check_streaming",
    "describe_operators",
    "describe_sources",
    "explain_refusal",
    "find_hidden_keys",
    "list_topics",
    "parse_statements",
    "plan_select",
    "reads_files",
    "refresh_files",
    "require_known_spark",
]
