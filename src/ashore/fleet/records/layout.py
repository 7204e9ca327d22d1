"""Where the files of a server are. All their names are made here.

What it is: `ServerFiles`, the paths below a directory of job files.
What it promises: what people keep in git (job files, SQL, what is wanted of each job) is apart from
what a machine knows (processes, logs, tokens, the index), which a `.gitignore` keeps out.
What it must not know: what is in the files.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ashore.fleet.records.store import LocalRecords, Records

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
JOB_SUFFIXES = (".yaml", ".yml")
CASES = ".cases"  # of a file of test cases, before its suffix
EVENTS, AUDIT, REFUSED = "events.jsonl", "audit.jsonl", "refused.jsonl"
_IGNORED = "*\n!.gitignore\n!desired/\n!desired/*\n"


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a job: it is that of a file too."""
    return NAME.fullmatch(text) is not None and not text.endswith((*JOB_SUFFIXES, CASES))


def desired_name(job: str) -> str:
    """Return the name of the record that says what is wanted of a job."""
    return f"desired/{job}.json"


@dataclass(frozen=True)
class ServerFiles:
    """The files of a server.

    Arguments:
        jobs: the directory of job files.
        state: what the machine knows; by default `.ashore` in it.

    """

    jobs: Path
    state: Path

    @classmethod
    def of(cls, jobs: Path, state: Path | None = None) -> "ServerFiles":
        """Return the layout of a directory of job files, as an absolute path."""
        jobs = jobs.absolute()
        return cls(jobs, jobs / ".ashore" if state is None else state.absolute())

    def make(self) -> None:
        """Make the directories. Raises OSError."""
        for each in (self.state, self.desired, self.runs, self.operations):
            each.mkdir(parents=True, exist_ok=True)
        for each in (self.runs, self.operations):
            each.chmod(0o700)  # logs and results may quote records
        ignored = self.state / ".gitignore"
        if not ignored.exists():
            ignored.write_text(_IGNORED, "utf-8")

    # ---- of the server

    @cached_property
    def records(self) -> Records:
        """What it shares with other servers: desired states, and lines of what happened."""
        return LocalRecords(self.state)

    @cached_property
    def lock(self) -> Path:
        """The lock of the one server of a state directory."""
        return self.state / "serve.lock"

    @cached_property
    def tokens(self) -> Path:
        """The tokens of the API."""
        return self.state / "tokens.json"

    @cached_property
    def audit(self) -> Path:
        """Who changed what: one line of JSON per change."""
        return self.state / AUDIT

    @cached_property
    def refused(self) -> Path:
        """Who was refused: one line of JSON per login or request."""
        return self.state / REFUSED

    @cached_property
    def happened(self) -> Path:
        """What happened to jobs: one line of JSON per event."""
        return self.state / EVENTS

    @cached_property
    def deliveries(self) -> Path:
        """Events that webhooks have not taken yet."""
        return self.state / "deliveries"

    @cached_property
    def index(self) -> Path:
        """The index, where it is SQLite's. May be deleted."""
        return self.state / "index.sqlite"

    @cached_property
    def operations(self) -> Path:
        """Long work: a directory per operation."""
        return self.state / "operations"

    # ---- of a job

    @cached_property
    def desired(self) -> Path:
        """What is wanted of each job: a file per job."""
        return self.state / "desired"

    @cached_property
    def runs(self) -> Path:
        """What is known of the processes of each job: a directory per job."""
        return self.state / "runs"

    def desired_of(self, job: str) -> Path:
        """Return the file that says what is wanted of a job."""
        return self.state / desired_name(job)

    def run_of(self, job: str) -> "RunFiles":
        """Return where the files of a job's process are."""
        return RunFiles(self.runs / job)


@dataclass(frozen=True)
class RunFiles:
    """The files of a job's process, which survive it and the server."""

    root: Path

    @cached_property
    def lock(self) -> Path:
        """Held as long as a process of the job lives, by the process itself."""
        return self.root / "run.lock"

    @cached_property
    def process(self) -> Path:
        """Which process runs, or ran last: written by itself."""
        return self.root / "process.json"

    @cached_property
    def exit(self) -> Path:
        """How it ended: written by itself, unless it was killed."""
        return self.root / "exit.json"

    @cached_property
    def retry(self) -> Path:
        """How often it failed in a row, and when it is started again."""
        return self.root / "retry.json"

    @cached_property
    def phase(self) -> Path:
        """Since when the job is in its phase. May be lost: it is then counted anew."""
        return self.root / "phase.json"

    @cached_property
    def seen(self) -> Path:
        """Where it is: replaced whole, at most each second."""
        return self.root / "seen.json"

    @cached_property
    def metrics(self) -> Path:
        """Its metrics, in Prometheus's text format."""
        return self.root / "metrics.prom"

    @cached_property
    def log(self) -> Path:
        """What it reported: one line of JSON per event. Rotated."""
        return self.root / "job.log"

    @cached_property
    def output(self) -> Path:
        """What the process that runs the job wrote beside, such as a traceback."""
        return self.root / "output.log"

    @cached_property
    def samples(self) -> Path:
        """Rate and lag over time: one line of JSON per sample. Rotated."""
        return self.root / "samples.jsonl"

    @cached_property
    def followed(self) -> Path:
        """How far the server has read the job's logs, for what is reported of them."""
        return self.root / "followed.json"
