"""librdkafka and our loops, as ctypes sees them.

What it is: the signatures of what the native consumer calls.
What it promises: librdkafka is the one that Python's Kafka client has loaded, so there is one in
the process; where that or the loops cannot be had, `load` answers None and records come through
Python's client.
What it must not know: consumers, records.

Source: the public C API, rdkafka.h of librdkafka 2.x.
"""

import ctypes
import functools
from collections.abc import Mapping
from ctypes import CDLL, CFUNCTYPE, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import cimpl

LOOPS = Path(__file__).with_name("gather.so.1")  # built from gather.c where there is a C compiler
CONSUMER = 1  # RD_KAFKA_CONSUMER
CONF_OK = 0

ErrorCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
LogCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)

# Name: result, arguments.
_KAFKA: Mapping[str, tuple[object, tuple[object, ...]]] = {
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_error_cb": (None, (c_void_p, ErrorCallback)),
    "rd_kafka_conf_set_log_cb": (None, (c_void_p, LogCallback)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_poll_set_consumer": (c_int, (c_void_p,)),
    "rd_kafka_consumer_close": (c_int, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_topic_name": (c_char_p, (c_void_p,)),
    "rd_kafka_message_headers": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_headers_new": (c_void_p, (c_size_t,)),
    "rd_kafka_headers_destroy": (None, (c_void_p,)),
    "rd_kafka_header_add": (c_int, (c_void_p, c_char_p, c_ssize_t, c_char_p, c_ssize_t)),
    "rd_kafka_header_get_all": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)),
    "rd_kafka_topic_partition_list_new": (c_void_p, (c_int,)),
    "rd_kafka_topic_partition_list_destroy": (None, (c_void_p,)),
    "rd_kafka_topic_partition_list_add": (c_void_p, (c_void_p, c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (c_int, (c_void_p, c_char_p, c_int32, c_int64)),
    "rd_kafka_assign": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_pause_partitions": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_resume_partitions": (c_int, (c_void_p, c_void_p)),
}
_LOOPS: Mapping[str, tuple[object, tuple[object, ...]]] = {
    "ashore_look": (None, (c_void_p, c_size_t, c_void_p, c_void_p)),
    "ashore_count_headers": (
        c_int64,
        (c_void_p, c_size_t, c_void_p, c_void_p, c_int, c_void_p, c_void_p),
    ),
    "ashore_look_headers": (
        None,
        (c_void_p, c_size_t, c_void_p, c_void_p, c_int, c_void_p, c_void_p),
    ),
    "ashore_copy": (None, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "ashore_let_go": (None, (c_void_p, c_size_t, c_void_p)),
}


class HeaderCalls(NamedTuple):
    """How our loops get at headers: the arguments that they take, in their order."""

    headers_of: int  # address of rd_kafka_message_headers
    header_at: int  # address of rd_kafka_header_get_all
    is_behind: bool  # whether a header's value lies behind its key, so that the key's size is known


class Library(NamedTuple):
    """What was loaded. A call lets go of Python's lock, as every call by ctypes does."""

    kafka: CDLL
    loops: CDLL
    time_of: int  # address of rd_kafka_message_timestamp
    destroy: int  # address of rd_kafka_message_destroy
    headers: HeaderCalls


@functools.cache
def load() -> Library | None:
    """Return the library, or None where it cannot be had."""
    try:
        # A symbol is looked for in what the extension is linked with, too.
        kafka, loops = CDLL(cimpl.__file__), CDLL(str(LOOPS))
        _declare(kafka, _KAFKA)
        _declare(loops, _LOOPS)
        names = "message_timestamp", "message_destroy", "message_headers", "header_get_all"
        addresses = [_address(getattr(kafka, f"rd_kafka_{name}")) for name in names]
    except (OSError, AttributeError):
        return None
    time_of, destroy, headers_of, header_at = addresses
    headers = HeaderCalls(headers_of, header_at, _is_behind(kafka))
    return Library(kafka, loops, time_of, destroy, headers)


def _is_behind(kafka: CDLL) -> bool:
    """Look whether a header's value lies behind its key and one NUL. Nothing promises it."""
    key, value, size = c_void_p(), c_void_p(), c_size_t()
    headers = kafka.rd_kafka_headers_new(1)
    kafka.rd_kafka_header_add(headers, b"a\0b", 3, b"c", 1)
    places = ctypes.byref(key), ctypes.byref(value), ctypes.byref(size)
    kafka.rd_kafka_header_get_all(headers, 0, *places)
    found = (value.value or 0) - (key.value or 0) == len(b"a\0b\0")
    kafka.rd_kafka_headers_destroy(headers)
    return found


def _declare(library: CDLL, functions: Mapping[str, tuple[object, tuple[object, ...]]]) -> None:
    for name, (result, arguments) in functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def _address(function: object) -> int:
    address = ctypes.cast(function, c_void_p).value  # type: ignore[arg-type]
    return address or 0
