"""Columns that are masked: the forms, and whether a schema can have them.

What it is: `Mask`, columns with the form of each; `check_mask` and `format_mask`.
What it promises: pure, and loads no Arrow.
"""

from collections.abc import Iterable
from typing import TypeAlias

from ashore.tables.ddl import DataType, Schema, Struct, type_ddl

SHA256, LAST4, NULL = FORMS = ("sha256", "last4", "null")
CONTENTS = ("value", "key", "headers")  # of a record, in columns that no mask can cover
Mask: TypeAlias = tuple[tuple[str, str], ...]  # a column, or a field below it as `a.b`: its form


def check_mask(schema: Schema, mask: Iterable[tuple[str, str]]) -> None:
    """Raise ValueError where a column is not there, or cannot be masked in its form."""
    for path, form in mask:
        if form not in FORMS:
            raise ValueError(f"{path} has the mask {form}, which is not one of {', '.join(FORMS)}")
        found, is_nullable = _find_type(schema, path)
        if form == NULL and not is_nullable:
            raise ValueError(f"{path} is NOT NULL, and its mask is null")
        if form != NULL and type_ddl(found) != "STRING":
            raise ValueError(f"{path} is {type_ddl(found)}, and {form} is for STRING")


def format_mask(mask: Iterable[tuple[str, str]]) -> str:
    """Return a mask as messages write it: `card last4, email sha256`."""
    return ", ".join(f"{path} {form}" for path, form in mask)


def split_path(path: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the name that a path begins with, and the path below it; empty where it ends there."""
    if path in names:
        return path, ""
    name, _, below = path.partition(".")
    return name, below


def _find_type(schema: Schema, path: str) -> tuple[DataType, bool]:
    fields, below = schema.fields, path
    while True:
        known = {each.name: each for each in fields}
        name, below = split_path(below, known)
        found = known.get(name)
        if found is None:
            raise ValueError(f"{path} is not a column of the schema, nor a field of a STRUCT in it")
        if not below:
            return found.type, found.nullable
        fields = found.type.fields if isinstance(found.type, Struct) else ()
