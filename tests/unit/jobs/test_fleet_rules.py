"""The alert rules for a server: over metrics that there are, with a section each, and they fire."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from tests.promql import Samples, evaluate

from ashore.jobs.metrics.exposition import merge_expositions, write_families
from ashore.jobs.metrics.families import DELIVERIES as PENDING
from ashore.jobs.metrics.families import (
    FAILURES,
    FAMILIES,
    FLEET_FAMILIES,
    JOB,
    JOBS,
    LOOK_AGE,
    PHASE,
    Kind,
)

ROOT = Path(__file__).parents[3]
RULES = YAML(typ="safe").load((ROOT / "examples/monitoring/fleet-alerts.yaml").read_text("utf-8"))
RULES = [rule for group in RULES["groups"] for rule in group["rules"]]
NAMES = {each.name: {JOB, *each.labels} for each in FLEET_FAMILIES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_is_over_metrics_that_there_are_and_has_a_section(rule: dict[str, str]) -> None:
    for name, matchers in re.findall(r"\b(ashore_server_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"]):
        assert set(re.findall(r"([a-z_]+)\s*=~?", matchers)) <= NAMES[name]
    page = (ROOT / "docs" / "operate" / "at-3am.md").read_text("utf-8")
    assert f"\n### {rule['alert']}\n" in page
    assert rule["annotations"]["runbook"] == f"docs/operate/at-3am.md#{rule['alert'].lower()}"


@pytest.mark.parametrize(
    ("alert", "family", "labels", "fires", "rests"),
    [
        ("AshoreJobNeedsPerson", PHASE, ("clicks", "needs-decision"), 1, 0),
        ("AshoreJobFailsInARow", FAILURES, ("clicks",), 5, 4),
        ("AshoreServerStuck", LOOK_AGE, (), 61, 2),
        ("AshoreJobsWait", JOBS, ("waiting",), 3, 0),
        ("AshoreWebhookPending", PENDING, (), 1, 0),
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


# --- the dashboard -------------------------------------------------------------------------------

SAMPLES = {
    f"{each.name}{suffix}": {JOB, *each.labels}
    for each in (*FLEET_FAMILIES, *FAMILIES)
    for suffix in (("_bucket", "_sum", "_count") if each.kind is Kind.HISTOGRAM else ("",))
}


def panels() -> list[dict[str, Any]]:
    path = ROOT / "examples" / "monitoring" / "fleet-dashboard.json"
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["panels"]
    return found


def expressions() -> list[str]:
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5m").replace("$job", ".*") for each in found]


@pytest.mark.parametrize("expression", expressions())
def test_a_panel_is_over_metrics_that_there_are(expression: str) -> None:
    evaluate(Samples(), expression, 0.0)
    named = re.findall(r"\b(ashore_(?!job\b)[a-z_]+)(?:\{([^}]*)\})?", expression)
    assert named
    for name, matchers in named:
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", matchers))
        assert labels <= SAMPLES[name], (name, labels)
        by = re.search(r"by \(([a-z_, ]+)\)", expression)
        assert by is None or set(by[1].split(", ")) <= SAMPLES[name]


def test_each_metric_of_a_server_is_on_the_dashboard_and_no_panel_hides_another() -> None:
    text = " ".join(expressions())
    assert [each.name for each in FLEET_FAMILIES if each.name not in text] == []
    positions = [panel["gridPos"] for panel in panels()]
    places = [(each["x"], each["y"]) for each in positions]
    assert len(places) == len(set(places))
    assert len({panel["id"] for panel in panels()}) == len(places)
    assert all(
        x + panel["gridPos"]["w"] <= 24 for (x, _), panel in zip(places, panels(), strict=True)
    )


def test_files_of_jobs_are_one_text_with_each_head_once_and_no_more_than_allowed() -> None:
    one = '# HELP a_total what\n# TYPE a_total counter\na_total{j="1"} 1\nnot a sample\n'
    other = '# HELP a_total what\n# TYPE a_total counter\na_total{j="2"} 2\na_total{j="3"} 3\n'
    text, left_out = merge_expositions({"one": one, "other": other}, kept_max=1)
    assert text.count("# TYPE a_total counter") == 1
    assert [line for line in text.splitlines() if line[0] != "#"] == [
        'a_total{j="1"} 1',
        'a_total{j="2"} 2',
    ]
    assert left_out == {"other": 1}
