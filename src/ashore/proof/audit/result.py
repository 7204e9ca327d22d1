"""How much an audit does at once, and what it says: for a terminal, `--json`, an exit code.

What it promises: frozen; `to_dict` gives what `--json` prints.
"""

from dataclasses import asdict, dataclass

from ashore.errors import ExitCode
from ashore.proof.evidence.result import Problem


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong, from when it was first seen."""

    problem: Problem
    first_seen_ms: int
    cleared_ms: int | None = None  # None: it still is

    def to_dict(self) -> dict[str, object]:
        """Return the finding as `--json` prints it."""
        times = {"first_seen_ms": self.first_seen_ms, "cleared_ms": self.cleared_ms}
        return {**self.problem.to_dict(), **times}


@dataclass(frozen=True, slots=True)
class Gauge:
    """Offsets, counted."""

    lag: int | None  # stable in the source and not landed yet; None: the source did not answer
    unaccounted: int  # landed twice, lost, in a hole that nothing explains: should be 0
    unprovable: int  # gaps that cannot be explained: the source has dropped the range


@dataclass(frozen=True, slots=True)
class Round:
    """How far a round over everything has come."""

    done: int
    total: int  # 0: none is under way
    size_bytes: int  # that all of it has; 0: no bytes are read
    began_ms: int | None
    took_ms: int | None  # the last whole one; None: none was finished yet


@dataclass(frozen=True, slots=True)
class Away:
    """Something that did not answer."""

    times: int  # intervals in which it failed, in all
    since_ms: int | None  # None: it answers
    error: str | None

    def after(self, error: str | None, now_ms: int) -> "Away":
        """Return the same after one more interval. `error`: how it failed; None: it answered."""
        if error is None:
            return Away(self.times, None, None)
        since_ms = now_ms if self.since_ms is None else self.since_ms
        return Away(self.times + 1, since_ms, error)


@dataclass(frozen=True, slots=True)
class Activity:
    """What the log shows of a job process."""

    last_entry_ms: int | None  # when the newest entry was written; None: there is none
    silent_since_ms: int | None  # there is work, and the log does not grow; None: not so


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What is known at the end of an interval."""

    job: str
    tick: int
    now_ms: int
    gauge: Gauge
    entries: dict[str, int]  # of each slice: how many were read
    unproven: int  # entries whose records were not looked at yet, or wait for the source
    raised: tuple[AuditFinding, ...]  # in this interval
    cleared: tuple[AuditFinding, ...]
    findings: tuple[AuditFinding, ...]  # that are open
    listing: Round  # names and sizes; of directories
    reading: Round  # checksums; of files
    kafka: Away
    lake: Away
    catalog: Away
    activity: Activity

    @property
    def exit_code(self) -> ExitCode:
        """0: all is well; 5: something is wrong; 6: nothing wrong, not everything looked at."""
        if self.findings:
            return ExitCode.WRONG
        is_whole = not (self.unproven or self.gauge.unprovable or self.gauge.lag is None)
        if not any(self.entries.values()) and self.gauge.lag:
            return ExitCode.UNPROVEN  # no job has run: nothing was looked at
        is_away = self.lake.since_ms is not None or self.catalog.since_ms is not None
        return ExitCode.UNPROVEN if is_away or not is_whole else ExitCode.DONE

    def to_dict(self) -> dict[str, object]:
        """Return the report as `--json` prints it."""
        changed = ("raised", "cleared", "findings")
        plain = {name: value for name, value in asdict(self).items() if name not in changed}
        findings = {name: [each.to_dict() for each in getattr(self, name)] for name in changed}
        return {**plain, **findings, "exit_code": self.exit_code}


@dataclass(frozen=True, slots=True)
class Pace:
    """How much is done in an interval."""

    interval_s: float
    read_bytes_per_s: int | None = 32_000_000  # files read again; None: all at once
    listings: int | None = 1_000  # directories; None: all
    round_every_s: float = 3600.0


ONE_PASS = Pace(0.0, None, None, 0.0)
