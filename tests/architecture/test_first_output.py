"""What commands load before their first word, and at all: so that nobody waits for it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bench.commands import JOB
from tests.checkpoint_files import unpack

from ashore.cli.app import load_all

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

# Each takes a tenth of the half second within which a command is to say something, or more.
ARRAYS = {"numpy", "pyarrow"}
CLIENT = {"confluent_kafka"}
# Together another tenth: what appends to a log, and what starts a job process and hears its events.
WRITER = {"ashore.log.store.log"}
LAUNCH = {"ashore.jobs.events", "ashore.jobs.launch", "filelock"}
# What reads job files: of no use to a command that is given a directory.
JOB_FILE = {"ashore.jobs.file.load"}
HEAVY = (
    ARRAYS
    | CLIENT
    | WRITER
    | LAUNCH
    | JOB_FILE
    | {"hdfs_native", "jinja2", "obstore", "pandas", "prometheus_client", "thriftpy2"}
)

SQL = """\
  - {table: ods.copied}
sql: INSERT INTO ods.copied SELECT id FROM clicks
"""
CASES = """\
cases:
  - name: a click is copied
    given: [{topic: clicks, records: [{at: "2026-11-21T08:00:40Z", value: {id: 1}}]}]
    expect: [{table: ods.copied, rows: [{id: 1}]}]
