"""Any file of a checkpoint is damaged at random: what is called whole or a repair, Spark continues.

A case is a kept checkpoint, a file that a restart reads, a kind of damage, with or without the
checksums that Hadoop keeps. What the doctor answers is compared with what Spark does: with exit
code 0 of the original, and with each copy, Spark emits the counts of a checkpoint that was never
damaged.
"""

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from tests.checkpoint_files import opened, unpack
from tests.plain_spark import CASES, feed_again, run
from tests.spark.test_rescaling import at_home
from tests.spark.test_savepoints import expected

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit
from ashore.queries.spark.internals.state import (
    FAMILY,
    KEY,
    VALUE,
    StateStores,
    list_state,
    read_state,
)
from ashore.queries.state.layout import BatchPath, CheckpointPath, StatePath
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.doctor import DoctorOptions, Examined, examine, repair

BASES = ["rocksdb-changelog", "rocksdb", "hdfs-backed", "format-2", "no-keys", "join-3", "join-2"]
BASES += ["named-sources", "transform-with-state"]  # of the last Spark only loads the state
KINDS = ["flip", "digit", "cut", "empty", "lose", "other"]
OFTEN = {49}  # the seed that `make test` plays: a flipped bit in a snapshot, with checksums
OF_PROGRAM = "transform-with-state"  # whose program needs protobuf, which is not here


@dataclass(frozen=True, slots=True)
class RandomDamage:
    """A damage, drawn from a seed. `compacts`: the logs of its sources are compacted."""

    base: str
    kind: str
    has_sums: bool
    compacts: bool
    seed: int


def draw(seed: int) -> RandomDamage:
    chosen = random.Random(seed)
    return RandomDamage(
        BASES[seed % len(BASES)],
        chosen.choice(KINDS),
        chosen.random() < 0.5,
        chosen.random() < 0.25,
        seed,
    )


def group(path: CheckpointPath) -> str:
    """Return which kind of file it is: each kind is drawn as often as another."""
    match path:
        case BatchPath(log):
            return log.value
        case StatePath(kind=kind):
            return kind.value
        case _:
            return type(path).__name__


def happen(root: Path, damage: RandomDamage) -> str:
    """Damage a file; return its path below the root."""
    chosen = random.Random(damage.seed + 1)
    groups: dict[str, list[str]] = {}
    for each in take_survey(opened(root)).required.files:
        groups.setdefault(group(each.of), []).append(each.path)
    path = chosen.choice(groups[chosen.choice(sorted(groups))])
    file, others = root / path, groups[group(opened_path(root, path))]
    data = file.read_bytes()
    if not damage.has_sums:
        for each in root.rglob(".*.crc"):
            each.unlink()
    at, bit = chosen.randrange(len(data)), 1 << chosen.randrange(8)
    digits = [where for where, byte in enumerate(data) if chr(byte).isdigit()]
    match damage.kind:
        case "digit" if digits:
            at = chosen.choice(digits)
            changed = data[:at] + b"%d" % ((data[at] - 48 + chosen.randint(1, 9)) % 10)
            file.write_bytes(changed + data[at + 1 :])
        case "cut":
            file.write_bytes(data[:at])
        case "empty":
            file.write_bytes(b"")
        case "lose":
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        case "other":
            file.write_bytes((root / chosen.choice(others)).read_bytes())
        case _:
            file.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
    return path


def opened_path(root: Path, path: str) -> CheckpointPath:
    return next(each.of for each in take_survey(opened(root)).required.files if each.path == path)


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def lay_out(damage: RandomDamage, directory: Path) -> tuple[Path, int]:
    """Return a checkpoint whose inputs are there, and how many it has read."""
    root = unpack(damage.base, directory)
    root = at_home(root) if damage.base == OF_PROGRAM else root
    read = feed_again(root, directory / "inputs")
    if damage.compacts:
        for source in root.glob("sources/*"):
            compact(source)
    for log in root.glob("sources/*/[0-9]*"):
        for line in log.read_text().split("\n")[1:]:
            entry = json.loads(line)
            file = Path(entry["path"].removeprefix("file://"))
            os.utime(file, ns=(0, entry["timestamp"] * 1_000_000))
    return root, read


def compact(source: Path) -> None:
    """Let the newest entry of a source's log have all of them, as Spark compacts it."""
    logs = sorted(source.glob("[0-9]*"), key=lambda log: int(log.name))
    lines = [line for log in logs for line in log.read_text().split("\n")[1:]]
    logs[-1].with_name(f"{logs[-1].name}.compact").write_text("\n".join(["v1", *lines]))
    logs[-1].unlink()


def state_of(spark: SparkSession, root: Path, batch: int) -> dict[StateStores, list[Row]]:
    """Return what all stores hold after a batch."""
    return {
        stores: sorted(
            read_state(spark, root.as_uri(), batch, stores).select(KEY, VALUE, FAMILY).collect()
        )
        for stores in list_state(spark, root.as_uri())
    }


def goes_on(spark: SparkSession, damage: RandomDamage, root: Path, read: int) -> None:
    if damage.base == OF_PROGRAM:
        batch = take_survey(opened(root)).done[-1]
        whole = at_home(unpack(damage.base, root.parent / "whole"))
        assert state_of(spark, root, batch) == state_of(spark, whole, batch) != {}
        return
    emitted = run(spark, CASES[damage.base], root, root.parent / "inputs")
    wanted = expected(damage.base, read)
    assert sorted(emitted[-len(wanted) :]) == sorted(wanted)


def play(spark: SparkSession, damage: RandomDamage, directory: Path) -> str:
    """Damage a checkpoint, and compare what the doctor says with what Spark does."""
    root, read = lay_out(damage, directory)
    path = happen(root, damage)
    copy = root.with_name("copy")
    asked = DoctorOptions(str(root), None, str(copy), tries=False, is_deep=True)
    clock = SystemClock()
    try:
        seen = examine(asked, clock)
    except CheckpointUnfit as error:
        return f"{path}: refused, {error.fields['why']}"
    if not seen.findings and not seen.seen.unproven:
        goes_on(spark, damage, root, read)
        return f"{path}: ok"
    if not seen.findings:
        return f"{path}: not proven"
    try:
        found = repair(asked, clock, silent)
    except CheckpointUnfit as error:
        return f"{path}: refused, {error.fields['why']}"
    assert not isinstance(found, Examined)
    if found.examined.seen.unproven:
        return f"{path}: copied, not proven"
    try:
        goes_on(spark, damage, copy, read)
    except (PySparkException, Py4JError) as error:
        # Spark 4.2 loads no changes of several column families without a snapshot: what the trial
        # of a copy notices, which reads the state as it is read here.
        if damage.base != OF_PROGRAM or "CANNOT_LOAD_STATE_STORE" not in str(error):
            raise
        return f"{path}: refused by the trial"
    return f"{path}: repaired"


def cases() -> Iterator[object]:
    for seed in range(90):
        marks = [] if seed in OFTEN else [pytest.mark.long]  # the product of files and damages
        yield pytest.param(seed, marks=marks)


@pytest.mark.parametrize("seed", [*cases()])
def test_what_is_called_whole_spark_continues(
    spark: SparkSession, seed: int, tmp_path: Path
) -> None:
    play(spark, draw(seed), tmp_path)
