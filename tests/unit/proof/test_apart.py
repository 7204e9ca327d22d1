"""A file that ends the process that reads it is unreadable, and nothing else happens."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from ashore.errors import PathMissing
from ashore.log.files import Role
from ashore.proof.evidence import reader_process as apart
from ashore.proof.evidence.offsets import Unreadable, read_file
from ashore.storage import MemoryStorage
from ashore.topics.decode.registry import open_encoder
from ashore.topics.write.sorting import DEAD_SCHEMA

KIND = ("orc", Role.DEAD)
DYING = """
import os, signal
import pyarrow.orc as po
read = po.ORCFile.read
def dying(self, *columns):
    found = read(self, *columns)
    if "die" in found.column("topic").to_pylist():
        os.kill(os.getpid(), signal.SIGSEGV)
    return found
po.ORCFile.read = dying
"""


def store(storage: MemoryStorage, topic: str, rows: int = 3) -> int:
    table = pa.Table.from_pylist(
        [{"topic": topic, "partition": 1, "offset": each} for each in range(rows)],
        schema=DEAD_SCHEMA,
    )
    file = storage.open_write(topic)
    encoder = open_encoder("orc", file, table.schema)
    encoder.write(table)
    encoder.close({})
    file.close()
    return len(storage.read(topic))


@pytest.mark.slow
def test_a_parser_that_crashes_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(DYING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    storage, reader = MemoryStorage(), apart._Reader()
    sizes = {name: store(storage, name) for name in ("fine", "die", "other")}
    try:
        for name in ("fine", "die", "other", "fine"):
            if name == "die":
                with pytest.raises(Unreadable, match="crashed a process: SIGSEGV"):
                    reader.read(storage, name, sizes[name], KIND)
                continue
            found = reader.read(storage, name, sizes[name], KIND)
            here = read_file(storage, name, sizes[name], KIND)
            assert (found.rows, found.shards[0].stream) == (3, name)
            assert found.shards[0].offsets.first(9) == here.shards[0].offsets.first(9)
        with pytest.raises(PathMissing):
            reader.read(storage, "nowhere", 100, KIND)
        with pytest.raises(Unreadable, match="postscript"):
            reader.read(storage, "fine", sizes["fine"] - 5, KIND)
        assert reader.read(storage, "other", sizes["other"], KIND).rows == 3
    finally:
        reader.close()


@pytest.mark.parametrize(
    "content", [b'null{"a":1}\n', b'{"a":1}\nnull\n', b'{"a":1}', b'{"a":1}\n\n', b"\0\n"]
)
def test_lines_that_are_no_objects_reach_no_parser(content: bytes) -> None:
    storage = MemoryStorage()
    file = storage.open_write("file")
    file.write(content)
    file.close()
    with pytest.raises(Unreadable, match="not a JSON"):
        read_file(storage, "file", len(content), ("jsonl", Role.MAIN))
