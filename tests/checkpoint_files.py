"""Checkpoints that Spark 4.2 wrote, as far as they are text: for tests with Spark and without.

Each directory in GOLDEN holds one: `paths.txt` names its files, by their shape; of the files
themselves there is one of each kind that Ashore reads, as Spark wrote it. They are written by
`tests/spark/test_checkpoint_layout.py`, where they are missing, and never again.
"""

import re
import tarfile
import zipfile
from pathlib import Path

from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    BatchPath,
    CommitFile,
    OffsetsFile,
    QueryFile,
    QueryPath,
    StateKind,
    StatePath,
    parse_path,
)
from ashore.storage import LocalStorage

GOLDEN = Path(__file__).parent / "golden" / "checkpoints"
WHOLE = GOLDEN.parent / "whole_checkpoints"  # with their state: written by `plain_spark`
PATHS = "paths.txt"
TABLES = "tables.txt"  # the file in a snapshot that names its tables
GOLDEN_FILES = {"metadata", "offsets/1", "commits/1", TABLES}
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TABLE = re.compile(r"(?<=/SSTs/)[0-9]+|(?<=/SSTs/\.)[0-9]+")


def list_paths(root: Path) -> list[str]:
    """Return the files below the root of a checkpoint."""
    return sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.is_file())


def unpack(name: str, directory: Path) -> Path:
    """Lay a checkpoint that is kept into a directory, and return its path."""
    with tarfile.open(WHOLE / f"{name}.tar.xz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def opened(root: Path) -> Checkpoint:
    """Return the checkpoint in a directory."""
    return Checkpoint(LocalStorage(str(root.parent)), root.name, root.as_uri())


def shape_of(path: str) -> str:
    """Return a path without what differs from one run to the next."""
    return _TABLE.sub("<number>", _ID.sub("<id>", path))


def texts_of(root: Path) -> dict[str, bytes]:
    """Return the files of a checkpoint that Ashore reads, by their paths."""
    found: dict[str, bytes] = {}
    for path in list_paths(root):
        match parse_path(path):
            case QueryPath() | BatchPath():
                found[path] = (root / path).read_bytes()
            case StatePath(kind=StateKind.ROCKSDB_SNAPSHOT):
                with zipfile.ZipFile(root / path) as archive:
                    found[TABLES] = archive.read("metadata")
    return found


def write_again(path: str, data: bytes) -> bytes:
    """Return what is written of what was read of a file."""
    match parse_path(path):
        case QueryPath():
            return QueryFile.parse(data, path).write()
        case BatchPath("offsets"):
            return OffsetsFile.parse(data, path).write()
        case BatchPath():
            return CommitFile.parse(data, path).write()
        case _:
            raise AssertionError(path)
