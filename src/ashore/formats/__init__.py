"""Records in, files out: decoders of values, encoders of tables, and the schema language."""

from ashore.formats.ddl import DdlError, Schema, parse_ddl, to_arrow, to_ddl
from ashore.formats.decode import BadRow, Decoded, Decoder
from ashore.formats.json import JsonDecoder, json_slow_columns
from ashore.formats.plain import BytesDecoder, TextDecoder

__all__ = [
    "BadRow",
    "BytesDecoder",
    "DdlError",
    "Decoded",
    "Decoder",
    "JsonDecoder",
    "Schema",
    "TextDecoder",
    "json_slow_columns",
    "parse_ddl",
    "to_arrow",
    "to_ddl",
]
