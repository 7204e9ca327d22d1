"""What it costs to decode records of which a tenth is bad, against records that are all good.

    python -m bench bad_tenth
    python -m bench.bad_tenth small|large|columns|nested|map|typed

Shapes of the peers' comparison, one with a column of each type that has rules of its own, and one
with a MAP; for each the ways in which a record is refused, one by one and each in turn. CPU time of
one core, decoding alone, in batches as tasks have them, in a process with their environment: why a
record is bad is said, but its dead letter, a row like others, is not written. Rounds are
interleaved; figures are the least of several rounds.
"""

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ashore.base.native import why_not_native
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.decode import Decoder
from ashore.topics.decode.json import NativeJsonDecoder
from ashore.topics.write.environment import TASK_ENVIRONMENT
from bench.peers.workload import SHAPES, make_records
from bench.table import Row

ROWS = 65_536
BYTES = 16 << 20
EVERY = 10
ROUNDS = 25
SLOW_S = 0.5
AT_MOST = 1.2

Damage = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Trial:
    """Good records of a schema, and how to make one bad."""

    name: str
    ddl: str
    records: Sequence[bytes]
    damages: Mapping[str, Damage]


def replaced(name: str, token: str) -> Damage:
    """Return what puts a token in the place of the number or text of a field."""
    start = f'"{name}":'.encode()

    def damage(record: bytes) -> bytes:
        before, key, value = record.partition(start)
        if not key:
            raise ValueError(f"no {name} in {record!r}")
        end = _length(value)
        return before + key + token.encode() + value[end:]

    return damage


def _length(value: bytes) -> int:
    if value.startswith(b'"'):
        return value.index(b'"', 1) + 1
    return min(at for at in (value.find(b","), value.find(b"}")) if at >= 0)


def without(name: str) -> Damage:
    """Return what takes a number, that is not the last field, out of a record."""
    emptied = replaced(name, "")
    return lambda record: emptied(record).replace(f'"{name}":,'.encode(), b"")


