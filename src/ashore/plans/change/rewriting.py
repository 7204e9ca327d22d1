"""How the state of a query is rewritten for SQL that has changed, in words of its stores.

What it is: `plan_rewrite`, from two plans and the verdict on them to a `StateRewrite`: for each
operator of the new plan what its stores are made of; `find_obstacles`, what it would refuse.
What it promises: pure. What is not known to be right is refused with a sentence, never guessed; a
rewrite keeps no more than the verdict says. Operators are named by the numbers that they have in
the checkpoints of their plans.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ashore.base.codec import added
from ashore.errors import QueryRefused
from ashore.plans.change.columns import (
    find_same_state,
    find_source,
    find_widened,
    find_widened_columns,
    is_wider,
    only_widens_keys,
)
from ashore.plans.change.side import SESSIONS, WITHIN, KeptOperator, compare_plans
from ashore.plans.change.sources import match_sources
from ashore.plans.change.verdicts import MappedPair, QueryVerdict, StateVerdict
from ashore.plans.graph import KeptColumn, StoredPlan

_HINT = (
    "keep this part of the SQL unchanged, or write to a new table or topic from the start; "
    "`ashore migrate check JOB.yaml --to NEW.yaml` shows the verdict on each operator"
)


AGGREGATE = "StateStoreSaveExec"
_DEDUPLICATES = {"StreamingDeduplicateExec", WITHIN}
_JOINS = "StreamingSymmetricHashJoinExec"
_OTHER_FORM = (
    "its keys or values are written in another form; keep its keys and functions as they are"
)


class RewriteKind(StrEnum):
    """What the stores of an operator are made of."""

    KEEP = "keep"  # those of an old operator, byte for byte; their files are linked or copied
    RECODE = "recode"  # rows of an old operator, each with its columns in another form
    MERGE = "merge"  # the same, where rows that have the same key now become one
    EMPTY = "empty"  # nothing: they have no rows
    MOVE = "move"  # rows of an old operator as they are, dealt out to other partitions


@dataclass(frozen=True, slots=True)
class ValueSource:
    """What a value column of the new state is made of."""

    column: int | None = added(None)  # the place of a value column of the old state; None: of none
    # it is what a replay has; else what is of no column is what Spark's function has before its
    # first row
    is_filled: bool = added(False)
    function: str = added("")  # that it is for; empty: for none
    part: str = added("")  # which of the function's values it is, where that has several
    is_widened: bool = added(False)  # it is written as a wider type


@dataclass(frozen=True, slots=True)
class KeySource:
    """What a column of the new key is made of."""

    column: int  # the place of a column of the old key
    # of the windows that the old windows become a part of; None: it stays as it is
    length_us: int | None = added(None)
    offset_us: int = added(0)  # where these begin, from the epoch on
    is_widened: bool = added(False)  # it is written as a wider type


@dataclass(frozen=True, slots=True)
class NeverNull:
    """A column of the old state that may have been NULL, and never is from now on."""

    of: str  # `key`, `value`, or the side of a join whose rows have it, `left` or `right`
    column: int  # its place there


@dataclass(frozen=True, slots=True)
class OperatorRewrite:
    """The stores of an operator of the new plan."""

    operator: int  # its number in the new plan, and in the checkpoint that is written
    name: str
    kind: RewriteKind  # what its stores are made of
    # the number of the operator whose stores they are made of, in the checkpoint that is read;
    # None: of none
    old: int | None
    # what each column of the key is made of, where rows are recoded or merged
    keys: tuple[KeySource, ...] = added(())
    values: tuple[ValueSource, ...] = added(())  # the same of each value
    # rows that become one keep the last of their values; else the operator is an aggregate, and
    # merges them by its functions
    is_last: bool = added(False)
    # how many values stand before those of functions: a session window keeps all of what it groups
    # by
    grouped: int = added(0)
    # of a join, what each column of its left rows is made of; none: they stay as they are
    left: tuple[ValueSource, ...] = added(())
    right: tuple[ValueSource, ...] = added(())  # the same of its right rows
    never_null: tuple[NeverNull, ...] = added(())  # columns in which a row with NULL cannot be kept


@dataclass(frozen=True, slots=True)
class DroppedOperator:
    """An operator of the old plan whose stores go into none of the new one."""

    operator: int
    name: str


@dataclass(frozen=True, slots=True)
class StateRewrite:
    """How a state is rewritten."""

    # that keep state in the new plan, by their numbers; none: it keeps none
    operators: tuple[OperatorRewrite, ...]
    dropped: tuple[DroppedOperator, ...]  # of the old plan, by their numbers


def plan_rewrite(old: StoredPlan, new: StoredPlan, verdict: QueryVerdict) -> StateRewrite:
    """Return how the state of a query is rewritten.

    `old` made it, `new` is to continue with it, and `judge_query` gave the `verdict` on these two.
    Raises QueryRefused, with what cannot be rewritten and why; SparkUnknown.
    """
    if verdict.verdict is StateVerdict.REFUSED:
        raise _refuse("; ".join(_describe_refused(verdict)))
    try:
        return _Rewriter(old, new, verdict.mapping).rewrite()
    except _CannotRewrite as error:
        raise _refuse(str(error)) from None


def find_obstacles(
    old: StoredPlan, new: StoredPlan, mapping: Sequence[MappedPair]
) -> dict[str, str]:
    """Return why stores of the new plan cannot be made of the old ones; empty where all can.

    `mapping`: which stateful operator is which.
    The keys are ids of operators of the new plan. Raises SparkUnknown.
    """
    return dict(_Rewriter(old, new, mapping).obstacles())


def move_kept(rewrite: StateRewrite) -> StateRewrite:
    """Return a rewrite that moves the rows of stores whose files cannot be kept as they are."""
    operators = tuple(
        replace(each, kind=RewriteKind.MOVE) if each.kind is RewriteKind.KEEP else each
        for each in rewrite.operators
    )
    return replace(rewrite, operators=operators)


def _describe_refused(verdict: QueryVerdict) -> Iterator[str]:
    yield from verdict.why
    for operator in verdict.operators:
        if operator.verdict is StateVerdict.REFUSED:
            columns = (each for each in operator.columns if each.verdict is StateVerdict.REFUSED)
            whys = (*operator.why, *dict.fromkeys(each.why for each in columns))
            yield f"`{operator.name}`: {', '.join(whys)}"


def _refuse(why: str) -> QueryRefused:
    return QueryRefused(f"the state cannot be rewritten: {why}", hint=_HINT)


class _CannotRewrite(Exception):
    """An operator whose stores cannot be made. `why`: for people."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"`{name}`: {why}")
        self.why = why


