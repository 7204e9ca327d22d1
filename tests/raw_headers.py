"""Records with headers as no ordinary client would make them.

What it is: a producer on librdkafka's C API: header keys are bytes, with their length.
What it promises: `produce_raw` returns once the broker has every record.
"""

import ctypes
from collections.abc import Iterable, Sequence
from ctypes import c_char_p, c_int, c_int32, c_size_t, c_ssize_t, c_void_p
from typing import NamedTuple

from confluent_kafka import cimpl

RawHeader = tuple[bytes, bytes | None]

PRODUCER = 0  # RD_KAFKA_PRODUCER
# RD_KAFKA_VTYPE_...
TOPIC, PARTITION, VALUE, KEY, FLAGS, HEADERS = 1, 3, 4, 5, 7, 10
COPY = 2  # RD_KAFKA_MSG_F_COPY
WAIT_MS = 30_000
REASON_BYTES = 512


class RawRecord(NamedTuple):
    """One record."""

    value: bytes | None
    headers: Sequence[RawHeader]
    key: bytes | None = None


class _Memory(ctypes.Structure):
    _fields_ = (("at", c_void_p), ("size", c_size_t))


class _Content(ctypes.Union):
    _fields_ = (
        ("text", c_char_p),
        ("number", c_int32),
        ("flags", c_int),
        ("memory", _Memory),
        ("address", c_void_p),
        ("padding", ctypes.c_char * 64),
    )


class _Argument(ctypes.Structure):
    """`rd_kafka_vu_t`."""

    _fields_ = (("kind", c_int), ("content", _Content))


def produce_raw(
    bootstrap: str, topic: str, records: Iterable[RawRecord], partition: int = 0
) -> None:
    """Produce records in order, with their headers as they are."""
    kafka = _library()
    reason = ctypes.create_string_buffer(REASON_BYTES)
    conf = kafka.rd_kafka_conf_new()
    settings = {"bootstrap.servers": bootstrap, "message.max.bytes": "20000000", "log_level": "3"}
    for name, value in settings.items():
        kafka.rd_kafka_conf_set(conf, name.encode(), value.encode(), reason, REASON_BYTES)
    client = kafka.rd_kafka_new(PRODUCER, conf, reason, REASON_BYTES)
    if not client:
        raise OSError(reason.value.decode())
    try:
        for record in records:
            _send(kafka, client, (topic, partition), record)
        left = kafka.rd_kafka_flush(client, WAIT_MS)
        if left:
            raise TimeoutError(f"not all records of {topic} are delivered: {left}")
    finally:
        kafka.rd_kafka_destroy(client)


def _send(kafka: ctypes.CDLL, client: int, place: tuple[str, int], record: RawRecord) -> None:
    headers = kafka.rd_kafka_headers_new(len(record.headers))
    for key, value in record.headers:
        size = -1 if value is None else len(value)
        kafka.rd_kafka_header_add(headers, key, len(key), value, size if value is not None else 0)
    arguments = [
        _argument(TOPIC, text=place[0].encode()),
        _argument(PARTITION, number=place[1]),
        _argument(VALUE, memory=_memory(record.value)),
        _argument(KEY, memory=_memory(record.key)),
        _argument(FLAGS, flags=COPY),
        _argument(HEADERS, address=headers),  # the client's from here on
    ]
    error = kafka.rd_kafka_produceva(
        client, (_Argument * len(arguments))(*arguments), len(arguments)
    )
    if error:
        raise OSError(kafka.rd_kafka_error_string(error).decode())


def _argument(kind: int, **content: object) -> _Argument:
    return _Argument(kind, _Content(**content))


def _memory(content: bytes | None) -> _Memory:
    at = ctypes.cast(c_char_p(content), c_void_p).value if content is not None else None
    return _Memory(at, len(content or b""))


def _library() -> ctypes.CDLL:
    kafka = ctypes.CDLL(cimpl.__file__)
    signatures = {
        "rd_kafka_conf_new": (c_void_p, ()),
        "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
        "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
        "rd_kafka_destroy": (None, (c_void_p,)),
        "rd_kafka_flush": (c_int, (c_void_p, c_int)),
        "rd_kafka_headers_new": (c_void_p, (c_size_t,)),
        "rd_kafka_header_add": (
            c_int,
            (c_void_p, c_char_p, c_ssize_t, c_char_p, c_ssize_t),
        ),
        "rd_kafka_produceva": (c_void_p, (c_void_p, c_void_p, c_size_t)),
        "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(kafka, name)
        function.restype, function.argtypes = result, arguments
    return kafka
