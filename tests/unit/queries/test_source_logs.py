"""The logs of sources of files, as Spark wrote them and damaged, without checksums beside them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.damage import LAST, change_text, edit

from ashore.queries.state.diagnosis.diagnose import diagnose
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.diagnosis.observation import Observed
from ashore.queries.state.diagnosis.observe import observe
from ashore.queries.state.diagnosis.repair import plan_repair
from ashore.queries.state.diagnosis.source_logs import check_entry
from ashore.queries.state.layout import SourcePath


def look(root: Path) -> tuple[Observed, dict[str, Code]]:
    seen = observe(opened(root))
    return seen, {each.file: each.code for each in diagnose(seen)}


@pytest.mark.parametrize(
    ("file", "change", "batch"),
    [
        ("sources/0/5", lambda data: data[: len(data) // 2], 9),
        ("sources/0/5", lambda data: data[:-1], 9),
        ("sources/0/5", lambda data: data.replace(b'hId":5', b'hId":4'), 9),
        ("sources/0/5", lambda data: data.replace(b"v1", b"v0"), 9),
        ("sources/0/5", lambda data: data.replace(b'"path"', b'"qath"'), 9),
        ("sources/0/5", lambda data: data.replace(b"v1\n", b"v1\n\xff"), 9),
        (f"offsets/{LAST}", lambda data: data.replace(b'et":5', b'et":9'), LAST - 1),
        (f"offsets/{LAST}", lambda data: data.replace(b'et":5', b'et":2'), LAST - 1),
        ("offsets/8", lambda data: data.replace(b'et":4', b'et":5'), LAST),
        ("offsets/8", lambda data: data.replace(b'et":4', b'et":0'), LAST),
        ("offsets/8", lambda data: data.replace(b'et":4', b'et":7'), LAST),
    ],
)
def test_a_damaged_log_is_found_without_a_checksum(
    file: str, change: Callable[[bytes], bytes], batch: int, tmp_path: Path
) -> None:
    root = unpack("no-keys", tmp_path)
    before = (root / file).read_bytes()
    edit(root / file, change)
    assert (root / file).read_bytes() != before
    seen, found = look(root)
    assert found.get(file) is Code.DAMAGED_FILE
    plan = plan_repair(seen, diagnose(seen))
    assert plan is not None
    assert plan.batch == batch
    assert file not in {each.path for each in plan.copied}


def test_two_readings_of_one_stream_have_one_log(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    for each in (root / "offsets").iterdir():
        if not each.name.startswith("."):
            edit(each, lambda data: data + b"\n" + data.splitlines()[-1])
    assert look(root)[1] == {}
    edit(root / f"offsets/{LAST}", lambda data: data.replace(b'et":5', b'et":9'))
    assert look(root)[1][f"offsets/{LAST}"] is Code.DAMAGED_FILE


def test_a_changed_path_beside_its_checksum_is_not_proven(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    change_text("sources/0/5", b"clicks/5.json", b"clicks/4.json")(root)
    seen, found = look(root)
    assert found == {"sources/0/5": Code.STALE_CHECKSUM}
    assert plan_repair(seen, diagnose(seen)) is None


def test_a_log_that_ends_before_the_offsets_is_found(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    (root / "sources/0/5").unlink()
    seen, found = look(root)
    assert found["sources/0/5"] is Code.MISSING_FILE
    assert seen.good is not None
    assert seen.good.batch == 9  # the last one that does not read it


def test_a_compacted_entry_ends_with_its_own_files(tmp_path: Path) -> None:
    root = unpack("no-keys", tmp_path)
    entries = [(root / f"sources/0/{each}").read_bytes() for each in range(5)]
    lines = [each.partition(b"\n")[2] for each in entries]
    compacted = root / "sources/0/4.compact"
    compacted.write_bytes(b"\n".join([b"v1", *lines]))
    for each in range(5):
        (root / f"sources/0/{each}").unlink()
    assert look(root)[1] == {}
    compacted.write_bytes(b"\n".join([b"v1", *lines[:-1]]))
    assert look(root)[1] == {"sources/0/4.compact": Code.DAMAGED_FILE}
    compacted.write_bytes(b"\n".join([b"v1", lines[1], lines[0], *lines[2:]]))
    assert look(root)[1] == {"sources/0/4.compact": Code.DAMAGED_FILE}


@pytest.mark.parametrize(
    "text", [b"", b"v1", b"v1\n", b"v1\n{}", b"v1\n[" * 3, b"v1\n" + b"[" * 99_999]
)
def test_any_bytes_are_judged(text: bytes) -> None:
    assert check_entry(SourcePath("0", "5"), text) is not None
    assert check_entry(SourcePath("0", "other"), text) is None
