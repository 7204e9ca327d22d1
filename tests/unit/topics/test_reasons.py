"""Reasons of bad records: their words, on the page too."""

import re
from pathlib import Path

from ashore.topics.decode.reasons import REASON_CHARS_MAX, WORDS, code_of, describe, write_reason

PAGE = Path(__file__).parents[3] / "docs" / "use" / "records.md"


def test_the_page_of_records_has_every_code_with_its_words() -> None:
    section = PAGE.read_text("utf-8").partition("### Reasons")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert dict(rows) == WORDS


def test_a_reason_is_shown_as_a_sentence_with_its_detail() -> None:
    assert describe("wrong-type: a BIGINT 'x: y'") == f"{WORDS['wrong-type']}: a BIGINT 'x: y'"
    assert describe("empty") == WORDS["empty"]


def test_a_reason_of_an_earlier_release_is_shown_as_it_is() -> None:
    text = "Column(/a) changed from number to string: x"
    assert (code_of(text), describe(text)) == (text, text)


def test_a_reason_is_cut() -> None:
    assert write_reason("null") == "null"
    assert len(write_reason("null", "x" * 500)) == REASON_CHARS_MAX
