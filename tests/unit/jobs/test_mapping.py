"""Files that say which operator is which."""

from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file.mapping import load_mapping, write_mapping


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(write_mapping([("3f2a", "12e4", "the same"), ('a"b', "c: d", "why: #x")]))
    read = load_mapping(path)
    assert [(each.old, each.new) for each in read.pin] == [("3f2a", "12e4"), ('a"b', "c: d")]
    assert read.forbid == ()
    path.write_text(write_mapping([], [("3f2a", "0000")]))
    assert [(each.old, each.new) for each in load_mapping(path).forbid] == [("3f2a", "0000")]
    path.write_text(write_mapping([]))
    assert load_mapping(path).pin == ()
    path.write_text("")
    assert load_mapping(path).pin == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pin: 3", "pin"),
        ("pins: []", "pins"),
        ("pin: [{old: a}]", "new"),
        ("pin: [{old: '', new: b}]", "old"),
        ("pin: [", "YAML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mapping.yaml"
    path.write_text(text)
    with pytest.raises(JobFileInvalid, match=said) as raised:
        load_mapping(path)
    assert str(path) in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobFileInvalid, match="no such file"):
        load_mapping(tmp_path / "gone.yaml")