"""


@dataclass(frozen=True)
class Run:
    """A command as it is typed, and what it may load.

    Arguments:
        arguments: after its name; `{job}` and `{sql}` are job files, without and with SQL;
            `{checkpoint}` is one of Spark.
        whole: what it may load of HEAVY to its end, for one that can run here; None: it is ended
            at its first word.
        first: what it may have loaded by then, beside `whole`.

    """

    arguments: str = "{job}"
    whole: frozenset[str] | None = None
    first: frozenset[str] = frozenset()

    @property
    def always(self) -> frozenset[str]:
        """Return what it may load at any time."""
        has_job_file = "{job}" in self.arguments or "{sql}" in self.arguments
        return (self.whole or NOTHING) | (JOB_FILE if has_job_file else NOTHING)


NOTHING: frozenset[str] = frozenset()
ASKS_KAFKA = frozenset(CLIENT)
STARTS_A_JOB = frozenset(LAUNCH)
LOCKS = frozenset({"filelock"})
WRITES = frozenset(WRITER)

# Every command that there is.
RUNS = {
    "run": Run(first=STARTS_A_JOB),
    "validate": Run(whole=ASKS_KAFKA),
    "sql": Run("{sql} 'SELECT 1'", first=STARTS_A_JOB),
    "test": Run("{sql} {cases}", first=STARTS_A_JOB),
    "init": Run("clicks --servers 127.0.0.1:1 --out new.yaml", first=frozenset(JOB_FILE)),
    "schema": Run("", whole=frozenset(JOB_FILE)),
    "status": Run(whole=ASKS_KAFKA),
    "verify": Run(),
    "audit": Run(),
    "doctor": Run(),
    "versions list": Run("{sql}", whole=NOTHING),
    "versions diff": Run("{sql}", whole=NOTHING),
    "migrate check": Run("{sql} --to {sql}", first=STARTS_A_JOB),
    "migrate apply": Run("{sql} --to {sql}", first=STARTS_A_JOB),
    "migrate undo": Run("{sql} --explain", whole=WRITES),
    "stop": Run("{job}", whole=NOTHING),
    "recover": Run("{job} --explain", whole=NOTHING),
    "roll-back": Run("{sql} ods.copied --explain", whole=WRITES),
    "checkpoint inspect": Run("{checkpoint}", whole=NOTHING),
    "checkpoint diff": Run("{checkpoint} 3 5", first=STARTS_A_JOB),
    "checkpoint savepoint": Run("{checkpoint} --to saved --explain", whole=NOTHING),
    "checkpoint list": Run("{checkpoint}", whole=NOTHING),
    "checkpoint verify": Run("{checkpoint}", whole=NOTHING),
    "checkpoint delete": Run("{checkpoint}", whole=NOTHING),
    "checkpoint rescale": Run(
        "{checkpoint} --partitions 2 --explain", first=STARTS_A_JOB | WRITES | JOB_FILE
    ),
    "checkpoint restore": Run("{checkpoint} --to back", whole=NOTHING),
    "checkpoint clean": Run("{checkpoint} --explain", whole=NOTHING),
    "checkpoint doctor": Run("{checkpoint} --explain", whole=NOTHING),
    "retire": Run("{job} ods.clicks date=2026-01-01 --explain", whole=ASKS_KAFKA),
    "rejoin": Run("{job} clicks", whole=ASKS_KAFKA | WRITES),
    "skip": Run("{job} clicks/0 --to 1 --why none", whole=ASKS_KAFKA | WRITES),
    "reset-clock": Run("{job} --why none", whole=ASKS_KAFKA | WRITES),
    "clean": Run("{job} --explain", whole=ASKS_KAFKA),
    "compact": Run("{job} --explain", whole=NOTHING),
    "warm-up": Run("", first=STARTS_A_JOB),
    # A server says where it listens, once, after it has begun to.
    "serve": Run(".", first=frozenset(HEAVY)),
    "token list": Run(".", whole=NOTHING),
    "token add": Run(". someone", whole=NOTHING),
    "token allow": Run(". someone", whole=NOTHING),
    "token revoke": Run(". someone", whole=NOTHING),
    "jobs": Run("", whole=NOTHING),
    "deploy": Run("{job}", whole=NOTHING),
    "start": Run("clicks", whole=NOTHING),
    "restart": Run("clicks", whole=NOTHING),
    "pause": Run("clicks", whole=NOTHING),
    "remove": Run("clicks", whole=NOTHING),
    "operations": Run("", whole=NOTHING),
    "cancel": Run("some-operation", whole=NOTHING),
    "trace": Run("{checkpoint}/some-file.parquet", whole=NOTHING),
    "demo": Run("--records 1", first=STARTS_A_JOB | JOB_FILE),
    "services up": Run("", first=LOCKS),
    "services down": Run("", whole=LOCKS),
    "services control": Run("hdfs show", whole=LOCKS),
    "services status": Run("", whole=NOTHING),
    # What the list says stands beside the code of each drill.
    "drill list": Run("", first=frozenset(ARRAYS | CLIENT | WRITER | LAUNCH | JOB_FILE)),
    "drill run": Run("clock-jump"),
}


def commands() -> Iterator[str]:
    for name, command in load_all().commands.items():
        below = getattr(command, "commands", None)
        yield from (f"{name} {each}" for each in below) if below else (name,)


def test_every_command_is_tried():
    assert set(RUNS) == set(commands())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run all commands, and return by their names what each has loaded."""
    here = tmp_path_factory.mktemp("first-output")
    (here / "lake").mkdir()
    files = {name: here / f"{name}.yaml" for name in ("job", "sql", "cases")}
    job = JOB.format(name="clicks", lake=here / "lake")
    files["job"].write_text(job)
    files["sql"].write_text(JOB.format(name="copied", lake=here / "lake") + SQL)
    files["cases"].write_text(CASES)
    files["checkpoint"] = unpack("no-keys", here)
    asked = [
        {
            "arguments": [*name.split(), *shlex.split(run.arguments.format(**files))],
            "runs_on": run.whole is not None,
            "asks_kafka": bool(CLIENT & (run.whole or NOTHING)),
        }
        for name, run in RUNS.items()
    ]
    answer = subprocess.run(
        [sys.executable, "-m", "tests.first_output"],
        input=json.dumps({"watched": sorted(HEAVY), "commands": asked}),
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ASHORE_HOME": str(here), "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(RUNS, json.loads(answer.stdout), strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_a_command_speaks_before_it_loads_what_is_heavy(name: str, found: dict[str, Any]):
    each = found[name]
    assert each["first"] is not None, each["text"]
    allowed = RUNS[name].first | RUNS[name].always
    assert set(each["first"]) <= allowed, "".join(each["text"])


@pytest.mark.parametrize("name", [name for name, run in RUNS.items() if run.whole is not None])
def test_a_command_that_only_looks_loads_nothing_else(name: str, found: dict[str, Any]):
    assert "Usage:" not in "".join(found[name]["text"])  # then it has not looked at anything
    assert set(found[name]["end"]) <= RUNS[name].always, "".join(found[name]["text"])
