"""State as tables: which ones a checkpoint has, and what their columns are called.

What it is: `plan_tables`, from the files that say what operators keep; `choose_tables`, what a
person selects of them, with the names of the SQL where a version of the job is known.
What it promises: pure.

An operator has one table, but for these:

    join of two streams       `left` and `right`: the rows that either side keeps; in form 2 also
                              its four stores, by their own names
    transformWithState        one for each variable of the user's, `timers` where it has some
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.base.suggest import suggest
from ashore.errors import CheckpointUnfit
from ashore.jobs.requests import StateTable
from ashore.plans.graph import KeptColumn, PlanGraph, PlanNode, TermKind
from ashore.plans.operators import JOIN
from ashore.plans.physical import type_name
from ashore.plans.version import JobVersion
from ashore.plans.words import Words
from ashore.queries.state.inspection import Schemas
from ashore.queries.state.layout import (
    OperatorFile,
    SchemaField,
    SchemaPath,
    StoreSchema,
    StoreSchemaPath,
)
from ashore.queries.state.required_files import Required

_DEFAULT = "default"  # what Spark calls the only store of a partition
_JOIN = "symmetricHashJoin"
_SIDES = ("left", "right")
_TIMERS = "timers"
# Spark names what flatMapGroupsWithState keeps by the language of the function.
_GROUPS = {"flatMapGroupsWithState", "applyInPandasWithState"}
_TIMEOUT = "timeoutTimestamp"
_INTERNAL = "$"  # how names of column families begin that Spark keeps for itself


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table, and what it is made of.

    Arguments:
        table: how it is read.
        schema: of the store that it is read from; None where that is not one.
        is_raw: whether it is one of the stores that other tables are decoded from.

    """

    table: StateTable
    schema: StoreSchema | None
    is_raw: bool = False


def plan_tables(required: Required, schemas: Schemas) -> tuple[PlannedTable, ...]:
    """Return the tables of a checkpoint, by operator; columns are called as Spark does.

    Arguments:
        required: what the batch needs.
        schemas: of the files that `schema_paths` names.

    """
    return tuple(
        each
        for number, says in sorted(required.operators.items())
        for each in _plan_operator(says, _families(number, schemas))
    )


def choose_tables(
    tables: Sequence[PlannedTable],
    selection: tuple[str | None, str | None],
    version: JobVersion | None,
    place: str,
) -> tuple[StateTable, ...]:
    """Return the tables that a person selects, with the names of the SQL where they are known.

    Arguments:
        tables: all that there are.
        selection: an operator, by its number, Spark's name of it, or its id or name in the version;
            and the name of a table. None: all but the stores that others are decoded from.
        version: of the job.
        place: of the checkpoint, for messages.

    Raises CheckpointUnfit where there is none.

    """
    operator, store = selection
    if not tables:
        text, hint = f"{place} has no state, so no rows", "its query has no operator that keeps any"
        raise CheckpointUnfit(text, hint=hint, why="stateless")
    names = _name_operators(tables, version)
    found = [each for each in tables if operator is None or operator in names[each.table.operator]]
    if not found:
        shown = "; ".join(" or ".join(each) for each in names.values())
        raise CheckpointUnfit(
            f"{place} has no operator {operator}, it has {shown}",
            hint="name one of these with --operator",
            why="no_operator",
        )
    chosen = [each for each in found if (each.table.name == store if store else not each.is_raw)]
    if not chosen:
        known = list(dict.fromkeys(each.table.name for each in found))
        raise CheckpointUnfit(
            f"{place} has no store {store}, it has {', '.join(known)}",
            hint=suggest(store or "", known, "name one of these with --store"),
            why="no_store",
        )
    for each in chosen:
        _refuse_cut_times(each, place)
    return tuple(_name_columns(each, version) for each in chosen)


def _refuse_cut_times(planned: PlannedTable, place: str) -> None:
    """Raise where timeouts do not fit the type that their schema names.

    In format 1 of the state of groups Spark 4.2 writes them as BIGINT, and its schema says INT.
    """
    table, values = planned.table, planned.schema.value if planned.schema else ()
    last = (values[-1].name, values[-1].type) if values else ()
    if table.operator_name in _GROUPS and last == (_TIMEOUT, "integer"):
        raise CheckpointUnfit(
            f"{place}: Spark does not read the rows of operator {table.operator}: they have "
            "timeouts in format 1 of flatMapGroupsWithState, whose schema is wrong",
            hint="only format 2, Spark's default, is read with timeouts; --operator chooses "
            "another operator",
            why="not_read",
        )


# ---- which tables


def _families(operator: int, schemas: Schemas) -> dict[str, StoreSchema]:
    """Return the schemas of an operator by store; of a store with column families, by family."""
    found: dict[str, StoreSchema] = {}
    for path, says in schemas.items():
        match path:
            case StoreSchemaPath(store) if store.operator == operator:
                found[store.name or _DEFAULT] = says[0]
            case SchemaPath(number) if number == operator:
                found |= {each.family: each for each in says}
    return found


