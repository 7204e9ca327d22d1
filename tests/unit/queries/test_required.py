"""Which files a batch needs, held against checkpoints that Spark 4.2 wrote."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.checkpoint_files import WHOLE, opened, unpack

from ashore.errors import CheckpointUnfit
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import ChecksumPath, OperatorPath, StatePath
from ashore.queries.state.required_files import Chain, Required, list_done, plan_required
from ashore.queries.state.survey import take_survey

CASES = sorted(each.name.removesuffix(".tar.xz") for each in WHOLE.iterdir())


def required(checkpoint: Checkpoint, batch: int, files: Sequence[CheckpointFile]) -> Required:
    return plan_required(files, batch, checkpoint.read_all)


def spelled(chain: Chain) -> str:
    """A chain in short, such as `0/1: 3.zip+2 4.changelog`: a snapshot with its tables."""
    parts = [] if chain.snapshot is None else [f"{name(chain.snapshot)}+{len(chain.tables)}"]
    return " ".join([f"{chain.store.path[6:]}:", *parts, *map(name, chain.changes)])


def name(path: StatePath) -> str:
    return f"{path.version}.{path.kind}"


# What a restore of the stores in partition 0 and 1 reads after the batch.
CHAINS = {
    ("rocksdb-changelog", 0): ["0/0: 1.changelog", "0/1: 1.changelog"],
    ("rocksdb-changelog", 1): ["0/0: 2.zip+1", "0/1: 2.zip+1"],
    ("rocksdb-changelog", 10): ["0/0: 10.zip+2 11.changelog", "0/1: 10.zip+5 11.changelog"],
    ("rocksdb", 6): ["0/0: 7.zip+4", "0/1: 7.zip+4"],
    ("hdfs-backed", 1): ["0/0: 1.delta 2.delta", "0/1: 1.delta 2.delta"],
    ("hdfs-backed", 7): ["0/0: 6.snapshot+0 7.delta 8.delta", "0/1: 6.snapshot+0 7.delta 8.delta"],
    ("named-sources", 4): ["0/0: 3.snapshot+0 4.delta 5.delta"] * 2,
    ("no-keys", 10): ["0/0: 10.zip+5 11.changelog"],
    ("stateless", 4): [],
}


@pytest.fixture(scope="module", params=CASES)
def checkpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Checkpoint:
    return opened(unpack(request.param, tmp_path_factory.mktemp("whole")))


@pytest.mark.parametrize(("case", "batch"), CHAINS)
def test_a_chain_is_the_newest_snapshot_and_the_changes_after_it(
    case: str, batch: int, tmp_path: Path
) -> None:
    found = take_survey(opened(unpack(case, tmp_path)), batch).required
    assert [spelled(each) for each in found.chains] == [
        each.replace("0/0", f"0/{at}") if case == "named-sources" else each
        for at, each in enumerate(CHAINS[case, batch])
    ]


def test_rows_are_known_where_a_snapshot_is_the_batch_itself(tmp_path: Path) -> None:
    checkpoint = opened(unpack("rocksdb-changelog", tmp_path))
    rows = [
        [each.rows_now for each in take_survey(checkpoint, at).required.chains] for at in (9, 10)
    ]
    assert rows == [[2, 1], [None, None]]


def test_a_copy_of_what_a_batch_needs_needs_all_of_it(checkpoint: Checkpoint) -> None:
    files = checkpoint.list_files()
    for batch in list_done(files):
        found = required(checkpoint, batch, files)
        assert set(found.files) < set(files)
        assert required(checkpoint, batch, found.files) == found


def test_without_a_file_a_batch_is_refused_or_takes_an_older_chain(checkpoint: Checkpoint) -> None:
    files = checkpoint.list_files()
    batch = list_done(files)[-1]
    for missing in required(checkpoint, batch, files).files:
        others = [each for each in files if each != missing]
        try:
            found = required(checkpoint, batch, others)
        except CheckpointUnfit as error:
            text = str(error)
            assert missing.path in text or missing.path.rpartition("/")[2] in text
            continue
        assert missing not in found.files
        # A snapshot may be missing where changes lead to the same version, what an operator says
        # where it has said so before, and a checksum always.
        match missing.of:
            case StatePath() as path:
                assert path.is_whole
                chain = next(each for each in found.chains if each.store == path.store)
                assert chain.changes[-1].version == batch + 1
            case OperatorPath() as path:
                assert path.batch
            case other:
                assert isinstance(other, ChecksumPath)


def test_a_batch_that_is_planned_keeps_its_offsets(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    (root / "commits/11").unlink()
    found = take_survey(opened(root)).required
    assert (found.batch, found.planned) == (10, 11)
    kept = {each.path for each in found.files}
    assert {"offsets/11", "offsets/10", "offsets/9", "commits/10"} <= kept
    assert not kept & {"state/0/0/12.zip", "state/0/0/12.changelog"}


def test_copies_of_versions_go_along(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    (root / "ashore-version-2.json").write_text("{}")
    (root / "other.json").write_text("{}")
    kept = {each.path for each in take_survey(opened(root)).required.files}
    assert {each for each in kept if each.endswith(".json")} == {"ashore-version-2.json"}


def test_a_batch_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    checkpoint = opened(unpack("stateless", tmp_path))
    with pytest.raises(CheckpointUnfit, match="batches 0 to 5, not batch 6"):
        take_survey(checkpoint, 6)


def test_a_table_of_another_size_than_its_snapshot_says_is_refused(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    table = max(root.glob("state/0/1/SSTs/*.sst"))
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(CheckpointUnfit, match=table.name) as caught:
        take_survey(opened(root))
    assert caught.value.fields["why"] == "size"


def test_partitions_of_an_old_number_are_not_needed(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    (root / "state/0/2/12.zip").write_bytes(b"broken")
    assert {each.store.partition for each in take_survey(opened(root)).required.chains} == {0, 1}


def test_files_of_format_2_whose_ids_no_commit_names_are_not_needed(tmp_path: Path) -> None:
    """A task that ran twice has written a version twice."""
    root = unpack("format-2", tmp_path)
    named = take_survey(opened(root)).required
    for partition in (0, 1):
        shutil.copy(root / "metadata", root / f"state/0/{partition}/12_0-other.zip")
        shutil.copy(root / "metadata", root / f"state/0/{partition}/12_other.changelog")
    assert take_survey(opened(root)).required == named


def test_a_commit_that_names_ids_is_needed_for_each_batch_of_a_chain(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    found = take_survey(opened(root), 10).required
    assert spelled(found.chains[0]).split()[1:] == ["10.zip+5", "11.changelog"]
    commits = {each.path for each in found.files if each.path.startswith("commits")}
    assert commits == {"commits/9", "commits/10"}
    (root / "commits/9").unlink()
    with pytest.raises(CheckpointUnfit, match="commits/9 is missing"):
        take_survey(opened(root), 10)


def test_a_partition_without_a_file_is_missed(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    shutil.rmtree(root / "state/0/1")
    with pytest.raises(CheckpointUnfit, match="state/0/1 is missing"):
        take_survey(opened(root))


def test_copies_of_versions_of_the_job_go_with_it(tmp_path: Path) -> None:
    root = unpack("stateless", tmp_path)
    (root / "ashore-version-3.json").write_bytes(b"{}")
    (root / "ashore-version-3.json.part").write_bytes(b"{}")
    found = {each.path for each in take_survey(opened(root)).required.files}
    assert {each for each in found if each.startswith("ashore")} == {"ashore-version-3.json"}


def test_a_log_of_seen_files_begins_with_what_was_compacted(tmp_path: Path) -> None:
    root = unpack("stateless", tmp_path)
    seen = root / "sources/0"
    (seen / "2").rename(seen / "2.compact")
    found = {each.path for each in take_survey(opened(root), 4).required.files}
    sources = {f"sources/0/{each}" for each in ("2.compact", "3", "4")}
    assert {each for each in found if each.startswith("sources")} == sources
    (seen / "3").unlink()
    with pytest.raises(CheckpointUnfit, match="sources/0/3 is missing"):
        take_survey(opened(root), 4)


def with_readings(root: Path, *ends: int) -> None:
    """Give batch 4 a line for each reading, as Spark does."""
    offsets = root / "offsets/4"
    version, settings, _ = offsets.read_text().splitlines()
    lines = (f'{{"logOffset":{end}}}' for end in ends)
    offsets.write_text("\n".join([version, settings, *lines]))
    (root / "offsets/.4.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("ends", "logs", "needed"),
    [
        pytest.param((4, 4), {}, {"0": 4}, id="a view with itself"),
        pytest.param((4, 4, 1), {"1": 2}, {"0": 4, "1": 1}, id="then another"),
        pytest.param((4, 1, 4), {"1": 2}, {"0": 4, "1": 1}, id="another between both"),
        pytest.param((4, 4, 2), {"1": 4}, {"0": 4, "1": 4}, id="which is which is unknown"),
    ],
)
def test_two_readings_of_one_stream_of_files_have_one_log(
    ends: tuple[int, ...], logs: dict[str, int], needed: dict[str, int], tmp_path: Path
) -> None:
    root = unpack("stateless", tmp_path)
    with_readings(root, *ends)
    for name, last in logs.items():
        (root / "sources" / name).mkdir()
        for entry in range(last + 1):
            shutil.copy(root / f"sources/0/{entry}", root / "sources" / name)
    found = {each.path for each in take_survey(opened(root), 4).required.files}
    assert {each for each in found if each.startswith("sources")} == {
        f"sources/{name}/{entry}" for name, end in needed.items() for entry in range(end + 1)
    }
    (root / "sources/0/4").unlink()
    with pytest.raises(CheckpointUnfit, match=r"sources/\d/4 is missing"):
        take_survey(opened(root), 4)


@pytest.mark.parametrize(
    ("ends", "made", "missing"),
    [
        pytest.param((4, 3), (), "sources/1/3", id="no other line has its offset"),
        pytest.param((4, 4, 4), ("2",), "sources/1/4", id="a directory is left out"),
    ],
)
def test_a_log_that_is_gone_is_not_taken_for_that_of_another_reading(
    ends: tuple[int, ...], made: tuple[str, ...], missing: str, tmp_path: Path
) -> None:
    root = unpack("stateless", tmp_path)
    with_readings(root, *ends)
    for name in made:
        shutil.copytree(root / "sources/0", root / "sources" / name)
    with pytest.raises(CheckpointUnfit, match=f"{missing} is missing"):
        take_survey(opened(root), 4)


def test_a_directory_without_a_query_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnfit, match="it does not exist"):
        take_survey(opened(tmp_path / "some"))
    (tmp_path / "some").mkdir()
    with pytest.raises(CheckpointUnfit, match="no file `metadata`"):
        take_survey(opened(tmp_path / "some"))
