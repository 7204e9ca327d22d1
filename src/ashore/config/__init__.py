"""The job file: what it may say, the one door it comes through, and its reference.

Promises: a `Job` is valid as a whole, frozen, and never shows a secret; a file that cannot be run
is refused with every problem at once, each with file, line, key and what to write instead.
Must not know: decoding, Kafka clients, storage, Spark.
"""

from ashore.config.columns import Column
from ashore.config.load import SchemaCheck, load_job, parse_job
from ashore.config.model import (
    Batch,
    CatalogSection,
    Clean,
    HiveSection,
    Job,
    KafkaSection,
    SourceSection,
    Spark,
    Sql,
)
from ashore.config.naming import StartAt, TableName
from ashore.config.options import KafkaOptions
from ashore.config.problems import JobFileProblem
from ashore.config.reference import render_reference
from ashore.config.resolve import (
    ResolvedTable,
    SideTable,
    check_views,
    match_topics,
    select_sources,
    select_topics,
)
from ashore.config.tables import EventTime, Late, Roll, SealSection, Table
from ashore.config.values import EnvText

__all__ = [
    "Batch",
    "CatalogSection",
    "Clean",
    "Column",
    "EnvText",
    "EventTime",
    "HiveSection",
    "Job",
    "JobFileProblem",
    "KafkaOptions",
    "KafkaSection",
    "Late",
    "ResolvedTable",
    "Roll",
    "SchemaCheck",
    "SealSection",
    "SideTable",
    "SourceSection",
    "Spark",
    "Sql",
    "StartAt",
    "Table",
    "TableName",
    "check_views",
    "load_job",
    "match_topics",
    "parse_job",
    "render_reference",
    "select_sources",
    "select_topics",
]
