"""The verbs of a server at a terminal, over a real job: from its file to its end."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.served import ROOT, SCRIPT, ServedJob, serving, wait_for


class Terminal:
    """Where somebody types; the server is named by the environment."""

    def __init__(self, url: str) -> None:
        self._environment = {**os.environ, "ASHORE_SERVER": url, "COLUMNS": "200"}

    def type(self, *words: object) -> tuple[int, str, str]:
        """Return the exit code of a command, and what it printed: results and talk."""
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *map(str, words)],
            cwd=ROOT, capture_output=True, text=True, check=False, env=self._environment,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    def job(self) -> Any:
        """Return the job of the list."""
        code, out, err = self.type("jobs", "--json")
        assert code == 0, err
        return next(iter(json.loads(out)["jobs"]), None)

    def wait_for(self, phase: str) -> Any:
        return wait_for(self.job, lambda found: found is not None and found["phase"] == phase)


@pytest.mark.thirds("a server of real jobs")
def test_a_job_is_deployed_run_and_removed_from_a_terminal(site: ServedJob, tmp_path: Path) -> None:
    file = (site.jobs / "landing.yaml").rename(tmp_path / "landing.yaml")
    site.produce(100)
    with serving(site.jobs, "--root", str(tmp_path)) as (client, _server):
        terminal = Terminal(str(client.base_url))
        assert terminal.type("jobs")[0] == 0
        broken = tmp_path / "broken.yaml"
        broken.write_text(file.read_text().replace("BIGINT", "BIGNT"))
        code, _, err = terminal.type("deploy", broken)
        assert (code, "BIGNT" in err) == (2, True), err
        assert not (site.jobs / "broken.yaml").exists()

        code, out, err = terminal.type("deploy", file, "--start")
        assert code == 0, err
        assert out.startswith("job landing: "), out
        first = terminal.wait_for("running")
        wait_for(site.landed, lambda rows: rows == 100)
        code, out, _ = terminal.type("jobs")
        assert re.search(r"landing\s+(running|idle)", out), out  # idle: it waits for records

        assert terminal.type("restart", "landing", "--why", "a test")[0] == 0
        again = wait_for(
            terminal.job,
            lambda job: (
                job["phase"] == "running" and job["process"]["pid"] != first["process"]["pid"]
            ),
        )
        assert again["desired"]["why"] == "a test"
        code, out, _ = terminal.type("pause", "landing", "--for", "2h")
        assert (code, out.startswith("job landing: ")) == (0, True), out
        paused = terminal.wait_for("paused")
        assert paused["until_ms"] - paused["desired"]["at_ms"] == 2 * 3_600_000
        assert terminal.type("run", "landing")[0] == 0, "a server's `run` is `start`"
        terminal.wait_for("running")

        code, _, err = terminal.type("remove", "landing")
        assert (code, "stop it first: ashore stop landing" in err) == (1, True), err
        code, out, err = terminal.type("stop", "landing")
        assert code == 0, err
        assert "its log ends with entry" in out
        terminal.wait_for("stopped")
        code, out, _ = terminal.type("operations")
        assert re.search(r"stop\s+landing\s+done", out), out
        operation = json.loads(terminal.type("operations", "--json")[1])["operations"][0]["id"]
        code, out, _ = terminal.type("cancel", operation)
        assert (code, f"operation {operation}: done" in out) == (0, True), "it is over"

        assert terminal.type("remove", "landing")[0] == 0
        assert terminal.job() is None
        assert (tmp_path / "lake").is_dir(), "its lake stays"
        code, _, err = terminal.type("start", "landing")
        assert (code, "there is no job 'landing' here" in err) == (2, True), err
    code, _, err = terminal.type("jobs")
    assert (code, "next" in err) == (7, True), err
