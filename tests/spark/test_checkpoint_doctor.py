"""Spark goes on from what the doctor has repaired, with the counts that it would have had."""

from pathlib import Path

import pytest
import xxhash
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.checkpoint_files import list_paths, opened, unpack
from tests.damage import DAMAGES, LAST, edit
from tests.marks import but
from tests.plain_spark import CASES, COUNTRIES, Case, feed_again, run
from tests.spark.test_savepoints import expected

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit
from ashore.queries.state.contents import HEADER, MAGIC
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.layout import BatchLog
from ashore.queries.tools.doctor import DoctorOptions, Repaired, repair

EVERY_DAY = {"a missing change", "logs that were taken back"}
# Those that leave a batch to go on from, and a query that is as it was.
GOES_ON = [
    *("moved", "old partitions", "a missing change", "missing tables"),
    *("a snapshot that is cut off", "a flipped byte, which Spark's checksum tells"),
    *(
        "a text that contradicts its neighbours, and its checksum",
        "commits that are gone",
        *("another provider", "snapshots of format 2 that changes continue"),
    ),
    *("logs that were taken back", "half-done repartition", "a future version"),
]


def contents(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in list_paths(root)}


def repaired(root: Path, copy: Path, code: Code, sources: int | None = None) -> int:
    """Repair a checkpoint into a copy; return its last batch."""
    before = contents(root)
    asked = DoctorOptions(str(root), None, str(copy), sources, tries=False)  # Spark starts it below
    found = repair(asked, SystemClock(), silent)
    assert isinstance(found, Repaired)
    assert code in {each.code for each in found.examined.findings}
    assert contents(root) == before, "the original was changed"
    return found.plan.batch


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


@pytest.mark.parametrize("name", but(pytest.mark.long, GOES_ON, lambda name: name in EVERY_DAY))
def test_spark_goes_on_from_a_repaired_copy(spark: SparkSession, name: str, tmp_path: Path) -> None:
    damage = DAMAGES[name]
    root, copy = unpack(damage.case, tmp_path / "whole"), tmp_path / "copy"
    damage.happen(root)
    batch = repaired(root, copy, damage.code, damage.sources)
    read = feed_again(copy, tmp_path / "inputs")

    emitted = run(spark, CASES[damage.case], copy, tmp_path / "inputs")

    wanted = expected(damage.case, read)  # after what a batch emits that was planned before
    assert sorted(emitted[-len(wanted) :]) == sorted(wanted)
    assert opened(copy).list_batches(BatchLog.COMMITS).keys() > {batch}


def test_a_repartition_that_spark_left_half_done_is_repaired(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, copy = unpack("hdfs-backed", tmp_path / "whole"), tmp_path / "copy"
    with pytest.raises(Py4JJavaError, match="UNSUPPORTED_PROVIDER"):
        spark._streamingCheckpointManager.repartition(root.as_uri(), 4)
    assert (root / f"offsets/{LAST + 1}").exists()
    read = feed_again(root, tmp_path / "inputs")
    with pytest.raises(PySparkException):
        run(spark, CASES["hdfs-backed"], root, tmp_path / "inputs")

    batch = repaired(root, copy, Code.HALF_DONE_REPARTITION)

    assert batch == LAST
    emitted = run(spark, CASES["hdfs-backed"], copy, tmp_path / "inputs")
    assert sorted(emitted) == sorted(expected("hdfs-backed", read))


def test_a_union_that_grew_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Spark itself leaves the directory of the new source when it refuses the start."""
    union = "SELECT country FROM clicks UNION ALL SELECT country FROM views"
    grown = Case(f"SELECT count(*) AS n FROM ({union})", CASES["no-keys"].settings)
    root, copy = unpack("no-keys", tmp_path / "whole"), tmp_path / "copy"
    read = feed_again(root, tmp_path / "inputs")
    with pytest.raises(PySparkException, match=r"\[1\] sources in the checkpoint"):
        run(spark, grown, root, tmp_path / "inputs")

    repaired(root, copy, Code.MISSING_LINE, sources=2)

    emitted = run(spark, grown, copy, tmp_path / "inputs")
    assert emitted[-1] == (2 * len(COUNTRIES) * (read + 1),)


def garble(change: Path) -> None:
    """Give a change other rows, in blocks that have the checksums of these."""
    rows = b"no rows at all" * 20
    checksum = xxhash.xxh32_intdigest(rows, 0x9747B28C) & 0x0FFFFFFF
    block = HEADER.pack(MAGIC, 0x16, len(rows), len(rows), checksum) + rows
    edit(change, lambda _: block + HEADER.pack(MAGIC, 0x16, 0, 0, 0))


def test_a_copy_that_spark_cannot_load_is_no_repair(tmp_path: Path) -> None:
    """Rows are not decoded by the doctor: only Spark notices what they are."""
    root, copy = unpack("rocksdb-changelog", tmp_path), tmp_path / "copy"
    (root / f"offsets/{LAST + 1}").write_bytes(b"v1\n{")
    (root / "state/0/0/12.zip").unlink()  # so that a restart reads the change
    garble(root / "state/0/0/12.changelog")
    with pytest.raises(CheckpointUnfit, match=r"not a repair, .*: Spark "):
        repair(DoctorOptions(str(root), None, str(copy)), SystemClock(), silent)
    assert not copy.exists()
