"""Ranges by the native reader, which speaks Kafka's protocol itself.

What it is: `ashore_native.RangeReader` where it is installed and the job's options are ones that it
does, with its failures in the words of Ashore's errors; and its question for the ends of leader
epochs.
What it promises: committed records only, all of them, those of a partition in order. What it cannot
do, or cannot mend, ends as `GaveUp`; `rest` says from where another reader has to continue. Arrow
is loaded by the first records.
"""

from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ashore.base.native import why_not_native
from ashore.errors import OffsetsGone, SourceError, fail
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import Cluster
from ashore.topics.read.limits import HARD_LIMITS, ReadLimits, records_too_large
from ashore.topics.read.reader_options import why_not_raw

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_BYTES = 2 << 20  # one is decoded while another comes
# Limits of the batches that readings hand out, with any reader.
BATCH_RECORDS = 65_536  # suits decoding
BATCH_BYTES = 16 << 20
# Records of a wave. Small ranges share one, as a fetch each costs more than their records; a wave
# is no larger than this, so that a partition's records arrive in few batches.
WAVE_RECORDS = 65_536
TICK_S = 0.1  # how late a signal is handled
CONNECT_S = 5.0
DEFAULT_PORT = 9092
# What the module takes as a text, or as the location of a file.
PEM = tuple(f"{what}_{how}" for what in ("ca", "certificate", "key") for how in ("pem", "location"))

Ranges = Mapping[StreamShard, OffsetRange]


class GaveUp(Exception):
    """The native reader leaves the rest to another one."""


class BrokerSilent(Exception):
    """A broker gave no answer. It may if it is asked again."""


class EpochOf(NamedTuple):
    """A partition, and the leader epoch of it whose end is asked for."""

    stream: str
    partition: int
    epoch: int


class EpochEnd(NamedTuple):
    """Where a leader epoch ends, as a broker answers: an error code of Kafka, or the offset."""

    stream: str
    partition: int
    error: int  # 0: none
    end: int  # the offset after the epoch's last; -1: the partition has no such epoch


class Choice(NamedTuple):
    """Which reader reads, and why it is not the native one."""

    is_raw: bool
    why_not: str


def load_module() -> ModuleType | None:
    """Return the module, or None where it cannot be had."""
    if why_not_native():
        return None
    import ashore_native  # noqa: PLC0415 -- may be missing

    return ashore_native


def choose_reader(cluster: Cluster) -> Choice:
    """Say whether the native reader can read of this cluster."""
    if load_module() is None:
        return Choice(False, why_not_native())
    if isinstance(_servers(cluster), str):
        return Choice(False, f"{_servers(cluster)} is not of the form HOST:PORT")
    why_not = why_not_raw(cluster.settings)
    return Choice(not why_not, why_not)


def read_epoch_ends(
    cluster: Cluster, host: str, port: int, epochs: Sequence[EpochOf]
) -> list[EpochEnd]:
    """Ask a broker where leader epochs end. It answers for the partitions that it leads.

    Requires: `choose` says that it can be. Raises GaveUp, BrokerSilent.
    """
    module = load_module()
    if module is None:
        fail("there is no native reader")
    connections = _connections(module, _made_by(cluster))
    try:
        found = module.read_epoch_ends(
            host, port, [tuple(each) for each in epochs], _settings(module, cluster), connections
        )
    except module.GaveUp as gave_up:
        raise GaveUp(str(gave_up)) from None
    except module.BrokerSilent as silent:
        raise BrokerSilent(str(silent)) from None
    return [EpochEnd(*each) for each in found]


