"""How the columns of a table may change while its older files stay as they are.

What it is: `compare_schemas`, from the columns that files have and those that the next ones would
have to a list of changes, each with a verdict.
What it promises: pure. What is allowed is read right, old rows and new, by a reader that is given
the new columns; a reader that takes the columns of one file for those of all of them fails or
misses what is new, and never returns another value. Where it would, the change is risky. The tests
compare Spark and Arrow with these verdicts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ashore.log.tables import DELTA, ICEBERG
from ashore.tables.ddl import (
    Array,
    Atom,
    DataType,
    Decimal,
    Field,
    Map,
    Schema,
    Struct,
    type_ddl,
)


class Compatibility(StrEnum):
    """What a change means for readers."""

    ALLOWED = "allowed"  # who is given the new columns reads all rows right
    RISKY = "risky"  # as before; but who is not given them may read wrong values, or miss some
    REFUSED = "refused"  # no reader can have old files and new ones as one table


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, in words that follow the table's name."""

    verdict: Compatibility
    text: str


_INTEGERS = (Atom.TINYINT, Atom.SMALLINT, Atom.INT, Atom.BIGINT)
# Digits before the point that Spark expects of a DECIMAL, by how Parquet holds the number.
_DIGITS = {Atom.TINYINT: 10, Atom.SMALLINT: 10, Atom.INT: 10, Atom.BIGINT: 20}


def compare_schemas(known: Schema, new: Schema, file_format: str) -> list[Change]:
    """Return the changes from `known` to `new` columns, in their order.

    `known`: of the files that are there.
    """
    return list(_compare_fields(known.fields, new.fields, file_format, "column "))


def _compare_fields(
    known: tuple[Field, ...], new: tuple[Field, ...], file_format: str, place: str
) -> Iterator[Change]:
    before, after = ({field.name: field for field in side} for side in (known, new))
    for name, field in before.items():
        if name not in after:
            text = f"{place}{name} is dropped: new rows do not have it"
            yield Change(Compatibility.RISKY, text)
        else:
            yield from _compare_field(field, after[name], file_format, place)
    for name, field in after.items():
        if name in before:
            continue
        text = f"{place}{name} {type_ddl(field.type)} is added"
        if field.nullable:
            yield Change(Compatibility.ALLOWED, f"{text}: older rows have null")
        else:
            yield Change(Compatibility.RISKY, f"{text} as NOT NULL: older rows have null")


def _compare_field(known: Field, new: Field, file_format: str, place: str) -> Iterator[Change]:
    yield from _compare_types(known.type, new.type, file_format, f"{place}{known.name}")
    if known.nullable and not new.nullable:
        yield Change(
            Compatibility.RISKY, f"{place}{known.name} is NOT NULL: older rows may have null"
        )
    if new.nullable and not known.nullable:
        yield Change(Compatibility.ALLOWED, f"{place}{known.name} is no longer NOT NULL")


def _compare_types(
    known: DataType, new: DataType, file_format: str, place: str
) -> Iterator[Change]:
    match known, new:
        case Struct(before), Struct(after):
            yield from _compare_fields(before, after, file_format, f"{place}.")
        case Array(before), Array(after):
            yield from _compare_types(before, after, file_format, f"{place}[]")
        case Map(key, before), Map(wanted_key, after) if key == wanted_key:
            yield from _compare_types(before, after, file_format, f"{place}[]")
        case _ if known != new:
            verdict = _judge(known, new, file_format)
            how = {
                Compatibility.ALLOWED: "widened",
                Compatibility.RISKY: "widened, which readers that infer it from one file get wrong",
                Compatibility.REFUSED: "older and newer files cannot be read as one column",
            }[verdict]
            text = f"{place} changes from {type_ddl(known)} to {type_ddl(new)}: {how}"
            yield Change(verdict, text)


def _judge(known: DataType, new: DataType, file_format: str) -> Compatibility:
    """Judge another type. Measured: see the tests beside Spark's."""
    if file_format == ICEBERG:  # the table's metadata has one type for all files, or refuses it
        return Compatibility.ALLOWED if _is_promotion(known, new) else Compatibility.REFUSED
    if not _holds(known, new):
        return Compatibility.REFUSED
    # ORC's readers answer null where a value does not fit the type that one file has; Parquet's
    # fail, but for small integers, which Spark cuts, and fractions, which Arrow rounds.
    if file_format == "orc":
        return Compatibility.REFUSED if new == Atom.TIMESTAMP_NTZ else Compatibility.RISKY
    if new == Atom.BIGINT or (file_format == DELTA and new in _INTEGERS):
        return Compatibility.ALLOWED  # all readers of a Delta table are given its columns
    is_same_scale = (
        isinstance(known, Decimal) and isinstance(new, Decimal) and known.scale == new.scale
    )
    return Compatibility.ALLOWED if is_same_scale else Compatibility.RISKY


def _is_promotion(known: DataType, new: DataType) -> bool:
    """Return whether a table in Iceberg's format has both types, one after the other."""
    match known, new:
        case Atom(), Atom() if known in _INTEGERS and new in _INTEGERS:
            return _INTEGERS.index(known) < _INTEGERS.index(new)  # the smaller ones are int there
        case Atom.FLOAT, Atom.DOUBLE:
            return True
        case Decimal(), Decimal(precision, scale):
            return scale == known.scale and precision >= known.precision
        case _:
            return False


def _holds(known: DataType, new: DataType) -> bool:
    """Return whether a type holds each value of another one, and readers convert it."""
    match known, new:
        case Atom(), Atom() if known in _INTEGERS and new in _INTEGERS:
            return _INTEGERS.index(known) < _INTEGERS.index(new)
        case ((Atom.TINYINT | Atom.SMALLINT | Atom.INT | Atom.FLOAT), Atom.DOUBLE):
            return True
        case Atom.DATE, Atom.TIMESTAMP_NTZ:
            return True
        case Atom(), Decimal(precision, scale) if known in _INTEGERS:
            return precision - scale >= _DIGITS[known]
        case Decimal(), Decimal(precision, scale):
            more = precision - scale >= known.precision - known.scale
            return more and scale >= known.scale
        case _:
            return False
