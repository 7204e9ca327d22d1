"""Which options of the Kafka client are Ashore's own, and which are secret.

What it is: tables, by the names of the Java client. They stand apart from the job file, which
checks them, because processes of Spark that only read need no job file and no pydantic.
"""

import re
from collections.abc import Mapping

# Why options cannot be set, each reason with the names of its options.
REFUSED_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "topics are named in `tables`": ("assign", "subscribe", "subscribePattern"),
    "the position is kept in the landing log, never in a consumer group": (
        *("auto.commit.interval.ms", "enable.auto.commit", "enable.auto.offset.store"),
        *("group.instance.id", "group.protocol", "groupIdPrefix"),
        "partition.assignment.strategy",
    ),
    "where a topic begins is `source.first_start`, lost offsets are `source.gap`": (
        "auto.offset.reset",
    ),
    "it has a key of its own, `source.kafka.bootstrap_servers`": ("bootstrap.servers",),
    "what is read is decided by the landing log": (
        *("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "startingOffsets"),
        *("startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
        "startingTimestamp",
    ),
    "a gap always fails unless `source.gap` says skip, which is recorded": ("failOnDataLoss",),
    "progress is committed to the group of `commit_group`; reading needs no group": ("group.id",),
    "`provenance: headers` of a table lands headers": ("includeHeaders",),
    "an interceptor could change or drop records": ("interceptor.classes",),
    "it is always read_committed: aborted records are never landed": ("isolation.level",),
    "records are read as bytes and decoded by `decode`": ("key.deserializer", "value.deserializer"),
    "a batch is bounded by `batch`": ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"),
    "ranges are split by backlog": ("minPartitions",),
}
REFUSED_PRODUCER_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "a record is acknowledged by all in-sync replicas, and is not duplicated by a retry": (
        *("acks", "enable.idempotence", "retries"),
    ),
    "topics are written to the cluster of `source.kafka`": ("bootstrap.servers",),
    "records have no headers": ("includeHeaders",),
    "an interceptor could change or drop records": ("interceptor.classes",),
    "the record's key is made of the columns in `key`": ("key.serializer",),
    "records of one key stay in one partition, in their order": (
        *("max.in.flight.requests.per.connection", "partitioner.class"),
        "partitioner.ignore.keys",
    ),
    "`INSERT INTO` says which topic": ("topic",),
    "Spark writes to Kafka without transactions": ("transaction.timeout.ms", "transactional.id"),
    "the value is the row as JSON": ("value.serializer",),
}
# Names of librdkafka, and what to write for them: options have the names of the Java client.
LIBRDKAFKA_NAMES: Mapping[str, str] = {
    "enable.ssl.certificate.verification": (
        "certificates are always verified: name the authority in ssl.truststore.location, or turn "
        'off the check of the host name alone by ssl.endpoint.identification.algorithm: ""'
    ),
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "metadata.broker.list": "source.kafka.bootstrap_servers",
    "sasl.mechanisms": "sasl.mechanism",
    **dict.fromkeys(
        ("sasl.password", "sasl.username"),
        "sasl.jaas.config: org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="..." password="..."; (for PLAIN ...plain.PlainLoginModule)',
    ),
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location, with ssl.truststore.type: PEM",
    "ssl.ca.pem": "ssl.truststore.certificates, with ssl.truststore.type: PEM",
    **dict.fromkeys(
        ("ssl.certificate.location", "ssl.key.location"),
        "ssl.keystore.location, one file with certificate and key, with ssl.keystore.type: PEM",
    ),
    "ssl.certificate.pem": "ssl.keystore.certificate.chain, with ssl.keystore.type: PEM",
    "ssl.key.pem": "ssl.keystore.key, with ssl.keystore.type: PEM",
}
OWNED_OPTIONS = {name: reason for reason, names in REFUSED_OPTIONS.items() for name in names}
OWNED_PRODUCER_OPTIONS = {
    name: reason for reason, names in REFUSED_PRODUCER_OPTIONS.items() for name in names
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
SECRET_NAME = re.compile(
    r"password|secret|token$|jaas|credential|private|account_key|keystore\.key|\.key$"
)
