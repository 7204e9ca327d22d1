"""Texts of the logs that have no checksum: their neighbours tell which of them is damaged."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.damage import LAST, edit

from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.diagnosis.neighbours import find_outliers
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair, write_repair
from ashore.queries.state.layout import CommitFile, OffsetsFile, Settings, SourceEnd

DAY_MS = 86_400_000


def offsets(end: object, watermark_ms: int = 0, at_ms: int = 0) -> OffsetsFile:
    return OffsetsFile(Settings(watermark_ms, at_ms), (SourceEnd("0", json.dumps(end)),))


def topic(*ends: int) -> dict[str, dict[str, int]]:
    return {"clicks": {str(number): end for number, end in enumerate(ends)}}


def find(of: Sequence[OffsetsFile], commits: Mapping[int, int | None] = {}) -> dict[str, str]:
    done = {batch: CommitFile(watermark_ms) for batch, watermark_ms in commits.items()}
    return {path.path: text for path, text in find_outliers(dict(enumerate(of)), done).items()}


@pytest.mark.parametrize(
    ("ends", "wrong"),
    [
        ([topic(5, 5), topic(5, 7), topic(9, 7)], []),
        ([topic(5), topic(900), topic(15), topic(20)], ["offsets/1"]),  # past the next batch
        ([topic(5), topic(6), topic(2), topic(15)], ["offsets/2"]),
        ([topic(5), topic(10), topic(15), topic(12)], ["offsets/2", "offsets/3"]),  # one
        ([topic(5), topic(10), topic(15), topic(2)], ["offsets/3"]),
        ([topic(5, 8), topic(6, 9), topic(7)], ["offsets/2"]),  # a partition is lost
        ([topic(5), topic(6), {"clickt": {"0": 7}}], ["offsets/2"]),
        ([topic(5), topic(6), {"logOffset": 7}], ["offsets/2"]),
        ([{"logOffset": 1}, {"logOffset": 2}, {"logOffseu": 2}], ["offsets/2"]),
        ([topic(5), topic(6), topic(6, 3)], []),  # the topic has grown
        ([topic(500), topic(600), topic(6), topic(7)], []),  # it was created again
    ],
)
def test_ends_of_sources(ends: Sequence[object], wrong: Sequence[str]) -> None:
    assert list(find([offsets(each) for each in ends])) == wrong


def test_times_may_go_back_by_a_day() -> None:
    """By more no clock is set back. A clock that was wrong for long is none of one batch."""
    now = 100 * DAY_MS
    assert find([offsets(topic(each), at_ms=now - each) for each in range(3)]) == {}
    found = find([offsets(topic(each), at_ms=now - 2 * DAY_MS * (each == 2)) for each in range(3)])
    assert found["offsets/2"].startswith("the time goes back")
    assert found["offsets/2"].endswith("offsets/1")


@pytest.mark.parametrize(
    ("planned", "done", "wrong"),
    [
        ([0, 10, 20, 30], [10, 20, 30], []),
        ([0, 10, 20, 30], [10, 20, 30, 25], ["commits/3"]),  # before that of its own batch
        ([0, 10, 20, 30], [10, 15, 30], ["commits/1", "offsets/2"]),  # one of the two
        ([0, 10, 20, 30], [10, 5, 30], ["commits/1"]),
        ([0, 10, 20, 30], [10, 90, 30], ["commits/1"]),
        ([0, 10, 99, 30, 40], [10, 20, 30], ["offsets/2"]),
        ([0, 10, 20, 9], [10, 20, 30], ["offsets/3"]),
        ([0, 10, 20, 30], [10, 20, 30, None], ["commits/3"]),
    ],
)
def test_watermarks(
    planned: Sequence[int], done: Sequence[int | None], wrong: Sequence[str]
) -> None:
    texts = [offsets(topic(at), watermark_ms) for at, watermark_ms in enumerate(planned)]
    assert sorted(find(texts, dict(enumerate(done)))) == wrong


def test_a_source_with_a_name_may_be_dropped() -> None:
    both = (SourceEnd("a", json.dumps(topic(5))), SourceEnd("b", json.dumps(topic(5))))
    texts = [OffsetsFile(Settings(), both, 2), OffsetsFile(Settings(), both[1:], 2)]
    assert find(texts) == {}
    assert find([OffsetsFile(Settings(), each.sources) for each in texts]) != {}


@pytest.mark.parametrize(
    ("file", "old", "new", "batch"),
    [
        (f"commits/{LAST - 1}", b"244700000", b"244100000", LAST),  # it is not needed
        (f"offsets/{LAST}", b"244700000", b"244900000", LAST - 2),  # or commits/10 is wrong
        (f"commits/{LAST}", b"244700000", b"244100000", LAST - 1),
    ],
)
def test_a_text_that_contradicts_its_neighbours_is_damaged(
    file: str, old: bytes, new: bytes, batch: int, tmp_path: Path
) -> None:
    root = without_sums(tmp_path)
    edit(root / file, lambda data: data.replace(old, new))
    seen = observe(opened(root))
    found = diagnose(seen)
    assert (Code.DAMAGED_FILE, file) in {(each.code, each.file) for each in found}
    plan = plan_repair(seen, found)
    assert plan is not None
    assert plan.batch == batch


def test_what_nothing_contradicts_is_not_proven(tmp_path: Path) -> None:
    """A watermark that is too high in the last commit: the next batch would drop records."""
    root = without_sums(tmp_path)
    edit(root / f"commits/{LAST}", lambda data: data.replace(b"244700000", b"944700000"))
    seen = observe(opened(root))
    assert diagnose(seen) == []
    assert seen.unproven[0].startswith("2 texts ")


def without_sums(directory: Path) -> Path:
    root = unpack("no-keys", directory)
    for each in root.rglob(".*.crc"):
        each.unlink()
    return root


# ---- a copy


@pytest.mark.parametrize("case", ["rocksdb-changelog", "format-2"])
def test_a_copy_has_checksums_as_hadoop_writes_them(case: str, tmp_path: Path) -> None:
    root, copy = unpack(case, tmp_path), tmp_path / "copy"
    shutil.copytree(root / "state/0/1", root / "state/0/2")  # a partition that is not in use
    before = observe(opened(root), deep=lambda _: None)
    plan = plan_repair(before, diagnose(before))
    assert plan is not None
    write_repair(opened(root), opened(copy), plan, lambda _done, _all: None, lambda: None)
    after = observe(opened(copy))
    assert (diagnose(after), after.unproven) == ([], [])
    assert not [each for each in after.not_looked if "no checksum" in each]
    for each in plan.copied:  # Hadoop's own are the same, byte by byte
        place = Path(each.path).with_name(f".{Path(each.path).name}.crc")
        assert (copy / place).read_bytes() == (root / place).read_bytes()


def test_a_copy_has_no_checksum_of_what_was_not_proven(tmp_path: Path) -> None:
    """It would make a doubtful text look proven."""
    root, copy = unpack("rocksdb-changelog", tmp_path), tmp_path / "copy"
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    doubtful = [f"offsets/{LAST}", "metadata", "sources/0/5"]
    for file in doubtful:
        edit(root / file, lambda data: data)
    before = observe(opened(root), deep=lambda _: None)
    plan = plan_repair(before, diagnose(before))
    assert plan is not None
    assert len(before.unproven) == 2
    write_repair(opened(root), opened(copy), plan, lambda _done, _all: None, lambda: None)
    for file in doubtful:
        assert (copy / file).exists()
        assert not (copy / file).with_name(f".{Path(file).name}.crc").exists()
    assert observe(opened(copy), deep=lambda _: None).unproven == before.unproven
