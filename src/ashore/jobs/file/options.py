"""Options of the Kafka client, by the names of the Java client.

What it is: the mappings that readers and producers hand on, and the options that are Ashore's own.
What it promises: an option that would change what is read, from where, or whether what is written
is there, never gets through; secret values are shown by nothing but the mapping's own lookup.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import AfterValidator, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ashore.base.suggest import suggest
from ashore.jobs.file.values import MASK, EnvText, JsonForm, ValueRefused

_RANGES = "what is read is decided by the landing log"
_POSITION = "the position is kept in the landing log, never in a consumer group"
_BYTES = "records are read as bytes and decoded by `decode`"
_TOPICS = "topics are named in `tables`"

OWNED_OPTIONS: Mapping[str, str] = {
    "assign": _TOPICS,
    "auto.commit.interval.ms": _POSITION,
    "auto.offset.reset": "where a topic begins is `source.first_start`, lost offsets are "
    "`source.gap`",
    "bootstrap.servers": "it has a key of its own, `source.kafka.bootstrap_servers`",
    "enable.auto.commit": _POSITION,
    "enable.auto.offset.store": _POSITION,
    "endingOffsets": _RANGES,
    "endingOffsetsByTimestamp": _RANGES,
    "endingTimestamp": _RANGES,
    "failOnDataLoss": "a gap always fails unless `source.gap` says skip, which is recorded",
    "group.id": "progress is committed to the group of `commit_group`; reading needs no group",
    "group.instance.id": _POSITION,
    "group.protocol": _POSITION,
    "groupIdPrefix": _POSITION,
    "includeHeaders": "`provenance: headers` of a table lands headers",
    "interceptor.classes": "an interceptor could change or drop records",
    "isolation.level": "it is always read_committed: aborted records are never landed",
    "key.deserializer": _BYTES,
    "maxOffsetsPerTrigger": "a batch is bounded by `batch`",
    "minOffsetsPerTrigger": "a batch is bounded by `batch`",
    "minPartitions": "ranges are split by backlog",
    "partition.assignment.strategy": _POSITION,
    "startingOffsets": _RANGES,
    "startingOffsetsByTimestamp": _RANGES,
    "startingOffsetsByTimestampStrategy": _RANGES,
    "startingTimestamp": _RANGES,
    "subscribe": _TOPICS,
    "subscribePattern": _TOPICS,
    "value.deserializer": _BYTES,
}

_DURABLE = "a record is acknowledged by all in-sync replicas, and is not duplicated by a retry"
_IN_ORDER = "records of one key stay in one partition, in their order"
OWNED_PRODUCER_OPTIONS: Mapping[str, str] = {
    "acks": _DURABLE,
    "bootstrap.servers": "topics are written to the cluster of `source.kafka`",
    "enable.idempotence": _DURABLE,
    "includeHeaders": "records have no headers",
    "interceptor.classes": "an interceptor could change or drop records",
    "key.serializer": "the record's key is made of the columns in `key`",
    "max.in.flight.requests.per.connection": _IN_ORDER,
    "partitioner.class": _IN_ORDER,
    "partitioner.ignore.keys": _IN_ORDER,
    "retries": _DURABLE,
    "topic": "`INSERT INTO` says which topic",
    "transaction.timeout.ms": "Spark writes to Kafka without transactions",
    "transactional.id": "Spark writes to Kafka without transactions",
    "value.serializer": "the value is the row as JSON",
}
PRODUCER_OPTIONS = (
    *("batch.size", "buffer.memory", "client.id", "compression.gzip.level"),
    *("compression.lz4.level", "compression.type", "compression.zstd.level"),
    *("connections.max.idle.ms", "delivery.timeout.ms", "linger.ms", "max.block.ms"),
    *("max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms"),
    *("partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms"),
    *("receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("request.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes"),
)
SECURITY = ("security.", "sasl.", "ssl.")  # how one gets in is the same for reading and writing
SECRET_NAME = re.compile(r"password|secret|token$|jaas|credential|private|keystore\.key|\.key$")


def _option_name(name: str, owned: Mapping[str, str]) -> str:
    bare = name.removeprefix("kafka.")
    folded = {each.casefold(): reason for each, reason in owned.items()}
    reason = folded.get(bare.casefold())
    if reason is not None:
        raise ValueRefused(f"{bare} cannot be set: {reason}", "remove it")
    if name != bare:
        raise ValueRefused("options have no prefix `kafka.` here", f"write {bare}")
    if not re.fullmatch(r"\S+", name):
        raise ValueRefused("an option's name has no spaces", "write it as the Java client does")
    return name


class KafkaOptions(Mapping[str, str]):
    """Java client names to their real values, secrets replaced.

    Lookup and iteration give real values; `repr`, `str`, dumps and digests give `shown`.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, EnvText] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, name: str) -> str:
        return self._entries[name].reveal()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown()!r})"

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of an option. Raises ValueRefused where it is not one to set."""
        return _option_name(name, OWNED_OPTIONS)

    @property
    def secret_names(self) -> frozenset[str]:
        """Names whose values may not be shown: from the environment, or secret by their name."""
        return frozenset(
            name
            for name, value in self._entries.items()
            if value.has_variables or SECRET_NAME.search(name.casefold())
        )

    def shown(self) -> dict[str, str]:
        """Return what may be printed: variables by name, other secrets as `***`."""
        secret = self.secret_names
        return {
            name: str(value) if name not in secret or _is_only_variables(value) else MASK
            for name, value in self._entries.items()
        }

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        entries = handler.generate_schema(
            dict[Annotated[str, AfterValidator(cls.check_name)], EnvText]
        )
        return core_schema.no_info_after_validator_function(
            cls,
            entries,
            serialization=core_schema.plain_serializer_function_ser_schema(cls.shown),
        )


class ProducerOptions(KafkaOptions):
    """Options of the producer, none of which decides whether a record is there."""

    __slots__ = ()

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of an option. Raises ValueRefused where it is not one to set."""
        _option_name(name, OWNED_PRODUCER_OPTIONS)
        if name.startswith(SECURITY):
            raise ValueRefused(
                f"{name} is the same for reading and writing", "write it in source.kafka.options"
            )
        if name not in PRODUCER_OPTIONS:
            others = f"the options are {', '.join(PRODUCER_OPTIONS)}"
            instead = suggest(name, PRODUCER_OPTIONS, others)
            raise ValueRefused(f"{name} is not an option of the producer", instead)
        return name


_VALUES = {"type": ["string", "number", "boolean"]}
OPTIONS_FORM = JsonForm(
    {
        "type": "object",
        "additionalProperties": _VALUES,
        "propertyNames": {"not": {"enum": sorted(OWNED_OPTIONS)}},
    }
)
PRODUCER_FORM = JsonForm(
    {
        "type": "object",
        "additionalProperties": _VALUES,
        "propertyNames": {"enum": sorted(PRODUCER_OPTIONS)},
    }
)


def _is_only_variables(value: EnvText) -> bool:
    return re.fullmatch(r"(\$\{\w+\})+", str(value)) is not None
