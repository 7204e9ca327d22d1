"""Decoders and encoders by the names that job files give them.

What it promises: an unknown name raises ValueError with the known ones.
"""

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from ashore.base.native import why_not_native
from ashore.tables.ddl import JSON, JSON_WHOLE, Schema, is_json
from ashore.tables.masks import Mask
from ashore.topics.decode.decode import Decoder
from ashore.topics.decode.encode import Encoder, Output
from ashore.topics.decode.json import JsonDecoder, NativeJsonDecoder
from ashore.topics.decode.jsonl import JsonLinesEncoder
from ashore.topics.decode.mask import MaskingDecoder
from ashore.topics.decode.orc import OrcEncoder
from ashore.topics.decode.parquet import ParquetEncoder
from ashore.topics.decode.plain import BytesDecoder, TextDecoder

DECODERS: dict[str, Callable[[Schema], Decoder]] = {
    JSON: JsonDecoder,
    JSON_WHOLE: partial(JsonDecoder, takes_whole=True),
    "text": TextDecoder,
    "bytes": BytesDecoder,
}
ENCODERS: dict[str, Callable[[Output, pa.Schema], Encoder]] = {
    "parquet": ParquetEncoder,
    "orc": OrcEncoder,
    "jsonl": JsonLinesEncoder,
}


def make_decoder(name: str, schema: Schema, reader: str = "python", mask: Mask = ()) -> Decoder:
    """Return the decoder of a name in DECODERS. Raises ValueError where the schema is not its.

    Arguments:
        name: what the job file calls it.
        schema: the table's own columns: what the values hold, not where they came from.
        reader: who decodes JSON: `native`, `python`, or `auto`: native where it is installed. Rows,
            bad rows and reasons are the same.
        mask: of its columns, those that are masked.

    """
    if name not in DECODERS:
        raise ValueError(f"decode: {name} is not one of {', '.join(DECODERS)}")
    decoder = _make_plain(name, schema, reader)
    return MaskingDecoder(decoder, mask) if mask else decoder


def _make_plain(name: str, schema: Schema, reader: str) -> Decoder:
    is_native = reader == "native" or (reader == "auto" and not why_not_native())
    if is_json(name) and is_native:
        return NativeJsonDecoder(schema, takes_whole=name == JSON_WHOLE)
    return DECODERS[name](schema)


def open_encoder(
    name: str, output: Output, schema: pa.Schema, sorted_by: Sequence[str] = ()
) -> Encoder:
    """Return an encoder `parquet`, `orc` or `jsonl` that writes to `output`.

    `sorted_by`: see ParquetEncoder; files of other formats do not have it.
    """
    if name not in ENCODERS:
        raise ValueError(f"format: {name} is not one of {', '.join(ENCODERS)}")
    if name == "parquet":
        return ParquetEncoder(output, schema, sorted_by)
    return ENCODERS[name](output, schema)
