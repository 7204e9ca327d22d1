"""What of a job's last records became no row, from its log and its dead letters.

What it is: `find_bad_shares`, for `status` and whatever shows it.
What it promises: reads only; a slice without a dead letter, and without a row that has no event
time, costs nothing. An entry is read once by a process that looks again and again.
What it must not know: terminals.
"""

from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

from ashore.control.jobs import OpenJob
from ashore.control.walk import read_window
from ashore.errors import AshoreError
from ashore.landing.shares import BadShare, BatchShares, find_bad, summarize
from ashore.protocol.entries import Prepare
from ashore.protocol.fold import Fold
from ashore.protocol.names import SliceName

ENTRIES, ENTRIES_AT_ONCE = 200, 20  # the newest, are looked through
KNOWN_MAX = 20_000
SAMPLE_CHARS = 120

_known: OrderedDict[tuple[str, SliceName, int], BatchShares | None] = OrderedDict()
_lock = Lock()


def find_bad_shares(
    opened: OpenJob, name: SliceName, fold: Fold
) -> Iterator[tuple[BadShare, str, str]]:
    """Yield each share above what the job allows, with a sentence, and with what to do.

    Raises LogDamaged, StorageError.
    """
    health = opened.job.health
    if not (fold.counters.get("no_event_time") or any(each.dead for each in fold.shards.values())):
        return
    for each in find_bad(_newest(opened, name, fold.end), health.records, health.max_share):
        if each.kind == "dead":
            yield each, f"{each.text}{_explain(opened, each)}", _HINT_DEAD
        else:
            yield each, f"{each.text}, and are filed by the time of their batch", _HINT_UNTIMED


_HINT_DEAD = (
    "look at the dead letters, and compare `schema` with the records; land them again from Kafka "
    "once the schema is right"
)
_HINT_UNTIMED = "compare `event_time` with the records: its column, `unit` and `format`"


def _newest(opened: OpenJob, name: SliceName, end: int) -> Iterator[BatchShares]:
    for stop in range(end + 1, max(0, end + 1 - ENTRIES), -ENTRIES_AT_ONCE):
        for number in range(stop - 1, max(-1, stop - 1 - ENTRIES_AT_ONCE), -1):
            found = _summary(opened, name, number)
            if found is not None:
                yield found


def _summary(opened: OpenJob, name: SliceName, number: int) -> BatchShares | None:
    key = opened.storage.describe(), name, number
    with _lock:
        if key in _known:
            return _known[key]
    found = None
    for entry in read_window(opened.storage, name, number, number + 1):
        found = summarize(entry.body) if isinstance(entry.body, Prepare) else None
    with _lock:
        _known[key] = found
        while len(_known) > KNOWN_MAX:
            _known.popitem(last=False)
    return found


def _explain(opened: OpenJob, share: BadShare) -> str:
    """Return the most frequent reason of dead letters, with one of them; empty: not known."""
    from ashore.control.dead_letters import read_dead_letters  # noqa: PLC0415 - loads Arrow

    (table,) = share.tables
    try:
        found = read_dead_letters(opened, files_max=1, of_table=table)
    except AshoreError:
        return ""  # the lake does not answer: that is reported elsewhere
    if not found.letters:
        return ""
    reason, _ = found.reasons[0]
    letter = next(each for each in found.letters if each.reason == reason)
    value = (letter.value or b"").decode(errors="replace")
    cut = value if len(value) <= SAMPLE_CHARS else f"{value[:SAMPLE_CHARS]}..."
    place = f"{letter.topic}/{letter.partition} offset {letter.offset}"
    return f": {reason}; {place} is {cut}"
