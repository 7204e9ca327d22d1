"""What can be kept of a state, from the best to the worst.

What it is: `StateVerdict`, and the values that say it of a column, an operator, a query.
What it promises: pure; the verdict of a whole is that of its worst part.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from ashore.plans.matching import Why


class StateVerdict(StrEnum):
    """Whether a part of a state can be used."""

    FULL = "full"  # it is used as it is
    CONVERT = "convert"  # it is rewritten, and nothing is lost
    PARTIAL = "partial"  # a part of it starts anew
    LOST = "lost"  # it is dropped
    REFUSED = "refused"  # nothing of it can be kept with a meaning that is known

    @property
    def rank(self) -> int:
        """How bad it is: the place in the list above."""
        return list(StateVerdict).index(self)


def worst_verdict(verdicts: Iterable[StateVerdict]) -> StateVerdict:
    """Return the worst of some; of none, `full`."""
    return max(verdicts, key=lambda each: each.rank, default=StateVerdict.FULL)


@dataclass(frozen=True, slots=True)
class ColumnVerdict:
    """The verdict on a column of a state. `why` is empty where it is used as it is."""

    name: str
    verdict: StateVerdict
    why: str = ""


@dataclass(frozen=True, slots=True)
class SparkAlone:
    """What Spark would do with a state, without a comparison of what it means."""

    accepts: bool | None  # whether it would take it as it is; None: it could not be asked
    error: str = ""  # the class of the error with which it refuses, or why it could not be asked


@dataclass(frozen=True, slots=True)
class OperatorVerdict:
    """The verdict on the state of an operator."""

    name: str  # in words; that of the new operator where there is one
    verdict: StateVerdict  # the worst of its columns, of its keys, and of the operator itself
    why: tuple[str, ...]  # what is said of the operator itself; empty where nothing is
    columns: tuple[ColumnVerdict, ...]  # of its state, keys first
    old: str | None  # the id of the operator that has the state; None: it is a new operator
    new: str | None  # the id of the operator that would take it; None: nothing takes it
    # from now on it sees other rows than those that made its state
    differs_from_replay: bool = False
    spark: SparkAlone | None = None  # what Spark says of it; None: it was not asked


@dataclass(frozen=True, slots=True)
class LostState:
    """State of which something is dropped."""

    old: str | None  # the id of the operator that has it; None: all of the query is dropped
    rows: int | None  # of which something is dropped; None: no file shows it
    is_estimate: bool  # whether the rows are those of the last snapshots, and changed since
    size_bytes: int  # of all files that hold them; an upper bound where a part is kept


@dataclass(frozen=True, slots=True)
class MappedPair:
    """A stateful operator of the old query and one of the new, by their ids."""

    old: str
    new: str
    why: Why
    score: float


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """The verdict on the offsets of a source."""

    name: str  # the topics that it reads, with commas
    verdict: StateVerdict
    why: tuple[str, ...]  # empty where nothing is said
    # its place among the sources of the old query, from 0; None: it is a new source
    old: int | None
    new: int | None  # its place among those of the new query; None: it is read no more


@dataclass(frozen=True, slots=True)
class QueryVerdict:
    """The verdict on the state of a query."""

    verdict: StateVerdict  # the worst of all
    why: tuple[str, ...]  # what is said of the query as a whole; empty where nothing is
    # that keep state, in the order in which rows flow; what is gone comes last
    operators: tuple[OperatorVerdict, ...]
    mapping: tuple[MappedPair, ...]  # which of them is which
    spark: SparkAlone | None = None  # what Spark says of all together; None: it was not asked
    # that it reads, in the order of the new SQL; what is read no more comes last
    sources: tuple[SourceVerdict, ...] = ()


SHOWN_MAX = 6  # columns of an operator


def describe_verdict(verdict: QueryVerdict) -> Iterator[str]:
    """Yield what is said of the query, its sources, and each operator that cannot continue."""
    yield from verdict.why
    for source in verdict.sources:
        if source.verdict is not StateVerdict.FULL:
            yield f"`{source.name}` is {source.verdict} ({'; '.join(source.why)})"
    for each in verdict.operators:
        if each.verdict is not StateVerdict.FULL:
            reasons = [*each.why, *_describe_columns(each)]
            yield f"`{each.name}` is {each.verdict}" + (
                f" ({'; '.join(reasons)})" if reasons else ""
            )


def _describe_columns(operator: OperatorVerdict) -> list[str]:
    """Return the columns that change, the worst first."""
    changed = [each for each in operator.columns if each.verdict is not StateVerdict.FULL]
    changed.sort(key=lambda each: -each.verdict.rank)
    shown = [f"{each.verdict} {each.name}" for each in changed[:SHOWN_MAX]]
    more = len(changed) - SHOWN_MAX
    return [*shown, *([f"{more} more"] if more > 0 else [])]
