"""Kept checkpoints, damaged as it happens: for tests of the doctor, with Spark and without."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.layout import PARTITIONS, PROVIDER, OffsetsFile, OperatorFile

LAST = 11  # batch of the kept checkpoints


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that happened to a kept checkpoint.

    Arguments:
        code: that is found.
        case: the checkpoint.
        happen: does it, below the root.
        file: that the finding names; it begins so.
        batch: with which the copy ends; None: it cannot be repaired.
        sources: that the query reads, where somebody says so.

    """

    code: Code
    case: str
    happen: Callable[[Path], None]
    file: str
    batch: int | None = LAST
    sources: int | None = None


def edit(path: Path, change: Callable[[bytes], bytes], *, drops_checksum: bool = True) -> None:
    """Change a file, as somebody does who knows of its checksum, or does not."""
    path.write_bytes(change(path.read_bytes()))
    if drops_checksum:
        remove(path.with_name(f".{path.name}.crc"))


def remove(*paths: Path) -> None:
    """Delete files, with the checksums that Hadoop keeps of them."""
    for path in paths:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def conf(data: bytes, key: str, value: str) -> bytes:
    """Return offsets with another setting."""
    offsets = OffsetsFile.parse(data, "offsets")
    assert offsets.settings is not None
    settings = replace(offsets.settings, conf={**offsets.settings.conf, key: value})
    return replace(offsets, settings=settings).write()


def stop_repartition(root: Path) -> None:
    """Plan a batch with four partitions, and write some of its state."""
    last = (root / f"offsets/{LAST}").read_bytes()
    (root / f"offsets/{LAST + 1}").write_bytes(conf(last, PARTITIONS, "4"))
    (root / "state/0/3").mkdir()
    shutil.copy(root / "state/0/0/12.zip", root / f"state/0/3/{LAST + 2}.zip")


def keep_old_partitions(root: Path) -> None:
    """Leave the files of a third partition, and an operator that still counts it."""
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    says = root / "state/0/_metadata/metadata"
    edit(says, lambda data: OperatorFile.parse(data, "metadata").cut(3).write())


def take_back(root: Path) -> None:
    """Delete what the logs have after batch 7, as somebody does who knows of no roll-back."""
    for batch in range(8, LAST + 1):
        remove(root / f"offsets/{batch}", root / f"commits/{batch}")


def lose_commits(root: Path) -> None:
    remove(root / "commits/10", root / "commits/11")


def reformat(data: bytes) -> bytes:
    """Return offsets that say the same in other bytes."""
    version, settings, *ends = data.decode().split("\n")
    return "\n".join([version, json.dumps(json.loads(settings)), *ends]).encode()


def overlap(root: Path) -> None:
    """Let two programs have written to it: batches 9 to 11 are those of the older one."""
    for batch in range(LAST + 1):
        edit(root / f"offsets/{batch}", partial(_overlapped, batch))


def _overlapped(batch: int, data: bytes) -> bytes:
    is_older = batch >= 9
    offsets = OffsetsFile.parse(data, "offsets")
    assert offsets.settings is not None
    end = json.dumps({"clicks": {"0": (5 if is_older else 10) * batch}})
    at_ms = 1_000 * (batch - 5 if is_older else batch)
    settings = replace(offsets.settings, timestamp_ms=at_ms)
    sources = tuple(replace(each, end=end) for each in offsets.sources)
    return replace(offsets, settings=settings, sources=sources).write()


def other_provider(root: Path) -> None:
    name = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    edit(root / f"offsets/{LAST}", lambda data: conf(data, PROVIDER, name))


def of_format_2(root: Path) -> None:
    """Leave a file of a start with another `checkpointFormatVersion`."""
    change = root / "state/0/0/12.changelog"
    shutil.copy(change, change.with_name("12_54524d88-9168-4712-9f47-e1ae39c2a998.changelog"))


