"""All jobs in one look: counts by state, team and age."""

from dataclasses import replace

from tests.unit.fleet.test_needs import seen, supervised
from tests.unit.proof.lakes import make_lake

from ashore.fleet.server.condition import SeenJob
from ashore.fleet.server.pages.fleet_page import HOUR_MS, list_jobs, show_wall, view_fleet
from ashore.proof.status.health import FleetRow
from ashore.proof.status.status import read_status


def labelled(name: str, team: str, **changed: object) -> SeenJob:
    return replace(seen(name, supervised=supervised()), labels={"team": team}, **changed)


def landed(name: str, age_ms: int) -> SeenJob:
    status = read_status(make_lake().opened())
    row = FleetRow(name, status, (), None)
    return replace(labelled(name, "a"), row=row, seen_ms=status.now_ms + age_ms)


def test_jobs_are_counted_by_team_with_those_that_need_a_person() -> None:
    broken = labelled("c", "payments", slow_since_ms=1)
    view = view_fleet([labelled("a", "payments"), labelled("b", "orders"), broken])
    assert view.teams == (("team=orders", 1, 0), ("team=payments", 2, 1))
    assert sum(count for _, count in view.states) == 3
    assert view_fleet([labelled("a", "x")], words="nothing has this").teams == (("team=x", 1, 0),)


def test_jobs_are_counted_by_the_age_of_their_last_entry() -> None:
    jobs = [landed("a", 0), landed("b", 300_000), landed("c", HOUR_MS), labelled("d", "a")]
    expected = (("below 1 min", 1), ("below 10 min", 1), ("1 h or more", 1), ("no entry", 1))
    assert view_fleet(jobs).ages == expected


def test_a_state_that_is_older_than_an_hour_has_not_changed_lately() -> None:
    job = labelled("a", "a")
    since_ms = job.supervised.since_ms
    jobs = [replace(job, seen_ms=since_ms + age) for age in (0, HOUR_MS - 1, HOUR_MS)]
    assert [view_fleet([each]).changed for each in jobs] == [1, 1, 0]


def test_a_label_is_escaped() -> None:
    html = list_jobs(view_fleet([labelled("a", "<b>")]), "/jobs")
    assert "<b>" not in html
    assert "team=&lt;b&gt;" in html


def test_a_wall_names_what_needs_a_person_and_has_a_cell_for_each_job() -> None:
    jobs = [labelled(f"job{each:03}", "a") for each in range(300)]
    html = show_wall(view_fleet(jobs))
    assert "300 jobs, none needs a person" in html
    assert html.count('<li class="">') == 300
    html = show_wall(view_fleet([*jobs, labelled("<slow>", "a", slow_since_ms=1)]))
    assert "1 of 301 jobs needs a person" in html
    assert html.count('<li class="bad">') == 1
    assert "<slow>" not in html
    assert "the disk is full" in show_wall(view_fleet(jobs), "the disk is full")
