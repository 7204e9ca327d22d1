"""What a person has said at an earlier migration of which operator is which.

What it is: `choose_edits`, from what a log keeps to the edits of a comparison; `restrict_edits`,
what a log is to keep of those of a whole job.
What it promises: pure. Ids are those of two plans: what was said is used for the same plan again,
as after an undo, and the other way round for the plan that came of it, so that the way back pairs
what the way forth has paired. An operator that is there before and after is itself.
"""

from collections.abc import Collection, Iterable, Iterator

from ashore.log.query import EditsState, MappingEdit
from ashore.plans.graph import StoredPlan
from ashore.plans.matching import NO_EDITS, MappingEdits
from ashore.plans.operator_graph import describe_graph


def choose_edits(
    kept: EditsState | None, digest: str, old: StoredPlan, new: StoredPlan
) -> MappingEdits:
    """Return the edits that hold for a comparison; none, where nothing that was said fits.

    `digest`: of `old`, the plan that the log has. Raises SparkUnknown.
    """
    if kept is None:
        return NO_EDITS
    ids = (_ids(old), _ids(new))
    is_same = digest == kept.before
    pinned, forbidden = (
        tuple(_fit(some, *ids, is_same=is_same)) for some in (kept.pinned, kept.forbidden)
    )
    return MappingEdits(pinned, forbidden)


def restrict_edits(edits: MappingEdits, old: StoredPlan, new: StoredPlan) -> MappingEdits:
    """Return the edits that name operators of both plans. Raises SparkUnknown."""
    before, after = _ids(old), _ids(new)
    return MappingEdits(
        *(
            tuple(each for each in some if each[0] in before and each[1] in after)
            for some in (edits.pinned, edits.forbidden)
        )
    )


def _fit(
    kept: Iterable[MappingEdit], old: Collection[str], new: Collection[str], *, is_same: bool
) -> Iterator[tuple[str, str]]:
    for each in kept:
        if is_same and each.old in old and each.new in new:
            yield each.old, each.new
        elif not is_same and _is_only_in(each.new, old, new) and _is_only_in(each.old, new, old):
            yield each.new, each.old


def _is_only_in(id_: str, some: Collection[str], others: Collection[str]) -> bool:
    return id_ in some and id_ not in others


def _ids(plan: StoredPlan) -> set[str]:
    operators = describe_graph(plan.graph).operators
    return {each.id for each in operators if each.state is not None}