class RawReading:
    """One reading of ranges that the partitions have. Requires: `choose` says that it can be.

    Arguments:
        cluster: where.
        ranges: of partitions that differ.
        with_headers: the topics whose records come with their headers.
        topic_ids: ids of topics, where they are known: a topic that has another id is refused.
        limits: of records and batches.

    """

    def __init__(
        self,
        cluster: Cluster,
        ranges: Ranges,
        with_headers: Collection[str],
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        limits: ReadLimits = HARD_LIMITS,
    ) -> None:
        module = load_module()
        if module is None:
            fail("there is no native reader")
        self._module = module
        self._limits = limits
        self._shards = list(ranges)
        self._ranges = list(ranges.values())
        self._reader = self._module.RangeReader(
            _servers(cluster),
            [
                (shard.stream, int(shard.shard), each.start, each.end)
                for shard, each in ranges.items()
            ],
            sorted(with_headers),
            {topic: _id_bytes(topic_id) for topic, topic_id in topic_ids.items()},
            _settings(module, cluster, limits),
            _connections(module, _made_by(cluster)),
        )

    def read(self) -> "Iterator[pa.RecordBatch]":
        """Yield the records. Raises GaveUp, RecordsTooLarge; OffsetsGone if retention overtakes."""
        import pyarrow as pa  # noqa: PLC0415 - not for who asks for epochs only

        while not self._reader.is_done:
            try:
                records = self._reader.step(TICK_S)
            except self._module.OffsetsRefused as refused:
                index, offset, reason = refused.args
                rest = OffsetRange(offset, self._ranges[index].end)
                raise offsets_gone(self._shards[index], rest, reason) from None
            except self._module.TooLarge as refused:
                index, start, end = refused.args
                offsets = OffsetRange(start, end)
                raise records_too_large(self._shards[index], offsets, self._limits) from None
            except self._module.TopicReplaced as replaced:
                raise SourceError(
                    str(replaced), hint="nothing of the new topic was read; the job looks again"
                ) from None
            except self._module.GaveUp as gave_up:
                raise GaveUp(str(gave_up)) from None
            if records is not None:
                yield pa.record_batch(records)  # which has nothing of it afterwards

    def rest(self) -> dict[StreamShard, OffsetRange]:
        """Return what was not yielded."""
        return {
            shard: OffsetRange(max(start, each.start), each.end)
            for shard, each, start in zip(
                self._shards, self._ranges, self._reader.rest(), strict=True
            )
            if start < each.end
        }

    @property
    def is_by_id(self) -> bool:
        """Whether each record that was yielded was fetched by the id in `topic_ids`.

        False: of an old broker, records come by the topic's name.
        """
        found: bool = self._reader.is_by_id
        return found

    @property
    def counts(self) -> dict[str, int]:
        """Return what came to pass: fetches and their bytes, look-ups of leaders, damage."""
        names = ("fetches", "bytes", "leader_lookups", "damaged")
        return dict(zip(names, self._reader.counts(), strict=True))


def offsets_gone(shard: StreamShard, rest: OffsetRange, reason: str) -> OffsetsGone:
    """Return the error for a range that Kafka lost while it was read."""
    return OffsetsGone(
        f"Kafka no longer has {shard.stream}/{shard.shard} {rest}: {reason}",
        hint="Kafka has deleted records by retention while they were read",
        stream=shard.stream,
        shard=shard.shard,
        start=rest.start,
        end=rest.end,
    )


def _settings(module: ModuleType, cluster: Cluster, limits: ReadLimits = HARD_LIMITS) -> Any:
    settings = cluster.settings
    answer_s = min(cluster.timeout_s / 4, float(settings.get("socket.timeout.ms", 1e9)) / 1000)
    connect_ms = settings.get("socket.connection.setup.timeout.ms", 1e9)
    return module.ReaderSettings(
        security=_security(module, settings),
        client_id=settings.get("client.id", "ashore"),
        connect_s=min(CONNECT_S, answer_s, float(connect_ms) / 1000),
        answer_s=answer_s,
        # The other reader needs time, too.
        patience_s=cluster.timeout_s / 2,
        fetch_bytes=FETCH_BYTES,
        batch_records=BATCH_RECORDS,
        batch_bytes=BATCH_BYTES,
        record_bytes=limits.record_bytes,
        unpacked_bytes=limits.batch_bytes,
        wave_records=WAVE_RECORDS,
    )


@lru_cache(maxsize=4)
def _connections(module: ModuleType, _made_by: tuple[object, ...]) -> Any:
    """Return where this process keeps connections between two readings that make them alike."""
    return module.ReaderConnections()


def _made_by(cluster: Cluster) -> tuple[object, ...]:
    """Return what connections are made by: settings, and the state of files that they name.

    A certificate that was renewed is used by the next reading.
    """
    settings = sorted(cluster.settings.items())
    files = [_state(place) for name, place in settings if name.endswith(".location")]
    return (tuple(settings), tuple(files), cluster.bootstrap_servers, cluster.timeout_s)


def _state(place: str) -> tuple[int, ...]:
    try:
        found = Path(place).stat()
    except OSError:
        return ()  # opening it reports that
    return found.st_ino, found.st_size, found.st_mtime_ns


def _id_bytes(topic_id: str) -> bytes:
    """Return the 16 bytes of a topic id, as Kafka's tools show it."""
    return urlsafe_b64decode(topic_id + "==")


def _security(module: ModuleType, settings: Mapping[str, str]) -> Any:
    """Return how settings, which the native reader has, secure a connection."""
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    login = None
    if protocol.startswith("SASL_"):
        login = tuple(settings[f"sasl.{each}"] for each in ("mechanism", "username", "password"))

    return module.ReaderSecurity(
        tls=protocol.endswith("SSL"),
        **{name: settings.get(f"ssl.{name.replace('_', '.')}") for name in PEM},
        checks_name=settings.get("ssl.endpoint.identification.algorithm", "https") != "none",
        login=login,
    )


def _servers(cluster: Cluster) -> list[tuple[str, int]] | str:
    """Return hosts and ports to begin with, or what is no such."""
    found = []
    for server in cluster.bootstrap_servers.split(","):
        _, _, place = server.strip().rpartition("://")
        host, colon, port = place.rpartition(":")
        if not colon:
            host, port = place, str(DEFAULT_PORT)
        if not host or not port.isdecimal() or int(port) > 0xFFFF:
            return server
        found.append((host.strip("[]"), int(port)))
    return found
