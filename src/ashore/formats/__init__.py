"""Records in, files out: decoders of values, encoders of tables, and the schema language."""

from ashore.formats.ddl import DdlError, Field, Schema, parse_ddl, to_arrow, to_ddl, type_ddl
from ashore.formats.decode import BadRow, Decoded, Decoder
from ashore.formats.encode import Encoder, Output
from ashore.formats.json import JsonDecoder, json_slow_columns, json_supports
from ashore.formats.jsonl import JsonLinesEncoder
from ashore.formats.orc import OrcEncoder
from ashore.formats.parquet import ParquetEncoder
from ashore.formats.plain import BytesDecoder, TextDecoder
from ashore.formats.registry import make_decoder, open_encoder

__all__ = [
    "BadRow",
    "BytesDecoder",
    "DdlError",
    "Decoded",
    "Decoder",
    "Encoder",
    "Field",
    "JsonDecoder",
    "JsonLinesEncoder",
    "OrcEncoder",
    "Output",
    "ParquetEncoder",
    "Schema",
    "TextDecoder",
    "json_slow_columns",
    "json_supports",
    "make_decoder",
    "open_encoder",
    "parse_ddl",
    "to_arrow",
    "to_ddl",
    "type_ddl",
]
