"""Shapes of records: what they look like, and what makes them.

What it is: two shapes that the README compares, and the wide ones: many columns, nested values,
many tasks' worth of small directories, large values, another codec of the topic.
What it promises: the same generator makes the same bytes; values vary as in real events
(identifiers, names, few countries, free text), so that they compress neither well nor badly.
What it must not know: topics, who reads.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

SEED = 20_261_121
COUNTRIES = ("AT", "BR", "CH", "CN", "DE", "ES", "FR", "GB", "IN", "IT", "JP", "NL", "PL", "US")
WORDS = (
    *("harbour", "tide", "wave", "anchor", "sail", "wind", "coast", "light", "rope", "deck"),
    *("cargo", "pilot", "storm", "current", "channel", "island", "reef", "crew", "watch"),
    *("signal", "berth", "buoy", "chart", "course", "depth"),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of record, how many of them are landed, from which topic into which directories."""

    name: str
    title: str
    columns: tuple[tuple[str, str], ...]  # name and SQL type, as Spark spells it
    records: int
    make: Callable[[random.Random, int, int], bytes]  # a generator, id, time in ms
    partitions: int = 8  # of the topic
    partition_by: tuple[str, ...] = ()  # columns of the table
    compression: str = "lz4"  # of the topic

    @property
    def ddl(self) -> str:
        """Return the columns as Spark reads them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    @property
    def flink_ddl(self) -> str:
        """Return the columns as Flink reads them."""
        return re.sub(r"STRUCT<", "ROW<", self.ddl).replace(": ", " ")


def _phrases(words: int) -> list[str]:
    choose = random.Random(SEED)
    return [" ".join(choose.choices(WORDS, k=words)) for _ in range(8_192)]


PAIR, SHORT, LONG = _phrases(2), _phrases(3), _phrases(25)


def _make_small(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part = choose.getrandbits(50)
    return (
        f'{{"id":{number},"user":"user-{part % 199_999:06d}","ts":{ts_ms},'
        f'"country":"{COUNTRIES[part % 14]}","amount":{part % 999_983 / 100},'
        f'"text":"{PAIR[part & 8191]} {SHORT[part >> 20 & 8191]}"}}'
    ).encode()


STRINGS = ("session", "device", "browser", "referrer", "path", "campaign", "city", "currency")
INTEGERS = ("shop", "product", "quantity", "width", "height", "duration_ms")
DOUBLES = ("price", "latitude", "longitude", "score")


def _make_large(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part, other = choose.getrandbits(50), choose.getrandbits(50)
    return (
        f'{{"id":{number},"user":"user-{part % 199_999:06d}","ts":{ts_ms},'
        f'"country":"{COUNTRIES[part % 14]}","amount":{part % 999_983 / 100},'
        f'"is_new":{"true" if part & 1 else "false"},"is_mobile":{"true" if part & 6 else "false"},'
        f'"session":"{part:016x}{other:016x}","device":"device-{other % 9973:04d}",'
        f'"browser":"browser/{other % 37}.0 (platform {part % 11})",'
        f'"referrer":"https://example.org/{SHORT[other & 8191].replace(" ", "/")}",'
        f'"path":"/catalogue/{part % 211}/{PAIR[part & 8191].replace(" ", "-")}/{other % 99_991}",'
        f'"campaign":"campaign-{other % 53}","city":"city of {WORDS[other % 25]}",'
        f'"currency":"{"EUR" if part & 3 else "USD"}",'
        f'"shop":{part % 997},"product":{other % 100_003},"quantity":{part % 9},'
        f'"width":{320 + part % 2000},"height":{240 + other % 1500},"duration_ms":{other % 60_000},'
        f'"price":{other % 99_991 / 100},"latitude":{part % 180_000_000 / 1e6 - 90:.6f},'
        f'"longitude":{other % 360_000_000 / 1e6 - 180:.6f},"score":{part % 10_007 / 10_007},'
        f'"text":"{LONG[part & 8191]} {LONG[other & 8191]} {LONG[(part ^ other) & 8191]}'
        f' {PAIR[part & 8191]}"}}'
    ).encode()


COMMON = (
    ("id", "BIGINT"),
    ("user", "STRING"),
    ("ts", "BIGINT"),
    ("country", "STRING"),
    ("amount", "DOUBLE"),
)
SMALL = Shape("small", "Small records", (*COMMON, ("text", "STRING")), 4_000_000, _make_small)
LARGE = Shape(
    "large",
    "Large records",
    (
        *COMMON,
        ("is_new", "BOOLEAN"),
        ("is_mobile", "BOOLEAN"),
        *((name, "STRING") for name in STRINGS),
        *((name, "BIGINT") for name in INTEGERS),
        *((name, "DOUBLE") for name in DOUBLES),
        ("text", "STRING"),
    ),
    500_000,
    _make_large,
)

# --- wide shapes ---------------------------------------------------------------------------------

_KINDS = ("STRING", "BIGINT", "DOUBLE", "BIGINT", "STRING")
_MANY = tuple((f"c{number:03d}", _KINDS[number % 5]) for number in range(198))


def _make_columns(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part, nulls = choose.getrandbits(62), choose.getrandbits(62)
    fields = [f'{{"id":{number},"ts":{ts_ms}']
    for at, (name, kind) in enumerate(_MANY):
        if (nulls >> (at % 61)) % 3 == 0:
            value = "null"
        elif kind == "STRING":
            value = f'"{WORDS[(part >> (at % 53)) % 25]}-{(part >> (at % 47)) % 997}"'
        elif kind == "BIGINT":
            value = str((part >> (at % 43)) % 1_000_003)
        else:
            value = str((part >> (at % 43)) % 999_983 / 100)
        fields.append(f',"{name}":{value}')
    return f"{''.join(fields)}}}".encode()


def _make_nested(choose: random.Random, number: int, ts_ms: int) -> bytes:
    part, other = choose.getrandbits(50), choose.getrandbits(50)
    tags = ",".join(f'"{WORDS[(part >> at) % 25]}"' for at in range(other % 4))
    items = ",".join(
        f'{{"sku":"sku-{(other >> at) % 9973:04d}","price":{(part >> at) % 99_991 / 100},'
        f'"quantity":{1 + (other >> at) % 9}}}'
        for at in range(part % 5)
    )
    return (
        f'{{"id":{number},"ts":{ts_ms},"user":{{"name":"user-{part % 199_999:06d}",'
        f'"address":{{"city":"city of {WORDS[other % 25]}","zip":{other % 99_991}}}}},'
        f'"tags":[{tags}],"items":[{items}],"text":"{SHORT[part & 8191]}"}}'
    ).encode()


def _make_shops(choose: random.Random, number: int, ts_ms: int) -> bytes:
    record = _make_small(choose, number, ts_ms)
    return record[:-1] + f',"shop":"shop-{choose.getrandbits(40) % 200:03d}"}}'.encode()


def _make_huge(choose: random.Random, number: int, ts_ms: int) -> bytes:
    parts = [choose.getrandbits(52) for _ in range(16)]
    text = " ".join(LONG[(part >> shift) & 8191] for part in parts for shift in (0, 13, 26, 39))
    start = _make_small(choose, number, ts_ms)
    return start[:-2] + f' {text}"}}'.encode()


WIDE = (
    Shape(
        "columns",
        "200 columns, a third null",
        (("id", "BIGINT"), ("ts", "BIGINT"), *_MANY),
        80_000,
        _make_columns,
    ),
    Shape(
        "nested",
        "Nested structs and arrays",
        (
            ("id", "BIGINT"),
            ("ts", "BIGINT"),
            ("user", "STRUCT<name: STRING, address: STRUCT<city: STRING, zip: BIGINT>>"),
            ("tags", "ARRAY<STRING>"),
            ("items", "ARRAY<STRUCT<sku: STRING, price: DOUBLE, quantity: BIGINT>>"),
            ("text", "STRING"),
        ),
        500_000,
        _make_nested,
    ),
    Shape(
        "directories",
        "64 partitions into 200 directories",
        (*SMALL.columns, ("shop", "STRING")),
        2_000_000,
        _make_shops,
        partitions=64,
        partition_by=("shop",),
    ),
    Shape("huge", "Records of 10 KB", SMALL.columns, 40_000, _make_huge),
    Shape("zstd", "Topics with zstd", SMALL.columns, 2_000_000, _make_small, compression="zstd"),
)
SHAPES = {shape.name: shape for shape in (SMALL, LARGE, *WIDE)}