class _Rewriter:
    def __init__(self, old: StoredPlan, new: StoredPlan, mapping: Sequence[MappedPair]) -> None:
        compared = compare_plans(old, new, match_sources(old.graph, new.graph))
        was = {each.id: each for each in compared.before.operators if each.state is not None}
        now = {each.id: each for each in compared.after.operators if each.state is not None}
        pairs = [(was[each.old], now[each.new]) for each in mapping]
        old_side, new_side = compared.sides(pairs)
        self._old = {each.id: old_side.kept(each) for each in was.values()}
        self._new = {each.id: new_side.kept(each) for each in now.values()}
        self._pairs = {other.id: one.id for one, other in pairs}

    def obstacles(self) -> Iterator[tuple[str, str]]:
        """Yield the ids of operators whose stores cannot be made, and why."""
        for id_, kept in self._new.items():
            try:
                self._operator(id_, kept)
            except _CannotRewrite as error:
                yield id_, error.why

    def rewrite(self) -> StateRewrite:
        used = set(self._pairs.values())
        operators = (self._operator(id_, kept) for id_, kept in self._new.items())
        dropped = (
            DroppedOperator(each.state.operator_id, each.operator.name)
            for id_, each in self._old.items()
            if id_ not in used
        )
        return StateRewrite(
            tuple(sorted(operators, key=lambda each: each.operator)),
            tuple(sorted(dropped, key=lambda each: each.operator)),
        )

    def _operator(self, id_: str, new: KeptOperator) -> OperatorRewrite:
        number, name = new.state.operator_id, new.operator.name
        if id_ not in self._pairs:
            return OperatorRewrite(number, name, RewriteKind.EMPTY, None)
        old = self._old[self._pairs[id_]]
        was = old.state.operator_id
        if _has_same_bytes(old, new):
            return _with_nulls(old, new, OperatorRewrite(number, name, RewriteKind.KEEP, was))
        kinds = {old.node.kind, new.node.kind}
        if kinds == {_JOINS}:
            sides = (tuple(_rows_of(old, new, each)) for each in ("left", "right"))
            left, right = sides
            rows = OperatorRewrite(number, name, RewriteKind.RECODE, was, left=left, right=right)
            return _with_nulls(old, new, rows)
        if kinds == {SESSIONS}:
            return _with_nulls(old, new, _session(old, new))
        if len(kinds) > 1 or not kinds <= {AGGREGATE, *_DEDUPLICATES}:
            raise _CannotRewrite(name, _OTHER_FORM)
        keys = tuple(_key_source(old, new, place) for place in range(len(new.keys)))
        is_same = sorted(old.digests(old.keys)) == sorted(new.digests(new.keys))
        is_merged = not is_same and not only_widens_keys(old, new)
        kind = RewriteKind.MERGE if is_merged else RewriteKind.RECODE
        is_last = new.node.kind in _DEDUPLICATES
        values = _SEEN if is_last else tuple(_values(old, new))
        made = OperatorRewrite(number, name, kind, was, keys, values, is_last=is_last)
        return _with_nulls(old, new, made)


