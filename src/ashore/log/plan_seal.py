"""Which table partitions are complete, and what keeps the others open.

What it is: `plan_seal`, from the folds of all slices of a job and the rules of its tables.
What it promises: pure. A partition is sealed once the watermark has passed its end plus the delay
and no unclosed batch touches it; rows that come later seal it again as the next version, at most
once a delay. Every partition that is due but not sealed comes with the reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from ashore.log.entries import Prepare, Reland, SealedPartition
from ashore.log.files import PartitionKey
from ashore.log.fold import Action, Fold, PartitionState, Unclosed
from ashore.log.positions import BatchTime


@dataclass(frozen=True, slots=True)
class SealRule:
    """How the partitions of one table are sealed."""

    table: str
    timezone: str
    delay_ms: int
    actions: tuple[Action, ...] = (Action.SUCCESS_FILE,)  # what each seal asks for


@dataclass(frozen=True, slots=True)
class Blocked:
    """A partition whose end has passed and that is not sealed yet."""

    table: str
    partition: str
    why: str


@dataclass(frozen=True, slots=True)
class SealPlan:
    """What is to be sealed now, and what is in the way of the rest."""

    partitions: tuple[SealedPartition, ...]
    blocked: tuple[Blocked, ...]


def plan_seal(
    own: Fold,
    others: Mapping[str, Fold],
    rules: Iterable[SealRule],
    time: BatchTime,
) -> SealPlan:
    """Plan the next seal.

    Arguments:
        own: fold of the slice that seals for the job. Its unclosed entry, if any, is the one that
            the seal closes.
        others: folds of the job's other slices, by name.
        rules: of the tables that are sealed.
        time: of the seal, with the watermarks over all slices.

    """
    now_ms, watermarks = time.now_ms, dict(time.watermarks)
    sealed: list[SealedPartition] = []
    blocked: list[Blocked] = []
    for rule in rules:
        watermark_ms = watermarks.get(rule.table)
        for key in _partitions(rule.table, own, others):
            end_ms = partition_end_ms(key[1], rule.timezone)
            if end_ms is None or end_ms + rule.delay_ms > now_ms:
                continue
            state, rows = own.partitions.get(key), _rows(key, own, others)
            if not _is_due(state, rows, rule, now_ms):
                continue
            why = _obstacle(key, end_ms + rule.delay_ms, watermark_ms, others)
            if why:
                blocked.append(Blocked(*key, why))
                continue
            version = state.sealed_version + 1 if state else 1
            before = state.sealed_rows if state else 0
            sealed.append(SealedPartition(*key, version, rows, rows - before, now_ms))
    return SealPlan(tuple(sealed), tuple(blocked))


def partition_end_ms(partition: str, timezone: str) -> int | None:
    """Return when a partition of `date`, `hour` and `minute` ends; None: it is not one of time.

    The end is that of the wall clock: of an hour that daylight saving repeats, the second end.
    """
    parts = dict(each.split("=", 1) for each in partition.split("/") if "=" in each)
    try:
        start = datetime.fromisoformat(parts["date"])
        length = timedelta(days=1)
        if "hour" in parts:
            start, length = start.replace(hour=int(parts["hour"])), timedelta(hours=1)
        if "minute" in parts:
            start, length = start.replace(minute=int(parts["minute"])), timedelta(minutes=1)
    except (KeyError, ValueError):
        return None
    end = (start + length).replace(tzinfo=ZoneInfo(timezone), fold=1)
    return int(end.timestamp() * 1000)


def _partitions(table: str, own: Fold, others: Mapping[str, Fold]) -> list[PartitionKey]:
    folds = (own, *others.values())
    return sorted({key for fold in folds for key in fold.partitions if key[0] == table})


def _rows(key: PartitionKey, own: Fold, others: Mapping[str, Fold]) -> int:
    folds = (own, *others.values())
    return sum(fold.partitions[key].rows for fold in folds if key in fold.partitions)


def _is_due(state: PartitionState | None, rows: int, rule: SealRule, now_ms: int) -> bool:
    if state is None or not state.sealed_version:
        return True
    return rows != state.sealed_rows and now_ms - state.sealed_ms >= rule.delay_ms


def _obstacle(
    key: PartitionKey, due_ms: int, watermark_ms: int | None, others: Mapping[str, Fold]
) -> str:
    """Return what keeps a partition from being sealed; empty: nothing."""
    if watermark_ms is None:
        return (
            "the table has no watermark yet: a topic partition has had no record with an event time"
        )
    if watermark_ms < due_ms:
        return f"the watermark is {(due_ms - watermark_ms) / 1000:.0f} s short"
    for name, fold in others.items():
        if fold.unclosed and _touches(fold.unclosed, key):
            return f"entry {fold.unclosed.number} of slice {name} is not closed"
    return ""


def _touches(unclosed: Unclosed, key: PartitionKey) -> bool:
    body = unclosed.body
    if not isinstance(body, Prepare | Reland):
        return False
    return any(target.key == key for target in body.targets)
