"""What an audit looks like: lines, JSON lines, the exit code."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ashore.cli import audit as audit_view
from ashore.proof.audit.result import Activity, AuditFinding, AuditReport, Away, Gauge, Round
from ashore.proof.evidence.result import Problem, ProblemKind

NO_ROUND = Round(0, 0, 0, None, None)
HERE = Away(0, None, None)
WORK = "records wait, and its log has not grown"
LOST = AuditFinding(Problem(ProblemKind.LOST, "ods.clicks", "clicks/0", "2 are in no file"), 1_000)


def report(tick: int, *findings: AuditFinding, **changes: object) -> AuditReport:
    known: dict[str, object] = {
        "gauge": Gauge(3, 2 if findings else 0, 0),
        "raised": (),
        "cleared": (),
        "kafka": HERE,
        "lake": HERE,
        "catalog": HERE,
        "activity": Activity(0, None),
    }
    return AuditReport(
        job="clicks",
        tick=tick,
        now_ms=tick * 1_000,
        entries={"main": 7},
        unproven=0,
        findings=findings,
        listing=NO_ROUND,
        reading=Round(1, 4, 2_000_000, 0, 90_000),
        **(known | changes),  # type: ignore[arg-type]
    )


def reports() -> Iterator[AuditReport]:
    yield report(1)
    yield report(2, LOST, raised=(LOST,))
    yield report(3, LOST)


def test_one_report_says_what_is_open_and_the_gauge(capsys: pytest.CaptureFixture[str]):
    away = Away(2, 1_000, "no broker answers")
    assert audit_view.show_once(report(3, LOST, kafka=away), as_json=False) == 5
    shown = capsys.readouterr().out
    assert "lost clicks/0: 2 " in shown
    assert "(since 1970-01-01T00:00:01+00:00)" in shown
    assert "unaccounted 2, " in shown
    assert "yet 3, findings 1" in shown
    assert "for 2.0 s: no broker" in shown
    assert "1 of 4 files, 2.0 MB" in shown
    assert "took 1.5 min" in shown


def test_lines_come_when_something_changes(capsys: pytest.CaptureFixture[str]):
    assert audit_view.show_all(reports(), as_json=False) == 5
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["1970-01-01T00:00:01+00:00", "unaccounted"],
        ["1970-01-01T00:00:02+00:00", "lost"],
        ["1970-01-01T00:00:02+00:00", "unaccounted"],
    ]


def test_a_lag_alone_is_reported_now_and_then(capsys: pytest.CaptureFixture[str]):
    lags = (report(tick, gauge=Gauge(tick, 0, 0)) for tick in range(1, 131))
    assert audit_view.show_all(lags, as_json=False) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0][14:19] for line in lines] == ["00:01", "01:01", "02:01"]
    assert "unaccounted 0, " in lines[1]
    assert "yet 61, findings 0; " in lines[1]
    assert "last entry 1.0 min" in lines[1]


def test_what_is_away_and_that_no_job_runs_is_reported_when_it_begins_and_ends(
    capsys: pytest.CaptureFixture[str],
):
    away = Away(1, 3_000, "no broker answers")
    reported = [
        report(1, activity=Activity(None, None)),
        report(2),
        report(3, kafka=away),
        report(4, kafka=away),
        report(5, activity=Activity(2_000, 4_000)),
        report(6, activity=Activity(2_000, 4_000)),
        report(7, activity=Activity(7_000, None)),
        report(8, activity=Activity(None, None), lake=Away(1, 7_000, "nobody is there")),
        report(9),
    ]
    audit_view.show_all(reported, as_json=False)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("+00:00 ", 1)[1] for line in lines if "unaccounted" not in line] == [
        "the job has never run: its log is empty",
        "a job is running",
        "Kafka does not answer: no broker answers",
        "Kafka answers again",
        f"no job seems to be running: {WORK} since 1970-01-01T00:00:04+00:00",
        "a job is running",
        "the lake does not answer: nobody is there",
        "the lake answers again",
    ]


def test_a_finding_that_is_cleared_says_when(capsys: pytest.CaptureFixture[str]):
    audit_view.show_all(
        iter([report(4, cleared=(replace(LOST, cleared_ms=5_000),))]), as_json=False
    )
    assert "(cleared 1970-01-01T00:00:05+00:00)" in capsys.readouterr().err


def test_json_lines_raise_a_finding_once(capsys: pytest.CaptureFixture[str]):
    assert audit_view.show_all(reports(), as_json=True) == 5
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in reported] == ["looked", "raised", "looked", "looked", "ended"]
    assert (reported[1]["kind"], reported[1]["first_seen_ms"]) == ("lost", 1_000)
    assert [reported[n]["findings"] for n in (0, 2, 3)] == [0, 1, 1]
    assert reported[-1]["exit_code"] == 5


def test_one_report_as_json_is_one_document(capsys: pytest.CaptureFixture[str]):
    assert audit_view.show_once(report(1), as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["gauge"] == {"lag": 3, "unaccounted": 0, "unprovable": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"gauge": Gauge(None, 0, 0)},
        {"gauge": Gauge(0, 0, 4)},
        {"lake": Away(1, 1_000, "gone")},
        {"catalog": Away(1, 1_000, "gone")},
    ],
)
def test_what_could_not_be_looked_at_makes_6(changes: dict[str, object]):
    assert report(1, **changes).exit_code == 6


def test_nothing_seen_makes_6():
    assert audit_view.show_all((), as_json=False) == 6
