"""Statements as text: what of it plays no part, and what may be names."""

import pytest

from ashore.plans.text import find_read, name_made, names_in, normalise_sql


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("  SELECT  a,\n\tb ", "SELECT a, b"),
        ("SELECT 'a  b', \"c  d\", `e  f`", "SELECT 'a  b', \"c  d\", `e  f`"),
        ("SELECT 'a\\'  b'  , 1", "SELECT 'a\\'  b' , 1"),
        ("SELECT 'it''s  x'", "SELECT 'it''s  x'"),
        ("SELECT r'\\'  , '  '", "SELECT r'\\' , '  '"),
        ("SELECT 1 -- 'one\n , 2", "SELECT 1 , 2"),
        ("SELECT /* a /* b */ ' */ 1", "SELECT 1"),
        ("SELECT /*+ MERGE(b) */  1", "SELECT /*+ MERGE(b) */ 1"),
        ("SELECT 'open  ", "SELECT 'open"),
        ("SELECT 1 /* open", "SELECT 1"),
        ("SELECT '--  x'", "SELECT '--  x'"),
        ("", ""),
    ],
)
def test_white_space_and_comments_play_no_part_but_in_literals(text: str, normal: str) -> None:
    assert normalise_sql(text) == normal
    assert normalise_sql(normal) == normal


def test_names_are_words_and_what_is_quoted() -> None:
    found = names_in("SELECT A.x FROM `My View` a -- other\n JOIN b_2 ON 'text'")
    assert {"a", "x", "my view", "b_2"} <= found
    assert "other" not in found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("CREATE TEMPORARY VIEW v AS SELECT 1", "v"),
        ("create or replace temp view `a b` as select 1", "a b"),
        ("CREATE TEMPORARY VIEW IF NOT EXISTS Names USING jdbc OPTIONS (a 'b')", "names"),
        ("SELECT 1", ""),
    ],
)
def test_a_view_is_known_by_its_name(text: str, name: str) -> None:
    assert name_made(text) == name


def test_what_a_view_reads_is_read() -> None:
    views = {"a": "... FROM b", "b": "... FROM c", "d": "... FROM e", "c": "FROM a"}
    assert {"a", "b", "c"} <= find_read("SELECT * FROM a", views)
    assert not {"d", "e"} & find_read("SELECT * FROM a", views)
