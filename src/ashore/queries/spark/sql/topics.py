"""Rows of a query as records of a topic, written by Spark's own sink for Kafka.

What it is: `TopicPlan`, which topic and how; rows as records; and the writing of a batch.
What it promises: when `send_rows` returns, all replicas in sync have every row of the batch. Where
it raises, some rows may be there, and come again with the next try.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ashore.errors import QueryRefused
from ashore.jobs.file.model import SinkTopic
from ashore.jobs.kafka_options import SECURITY
from ashore.plans.graph import PlanGraph
from ashore.plans.operators import find_hidden_keys
from ashore.queries.spark.internals.reading import read_sources
from ashore.topics.read.reading import KafkaAddress

NO_KEY = "a row of an upsert topic has no key: "
# Spark's older way to write to Kafka hides the plan that it runs, and with it how many rows it had.
COUNTED = {"spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text"}
# Of the reader's options, those that say how one gets in and how names become addresses.
_SHARED = re.compile(rf"({'|'.join(map(re.escape, SECURITY))}|socket\.|client\.dns\.).+")
# All digits that Spark has, and the zone: what is read again is what was written.
JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that an INSERT writes."""

    topic: str
    is_upsert: bool
    key: tuple[str, ...]
    options: Mapping[str, str] = field(repr=False)  # of the producer

    def describe(self) -> list[object]:
        """Return what its records depend on, for the digest of a query."""
        return [self.topic, self.is_upsert, list(self.key)]


def plan_topic(item: SinkTopic, options: Mapping[str, str]) -> TopicPlan:
    """Return how the rows of an INSERT go into a topic of the job file."""
    return TopicPlan(item.topic, item.mode == "upsert", item.key, dict(options))


def check_topic(frame: DataFrame, graph: PlanGraph, plan: TopicPlan) -> None:
    """Refuse rows that make no record, or a key that is not one. `graph`: what the frame does.

    Raises QueryRefused, and AnalysisException where a type cannot be written.
    """
    names = Counter(name.casefold() for name in frame.columns)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise _refused(
            plan, f"two columns are named {twice[0]}", "give one of them another name with `AS`"
        )
    missing = [name for name in plan.key if name not in frame.columns]
    if missing:
        raise _refused(
            plan,
            f"the SELECT has no column {missing[0]} for the key",
            f"select it, or name one of {', '.join(frame.columns)}",
        )
    reads = {topic for each in read_sources(frame) for topic in each.reads.split(",")}
    if plan.topic in reads:
        raise _refused(
            plan, "the INSERT reads the topic that it writes", "write another topic, or a table"
        )
    if plan.is_upsert:
        _check_newest(graph, plan)
    encode_rows(frame, plan)


def _check_newest(graph: PlanGraph, plan: TopicPlan) -> None:
    """Refuse rows of which two may have the same key, and none be the newer one."""
    hidden = find_hidden_keys(graph, plan.key)
    if hidden is None:
        raise _refused(
            plan,
            "upsert needs an aggregate: without one, no row replaces another",
            "write `mode: append`, which may have a `key` as well; for the newest row of each id: "
            "`SELECT id, max_by(struct(...), ts) AS newest ... GROUP BY id`",
        )
    if hidden:
        raise _refused(
            plan,
            "rows of one batch can have the same key, and none is the newest: the query also "
            f"groups by `{hidden[0]}`",
            "select it as a column and add that to `key`, or group by the key alone",
        )


def encode_rows(frame: DataFrame, plan: TopicPlan) -> DataFrame:
    """Return rows as the columns `key` and `value`."""
    value = F.to_json(F.struct("*"), JSON_OPTIONS).alias("value")
    return frame.select(_key(frame, plan).alias("key"), value)


def _key(frame: DataFrame, plan: TopicPlan) -> Column:
    if not plan.key:
        return F.lit(None).cast("string")
    columns = [F.col(quoted(name)) for name in plan.key]
    if len(columns) > 1:
        return F.to_json(F.struct(*columns), JSON_OPTIONS)
    key = _text(columns[0], frame.schema[plan.key[0]].dataType)
    if plan.is_upsert:
        key = F.coalesce(key, F.raise_error(F.lit(NO_KEY + plan.key[0])))
    return key


def _text(column: Column, kind: DataType) -> Column:
    """Return a column as it stands in the JSON of a value, without the quotes."""
    match kind:
        case BinaryType():
            return column
        case TimestampType():
            return F.date_format(column, JSON_OPTIONS["timestampFormat"])
        case TimestampNTZType():
            return F.date_format(column, JSON_OPTIONS["timestampNTZFormat"])
        case StructType() | ArrayType() | MapType():
            return F.to_json(column, JSON_OPTIONS)
        case _:
            return column.cast("string")


def send_rows(frame: DataFrame, kafka: KafkaAddress, plan: TopicPlan) -> int:
    """Write the rows of a batch and return how many there are.

    If interrupted, or where it raises: any part of the rows may be in the topic.
    """
    counted = Observation()
    records = encode_rows(frame, plan).observe(counted, F.count(F.lit(1)).alias("rows"))
    options = producer_options(kafka, plan.options)
    records.write.format("kafka").mode("append").options(**options, topic=plan.topic).save()
    return int(counted.get["rows"])


def producer_options(kafka: KafkaAddress, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's sink: how Kafka is reached, the job's own, and ours."""
    shared = {name: value for name, value in kafka.options.items() if _SHARED.fullmatch(name)}
    ours = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "acks": "all",
        "enable.idempotence": "true",
    }
    return {f"kafka.{name}": value for name, value in {**shared, **options, **ours}.items()}


def _refused(plan: TopicPlan, text: str, hint: str) -> QueryRefused:
    return QueryRefused(f"{plan.topic}: {text}", hint=hint, topic=plan.topic)


def quoted(name: str) -> str:
    """Return the name of a column as SQL writes it, whatever it is."""
    return "`" + name.replace("`", "``") + "`"
