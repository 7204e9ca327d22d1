"""The job file: what it may say, the one door it comes through, and its reference.

Promises: a `Job` is valid as a whole, frozen, and never shows a secret; a file that cannot be run
is refused with every problem at once, each with file, line, key and what to write instead.
"""

from ashore.jobs.file.catalogs import CatalogSection, HiveSection
from ashore.jobs.file.columns import Column
from ashore.jobs.file.load import SchemaCheck, load_job, parse_job
from ashore.jobs.file.model import (
    Batch,
    Clean,
    Job,
    KafkaSection,
    SourceSection,
    Spark,
    Sql,
)
from ashore.jobs.file.naming import StartAt, TableName
from ashore.jobs.file.options import KafkaOptions
from ashore.jobs.file.problems import JobFileProblem
from ashore.jobs.file.reference import render_reference
from ashore.jobs.file.resolve import (
    ResolvedTable,
    SideTable,
    check_views,
    match_topics,
    select_sources,
    select_topics,
)
from ashore.jobs.file.tables import EventTime, Late, Roll, SealSection, Table
from ashore.jobs.file.values import EnvText

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
