"""What a drill leaves behind: JSON, a page that needs nothing else, an exit code."""

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from ashore.cli import drill_playing
from ashore.cli.app import app
from ashore_lab.drills import DrillOrder, Figures, Length, PlannedFault, Timeline, Verdict
from ashore_lab.drills.page import render_page, render_timeline
from ashore_lab.drills.report import logged, make_run_directory, write_report
from ashore_lab.drills.verdict import Mark, Sample

VERDICT = Verdict(
    drill="kill-driver",
    title="A <title> & more",
    seed=7,
    length=Length(rounds=2, records=10, text="two kills"),
    began_ms=1_795_000_000_000,
    took_s=3.5,
    figures=Figures(20, 2, 1, lost=0, duplicated=0, altered=0, stalled_s=1.5, read_twice=3),
    problems=(),
    doubts=(),
    notes=("a note",),
    schedule=(PlannedFault(0, "kill", "move", 2),),
    timeline=Timeline(
        (Mark(0.5, "start", "it starts"), Mark(1.0, "fault: kill", 'SIGKILL at "move" <&>')),
        (Sample(0.0, 0, 20), Sample(1.0, 10, 10), Sample(2.0, 20, 0)),
        is_simulated=True,
    ),
)


def colours(**changes: int | tuple[str, ...]) -> tuple[str, int]:
    figures = {name: n for name, n in changes.items() if isinstance(n, int)}
    words = {name: found for name, found in changes.items() if not isinstance(found, int)}
    verdict = replace(VERDICT, figures=replace(VERDICT.figures, **figures), **words)
    return verdict.colour, verdict.exit_code


def test_a_verdict_is_green_only_if_nothing_is_wrong_and_all_is_proved() -> None:
    assert colours() == ("green", 0)
    assert colours(doubts=("one",)) == ("not proved", 6)
    for wrong in ({"lost": 1}, {"duplicated": 1}, {"altered": 1}, {"problems": ("one",)}):
        assert colours(doubts=("one",), **wrong) == ("red", 5)


def test_the_page_needs_nothing_else_and_shows_everything() -> None:
    page = render_page(replace(VERDICT, problems=("lost <5>",)))
    assert not re.search(r"(?:src|href|url|@import|<script|https?:)", page)
    assert "prefers-color-scheme: dark" in page
    assert "A &lt;title&gt; &amp; more" in page
    assert "lost &lt;5&gt;" in page
    assert "red: lost 0, duplicated 0" in page
    assert "--seed 7" in page


def test_the_timeline_has_faults_above_and_records_and_lag_below() -> None:
    drawn = ET.fromstring(render_timeline(VERDICT.timeline))
    fault = next(each for each in drawn.iter("line") if each.get("class") == "fault")
    assert fault.findtext("title") == '1.0 s: SIGKILL at "move" <&>'
    landed, lag = next(drawn.iter("polygon")), next(drawn.iter("polyline"))
    tops = [float(fault.get("y1") or 0)]
    for shape in (landed, lag):
        corners = [tuple(map(float, at.split(","))) for at in (shape.get("points") or "").split()]
        tops.append(min(y for _, y in corners))
        assert all(0 <= x <= 960 for x, _ in corners)
    assert tops == sorted(tops)


def test_a_timeline_without_anything_can_be_drawn() -> None:
    ET.fromstring(render_timeline(Timeline((), (), is_simulated=False)))


def test_a_report_is_a_page_and_a_document(tmp_path: Path) -> None:
    directory = make_run_directory("kill-driver", VERDICT.began_ms, tmp_path)
    assert make_run_directory("kill-driver", VERDICT.began_ms, tmp_path) != directory
    report = write_report(VERDICT, directory)
    document = json.loads(report.json_path.read_text("utf-8"))
    assert (document["verdict"], document["exit_code"], document["seed"]) == ("green", 0, 7)
    assert document["figures"]["read_twice"] == 3
    assert document["timeline"]["samples"][-1] == [2.0, 20, 0]
    assert report.page_path.read_text("utf-8") == render_page(VERDICT)


def test_what_is_logged_is_kept_and_not_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("ashore.storage.failover")
    with logged(tmp_path):
        log.warning("server %d does not serve", 1)
    assert caplog.messages == []
    assert "server 1 does not serve" in (tmp_path / "drill.log").read_text("utf-8")
    log.warning("afterwards")
    assert caplog.messages == ["afterwards"]


# ---- the command


@pytest.mark.slow
def test_a_drill_by_the_command_line(tmp_path: Path) -> None:
    again = []
    for _ in range(2):
        command = ["drill", "run", "poison-records", "--seed", "4", "--json"]
        answer = CliRunner().invoke(app, [*command, "--directory", str(tmp_path)])
        assert answer.exit_code == 0, answer.output
        again.append(json.loads(answer.stdout))
    first, second = again
    assert first["verdict"] == "green"
    assert first["schedule"] == second["schedule"]
    assert first["figures"] == second["figures"]
    assert first["timeline"] == second["timeline"]  # in memory a seed replays all of it
    assert len(list(tmp_path.glob("poison-records-*/page.html"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("is_ended_early", [False, True])
def test_several_drills_end_with_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_ended_early: bool
) -> None:
    names = ["clock-jump", "poison-records"] + ["upgrade"] * is_ended_early
    run_drill, played = drill_playing.run_drill, []

    def ending(order: DrillOrder, *others: object) -> Verdict:
        played.append(order.drill.name)
        if len(played) == 3:
            raise KeyboardInterrupt
        return run_drill(order, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(drill_playing, "run_drill", ending)
    command = ["drill", "run", *names, "--seed", "4", "--directory", str(tmp_path)]
    answer = CliRunner().invoke(app, command)
    assert (answer.exit_code == 0) is not is_ended_early
    last = [line.split() for line in answer.stdout.splitlines() if line.strip()][-2:]
    assert [(line[0], line[-1]) for line in last] == [
        ("clock-jump", "green"),
        ("poison-records", "green"),
    ]


def test_the_list_of_drills() -> None:
    answer = CliRunner().invoke(app, ["drill", "list", "--json"])
    found = {each["name"]: each for each in json.loads(answer.stdout)["drills"]}
    assert found["kill-driver"]["long"]["rounds"] == 20
    assert found["lost-answers"]["short"]["is_real"] is False


@pytest.mark.parametrize("arguments", [["no-such-drill"], [], ["kill-driver", "--minutes", "0"]])
def test_what_cannot_be_run_ends_with_2(arguments: list[str]) -> None:
    answer = CliRunner().invoke(app, ["drill", "run", *arguments])
    assert answer.exit_code == 2
