"""Where the characters of a text stand in the job file, however YAML has it written."""

import pytest
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import changed, job

from ashore.jobs.file.source_text import written_file

OLD = 'sql: "INSERT INTO ods.big SELECT * FROM clicks;"\n'
FIRST = 14  # the line of `sql:`


def place(written: str, word: str) -> str:
    """Return where a job file says that `word` of its SQL stands."""
    loaded = job(changed(SQL_JOB, (OLD, written)))
    text = loaded.written_sql
    assert text is not None
    return str(text.place(text.text.index(word)))


EXACT = {
    "literal": "sql: |\n  INSERT INTO ods.big\n\n    SELECT nope;\n",
    "literal that is kept": "sql: |+\n  INSERT INTO ods.big\n\n    SELECT nope;\n\n\n",
    "literal with its indent": "sql: |2- # why\n   INSERT INTO ods.big\n     SELECT nope;\n",
    "literal with an anchor": "sql: !!str &q |\n  INSERT INTO ods.big SELECT\n    nope;\n# end\n",
    "folded": "sql: >\n  INSERT INTO ods.big\n  SELECT\n\n    nope\n  FROM x;\n",
    "folded and stripped": "sql: >-\n  INSERT INTO ods.big\n  SELECT nope FROM x;\n",
    "plain": "sql: INSERT INTO ods.big\n  SELECT\n   nope # a comment\n",
    "single quotes": "sql: 'INSERT INTO ods.big SELECT ''it''\n  , nope'\n",
    "double quotes": 'sql: "INSERT INTO ods.big\\n SELECT \\"it\\" \\\n   ,\\tnope"\n',
    "in a mapping": "sql:\n  text: |\n    INSERT INTO ods.big\n      SELECT nope;\n",
    "in flow": "sql: {text: 'INSERT INTO ods.big SELECT nope'}\n",
    "beyond the plane": "sql: |\n  INSERT INTO ods.big SELECT '\U0001f642', nope\n",
}


@pytest.mark.parametrize("name", EXACT)
def test_a_place_is_that_of_the_file(name: str) -> None:
    written = EXACT[name]
    before = written[: written.index("nope")]
    line, column = FIRST + before.count("\n"), len(before) - before.rfind("\n")
    assert place(written, "nope") == f"clicks.yaml:{line}:{column}"


def test_an_escape_that_hides_characters_is_reported() -> None:
    written = 'sql: "INSERT INTO ods.big\\n SELECT \\x41, nope"\n'
    assert place(written, "nope").startswith("clicks.yaml:14 (line 2, column 12 ")


def test_the_end_of_a_text_is_behind_its_last_character() -> None:
    text = written_file("SELECT 1\n  \n", "clicks.sql")
    assert str(text.place(len(text.text))) == "clicks.sql:1:9"
    assert str(written_file("", "clicks.sql").place(0)) == "clicks.sql:1:1"


def test_an_alias_is_where_its_anchor_is() -> None:
    written = "clean: {every: 1h}\nsql: *q\n"
    anchored = changed(
        SQL_JOB, (OLD, written), ("job: clicks", "job: &q |-\n  clicks"), ("lake:", "lake:")
    )
    text = job(anchored).written_sql
    assert text is not None
    assert str(text.place(0)) == "clicks.yaml:2:3"
