"""A path in the log of a file source that no checksum proves is compared with its file."""

import json
import os
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack
from tests.unit.cli.test_commands import invoke

CHANGED = "sources/0/4"


def laid_out(directory: Path, name: str = "{}.json") -> tuple[Path, Path]:
    """Return a checkpoint whose log has no checksums, and the directory of its source."""
    root, inputs = unpack("no-keys", directory), directory / "inputs"
    inputs.mkdir()
    for log in root.glob("sources/0/[0-9]"):
        log.with_name(f".{log.name}.crc").unlink()
        version, line = log.read_text().split("\n")
        entry = json.loads(line)
        file = inputs / name.format(log.name)
        file.write_text("{}")
        os.utime(file, ns=(0, entry["timestamp"] * 1_000_000))
        entry["path"] = file.as_uri()
        log.write_text(f"{version}\n{json.dumps(entry)}")
    return root, inputs


def change_path(root: Path) -> None:
    log = root / CHANGED
    log.write_text(log.read_text().replace("/4.json", "/5.jsom"))


def test_paths_without_a_checksum_are_never_ok(tmp_path: Path) -> None:
    root, _inputs = laid_out(tmp_path)
    change_path(root)
    code, out, _err = invoke("checkpoint", "doctor", root)
    assert code == 6
    assert "looked at: paths in 6 " in out
    assert "(--deep" in out


@pytest.mark.parametrize("name", ["{}.json", "with space {}.json"])
def test_a_path_is_proven_by_its_file(name: str, tmp_path: Path) -> None:
    root, _inputs = laid_out(tmp_path, name)
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert (code, "paths in" in out) == (0, False), out


def test_a_changed_path_is_found_and_the_copy_does_not_have_it(tmp_path: Path) -> None:
    root, _inputs = laid_out(tmp_path)
    change_path(root)
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert code == 4
    assert f"damaged_file: {CHANGED}: it names file://" in out
    assert "4.json has its time" in out
    copy = tmp_path / "copy"
    code, out, _err = invoke("checkpoint", "doctor", root, "--to", copy, "--no-trial")
    assert code == 0
    assert not (copy / CHANGED).exists()


def test_a_file_that_is_gone_proves_nothing(tmp_path: Path) -> None:
    root, inputs = laid_out(tmp_path)
    (inputs / "4.json").unlink()
    code, out, _err = invoke("checkpoint", "doctor", root, "--deep")
    assert code == 6
    assert "looked at: paths in 1 " in out


def test_a_copy_is_not_called_proven_with_such_paths(tmp_path: Path) -> None:
    root, inputs = laid_out(tmp_path)
    (inputs / "4.json").unlink()
    (root / "offsets/12").write_bytes(b"v1\n{")
    code, out, _err = invoke("checkpoint", "doctor", root, "--to", tmp_path / "copy", "--no-trial")
    assert code == 6
    assert "not proven: paths in 1 " in out
