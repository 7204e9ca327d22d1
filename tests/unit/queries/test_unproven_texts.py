"""Texts of a checkpoint whose `.crc` file is of other bytes: damaged as likely as edited."""

from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.damage import LAST, change_text, edit, reformat
from tests.marks import but

from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import CheckpointFinding, Code
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import RepairPlan, plan_repair

WATERMARK = b'WatermarkMs":17952447', b'WatermarkMs":17952437'


def look(root: Path) -> tuple[list[CheckpointFinding], RepairPlan | None]:
    seen = observe(opened(root))
    findings = diagnose(seen)
    return findings, plan_repair(seen, findings)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (f"offsets/{LAST}", b'"logOffset":5', b'"logOffset":1'),
        (f"offsets/{LAST}", b'"logOffset"', b'"logOffseu"'),
        (f"offsets/{LAST}", *WATERMARK),
        (f"offsets/{LAST}", b'"batchTimestampMs":1', b'"batchTimestampMs":0'),
        (f"offsets/{LAST}", b"shuffle.partitions", b"shuffle.partitionr"),
        (f"commits/{LAST}", *WATERMARK),
        (f"commits/{LAST}", b"nextBatch", b"mextBatch"),
    ],
)
def test_a_text_that_contradicts_its_neighbours_is_never_taken(
    file: str, old: bytes, new: bytes, tmp_path: Path
) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    text = (root / file).read_bytes()
    if b'"batchTimestampMs":0' in new:  # a number does not begin with 0
        old, new = b'"batchTimestampMs":179', b'"batchTimestampMs":119'
    assert old in text
    change_text(file, old, new)(root)
    findings, plan = look(root)
    assert [(each.code, each.file) for each in findings] == [(Code.DAMAGED_FILE, file)]
    assert plan is not None
    assert plan.batch == LAST - 1
    assert file not in {each.path for each in plan.copied}


@pytest.mark.parametrize("has_sum", [True, False])
def test_an_id_that_spark_cannot_parse_is_damaged(*, has_sum: bool, tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    edit(root / "metadata", lambda data: data[:9] + b"r" + data[10:], drops_checksum=not has_sum)
    findings, plan = look(root)
    assert (findings[0].code, findings[0].file) == (Code.DAMAGED_FILE, "metadata")
    assert plan is None


def test_a_batch_whose_former_offsets_cannot_be_read_is_not_whole(tmp_path: Path) -> None:
    """A restart reads the offsets of the batch before the last one as well."""
    root = unpack("no-keys", tmp_path)
    edit(root / f"offsets/{LAST - 1}", lambda data: data[:20])
    findings, plan = look(root)
    assert [(each.code, each.file) for each in findings] == [
        (Code.DAMAGED_FILE, f"offsets/{LAST - 1}")
    ]
    assert plan is not None
    assert plan.batch == LAST - 2


def test_a_text_of_another_operator_is_damaged(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    change_text("state/0/_metadata/metadata", b'"operatorId":0', b'"operatorId":1')(root)
    findings, plan = look(root)
    assert findings[0].code is Code.DAMAGED_FILE
    assert plan is None


@pytest.mark.parametrize(
    "file",
    [
        *("metadata", f"commits/{LAST}", "state/0/_metadata/metadata"),
        "state/0/0/_metadata/schema",
    ],
)
def test_a_text_that_is_not_proven_needs_a_person(file: str, tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    checksum = (root / file).with_name(f".{Path(file).name}.crc")
    checksum.write_bytes(checksum.read_bytes()[:-1] + b"\0")  # of other bytes
    ((finding,), plan) = look(root)
    assert (finding.code, finding.file) == (Code.STALE_CHECKSUM, file)
    assert "content not proven" in finding.sentence
    assert f"delete {checksum.relative_to(root)}" in finding.repair
    assert not finding.is_repairable
    assert plan is None
    checksum.unlink()  # somebody who has edited it says so
    assert look(root) == ([], None)


def test_a_copy_may_leave_out_an_unproven_text_of_an_old_batch(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    edit(root / "offsets/3", reformat, drops_checksum=False)
    ((finding,), plan) = look(root)
    assert (finding.code, finding.file) == (Code.STALE_CHECKSUM, "offsets/3")
    assert plan is not None
    assert plan.batch == LAST
    assert "offsets/3" not in {each.path for each in plan.copied}


CASES = ["rocksdb-changelog", "hdfs-backed", "format-2", "join-3", "named-sources"]


@pytest.mark.parametrize("case", but(pytest.mark.long, CASES, lambda case: case == CASES[0]))
def test_no_copy_has_a_text_with_a_flipped_bit(case: str, tmp_path: Path) -> None:
    """Whichever text it is. The product of cases and places is for the long run."""
    root = unpack(case, tmp_path)
    texts = [f"offsets/{LAST}", f"commits/{LAST}", "metadata"]
    texts += [str(each.relative_to(root)) for each in root.glob("sources/*/[0-9]")]
    texts += [str(each.relative_to(root)) for each in root.glob("state/0/_metadata/[mv]*")]
    for file in (each for each in texts if (root / each).is_file()):
        data = (root / file).read_bytes()
        step = max(1, len(data) // (3 if case == CASES[0] else 40))
        for at in range(0, len(data), step):
            (root / file).write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            findings, plan = look(root)
            assert file in {each.file for each in findings}, (file, at)
            assert plan is None or file not in {each.path for each in plan.copied}, (file, at)
        (root / file).write_bytes(data)