def _cut(record: bytes) -> bytes:
    return record[: 2 * len(record) // 3]


def _break(record: bytes) -> bytes:
    at = record.index(b',"', len(record) // 2 if b',"' in record[len(record) // 2 :] else 0)
    return record[: at + 1] + record[at + 2 :]


def _garble(record: bytes) -> bytes:
    at = len(record) // 2
    return record[:at] + b"\xff" + record[at + 1 :]


def _repeat(record: bytes) -> bytes:
    return record[:-1] + b',"id":1}'


GENERAL: dict[str, Damage] = {
    "cut": _cut,
    "broken in the middle": _break,
    "not UTF-8": _garble,
    "a key twice": _repeat,
    "text for the first number": replaced("id", '"x"'),
    "number out of range": lambda record: replaced("id", f"9{len(record):02d}{10**18}")(record),
    "null where required": replaced("ts", "null"),
    "required field missing": without("ts"),
}
LAST = {
    "small": replaced("text", "12.5"),
    "large": replaced("score", '"high"'),
    "columns": replaced("c197", '"many"'),
    "nested": replaced("text", "12.5"),
    "map": replaced("text", "12.5"),
    "typed": replaced("text", "12.5"),
}
TYPED: dict[str, Damage] = {
    "no date": replaced("day", '"2026-02-30"'),
    "no time": replaced("at", '"2026-13-01T08:00:00.123Z"'),
    "text for a DECIMAL": replaced("price", '"n/a"'),
    "DECIMAL with a digit too many": replaced("price", "1.999"),
    "DECIMAL out of range": replaced("price", "12345678901.5"),
    "DECIMAL of 20 digits": replaced("price", "12345678901234567890"),
    "INT out of range": replaced("count", "3000000000"),
    "no base64": replaced("raw", '"a-b"'),
    "two numbers out of range": lambda record: replaced("count", "3000000000")(
        replaced("id", f"9{10**18}")(record)
    ),
}
TYPED_DDL = (
    "id BIGINT, ts BIGINT NOT NULL, day DATE, at TIMESTAMP, price DECIMAL(12,2), count INT, "
    "raw BINARY, text STRING"
)


def _typed_record(choose: random.Random, number: int) -> bytes:
    part = choose.getrandbits(50)
    return json.dumps(
        {
            "id": number,
            "ts": 1_795_000_000_000 + number,
            "day": f"2026-{part % 12 + 1:02d}-{part % 28 + 1:02d}",
            "at": f"2026-11-{part % 28 + 1:02d}T{part % 24:02d}:00:00.{part % 1000:03d}Z",
            "price": part % 999_983 / 100,
            "count": part % 997,
            "raw": "YWJj",
            "text": "sail " * (part % 5 + 1),
        },
        separators=(",", ":"),
    ).encode()


def in_turn(damages: Iterable[Damage]) -> Damage:
    """Return what damages each record in the next of some ways."""
    ways = itertools.cycle(damages)

    def damage(record: bytes) -> bytes:
        chosen = next(ways)
        return chosen(record)

    return damage


def _with_all(damages: Mapping[str, Damage]) -> dict[str, Damage]:
    return {**damages, "each of these in turn": in_turn(damages.values())}


def make_trial(name: str) -> Trial:
    """Return the records of a shape, as many as a batch of a task has, and their damages."""
    last = {"another type for the last field": LAST[name]}
    if name == "typed":
        choose = random.Random(7)
        records = [_typed_record(choose, number) for number in range(ROWS)]
        return Trial(name, TYPED_DDL, records, _with_all({**GENERAL, **last, **TYPED}))
    shape = SHAPES["small" if name == "map" else name]
    ddl = shape.ddl.replace("`ts` BIGINT", "`ts` BIGINT NOT NULL")
    size, records = 0, list[bytes]()
    for record in make_records(shape, ROWS):
        if name == "map":
            record = record[:-1] + b',"labels":{"a":"b","c":"d"}}'  # noqa: PLW2901
        records.append(record)
        size += len(record)
        if size > BYTES:
            break
    if name == "map":
        ddl += ", labels MAP<STRING, STRING>"
        last["text for a MAP"] = lambda record: record.replace(b'{"a":"b","c":"d"}', b'"x"')
    return Trial(name, ddl, records, _with_all({**GENERAL, **last}))


def _spread(records: Sequence[bytes], damage: Damage) -> list[bytes]:
    """Return the records with one in ten damaged, each time at another place of the ten."""
    found = list(records)
    for turn, start in enumerate(range(0, len(found) - EVERY + 1, EVERY)):
        at = start + turn * 7 % EVERY
        found[at] = damage(found[at])
    return found


def measure(trial: Trial) -> Iterator[tuple[str, float, float]]:
    """Yield each kind of damage with CPU seconds: of all good records, of those with bad ones."""
    decoder = NativeJsonDecoder(parse_ddl(trial.ddl))
    good = pa.array(trial.records, pa.binary())
    for kind, damage in trial.damages.items():
        damaged = pa.array(_spread(trial.records, damage), pa.binary())
        pairs = list[tuple[float, float]]()
        for _ in range(ROUNDS + 1):
            good_s = _decode(decoder, good, 0)
            pairs.append((good_s, _decode(decoder, damaged, len(good) // EVERY)))
            if pairs[-1][1] > SLOW_S:
                break  # more rounds would show nothing more
        rounds = pairs[1:] or pairs  # the first one warms up
        yield kind, min(each for each, _ in rounds), min(each for _, each in rounds)


def _decode(decoder: Decoder, values: pa.Array, bad: int) -> float:
    began_s = time.process_time()
    decoded = decoder.decode(values)
    cpu_s = time.process_time() - began_s
    if (decoded.table.num_rows, len(decoded.bad)) != (len(values) - bad, bad):
        raise RuntimeError(f"{len(decoded.bad)} bad records instead of {bad}: {decoded.bad[:1]}")
    return cpu_s


def compare(trial: Trial) -> Iterator[Row]:
    """Yield a row for each way in which records are bad."""
    count = len(trial.records)
    for kind, good_s, cpu_s in measure(trial):
        good_ns = 1e9 * good_s / count
        bad_ns = 1e9 * (cpu_s - good_s * (EVERY - 1) / EVERY) / (count // EVERY)
        ratio = cpu_s / good_s
        costs = f"{ratio:8.2f} times; a good record {good_ns:6.0f} ns, a bad one {bad_ns:8.0f}"
        print(f"  {trial.name:8} {kind:32} {costs}", flush=True)
        yield Row(f"decoding {trial.name} records, a tenth: {kind}", ratio, at_most=AT_MOST)


def _measure_apart(name: str) -> list[Row]:
    """Measure a shape in a process whose memory is set up as a task's."""
    command = [sys.executable, "-m", "bench.bad_tenth", name]
    environment = {**os.environ, **TASK_ENVIRONMENT}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    *shown, found = done.stdout.decode().splitlines()
    print("\n".join(shown), flush=True)
    return [Row(question, ratio, at_most=AT_MOST) for question, ratio in json.loads(found)]


def main() -> list[Row]:
    if reason := why_not_native():
        raise RuntimeError(f"what is measured is the native decoder: {reason}")
    return [row for name in LAST for row in _measure_apart(name)]


if __name__ == "__main__":
    pa.set_cpu_count(1)  # as in a task
    (shape,) = sys.argv[1:]
    print(json.dumps([(row.question, row.figure) for row in compare(make_trial(shape))]))