# ---- joins and sessions


def _rows_of(old: KeptOperator, new: KeptOperator, side: str) -> Iterator[ValueSource]:
    """Yield what the columns of the rows of one side are made of; none where they are the same."""
    was, now = old.columns_of_side(side), new.columns_of_side(side)
    if _is_same_form(old, new, was, now):
        return
    widened = find_widened_columns(old, new, side)
    places = {old.side.digests[each.term]: place for place, each in enumerate(was)}
    for each in now:
        before = widened.get(each.term)
        digest = new.side.digests[each.term] if before is None else old.side.digests[before.term]
        place = places.get(digest)
        if place is not None:
            kept = was[place] if before is None else replace(was[place], type=each.type)
            _require_kept(old, new, kept, each)
        elif not each.is_nullable or new.is_null_excluded(each.term):
            name = new.describe_column(each)
            why = f"{name} is new and never NULL: the rows that wait have no value"
            raise _CannotRewrite(new.operator.name, why)
        yield ValueSource(place, is_widened=before is not None)
    yield ValueSource(len(was))  # whether the row has met another


def _session(old: KeptOperator, new: KeptOperator) -> OperatorRewrite:
    """Return how the functions of a session window are rewritten: its keys have to be the same."""
    if old.digests(old.keys) != new.digests(new.keys):
        raise _CannotRewrite(new.operator.name, _OTHER_FORM)
    grouped, was = len(new.grouped), old.digests(old.grouped)
    kept = (ValueSource(was.index(each)) for each in new.digests(new.grouped))
    functions = (
        each if each.column is None else replace(each, column=grouped + each.column)
        for each in _values(old, new)
    )
    return OperatorRewrite(
        new.state.operator_id,
        new.operator.name,
        RewriteKind.RECODE,
        old.state.operator_id,
        tuple(KeySource(place) for place in range(grouped)),
        (*kept, *functions),
        grouped=grouped,
    )


# ---- keys and values

# Of a row that was seen Spark keeps one value: when it expires, or none but a NULL.
_SEEN = (ValueSource(0),)


def _key_source(old: KeptOperator, new: KeptOperator, place: int) -> KeySource:
    """Return the old key that a new one is, or whose windows its windows are made of."""
    term = new.keys[place]
    found = find_source(old, new, term)
    if found is None:
        raise _CannotRewrite(new.operator.name, f"{new.describe(term)} is not one of the old keys")
    column = old.keys.index(found)
    was, now = _typed_keys(old)[column], _typed_keys(new)[place]
    if is_wider(old, found, new, term):
        _require_kept(old, new, replace(was, type=now.type), now)
        return KeySource(column, is_widened=True)
    _require_kept(old, new, was, now)
    if old.side.digests[found] == new.side.digests[term]:
        return KeySource(column)
    window = new.side.term(term).window
    if window is None or _typed_keys(new)[place].type != _WINDOW:
        raise _CannotRewrite(
            new.operator.name, f"{new.describe(term)} is not a window of TIMESTAMP"
        )
    return KeySource(column, window.length_us, window.offset_us)


def _typed_keys(operator: KeptOperator) -> tuple[KeptColumn, ...]:
    keys = operator.planned.keys
    if len(keys) != len(operator.keys):
        raise _CannotRewrite(operator.operator.name, "Spark does not say the types of its keys")
    return keys


