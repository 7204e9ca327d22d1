"""Consumers: the native one where it can be had, Python's client elsewhere.

What it is: one function that opens a consumer.
What it promises: both deliver the same; only the CPU time differs.
What it must not know: ranges, tables.
"""

from collections.abc import Collection, Mapping

from ashore.sources.client import Cluster
from ashore.sources.consumer.base import Chunk, ConsumerEvent, RangeConsumer, TopicPartition
from ashore.sources.consumer.library import load
from ashore.sources.consumer.messages import MessageConsumer
from ashore.sources.consumer.native import NativeConsumer
from ashore.sources.failures import Complaints

__all__ = [
    "Chunk",
    "ConsumerEvent",
    "RangeConsumer",
    "TopicPartition",
    "is_native",
    "open_consumer",
]


def is_native() -> bool:
    """Tell whether records come without a Python object for each."""
    return load() is not None


def open_consumer(
    cluster: Cluster,
    complaints: Complaints,
    settings: Mapping[str, str],
    *,
    native: bool = True,
    with_headers: Collection[str] = (),
) -> RangeConsumer:
    """Open a consumer. It joins no group; the library wants a group's name all the same.

    Arguments:
        cluster: where.
        complaints: what the connection complains of is noted here.
        settings: of librdkafka, beside the cluster's.
        native: False: through Python's client in any case.
        with_headers: the topics whose records come with their headers; where it is empty, records
            come in the columns of FETCHED, else of FETCHED_WITH_HEADERS.

    Raises JobFileInvalid if the settings do not hold.

    """
    settings = {
        "group.id": "ashore",
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",
        **settings,
    }
    library = load() if native else None
    if library is None:
        return MessageConsumer(cluster.open_client(complaints, settings), with_headers)
    with cluster.settings_checked():
        return NativeConsumer(library, cluster.all_settings(settings), complaints, with_headers)
