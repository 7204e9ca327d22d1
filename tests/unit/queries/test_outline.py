"""What of a checkpoint Spark compares with a query: copied, and nothing else."""

from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, opened, unpack

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import OperatorFile, OperatorPath, parse_path
from ashore.queries.state.outline import copy_outline

WHOLE = ["rocksdb", "hdfs-backed", "join-2", "join-3", "format-2", "transform-with-state"]


def times(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        each: ((root / each).read_bytes(), (root / each).stat().st_mtime_ns)
        for each in list_paths(root)
    }


@pytest.mark.parametrize("name", WHOLE)
def test_texts_are_copied_and_no_state(name: str, tmp_path: Path) -> None:
    source, target = unpack(name, tmp_path), tmp_path / "copy"
    before = times(source)
    done = copy_outline(opened(source), opened(target))
    kept = [each for each in before if "_metadata/" in each or "_stateSchema/" in each]
    planned = max(int(each.name) for each in (source / "offsets").iterdir() if each.name.isdigit())
    wanted = {each for each in kept if "/." not in each}
    wanted |= {f"commits/{done}", f"offsets/{done}", f"offsets/{planned}"}
    assert set(list_paths(target)) == wanted
    assert times(source) == before


@pytest.mark.parametrize("name", ["join-3", "transform-with-state"])
def test_operators_of_a_copy_name_its_own_schemas(name: str, tmp_path: Path) -> None:
    source, target = unpack(name, tmp_path), tmp_path / "copy"
    copy_outline(opened(source), opened(target))
    schemas = [
        schema
        for path in list_paths(target)
        if isinstance(parse_path(path), OperatorPath)
        for store in OperatorFile.parse((target / path).read_bytes(), path).stores
        for schema in store.schemas
    ]
    assert schemas
    assert all(Path(each.removeprefix("file:")).is_file() for each in schemas)
    assert all(f"file:{target}/" in each for each in schemas)


@pytest.mark.parametrize("name", ["rocksdb", "join-3"])
def test_an_operator_that_is_left_out_has_no_schema(name: str, tmp_path: Path) -> None:
    source, target = unpack(name, tmp_path), tmp_path / "copy"
    copy_outline(opened(source), opened(target), operators=[7])
    paths = [parse_path(each) for each in list_paths(target)]
    operators = [each for each in paths if isinstance(each, OperatorPath)]
    assert operators
    assert not [each for each in list_paths(target) if "chema" in each]
    for each in operators:
        parsed = OperatorFile.parse((target / each.path).read_bytes(), each.path)
        assert not [schema for store in parsed.stores for schema in store.schemas]


def test_a_checkpoint_without_a_finished_batch_is_told(tmp_path: Path) -> None:
    source = unpack("rocksdb", tmp_path)
    for each in (source / "commits").iterdir():
        each.unlink()
    with pytest.raises(CheckpointUnfit, match="no batch of it"):
        copy_outline(opened(source), opened(tmp_path / "copy"))
