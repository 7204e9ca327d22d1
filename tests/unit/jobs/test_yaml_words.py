"""What is wrong with a job file that is not YAML, in words and with its line."""

import pytest

from ashore.jobs.file.document import read_document


@pytest.mark.parametrize(
    ("text", "line", "message", "instead"),
    [
        ("job: a\n\tlake: b\n", 2, "a tab indents", "spaces only"),
        ("job: a\nlake: \t@b\n", 2, "a tab stands before", "a space"),
        ("job: a\nlake file:///x\nsource: 1\n", 2, "a colon is missing", "key: value"),
        ("job: a\nlake:file:///x\nsource: 1\n", 2, "missing after the colon", "key: value"),
        ("sql:\n  text: |\n    SELECT 1\n  FROM x\n", 4, "a colon is missing", "below `|`"),
        ("job: a\n lake: file:///x\n", 2, "a value already", "as the keys"),
        ("job: a\nsource:\n   kafka: {}\n  gap: fail\n", 4, "no line above", "as the keys"),
        ("tables:\n- topic: a\n table: b\n", 3, "no line above", "as the keys"),
        ("tables:\n  -topic: a\n   table: b\n", 2, "after the dash", "- key: value"),
        ("tables:\n- schema: a INT, b: INT\n", 2, "a colon with a space", "in quotes"),
        ('job: "a" b\n', 1, "continues after its value", "in quotes"),
        ("job: @a\n", 1, "begin with @", "in quotes"),
        ('job: a\nlake: "b\ntables: []\n', 2, "quote of this line", "close it"),
        ('lake: "c:\\q"\n', 1, "not an escape", "double the backslash"),
        ("tables: [{topic: a\njob: b\n", 1, "is missing for the", "close it"),
    ],
)
def test_broken_yaml_is_named_with_its_line_and_what_to_write(
    text: str, line: int, message: str, instead: str
) -> None:
    found = read_document(text)
    (finding,) = found.findings
    assert found.lines[()] == line
    assert message in finding.message
    assert instead in finding.instead


def test_no_value_is_repeated() -> None:
    for text in (
        "lake: s3cret: x\n",
        "lake: [s3cret\nx: 1\n",
        'lake: "s3cret" x\n',
        "s3cret x\na: 1\n",
    ):
        (finding,) = read_document(text).findings
        assert "s3cret" not in f"{finding.message} {finding.instead}"
