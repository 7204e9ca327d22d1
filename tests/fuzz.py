"""Bytes from outside, played to every parser in C that reads them, in a process that may die of it.

`fuzz` starts the process: it plays inputs one after the other and says before each which one it is.
An input follows from its kind and its number alone, so that whatever ends the process can be
played again: `python -m tests.fuzz KIND NUMBER 1`.
"""

import os
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from tests.json_decoders import decode_with_all

from ashore.errors import StorageError
from ashore.log.files import Role
from ashore.proof.evidence.offsets import Unreadable
from ashore.proof.evidence.reader_process import read_unproven
from ashore.storage import MemoryStorage
from ashore.tables import ddl
from ashore.tables.ddl import parse_ddl, to_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.registry import open_encoder
from ashore.topics.write.batch import HEADERS_DDL, PROVENANCE_DDL
from ashore.topics.write.sorting import DEAD_SCHEMA

ROOT = Path(__file__).parents[1]
INPUT_S_MAX = 120  # a parser that takes longer hangs; to start a process may take its time
PIECE_MAX = 1_200
SHOWN_MAX = 600


class Died(AssertionError):
    """A parser has ended its process, or raised what it must not, at one input."""

    def __init__(self, kind: str, number: int, how: str, said: str) -> None:
        shown = make_input(kind, number)[:SHOWN_MAX]
        again = f"python -m tests.fuzz {kind} {number} 1"
        super().__init__(f"{kind} {number}: {how}; play it again: {again}\n{shown}\n{said}")
        self.number = number
        self.how = how


