"""The example of docs/operate/migration.md, on real servers: exactly the commands of the page."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import PER_MINUTE, PER_MINUTE_TABLE, clicks, encode, read_only, sql_job

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "migration.md"
BEGINS, ENDS = "## Example: a wrong filter in production", "## Apply"
ENDED = {"check": 4}  # a start with the new SQL would stop for a decision
WRONG, RIGHT = (
    PER_MINUTE.replace("FROM clicks", f"FROM clicks WHERE country = '{country}'")
    for country in ("CN", "DE")
)


def read_commands() -> list[str]:
    section = PAGE.read_text("utf-8").partition(BEGINS)[2].partition(ENDS)[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ashore ")]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_commands_of_the_page_do_what_it_says(site: Site) -> None:
    topic = site.topic(1)
    for name, sql in (("clicks", WRONG), ("fixed", RIGHT)):
        tables = (read_only(topic), PER_MINUTE_TABLE)
        written = sql_job(site, sql, *tables)
        written.rename(site.directory / f"{name}.yaml")
    site.produce(topic, encode(clicks(0, 100)))
    assert "country = 'CN' GROUP BY" in PAGE.read_text("utf-8")
    play(site, "ashore run clicks.yaml --available-now")
    said = []
    for number, command in enumerate(read_commands()):
        if command.startswith("ashore run"):  # the topic is never silent
            site.produce(topic, encode(clicks(100 + 100 * number, 100)))
        said.append(play(site, command))
    assert len(said) >= 11
    text = "\n".join(said)
    assert "nothing was changed" in text
    assert "wrong country" not in text.partition("migrated after batch")[0]
    rows = site.read("ods.per_minute").select("country").distinct().collect()
    assert {each.country for each in rows} == {"CN", "DE"}


def play(site: Site, command: str) -> str:
    """Type a command into a shell of the job's directory; return what it says."""
    words = shlex.split(command)
    program = str(Path(sys.executable).with_name(words[0]))
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [program, *words[1:]],
        cwd=site.directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    with (site.directory / "said.txt").open("a", encoding="utf-8") as said:
        said.write(f"$ {command}\n{done.stdout}{done.stderr}")
    expected = ENDED.get(words[2], 0) if words[1] == "migrate" else 0
    assert done.returncode == expected, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr
