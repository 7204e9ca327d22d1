"""What commands find of a real lake, as a server tells it: by page, by REST, at a terminal.

A lake is damaged under a job that has landed and stopped; the answers are those of the commands.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from tests.served import ROOT, SCRIPT, ServedJob, ended, serving, wait_for

OPERATIONS = "/api/jobs/landing/operations"


def at_terminal(client: httpx.Client, *words: str) -> tuple[int, str]:
    """Return the exit code of a command that a server does, and what it printed."""
    command = [sys.executable, "-c", SCRIPT, "--server", str(client.base_url), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def land(client: httpx.Client, site: ServedJob) -> None:
    site.produce(100)
    client.post("/api/jobs/landing/start", json={}).raise_for_status()
    wait_for(site.landed, lambda rows: rows == 100)
    client.post("/api/jobs/landing/stop", json={}).raise_for_status()
    wait_for(
        lambda: client.get("/api/jobs/landing").json(), lambda found: found["phase"] == "stopped"
    )


class Answers:
    """A job that has landed and stopped, and what commands find of its lake."""

    def __init__(self, client: httpx.Client, site: ServedJob) -> None:
        self.client = client
        self.site = site
        [self.file] = (site.jobs.parent / "lake" / "ods.db" / "events").rglob("a-*.parquet")

    def ask(self, command: str, **body: object) -> tuple[str, int, dict]:
        """Return the outcome by REST, the exit code and the result; the page says the same."""
        asked = self.client.post(f"{OPERATIONS}/{command}", json=body).raise_for_status()
        found = ended(self.client, asked.json()["id"])
        page = self.client.get(f"/ui/operations/{found['id']}").text
        assert f"<dd>{found['outcome']}</dd>" in page
        return found["outcome"], found["exit_code"], found["result"]

    def require_listed(self, outcome: str) -> None:
        assert outcome in at_terminal(self.client, "operations")[1]
        assert outcome in self.client.get("/ui/operations").text


@pytest.fixture
def answers(site: ServedJob) -> Iterator[Answers]:
    with serving(site.jobs) as (client, _server):
        land(client, site)
        yield Answers(client, site)


@pytest.mark.thirds("a server of real jobs")
def test_what_is_wrong_with_a_lake_is_told_in_the_words_of_the_command(answers: Answers) -> None:
    assert answers.ask("verify")[:2] == ("done", 0)
    answers.file.unlink()
    outcome, code, result = answers.ask("verify")
    assert (outcome, code, result["totals"]["lost"]) == ("answered: lost", 5, 100), result
    code, printed = at_terminal(answers.client, "verify", "landing", "--json")
    assert (code, json.loads(printed)["totals"]["lost"]) == (5, 100)
    answers.require_listed("answered: lost")


@pytest.mark.long  # the same by `verify`, above; the command: tests/unit/proof/test_audit_shown.py
def test_so_it_is_by_an_audit(answers: Answers) -> None:
    assert answers.ask("audit")[:2] == ("done", 0)
    content = answers.file.read_bytes()
    answers.file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    outcome, code, result = answers.ask("audit")
    assert (outcome, code) == ("answered: wrong", 5), result
    places = [each["place"] for each in result["findings"]]
    assert any(answers.file.name in each for each in places), places
    assert at_terminal(answers.client, "audit", "landing")[0] == 5
    answers.require_listed("answered: wrong")
    answers.file.write_bytes(content)
    assert answers.ask("verify")[:2] == ("done", 0)


@pytest.mark.long  # the same by `verify`, above; its rules: tests/unit/proof/test_health.py
def test_so_it_is_by_a_check_of_the_status(answers: Answers) -> None:
    answers.site.produce(11)
    outcome, code, result = answers.ask("status", check=True, max_lag=10)
    assert (outcome, code) == ("answered: unhealthy", 1), result
    assert "lag 11 is above 10" in json.dumps(result["ailments"])
    command = ("status", "landing", "--check", "--max-lag", "10")
    assert at_terminal(answers.client, *command)[0] == 1
    answers.require_listed("answered: unhealthy")
