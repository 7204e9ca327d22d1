"""What a rescale refuses, and what it lays out around the state, without Spark."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, opened, unpack

from ashore.errors import CheckpointUnfit, InvariantBroken
from ashore.queries.state.layout import OffsetsFile, OperatorFile
from ashore.queries.state.rescaling import commit, finish, lay_out, plan_rescale
from ashore.queries.state.survey import take_survey


def keep(_root: Path) -> None:
    """Change nothing."""


def leave_an_old_partition(root: Path) -> None:
    shutil.copytree(root / "state/0/1", root / "state/0/2")


def lose_a_snapshot(root: Path) -> None:
    for table in (root / "state/0/1/SSTs").iterdir():
        table.unlink()


def forget_settings(root: Path) -> None:
    for each in (root / "offsets").glob("[0-9]*"):
        lines = each.read_text("utf-8").split("\n")
        each.write_text("\n".join([lines[0], "", *lines[2:]]), "utf-8")


REFUSED: list[tuple[str, Callable[[Path], None], int, str, str]] = [
    ("rocksdb-changelog", keep, 0, "partitions", "0 is not"),
    ("rocksdb-changelog", keep, 100_001, "partitions", "100001 is not"),
    ("rocksdb-changelog", keep, 2, "same", "its state has 2 partitions already"),
    ("hdfs-backed", keep, 3, "provider", "its state is in HDFSBackedStateStoreProvider"),
    ("stateless", keep, 3, "stateless", "keeps no state"),
    ("join-3", keep, 3, "moved", "moved by hand"),
    ("rocksdb", leave_an_old_partition, 3, "old_partitions", "state/0/2 is of a partition"),
    ("rocksdb", lose_a_snapshot, 3, "missing", "state/0/1/SSTs/"),
    ("rocksdb", forget_settings, 3, "no_settings", "name its partitions"),
    ("rocksdb", shutil.rmtree, 3, "no_checkpoint", "is not a checkpoint"),
]


@pytest.mark.parametrize(("case", "damage", "wanted", "why", "words"), REFUSED)
def test_what_cannot_be_rescaled_is_refused_in_words(
    tmp_path: Path, case: str, damage: Callable[[Path], None], wanted: int, why: str, words: str
) -> None:
    root = unpack(case, tmp_path)
    damage(root)
    before = list_paths(root)

    with pytest.raises(CheckpointUnfit) as caught:
        plan_rescale(opened(root), wanted)

    assert caught.value.fields["why"] == why
    assert words in caught.value.message
    assert caught.value.message.startswith(str(root))
    assert caught.value.hint
    assert list_paths(root) == before


def test_all_but_the_state_is_laid_out(tmp_path: Path) -> None:
    root, target = unpack("rocksdb-changelog", tmp_path), tmp_path / "target"
    plan = plan_rescale(opened(root), 5)
    assert (plan.batch, plan.partitions, plan.new_partitions, plan.state_format) == (11, 2, 5, 1)

    lay_out(opened(root), opened(target), plan)

    laid = list_paths(target)
    assert {"offsets/10", "offsets/11", "state/0/_metadata/metadata"} < set(laid)
    assert "state/0/0/_metadata/schema" in laid
    assert "metadata" not in laid
    assert "commits/11" not in laid
    assert not any(each.endswith((".zip", ".changelog", ".sst")) for each in laid)
    planned = OffsetsFile.parse((target / "offsets/11").read_bytes(), "")
    assert planned.settings is not None
    assert planned.settings.partitions == 5
    says = OperatorFile.parse((target / "state/0/_metadata/metadata").read_bytes(), "")
    assert [each.partitions for each in says.stores] == [5]

    commit(opened(root), opened(target), 11, {})
    finish(opened(root), opened(target))

    assert (target / "commits/11").read_bytes() == (root / "commits/11").read_bytes()
    assert (target / "metadata").read_bytes() == (root / "metadata").read_bytes()


def test_a_target_beside_another_parent_has_all_and_the_source_gets_nothing(tmp_path: Path) -> None:
    """What the sources say of themselves is a part: without it Spark reads their files again."""
    root, target = unpack("rocksdb-changelog", tmp_path / "live"), tmp_path / "other" / "target"
    before = list_paths(tmp_path / "live")

    lay_out(opened(root), opened(target), plan_rescale(opened(root), 5))

    assert list_paths(tmp_path / "live") == before
    sources = [each for each in list_paths(root) if each.startswith("sources/")]
    shown = [each for each in sources if not each.rpartition("/")[2].startswith(".")]
    assert shown
    assert [each for each in list_paths(target) if each.startswith("sources/")] == shown


def test_a_batch_that_is_planned_stays_planned(tmp_path: Path) -> None:
    root, target = unpack("rocksdb-changelog", tmp_path), tmp_path / "target"
    (root / "commits/11").unlink()
    plan = plan_rescale(opened(root), 1)
    assert plan.batch == 10

    lay_out(opened(root), opened(target), plan)

    before, after = (
        OffsetsFile.parse((each / "offsets/11").read_bytes(), "") for each in (root, target)
    )
    assert after.sources == before.sources
    assert after.settings is not None
    assert after.settings.partitions == 1


def test_ids_of_the_new_state_are_in_the_commit(tmp_path: Path) -> None:
    root, target = unpack("format-2", tmp_path), tmp_path / "target"
    plan = plan_rescale(opened(root), 3)
    lay_out(opened(root), opened(target), plan)
    with pytest.raises(InvariantBroken):
        commit(opened(root), opened(target), plan.batch, {})

    commit(opened(root), opened(target), plan.batch, {0: (("a",), ("b",), ("c",))})

    assert opened(target).read_commit(plan.batch).store_ids == {0: (("a",), ("b",), ("c",))}
    assert take_survey(opened(root)).required.commit.store_ids != {0: (("a",), ("b",), ("c",))}
