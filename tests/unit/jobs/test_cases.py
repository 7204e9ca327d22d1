"""Files of test cases: what they may say, and where they are wrong."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file.cases import parse_cases

GOOD = """
cases:
  - name: one
    given:
      - topic: clicks
        records:
          - {at: "2026-11-21T08:00:00Z", value: {id: 1}}
          - {value: "{", key: k, partition: 2}
    expect:
      - {table: ods.clicks, rows: []}
"""


def test_a_file_is_read_with_times_and_places() -> None:
    (case,) = parse_cases(GOOD, "a.cases.yaml")
    assert case.place == "a.cases.yaml:3"
    first, second = case.batches[0].records
    assert (first.at, first.value) == (1_795_248_000_000, {"id": 1})
    assert (second.at, second.value, second.key, second.partition) == (None, "{", "k", 2)


def test_a_topic_that_sql_writes_may_be_named_as_one() -> None:
    (case,) = parse_cases(GOOD.replace("table: ods.clicks", "topic: counts"))
    assert [each.table for each in case.expect] == ["counts"]
    with pytest.raises(JobFileInvalid, match=r"expect\[0\].topic"):
        parse_cases(GOOD.replace("table: ods.clicks", "table: ods.clicks, topic: counts"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("topic: clicks", "topik: clicks", "a.yaml:5: cases[0].given[0].topik"),
        ('at: "2026-11-21T08:00:00Z"', 'at: "2026-11-21T08:00:00"', "has no zone"),
        ("rows: []", "rows: [1]", "a.yaml:10: cases[0].expect[0].rows[0]"),
        ("value: {id: 1}", "vale: 1", "a.yaml:7"),
        ("rows: []", "dead_letters: [{topic: clicks}]", "dead_letters[0].offset: this key is"),
        (", rows: []", "", "a.yaml:10: cases[0].expect[0]: neither `rows` nor `dead_letters`"),
        ("topic: clicks", "topic: clicks\n        after: 3", "given[0].after: 3 has no unit"),
        ("cases:", "case:", "did you mean `cases`?"),
        (
            "    expect:\n      - {table: ods.clicks, rows: []}\n",
            "",
            "cases[0].expect: this key is",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, words: str) -> None:
    with pytest.raises(JobFileInvalid) as refused:
        parse_cases(GOOD.replace(old, new), "a.yaml")
    assert words in refused.value.message


def test_names_are_given_once() -> None:
    twice = GOOD + GOOD.partition("cases:\n")[2]
    with pytest.raises(JobFileInvalid, match="another case has"):
        parse_cases(twice)
