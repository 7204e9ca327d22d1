"""What a NameNode's audit log says: who called what on which path.

What it is: the parser of the lines that `log4j.properties` of the hdfs service lays out.
What it promises: pure and total: every line is an entry or a ServiceError that names it.
"""

from dataclasses import dataclass
from datetime import datetime

from ashore.errors import ServiceError

TIME_LAYOUT = "%d{yyyy-MM-dd'T'HH:mm:ss.SSSZ}"
OUT_OF_ORDER_MS = 1000  # lines of calls that end together may change places
EMPTY = "null"  # how the NameNode writes that there is no path


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One call that a NameNode answered."""

    time_ms: int
    namenode: int
    is_allowed: bool
    user: str
    command: str  # `create`, `rename`, `listStatus`, ... as the NameNode names them
    source: str | None
    target: str | None


def parse_log(text: str, namenode: int, since_ms: int) -> list[AuditEntry]:
    """Return the entries of a log from `since_ms` on, oldest first. A torn last line is left out.

    What is older is not parsed: a test that waits for a call asks again and again.
    """
    *lines, _torn = text.split("\n")
    found: list[AuditEntry] = []
    for line in reversed(lines):
        entry = parse_line(line, namenode)
        if entry.time_ms < since_ms - OUT_OF_ORDER_MS:
            break
        if entry.time_ms >= since_ms:
            found.append(entry)
    found.reverse()  # in the log's order where times are the same
    return sorted(found, key=lambda entry: entry.time_ms)


def parse_line(line: str, namenode: int) -> AuditEntry:
    """Return the entry of `<time> allowed=true ugi=... cmd=... src=... dst=...`."""
    time, _, text = line.partition(" ")
    facts = dict(part.partition("=")[::2] for part in text.split("\t"))
    try:
        return AuditEntry(
            time_ms=round(datetime.fromisoformat(time).timestamp() * 1000),
            namenode=namenode,
            is_allowed=facts["allowed"] == "true",
            user=facts["ugi"].partition(" ")[0],
            command=facts["cmd"],
            source=_path(facts["src"]),
            target=_path(facts["dst"]),
        )
    except (KeyError, ValueError) as error:
        raise ServiceError(f"not a line of an audit log: {line!r}") from error


def _path(text: str) -> str | None:
    return None if text == EMPTY else text
