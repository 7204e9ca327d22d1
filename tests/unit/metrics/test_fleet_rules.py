"""The alert rules for a server: over metrics that there are, with a section each, and they fire."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from tests.promql import Samples, evaluate

from ashore.metrics.exposition import merge_files, write_families
from ashore.metrics.families import JOB
from ashore.metrics.fleet_families import DELIVERIES as OWED
from ashore.metrics.fleet_families import FAILURES, FLEET_FAMILIES, JOBS, LOOK_AGE, PHASE

ROOT = Path(__file__).parents[3]
RULES = YAML(typ="safe").load((ROOT / "examples/monitoring/fleet-alerts.yaml").read_text("utf-8"))
RULES = [rule for group in RULES["groups"] for rule in group["rules"]]
NAMES = {each.name: {JOB, *each.labels} for each in FLEET_FAMILIES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_is_over_metrics_that_there_are_and_has_a_section(rule: dict[str, str]) -> None:
    for name, matchers in re.findall(r"\b(ashore_server_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"]):
        assert set(re.findall(r"([a-z_]+)\s*=~?", matchers)) <= NAMES[name]
    page = (ROOT / "docs" / "at-3am.md").read_text("utf-8")
    assert f"\n### {rule['alert']}\n" in page
    assert rule["annotations"]["runbook"] == f"docs/at-3am.md#{rule['alert'].lower()}"


@pytest.mark.parametrize(
    ("alert", "family", "labels", "fires", "rests"),
    [
        ("AshoreJobNeedsPerson", PHASE, ("clicks", "needs-decision"), 1, 0),
        ("AshoreJobFailsInARow", FAILURES, ("clicks",), 5, 4),
        ("AshoreServerStuck", LOOK_AGE, (), 61, 2),
        ("AshoreJobsWait", JOBS, ("waiting",), 3, 0),
        ("AshoreWebhookOwed", OWED, (), 1, 0),
    ],
)
def test_a_rule_fires_where_it_should_and_only_there(
    alert: str, family: object, labels: tuple[str, ...], fires: float, rests: float
) -> None:
    (rule,) = [each for each in RULES if each["alert"] == alert]
    for value, is_fired in ((fires, True), (rests, False)):
        samples = Samples()
        for found in text_string_to_metric_families(write_families([(family, {labels: value})])):
            for each in found.samples:
                samples.add(0.0, each.name, each.labels, each.value)
        assert bool(evaluate(samples, rule["expr"], 0.0)) is is_fired


def test_files_of_jobs_are_one_text_with_each_head_once_and_no_more_than_allowed() -> None:
    one = '# HELP a_total what\n# TYPE a_total counter\na_total{j="1"} 1\nnot a sample\n'
    other = '# HELP a_total what\n# TYPE a_total counter\na_total{j="2"} 2\na_total{j="3"} 3\n'
    text, left_out = merge_files({"one": one, "other": other}, kept_max=1)
    assert text.count("# TYPE a_total counter") == 1
    assert [line for line in text.splitlines() if line[0] != "#"] == [
        'a_total{j="1"} 1',
        'a_total{j="2"} 2',
    ]
    assert left_out == {"other": 1}
