"""What commands find of a real lake, as a server tells it: by page, by REST, at a terminal.

A lake is damaged under a job that has landed and stopped; the answers are those of the commands.
"""

import json
import subprocess
import sys

import httpx
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


def test_what_is_wrong_with_a_lake_is_told_in_the_words_of_the_command(site: ServedJob) -> None:
    def asked(command: str, **body: object) -> tuple[str, int, dict]:
        """Return the outcome by REST, the exit code and the result; the page says the same."""
        made = client.post(f"{OPERATIONS}/{command}", json=body).raise_for_status().json()["id"]
        found = ended(client, made)
        assert f"<dd>{found['outcome']}</dd>" in client.get(f"/ui/operations/{made}").text
        return found["outcome"], found["exit_code"], found["result"]

    with serving(site.jobs) as (client, _server):
        land(client, site)
        for command, healthy in (("verify", "done"), ("audit", "done")):
            assert asked(command)[:2] == (healthy, 0)
        [path] = (site.jobs.parent / "lake" / "ods.db" / "events").rglob("a-*.parquet")
        content = path.read_bytes()

        path.unlink()
        outcome, code, result = asked("verify")
        assert (outcome, code, result["totals"]["lost"]) == ("answered: lost", 5, 100), result
        code, printed = at_terminal(client, "verify", "landing", "--json")
        assert (code, json.loads(printed)["totals"]["lost"]) == (5, 100)

        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        outcome, code, result = asked("audit")
        assert (outcome, code) == ("answered: wrong", 5), result
        assert any(path.name in each["place"] for each in result["findings"]), result["findings"]
        assert at_terminal(client, "audit", "landing")[0] == 5

        path.write_bytes(content)
        assert asked("verify")[:2] == ("done", 0)
        site.produce(11)
        outcome, code, result = asked("status", check=True, max_lag=10)
        assert (outcome, code) == ("answered: unhealthy", 1), result
        assert "lag 11 is above 10" in json.dumps(result["ailments"])
        assert at_terminal(client, "status", "landing", "--check", "--max-lag", "10")[0] == 1

        listed = at_terminal(client, "operations")[1]
        for each in ("answered: lost", "answered: wrong", "answered: unhealthy"):
            assert each in listed
            assert each in client.get("/ui/operations").text