def cut_off(name: str) -> Callable[[Path], None]:
    return lambda root: edit(root / name, lambda data: data[: len(data) // 2])


def flip(name: str, *, drops_checksum: bool = False) -> Callable[[Path], None]:
    def happen(root: Path) -> None:
        edit(
            root / name,
            lambda data: data[:-20] + bytes([data[-20] ^ 4]) + data[-19:],
            drops_checksum=drops_checksum,
        )

    return happen


def change_text(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Change some bytes of a text, and leave the checksum that Hadoop keeps of it."""

    def happen(root: Path) -> None:
        assert old in (root / name).read_bytes()
        edit(root / name, lambda data: data.replace(old, new), drops_checksum=False)

    return happen


def lose(*names: str) -> Callable[[Path], None]:
    return lambda root: remove(*(root / each for each in names))


def lose_tables(root: Path) -> None:
    remove(*(root / "state/0/0/SSTs").glob("*.sst"))


def flip_in_archive(name: str) -> Callable[[Path], None]:
    """Flip a bit of a file in a snapshot which Ashore does not parse."""

    def happen(root: Path) -> None:
        with zipfile.ZipFile(root / name) as archive:
            info = archive.getinfo("CURRENT")
        at = info.header_offset + 30 + len(info.filename)  # its bytes follow its local header

        def change(data: bytes) -> bytes:
            return data[: at + 2] + bytes([data[at + 2] ^ 1]) + data[at + 3 :]

        edit(root / name, change)

    return happen


def drop_id(root: Path) -> None:
    """Cut the checkpoint's changes in format 2, beside which Spark keeps their checksum."""
    (change,) = (root / "state/0/0").glob("12_*.changelog")
    (snapshot,) = (root / "state/0/0").glob("12_*.zip")
    remove(snapshot, snapshot.with_name(f"{snapshot.name}.crc"))
    edit(change, lambda data: data[:-1] + b"\1")


def lose_snapshots(root: Path) -> None:
    """Delete the snapshot that the newest change continues, and the newest one."""
    for version in (10, 12):
        (snapshot,) = (root / "state/0/0").glob(f"{version}_*.zip")
        remove(snapshot, snapshot.with_name(f"{snapshot.name}.crc"))


DAMAGES = {
    "half-done repartition": Damage(
        Code.HALF_DONE_REPARTITION, "rocksdb-changelog", stop_repartition, "offsets/12"
    ),
    "moved": Damage(Code.MOVED, "join-3", lambda _root: None, "state/0/_metadata/v2/10"),
    "a source's directory without a line": Damage(
        Code.MISSING_LINE, "no-keys", lambda root: (root / "sources/1").mkdir(), "offsets/11"
    ),
    "a source that somebody names": Damage(
        Code.MISSING_LINE, "rocksdb", lambda _root: None, "offsets/11", sources=2
    ),
    "old partitions": Damage(
        Code.STALE_PARTITIONS, "rocksdb-changelog", keep_old_partitions, "state/0/"
    ),
    "a missing change": Damage(
        *(Code.MISSING_FILE, "rocksdb-changelog"),
        *(lose("state/0/0/12.zip", "state/0/0/12.changelog"), "state/0/0/12.changelog", 10),
    ),
    "a missing snapshot of Spark's other store": Damage(
        *(Code.MISSING_FILE, "hdfs-backed"),
        *(lose("state/0/1/12.delta", "state/0/1/12.snapshot"), "state/0/1/12.delta", 10),
    ),
    "missing tables": Damage(
        Code.MISSING_FILE, "rocksdb-changelog", lose_tables, "state/0/0/SSTs/", LAST
    ),
    "missing offsets": Damage(Code.MISSING_FILE, "no-keys", lose("offsets/11"), "offsets/11", 10),
    "no schema": Damage(
        *(Code.MISSING_FILE, "rocksdb", lose("state/0/0/_metadata/schema")),
        *("state/0/0/_metadata/schema", None),
    ),
    "a snapshot that is cut off": Damage(
        Code.DAMAGED_FILE, "rocksdb-changelog", cut_off("state/0/0/12.zip"), "state/0/0/12.zip"
    ),
    "a flipped bit in a snapshot": Damage(
        *(Code.DAMAGED_FILE, "rocksdb-changelog", flip_in_archive("state/0/0/12.zip")),
        *("state/0/0/12.zip", LAST),
    ),
    "the only snapshot is cut off": Damage(
        Code.DAMAGED_FILE, "rocksdb", cut_off("state/0/0/12.zip"), "state/0/0/12.zip", 10
    ),
    "a change that is cut off": Damage(
        *(Code.DAMAGED_FILE, "join-3", cut_off("state/0/0/12.changelog")),
        *("state/0/0/12.changelog", 10),
    ),
    "a flipped bit, which Hadoop's checksum tells": Damage(
        *(Code.DAMAGED_FILE, "hdfs-backed", flip("state/0/0/12.snapshot")),
        *("state/0/0/12.snapshot", LAST),
    ),
    "a flipped byte, which Spark's checksum tells": Damage(
        Code.DAMAGED_FILE, "format-2", drop_id, "state/0/0/12_", 10
    ),
    "snapshots of format 2 that changes continue": Damage(
        Code.MISSING_FILE, "format-2", lose_snapshots, "state/0/0/10_", 9
    ),
    "an empty commit": Damage(
        *(Code.WRONG_FORMAT, "no-keys", lambda root: edit(root / "commits/11", lambda _: b"")),
        *("commits/11", 10),
    ),
    "an id that is no JSON": Damage(
        Code.DAMAGED_FILE, "no-keys", cut_off("metadata"), "metadata", None
    ),
    "planned offsets that are cut off": Damage(
        *(Code.DAMAGED_FILE, "no-keys"),
        *(lambda root: (root / "offsets/12").write_bytes(b"v1\n{"), "offsets/12", LAST),
    ),
    "edited without its checksum": Damage(
        Code.STALE_CHECKSUM,
        "rocksdb-changelog",
        lambda root: edit(root / "offsets/11", reformat, drops_checksum=False),
        "offsets/11",
        None,
    ),
    "a text that contradicts its neighbours, and its checksum": Damage(
        *(
            Code.DAMAGED_FILE,
            "rocksdb-changelog",
            change_text("offsets/11", b'partitions":"2"', b'partitions":"3"'),
        ),
        *("offsets/11", 10),
    ),
    "an entry of a source's log that is cut off": Damage(
        *(Code.DAMAGED_FILE, "no-keys", cut_off("sources/0/5"), "sources/0/5", 9),
    ),
    "a logOffset past the log of the source": Damage(
        Code.DAMAGED_FILE,
        "no-keys",
        lambda root: edit(root / "offsets/11", lambda data: data.replace(b'et":5', b'et":9')),
        *("offsets/11", 10),
    ),
    "commits that are gone": Damage(
        Code.LOG_GAP, "rocksdb-changelog", lose_commits, "offsets/11", 9
    ),
    "a hole in the commits": Damage(
        Code.LOG_GAP, "rocksdb-changelog", lose("commits/4"), "commits/4", LAST
    ),
    "another provider": Damage(
        Code.WRONG_FORMAT, "rocksdb-changelog", other_provider, "offsets/11"
    ),
    "a file of the other format": Damage(
        Code.WRONG_FORMAT, "rocksdb-changelog", of_format_2, "state/0/0/12_"
    ),
    "a future version": Damage(
        Code.WRONG_FORMAT,
        "no-keys",
        lambda root: edit(root / "offsets/11", lambda data: b"v9" + data[2:]),
        "offsets/11",
        10,
    ),
    "logs that were taken back": Damage(
        Code.TWO_LINEAGES, "rocksdb-changelog", take_back, "state/0/", 7
    ),
    "two programs": Damage(Code.TWO_LINEAGES, "no-keys", overlap, "offsets/9", 8),
}
