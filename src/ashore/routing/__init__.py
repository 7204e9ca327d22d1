"""Which partition a row belongs to: event time, late policy, buckets, and their directories."""

from ashore.routing.buckets import Bucketer, Buckets
from ashore.routing.event_columns import EventColumn
from ashore.routing.event_time import event_millis, is_event_time
from ashore.routing.late import Lateness, Placement, place
from ashore.routing.names import (
    DEFAULT_PARTITION,
    escape,
    parse_partition_path,
    partition_path,
    partition_values,
    unescape,
)
from ashore.routing.split import split, split_rows

__all__ = [
    "DEFAULT_PARTITION",
    "Bucketer",
    "Buckets",
    "EventColumn",
    "Lateness",
    "Placement",
    "escape",
    "event_millis",
    "is_event_time",
    "parse_partition_path",
    "partition_path",
    "partition_values",
    "place",
    "split",
    "split_rows",
    "unescape",
]
