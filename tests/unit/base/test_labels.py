"""Labels of a job file, and selectors of jobs by labels: the grammar of Kubernetes."""

import pytest
from tests.unit.jobs.texts import SMALL

from ashore.base.labels import Selector, check_label
from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job

PAYMENTS = {"team": "payments", "tier": "prod"}
TEST = {"team": "payments", "tier": "test"}
ORDERS = {"team": "orders"}
ALL = [PAYMENTS, TEST, ORDERS, {}]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("team=payments", [PAYMENTS, TEST]),
        ("team==payments", [PAYMENTS, TEST]),
        ("team=payments,tier!=test", [PAYMENTS]),
        (" team = payments , tier != test\n", [PAYMENTS]),
        ("tier!=test", [PAYMENTS, ORDERS, {}]),
        ("tier,tier!=test", [PAYMENTS]),
        ("tier", [PAYMENTS, TEST]),
        ("!tier", [ORDERS, {}]),
        ("team in (payments, orders)", ALL[:3]),
        ("team in (payments,orders),!tier", [ORDERS]),
        ("team notin (payments, x)", [ORDERS, {}]),
        ("team=", []),
        ("example.com/team=payments", []),
    ],
)
def test_selectors(text: str, meant: list[dict[str, str]]) -> None:
    found = Selector.parse(text)
    assert [each for each in ALL if found.matches(each)] == meant
    assert Selector.parse(str(found)) == found


def test_an_empty_value_is_a_value() -> None:
    assert Selector.parse("team=").matches({"team": ""})
    assert not Selector.parse("team!=").matches({"team": ""})


def test_a_selector_without_terms_means_every_job() -> None:
    assert all(Selector().matches(each) for each in ALL)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ",", "team=a,", "=a", "team=a=b", "team a", "team in ()", "team in (a"),
        *("in (a)", "team=a b", "team!a", "team>1", "-team=a", "team=-a", "Upper.com/x=a"),
        *("a/b/c=d", "team=" + "a" * 64, "a" * 64, "team in (a),(b)", "x" * 2_000),
        *("t\N{LATIN SMALL LETTER E WITH ACUTE}=a", "team in (a,b c)", "team=a\0", "(a)"),
    ],
)
def test_what_is_no_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"selector|label"):
        Selector.parse(text)


@pytest.mark.parametrize("value", ["a", "A_b-c.d", "1", "a" * 63])
def test_values_of_labels(value: str) -> None:
    check_label("example.com/team", value)
    with pytest.raises(ValueError, match="not a value"):
        check_label("team", value + "-")


def test_labels_of_a_job_are_text_as_they_are_written() -> None:
    job = parse_job(SMALL + 'labels: {team: payments, tier: 01, on: true, none: ""}\n')
    assert dict(job.labels) == {"team": "payments", "tier": "01", "on": "true", "none": ""}
    assert dict(parse_job(SMALL).labels) == {}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ('{team: "a b"}', "not a value"),
        ("{-x: y}", "not a key"),
        ("{team: null}", "labels.team: expected a string"),
        ("{team: [a]}", "labels.team: expected a string"),
        ("payments", "expected a mapping"),
        ("{" + ", ".join(f"k{each}: v" for each in range(65)) + "}", "too many labels"),
        ('{team: "${TEAM}"}', "not a value"),
    ],
)
def test_labels_that_are_none_are_refused(labels: str, words: str) -> None:
    with pytest.raises(JobFileInvalid, match=words):
        parse_job(SMALL + f"labels: {labels}\n", environment={"TEAM": "payments"})