def _values(old: KeptOperator, new: KeptOperator) -> Iterator[ValueSource]:
    was = {
        (old.side.digests[each.term], each.part): place for place, each in enumerate(old.columns)
    }
    now = {(new.side.digests[each.term], each.part) for each in new.columns}
    if len(was) != len(old.columns) or len(now) != len(new.columns):
        raise _CannotRewrite(new.operator.name, "two of its functions cannot be distinguished")
    widened, same = find_widened(old, new), find_same_state(old, new)
    for each in new.columns:
        before = widened.get(each.term, same.get(each.term))
        digest = new.side.digests[each.term] if before is None else old.side.digests[before]
        place = was.get((digest, each.part))
        is_wider_now = place is not None and each.term in widened
        if place is not None:
            kept = old.columns[place]
            _require_kept(old, new, replace(kept, type=each.type) if is_wider_now else kept, each)
        function = new.side.term(each.term).name
        yield ValueSource(place, function=function, part=each.part, is_widened=is_wider_now)


def _require_kept(old: KeptOperator, new: KeptOperator, was: KeptColumn, now: KeptColumn) -> None:
    if was.type != now.type:
        raise _CannotRewrite(
            new.operator.name,
            f"{old.describe_column(was)} was kept as {was.type}, is kept as {now.type}",
        )


def _with_nulls(old: KeptOperator, new: KeptOperator, made: OperatorRewrite) -> OperatorRewrite:
    """Name the columns in which no row may have NULL any more."""
    if old.is_continued_by(new):
        return made  # what is never NULL from now on never was
    names = _widened_names(old, new)
    never = {
        (names.get((digest, side), digest), part, side) for digest, part, side in new.never_null
    }
    found = tuple(
        NeverNull(of, place)
        for of, place, each in _placed(old)
        if each.is_nullable and (old.side.digests[each.term], each.part, each.side) in never
    )
    if new.node.kind == SESSIONS and any(each.of == _KEY for each in found):
        raise _CannotRewrite(new.operator.name, "its keys may have been NULL, and never are now")
    return replace(made, never_null=found)


def _widened_names(old: KeptOperator, new: KeptOperator) -> dict[tuple[str, str], str]:
    """Return the old digest of each column that has got wider, by its digest and side."""
    found = {}
    for term in new.keys:
        source = find_source(old, new, term)
        if source is not None and is_wider(old, source, new, term):
            found[new.side.digests[term], ""] = old.side.digests[source]
    for term, before in find_widened(old, new).items():
        found[new.side.digests[term], ""] = old.side.digests[before]
    for side in ("left", "right"):
        for term, column in find_widened_columns(old, new, side).items():
            found[new.side.digests[term], side] = old.side.digests[column.term]
    return found


def _placed(old: KeptOperator) -> Iterator[tuple[str, int, KeptColumn]]:
    """Yield the columns of a state, with where rows have them."""
    yield from ((_KEY, place, each) for place, each in enumerate(old.planned.keys))
    places = Counter[str]()
    places[_VALUE] = len(old.grouped)  # a session window keeps what it groups by first
    for each in old.columns:
        of = each.side or _VALUE
        yield of, places[of], each
        places[of] += 1


def _has_same_bytes(old: KeptOperator, new: KeptOperator) -> bool:
    """Return whether the stores of one operator are those of the other: then none of it is read."""
    if old.digests(old.keys) != new.digests(new.keys):
        return False
    if old.digests(old.grouped) != new.digests(new.grouped):
        return False
    return _is_same_form(old, new, old.planned.keys, new.planned.keys) and _is_same_form(
        old, new, old.columns, new.columns
    )


def _is_same_form(
    old: KeptOperator, new: KeptOperator, was: Sequence[KeptColumn], now: Sequence[KeptColumn]
) -> bool:
    """Return whether columns have the same bytes, whether or not they may be NULL."""
    return len(was) == len(now) and all(
        (old.side.digests[one.term], one.part, one.side, one.type)
        == (new.side.digests[other.term], other.part, other.side, other.type)
        for one, other in zip(was, now, strict=True)
    )


_KEY, _VALUE = "key", "value"
_WINDOW = "struct<start:timestamp,end:timestamp>"
