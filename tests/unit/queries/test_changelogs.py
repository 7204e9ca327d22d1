"""Chains of format 2: the newest change names the snapshot that Spark loads, and no older one."""

from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.damage import DAMAGES, LAST, cut_off, edit, lose_snapshots, remove

from ashore.errors import CheckpointUnfit
from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair
from ashore.queries.state.survey import HEAD_BYTES, read_lineage, take_survey


def file_of(root: Path, version: int, kind: str) -> Path:
    (found,) = (root / "state/0/0").glob(f"{version}_*.{kind}")
    return found


def id_of(file: Path) -> str:
    return file.stem.partition("_")[2]


def test_a_change_names_the_versions_since_the_newest_snapshot(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    ids = {version: id_of(file_of(root, version, "changelog")) for version in range(1, LAST + 2)}
    for version in ids:
        head = file_of(root, version, "changelog").read_bytes()[:HEAD_BYTES]
        first = (version - 1) // 2 * 2  # there is a snapshot of every second version
        wanted = {each: ids[each] for each in range(max(first, 1), version)}
        assert read_lineage(head) == wanted


def test_a_damaged_snapshot_is_left_out_where_the_change_continues_an_older_one(
    tmp_path: Path,
) -> None:
    root = unpack("format-2", tmp_path)
    file = file_of(root, LAST + 1, "zip")
    cut_off(str(file.relative_to(root)))(root)
    remove(file.with_name(f"{file.name}.crc"))
    seen = observe(opened(root))
    assert seen.good is not None
    assert seen.good.batch == LAST
    chain = next(each for each in seen.good.chains if each.store.partition == 0)
    assert chain.snapshot is not None
    assert chain.snapshot.version == 10


def test_no_copy_begins_before_the_snapshot_that_its_change_continues(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    for version in (10, 12):
        file = file_of(root, version, "zip")
        remove(file.with_name(f"{file.name}.crc"))
        cut_off(str(file.relative_to(root)))(root)
    seen = observe(opened(root))
    findings = diagnose(seen)
    assert {each.code for each in findings} == {Code.DAMAGED_FILE}
    plan = plan_repair(seen, findings)
    assert plan is not None
    assert plan.batch == 9  # its change continues version 8, which has a snapshot
    assert plan.is_back


def test_a_copy_without_snapshots_has_only_changes_that_continue_none(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    lose_snapshots(root)
    for file in (root / "state/0/0").glob("*.zip"):
        remove(file, file.with_name(f"{file.name}.crc"))
    seen = observe(opened(root))
    findings = diagnose(seen)
    assert {each.code for each in findings} == {Code.MISSING_FILE}
    plan = plan_repair(seen, findings)
    assert plan is not None
    assert plan.batch == 1  # changes 1 and 2 continue no snapshot


def test_a_snapshot_is_not_left_out_where_lineages_cannot_be_read(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    for each in range(LAST + 1):
        edit(root / f"offsets/{each}", lambda data: data.replace(b'"lz4"', b'"zstd"'))
    assert diagnose(observe(opened(root))) == []
    file = file_of(root, LAST + 1, "zip")
    remove(file, file.with_name(f"{file.name}.crc"))
    assert diagnose(observe(opened(root))) == []  # nothing was left out: Spark may continue
    file = file_of(root, 10, "zip")
    remove(file.with_name(f"{file.name}.crc"))
    cut_off(str(file.relative_to(root)))(root)
    seen = observe(opened(root))
    assert seen.good is not None
    assert seen.good.batch < 9


@pytest.mark.parametrize("length", [0, 7, 30, 60, 100, 130])
def test_any_bytes_are_judged(length: int, tmp_path: Path) -> None:
    data = file_of(unpack("format-2", tmp_path), 12, "changelog").read_bytes()
    assert read_lineage(data[:length]) is None
    assert read_lineage(data[:25] + b"\xff" * length) is None


def test_a_savepoint_of_a_chain_that_spark_refuses_is_not_taken(tmp_path: Path) -> None:
    damage = DAMAGES["snapshots of format 2 that changes continue"]
    root = unpack(damage.case, tmp_path)
    assert take_survey(opened(root)).required.batch == LAST
    damage.happen(root)
    with pytest.raises(CheckpointUnfit, match=r"state/0/0/10_.*is missing: .* continues it"):
        take_survey(opened(root))
    assert take_survey(opened(root), 8).required.batch == 8