def _plan_operator(says: OperatorFile, families: Mapping[str, StoreSchema]) -> list[PlannedTable]:
    if says.name == _JOIN:
        return _plan_join(says, families)
    if not says.name.startswith("transformWithState"):
        table = StateTable(says.operator, says.name, _DEFAULT, ())
        return [PlannedTable(table, families.get(_DEFAULT))]
    own = [each for each in families if each != _DEFAULT and not each.startswith(_INTERNAL)]
    options: dict[str, tuple[tuple[str, str], ...]] = {
        each: (("stateVarName", each), ("flattenCollectionTypes", "true")) for each in own
    }
    if any(each.startswith(_INTERNAL) and "Timers" in each for each in families):
        options[_TIMERS] = (("readRegisteredTimers", "true"),)
    # Where no variable is known Spark is asked all the same: it says why it does not read them.
    return [
        PlannedTable(StateTable(says.operator, says.name, name, read, is_bag=True), None)
        for name, read in (options or {_DEFAULT: ()}).items()
    ]


def _plan_join(says: OperatorFile, families: Mapping[str, StoreSchema]) -> list[PlannedTable]:
    def table(name: str, option: str, *, is_bag: bool) -> StateTable:
        return StateTable(says.operator, says.name, name, ((option, name),), is_bag=is_bag)

    stores = [each.name for each in says.stores if each.name != _DEFAULT]
    return [
        *(PlannedTable(table(each, "joinSide", is_bag=True), None) for each in _SIDES),
        *(
            PlannedTable(table(each, "storeName", is_bag=False), families.get(each), is_raw=True)
            for each in stores
        ),
    ]


def _name_operators(
    tables: Sequence[PlannedTable], version: JobVersion | None
) -> dict[int, list[str]]:
    names = {each.table.operator: [str(each.table.operator)] for each in tables}
    for each in tables:
        names[each.table.operator].append(each.table.operator_name)
    for named in version.operators if version else ():
        if named.operator_id in names:
            names[named.operator_id] += [named.id, named.name]
    return {number: list(dict.fromkeys(each)) for number, each in names.items()}


# ---- names of columns


def _name_columns(planned: PlannedTable, version: JobVersion | None) -> StateTable:
    """Return a table with the names of the SQL, where the version keeps the same columns.

    A version that is older or younger than the state may have others: then Spark's names stay.
    """
    nodes = [] if version is None else version.graph.nodes
    number = planned.table.operator
    node = next((each for each in nodes if each.state and each.state.operator_id == number), None)
    if version is None or node is None or planned.is_raw:
        return planned.table
    names = _Names(version.graph)
    if node.kind == JOIN:
        side = planned.table.name
        keys = tuple(map(names.of, node.terms(f"{side}Keys")))
        return replace(planned.table, keys=keys, is_named=bool(keys))
    if planned.schema is None or node.state is None:
        return planned.table
    found = names.keys(node, planned.schema), names.values(node, planned.schema)
    return replace(planned.table, keys=found[0], values=found[1], is_named=any(found))


class _Names:
    """What an author calls terms: the name of the query's column, else the expression itself."""

    def __init__(self, graph: PlanGraph) -> None:
        self._graph = graph
        self._words = Words(graph.terms, graph.sources)
        self._columns = {each.term: each.name for each in reversed(graph.columns)}

    def of(self, term: int) -> str:
        """Return the name of a term."""
        return self._columns.get(term) or self._words.of(term)

    def keys(self, node: PlanNode, schema: StoreSchema) -> tuple[str, ...]:
        """Return the names of a store's keys; none where the version has other ones."""
        kept = node.state.keys if node.state else ()
        if not _fits(kept, schema.key):
            return ()
        # A window is `window`, unless the query hands it on: its text is no name.
        return tuple(
            field.name if self._is_bare_window(column) else self._name(column)
            for column, field in zip(kept, schema.key, strict=True)
        )

    def values(self, node: PlanNode, schema: StoreSchema) -> tuple[str, ...]:
        """Return the names of what is kept for a key. Before it may be the key once more."""
        kept = node.state.columns if node.state else ()
        before = len(schema.value) - len(kept)
        if not kept or before < 0 or not _fits(kept, schema.value[before:]):
            return ()
        return (*(each.name for each in schema.value[:before]), *map(self._name, kept))

    def _name(self, kept: KeptColumn) -> str:
        return ".".join(part for part in (self.of(kept.term), kept.part) if part)

    def _is_bare_window(self, kept: KeptColumn) -> bool:
        is_window = self._graph.terms[kept.term].kind is TermKind.WINDOW
        return is_window and kept.term not in self._columns


def _fits(kept: Sequence[KeptColumn], fields: Sequence[SchemaField]) -> bool:
    """Return whether columns have these types, as far as both are written the same way."""
    return len(kept) == len(fields) and all(
        "<" in field.type or column.type == type_name(field.type)
        for column, field in zip(kept, fields, strict=True)
    )
