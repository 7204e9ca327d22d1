# What the crate under `native/` gives to Python.

from collections.abc import Mapping, Sequence

import pyarrow as pa

INTERFACE: int

def describe() -> str: ...

class Block:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class ReaderSecurity:
    def __init__(
        self,
        *,
        tls: bool,
        ca_pem: str | None = None,
        ca_location: str | None = None,
        certificate_pem: str | None = None,
        certificate_location: str | None = None,
        key_pem: str | None = None,
        key_location: str | None = None,
        checks_name: bool = True,
        login: tuple[str, str, str] | None = None,
    ) -> None: ...

class ReaderSettings:
    def __init__(
        self,
        *,
        security: ReaderSecurity,
        client_id: str,
        connect_s: float,
        answer_s: float,
        patience_s: float,
        fetch_bytes: int,
        batch_records: int,
        batch_bytes: int,
        record_bytes: int,
        unpacked_bytes: int,
        wave_records: int,
    ) -> None: ...

class ReaderConnections:
    def __init__(self) -> None: ...

class RangeReader:
    def __init__(
        self,
        bootstrap: Sequence[tuple[str, int]],
        ranges: Sequence[tuple[str, int, int, int]],
        with_headers: Sequence[str],
        topic_ids: Mapping[str, bytes],
        settings: ReaderSettings,
        connections: ReaderConnections,
    ) -> None: ...
    @property
    def is_done(self) -> bool: ...
    @property
    def is_by_id(self) -> bool: ...
    def step(self, at_most_s: float) -> Block | None: ...
    def rest(self) -> list[int]: ...
    def counts(self) -> tuple[int, int, int, int]: ...

class ReadingFailed(Exception): ...
class OffsetsRefused(ReadingFailed): ...
class TopicReplaced(ReadingFailed): ...
class TooLarge(ReadingFailed): ...
class GaveUp(ReadingFailed): ...
class BrokerSilent(ReadingFailed): ...

def read_epoch_ends(
    host: str,
    port: int,
    asked: Sequence[tuple[str, int, int]],
    settings: ReaderSettings,
    connections: ReaderConnections,
) -> list[tuple[str, int, int, int]]: ...

class DecodedJson:
    blocks: list[Block]
    verdicts: tuple[Block, Block, Block, Block | None] | None
    unknown_records: int
    unknown_names: list[str]

class JsonDecoder:
    def __init__(
        self, schema: pa.Schema, engine: str | None = None, takes_whole: bool = False
    ) -> None: ...
    def decode(self, values: pa.Array) -> DecodedJson: ...