def fuzz(kind: str, first: int, count: int) -> None:
    """Play inputs `first` and following to the parsers of a kind. Raises Died."""
    command = [sys.executable, "-m", "tests.fuzz", kind, str(first), str(count)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    reported = found.stdout.split()
    if found.returncode == 0 and reported and reported[-1] == "done":
        return
    number = int(reported[-1]) if reported else first
    how = f"exit code {found.returncode}"
    if found.returncode < 0:
        how = f"ended by {signal.Signals(-found.returncode).name}"
    raise Died(kind, number, how, found.stderr[-3_000:])


def main(kind: str, first: int, count: int) -> None:
    """Play inputs, each announced on stdout. Dies of what kills a parser."""
    play = KINDS[kind][1]
    for number in range(first, first + count):
        os.write(1, f"{number}\n".encode())
        signal.alarm(INPUT_S_MAX)
        play(number)
        signal.alarm(0)
    os.write(1, b"done\n")


def make_input(kind: str, number: int) -> str:
    """Return what is played under a number, for people."""
    try:
        return str(KINDS[kind][0](number))
    except Exception:  # noqa: BLE001 - it is only shown
        return traceback.format_exc(limit=2)


# ---- JSON of every type

_ATOMS = [
    *(atom for atom in ddl.Atom),
    ddl.Decimal(38, 10),
    ddl.Decimal(5, 2),
    ddl.Decimal(38, 38),
    ddl.Decimal(1, 0),
]
_TEXTS = {
    ddl.Atom.BOOLEAN: ["true", "false"],
    ddl.Atom.DATE: ['"2026-11-21"', '"0001-01-01"', '"9999-12-31"', '"10000-01-01"'],
    ddl.Atom.TIMESTAMP: ['"2026-11-21T08:00:00.1234567Z"', '"0001-01-01T00:00:00+14:00"'],
    ddl.Atom.TIMESTAMP_NTZ: ['"2026-11-21T08:00:00"', '"9999-12-31 23:59:59.9999999"'],
    ddl.Atom.STRING: ['"x"', '"\\ud83d\\ude00"', '""', '"\\u0000"'],
    ddl.Atom.BINARY: ['"YWJj"', '"YQ=="', '"===="'],
}
_NUMBERS = ["0", "-1", "127", "1.5", "1e3", "-9223372036854775808", "18446744073709551615", "1E-7"]
_EXPONENTS = [
    "3",
    "+40",
    "-2",
    "-38",
    "-39",
    "-77",
    "-115",
    "-230",
    "-5000",
    "-100000000",
    "400000",
]
_ODD = [
    *["null", "[]", "{}", '"', "\\", "NaN", "-Infinity", "1e400", "-0", "1e-115", "1e-400", "+1"],
    *["1e-100000000", "0." + "0" * 200 + "1", "9" * 400, "1e99999999999999999999", '"1e-300"'],
    *["[" * 3_000, "{" * 50, '{"a":' * 2_000, "]" * 9, '"\\ud800"', '"\\u00', "\x00", "\n", "é"],
    *['"\\u0065-500"', '"1\\u0065-500"', "//", "\ufeff", ",", ":", "true", '"a":1', "/*"],
]


def _type(chance: random.Random, depth: int = 0) -> ddl.DataType:
    kind = chance.randrange(8 if depth < 3 else 5)
    match kind:
        case 5:
            return ddl.Array(_type(chance, depth + 1))
        case 6:
            return ddl.Map(ddl.Atom.STRING, _type(chance, depth + 1))
        case 7:
            return ddl.Struct(_fields(chance, depth + 1))
        case _:
            return chance.choice(_ATOMS)


def _fields(chance: random.Random, depth: int) -> tuple[ddl.Field, ...]:
    names = chance.sample(["a", "b", "c", "key", "value"], chance.randint(1, 3))
    return tuple(ddl.Field(name, _type(chance, depth), chance.random() < 0.8) for name in names)


def _value(chance: random.Random, kind: ddl.DataType) -> str:
    """Return a text of JSON that often fits a type."""
    if chance.random() < 0.04:
        return chance.choice(_ODD)
    if chance.random() < 0.08:
        return "null"
    match kind:
        case ddl.Array(element):
            return f"[{','.join(_value(chance, element) for _ in range(chance.randrange(4)))}]"
        case ddl.Map(_, inner):
            pairs = (f'"k{i}":{_value(chance, inner)}' for i in range(chance.randrange(4)))
            return "{" + ",".join(pairs) + "}"
        case ddl.Struct(fields):
            return _object(chance, fields)
        case ddl.Decimal() if chance.random() < 0.3:
            digits = f"{chance.choice(['1', '-7.25', '0.001'])}e{chance.choice(_EXPONENTS)}"
            return digits if chance.random() < 0.5 else f'"{digits}"'
        case _:
            return chance.choice(_TEXTS.get(kind, _NUMBERS))


def _object(chance: random.Random, fields: tuple[ddl.Field, ...]) -> str:
    pairs = [f'"{each.name}":{_value(chance, each.type)}' for each in fields]
    if chance.random() < 0.2:
        pairs.append(f'"zz":{_value(chance, _type(chance, 2))}')
    if chance.random() < 0.2:
        chance.shuffle(pairs)
    return "{" + ",".join(pairs) + "}"


def _json(number: int) -> tuple[str, list[bytes | None]]:
    chance = random.Random(number)
    fields = _fields(chance, 0)
    values: list[bytes | None] = []
    for _ in range(chance.choice([1, 3, 40])):
        text = _object(chance, fields).encode()
        values.append(_damage(chance, text) if chance.random() < 0.15 else text)
    if chance.random() < 0.1:
        values[chance.randrange(len(values))] = None
    return to_ddl(ddl.Schema(fields)), values


def _play_json(number: int) -> None:
    schema, values = _json(number)
    found = decode_with_all(parse_ddl(schema), pa.array(values, pa.binary()))
    found.table.validate(full=True)
    assert found.table.num_rows + len(found.bad) == len(values)


# ---- files, as `verify`, `audit` and `doctor` read them

_FILE_DDL = (
    "id BIGINT, s STRING, d DECIMAL(20,4), at TIMESTAMP, l ARRAY<STRUCT<x: INT, y: STRING>>, "
    f"m MAP<STRING, BIGINT>, {PROVENANCE_DDL}, {HEADERS_DDL}"
)
_EXTREMES = [b"\xff" * 4, b"\0" * 4, b"\x7f" + b"\xff" * 7, b"\xff" * 9 + b"\x01", b"\x80" * 10]


def _file(number: int) -> tuple[str, Role, bytes]:
    chance = random.Random(number)
    extension = chance.choice(["parquet", "orc", "jsonl"])
    role = chance.choice([Role.MAIN, Role.MAIN, Role.DEAD])
    rows = chance.choice([0, 1, 50, 3_000])
    content = _intact(extension, role, rows)
    for _ in range(chance.choice([1, 1, 2, 8])):
        content = _damage(chance, content, near_end=chance.random() < 0.7)
    return extension, role, content


def _intact(extension: str, role: Role, rows: int) -> bytes:
    key = extension, role, rows
    if key not in _made:
        storage = MemoryStorage()
        file = storage.open_write("file")
        table = _rows(role, rows)
        encoder = open_encoder(extension, file, table.schema)
        for start in range(0, rows, 1_000):
            encoder.write(table.slice(start, 1_000))
            encoder.flush()
        encoder.close({"ashore.job": "fuzz"})
        file.close()
        _made[key] = storage.read("file")
    return _made[key]


_made: dict[tuple[str, Role, int], bytes] = {}


def _rows(role: Role, rows: int) -> pa.Table:
    topics = ["clicks", "views"] * rows
    if role is Role.DEAD:
        schema = DEAD_SCHEMA
        fixed = {"topic": topics, "value": [b"{", None] * rows, "reason": ["bad"] * rows}
    else:
        schema = to_arrow(parse_ddl(_FILE_DDL))
        lists = [[{"x": 1, "y": "a"}, None], None, []] * rows
        headers = [[{"key": "a", "value": b"1"}, {"key": "", "value": None}], None] * rows
        fixed = {"kafka_topic": topics, "s": topics, "l": lists, "m": [[("k", 1)], None] * rows}
        fixed["kafka_headers"] = headers
    columns = []
    for field in schema:
        values = fixed.get(field.name)
        if values is None:
            values = pa.array(range(rows), pa.int64()).cast(pa.string())
            is_bytes = pa.types.is_binary(field.type) or pa.types.is_timestamp(field.type)
            values = pa.nulls(rows, field.type) if is_bytes else values.cast(field.type)
        columns.append(pa.array(values[:rows], field.type) if isinstance(values, list) else values)
    return pa.Table.from_arrays(columns, schema=schema)


def _play_file(number: int) -> None:
    extension, role, content = _file(number)
    storage = MemoryStorage()
    file = storage.open_write("file")
    file.write(content)
    file.close()
    try:
        read_unproven(storage, "file", len(content), (extension, role))
    except (Unreadable, StorageError):
        return


# ---- damage


def _damage(chance: random.Random, content: bytes, *, near_end: bool = False) -> bytes:
    """Return bytes that differ a little, or much."""
    if not content:
        return chance.randbytes(chance.randrange(40))
    low = max(0, len(content) - PIECE_MAX) if near_end else 0
    at = chance.randrange(low, len(content))
    match chance.randrange(7):
        case 0:
            return content[:at]
        case 1:
            return (
                content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
            )
        case 2:
            return content[:at] + chance.randbytes(1) + content[at + 1 :]
        case 3:
            odd = chance.choice(_EXTREMES)
            return content[:at] + odd + content[at + len(odd) :]
        case 4:
            odd = chance.choice([*_EXTREMES, *(each.encode() for each in _ODD)])
            return content[:at] + odd + content[at:]
        case 5:
            return content[:at] + content[at + chance.randint(1, 40) :]
        case _:
            start = chance.randrange(len(content))
            piece = content[start : start + chance.randint(1, 60)]
            return content[:at] + piece + content[at + len(piece) :]


KINDS: dict[str, tuple[Callable[[int], object], Callable[[int], None]]] = {
    "json": (_json, _play_json),
    "files": (_file, _play_file),
}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
