"""What is wrong with a checkpoint, by every verb: the file is named, and nothing changes.

Verbs that start Spark have the same look at the files first.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack
from tests.unit.cli.test_commands import invoke

CASE = "rocksdb-changelog"  # each version has a snapshot and changes, the last one is 12
SNAPSHOT, CHANGES = "state/0/0/12.zip", "state/0/0/12.changelog"
OPERATOR = "state/0/_metadata/metadata"
LOOKS = ("inspect", "savepoint", "rescale", "clean", "doctor")


@dataclass(frozen=True, slots=True)
class Bad:
    """Bad input.

    Arguments:
        happen: makes it, in a directory that is a checkpoint.
        named: a part of the message.
        accepted_by: verbs that do not depend on it, and do what they are to do.

    """

    happen: Callable[[Path], object]
    named: str
    accepted_by: tuple[str, ...] = ()


def replace_by(content: str | None) -> Callable[[Path], object]:
    def happen(root: Path) -> None:
        shutil.rmtree(root)
        if content is not None:
            root.mkdir()
            if content:
                (root / content).write_text("hello")

    return happen


def change(path: str, edit: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def happen(root: Path) -> None:
        file = root / path
        file.write_bytes(edit(file.read_bytes()))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    return happen


def of_future(data: bytes) -> bytes:
    return data.replace(b"v1", b"v9", 1)


def drop_tables(root: Path) -> None:
    for each in (root / "state/0/0/SSTs").glob("*.sst"):
        each.unlink()


def drop_changes(root: Path) -> None:
    (root / SNAPSHOT).unlink()
    (root / CHANGES).unlink()


CHECKPOINTS = {
    "an empty directory": Bad(replace_by(""), "is not a checkpoint"),
    "another directory": Bad(replace_by("notes.txt"), "is not a checkpoint"),
    "nothing": Bad(replace_by(None), "is not a checkpoint"),
    "no metadata": Bad(lambda root: (root / "metadata").unlink(), "is not a checkpoint"),
    "metadata that is no JSON": Bad(
        change("metadata", lambda _: b"{"), "metadata has a line", ("clean",)
    ),
    "a missing table": Bad(drop_tables, ".sst is missing", ("clean",)),
    "missing changes": Bad(drop_changes, CHANGES, ("clean",)),
    "a snapshot that is cut off": Bad(
        change(SNAPSHOT, lambda data: data[:-30]), SNAPSHOT, ("clean",)
    ),
    "an empty snapshot": Bad(change(SNAPSHOT, lambda _: b""), SNAPSHOT, ("clean",)),
    "offsets that are cut off": Bad(change("offsets/11", lambda data: data[:40]), "offsets/11", ()),
    "empty offsets": Bad(change("offsets/11", lambda _: b""), "offsets/11"),
    "offsets of a future format": Bad(change("offsets/11", of_future), "offsets/11"),
    "a commit of a future format": Bad(change("commits/11", of_future), "commits/11"),
    "a commit that is no JSON": Bad(change("commits/11", lambda _: b"v1\n{"), "commits/11"),
    "an operator that is no JSON": Bad(change(OPERATOR, lambda _: b"v1\n{"), OPERATOR, ("clean",)),
    "an operator of a future format": Bad(change(OPERATOR, of_future), OPERATOR, ("clean",)),
}


def content_of(directory: Path) -> dict[str, bytes | None]:
    """Return all below a directory: files with what they hold, directories with None."""
    return {
        str(each.relative_to(directory)): each.read_bytes() if each.is_file() else None
        for each in sorted(directory.rglob("*"))
    }


def arguments_of(verb: str, place: Path, out: Path) -> list[str]:
    match verb:
        case "savepoint" | "restore":
            return [verb, str(place), "--to", str(out)]
        case "rescale":
            return [verb, str(place), "--partitions", "3", "--to", str(out)]
        case "clean":
            return [verb, str(place), "--explain"]
        case _:
            return [verb, str(place)]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_bad_checkpoint_is_named_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    bad, root, out = CHECKPOINTS[name], unpack(CASE, tmp_path), tmp_path / "out"
    bad.happen(root)
    before = content_of(tmp_path)
    for verb in LOOKS:
        code, told, error = invoke("checkpoint", *arguments_of(verb, root, out))
        if verb in bad.accepted_by:
            assert code == 0, (verb, told, error)
        else:
            assert code == 4, (verb, told, error)
            assert bad.named in (told + error).replace("\n", ""), (verb, told, error)
        assert content_of(tmp_path) == before, verb
