"""Types of columns, as SQL writes them.

What it promises: pure. The same text as Spark's own; of a type that is not known, what Spark writes
of it.
"""

from collections.abc import Mapping

_NAMES = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
}


def type_name(written: object) -> str:
    """Return a type, from the JSON that Spark writes of it: `bigint`, `array<string>`."""
    if not isinstance(written, Mapping):
        return _NAMES.get(str(written), str(written))
    match written.get("type"):
        case "struct":
            inner = [f"{each['name']}:{type_name(each['type'])}" for each in _fields(written)]
            return f"struct<{','.join(inner)}>"
        case "array":
            return f"array<{type_name(written.get('elementType'))}>"
        case "map":
            return f"map<{type_name(written.get('keyType'))},{type_name(written.get('valueType'))}>"
        case kind:
            return str(kind)


def field_of(written: object, ordinal: int) -> tuple[str, str] | None:
    """Return name and type of a struct's field; None where there is none."""
    fields = _fields(written) if isinstance(written, Mapping) else []
    if not 0 <= ordinal < len(fields):
        return None
    return str(fields[ordinal]["name"]), type_name(fields[ordinal]["type"])


def _fields(struct: Mapping[str, object]) -> list[Mapping[str, object]]:
    found = struct.get("fields")
    return found if isinstance(found, list) else []
