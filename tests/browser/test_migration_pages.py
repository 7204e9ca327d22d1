"""The dialogue in which SQL is changed: verdicts, who is who, a confirmation of what is lost.

The answers are documents of real verdicts on real plans; only the process that makes them is left
out, as it starts a Spark.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import check_everywhere
from tests.unit.cli.test_versions_commands import JOB
from tests.unit.plans.test_kept_edits import plan_of

from ashore.cli.migrate_view import judged_document
from ashore.fleet.operate.commands import CommandTwin, Value
from ashore.fleet.operate.operations import Operations, OperationState, OperationView
from ashore.fleet.records.server_files import OperationEnd, OperationProcess, OperationRequest
from ashore.fleet.server.pages import migration_routes
from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import LostState
from ashore.queries.change.check import JudgedQuery, Losses

LOST_ROWS = 1_234


def judged(old: str, new: str) -> dict[str, object]:
    verdict = judge_query(plan_of(old), plan_of(new))
    lost = next(each.old for each in verdict.operators if each.old)
    losses = Losses((LostState(lost, LOST_ROWS, False, 5_000_000),), "")
    return judged_document([JudgedQuery("ods.big", verdict, None, losses)])


class CannedCommands(Operations):
    """Operations whose answers are there at once, and that remember what was asked for."""

    answer: dict[str, object]
    known: dict[str, OperationView]
    asked: list[tuple[str, dict[str, Value]]]

    def run(self, command: CommandTwin, about: tuple[str, str], values: Mapping[str, Value]) -> str:
        assert command.line(values, as_json=True)
        self.asked.append((command.name, dict(values)))
        id_ = f"{len(self.asked)}"
        job, by = about
        request = OperationRequest(id_, command.name, job, (), by, 1, is_json=True)
        end, process = OperationEnd(0, 3), OperationProcess(7, 2)
        view = OperationView(request, OperationState.DONE, process, None, end, False, "")
        self.known[id_] = view
        return id_

    def all(self) -> list[OperationView]:
        return list(self.known.values())

    def get(self, operation: str) -> OperationView:
        return self.known[operation]

    def result(self, _found: OperationView) -> object:
        return self.answer


@pytest.fixture
def commands(served, tmp_path, monkeypatch) -> CannedCommands:
    path = served.lakes.directory / "clicks.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    served.watch.look()
    found = served.plane.operations
    monkeypatch.setattr(found, "__class__", CannedCommands)
    found.answer, found.asked, found.known = judged("q9", "q8"), [], {}
    return found


def test_a_change_is_checked_mapped_and_applied_with_a_confirmation(served, open_page, commands):
    page = open_page("/ui/jobs/clicks/migrate")
    text = page.get_by_label("Job file with the new SQL")
    changed = text.input_value().replace("SELECT id FROM clicks", "SELECT id + 1 AS id FROM clicks")
    check_everywhere(page, "migrate")
    text.fill(changed)
    page.get_by_role("button", name="Check").click()

    main = page.locator("main")
    expect(main.locator(".chip").first).to_have_text(str(commands.answer["verdict"]))
    expect(main).to_contain_text("1,234 rows, up to 5.0 MB")
    expect(main.locator(".diff")).to_contain_text("id + 1 AS id")
    check_everywhere(page, "migration")
    kind, values = commands.asked[-1]
    assert (kind, values["job_file"]) == ("migrate check", str(served.job_file("clicks")))

    choice = page.locator(".target select").first
    dragged = page.locator("[data-old]").first
    carried = page.evaluate_handle("new DataTransfer()")
    dragged.dispatch_event("dragstart", {"dataTransfer": carried})
    page.locator(".target").first.dispatch_event("drop", {"dataTransfer": carried})
    expect(choice).to_have_value(dragged.get_attribute("data-old") or "")
    page.get_by_role("button", name="Check again").click()
    page.wait_for_url("**check=*2")
    mapping = commands.asked[-1][1]["mapping"]
    assert "pin:\n  - {old:" in Path(str(mapping)).read_text("utf-8")

    page.get_by_role("link", name="Apply", exact=True).click()
    check_everywhere(page, "migrate-apply")
    page.get_by_role(
        "button", name="Apply"
    ).click()  # refused by the browser: the loss is not accepted
    expect(page.get_by_label("I agree that this is lost")).to_be_visible()
    assert len(commands.asked) == 2
    page.get_by_label("I agree that this is lost").check()
    page.get_by_label("Why").fill("another sum")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="migrate apply")).to_be_visible()
    assert commands.asked[-1][1]["accept"] == commands.answer["verdict"]
    deadline_s = time.monotonic() + 30
    while served.job_file("clicks").read_text("utf-8") != changed:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_nothing_that_loses_state_is_applied_without_a_word(served, open_page, commands):
    page = open_page("/ui/jobs/clicks/migrate")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("link", name="Apply", exact=True).click()
    # Waits for the page: a click on a link returns before the browser has followed it.
    page.locator("#agreed").evaluate("box => { box.required = false; }")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("the loss was not accepted")
    assert len(commands.asked) == 1


def test_an_undo_is_offered_only_where_a_migration_is_in_force(served, open_page, commands):
    page = open_page("/ui/jobs/clicks/migrate")
    expect(page.get_by_role("link", name="Undo")).to_have_count(0)
    page.goto("/ui/jobs/clicks/migrate/undo")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    check_everywhere(page, "migrate-nothing-to-undo")


def test_a_check_that_failed_says_what_to_do(served, open_page, commands, monkeypatch):
    monkeypatch.setattr(migration_routes, "list_migrated", lambda _opened: ["ods.big"])
    commands.answer = {"error": {"message": "no such column: x", "hint": "write y"}, "exit_code": 2}
    page = open_page("/ui/jobs/clicks/migrate")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("no such column: x")
    expect(page.get_by_role("alert")).to_contain_text("write y")
    page.goto("/ui/jobs/clicks/migrate/undo")
    check_everywhere(page, "migrate-undo")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="migrate undo")).to_be_visible()
    assert commands.asked[-1] == (
        "migrate undo",
        {"job_file": str(served.job_file("clicks")), "query": "ods.big"},
    )
    check_everywhere(page, "operation")


def test_no_page_shows_a_secret_and_a_check_has_it_all_the_same(served, open_page, commands):
    path = served.job_file("clicks")
    secret = path.read_text("utf-8").replace(
        "{kafka: {", "{kafka: {options: {sasl.password: hunter2}, "
    )
    assert "hunter2" in secret
    path.write_text(secret, "utf-8")
    for token in ("may-read", "may-operate"):
        page = open_page("/ui/jobs/clicks/migrate", token=token)
        text = page.get_by_label("Job file with the new SQL")
        assert "***kept: source.kafka.options.sasl.password***" in text.input_value()
        assert "hunter2" not in page.content()
        page.goto("/ui/write?job=clicks")
        assert "SELECT" in page.content()
        assert "hunter2" not in page.content()
    page.goto("/ui/jobs/clicks/migrate")
    text.fill(text.input_value().replace("SELECT id", "SELECT id + 1 AS id"))
    page.get_by_role("button", name="Check").click()
    expect(page.locator("main .diff")).to_contain_text("id + 1")
    assert "hunter2" not in page.content()
    draft = Path(str(commands.asked[-1][1]["to"])).read_text("utf-8")
    assert draft == secret.replace("SELECT id", "SELECT id + 1 AS id")
    page.get_by_role("link", name="Change the SQL").click()
    assert "hunter2" not in page.content()
    page.get_by_role("button", name="Check").click()
    expect(page.locator("main .diff")).to_contain_text("id + 1")
    assert Path(str(commands.asked[-1][1]["to"])).read_text("utf-8") == draft
