"""A copy of a checkpoint, tried: Spark loads each of its stores, in a process of its own.

What it is: `try_copy`, and `Trial`, its result.
What it promises: the copy is only read. A copy that could not be tried is not called tried.
"""

from dataclasses import dataclass

from ashore.errors import AshoreError, CheckpointUnfit, NotInstalled, ServiceError
from ashore.jobs.events import StateLoaded
from ashore.jobs.requests import CheckpointAddress, LoadRequest, SparkRequest
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.required_files import Required
from ashore.queries.tools.state_process import run_state_process, take_answer

_MASTER = "local[2]"
NOT_ASKED = "the option --no-trial was set"


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of the trial of a copy, as far as is known.

    Arguments:
        stores: that Spark has loaded, of all operators.
        rows: that they have.
        why_not: why it was not tried; None: it was.

    """

    stores: int = 0
    rows: int = 0
    why_not: str | None = None

    @property
    def is_left(self) -> bool:
        """Whether it was to be tried, and could not."""
        return self.why_not not in {None, NOT_ASKED}

    def describe(self) -> str:
        """Return it as a sentence."""
        if self.why_not is not None:
            return f"the copy was not tried: {self.why_not}"
        if not self.stores:
            return "the query keeps no state that Spark could load"
        return f"Spark has loaded all {self.stores:,} stores of the copy: {self.rows:,} rows"

    def to_dict(self) -> dict[str, object]:
        """Return it as `--json` prints it."""
        is_tried = self.why_not is None
        return {"done": is_tried, "stores": self.stores, "rows": self.rows, "why": self.why_not}


def try_copy(
    copy: Checkpoint,
    required: Required,
    options: tuple[tuple[str, str], ...],
    *,
    is_enabled: bool,
) -> Trial:
    """Let Spark load each store of a copy.

    Arguments:
        copy: all of it but `metadata` is written.
        required: what its last batch needs.
        options: with which Hadoop reaches it.
        is_enabled: whether it is tried.

    Raises CheckpointUnfit where a store cannot be loaded.

    """
    if not required.chains:
        return Trial()
    if not is_enabled:
        return Trial(why_not=NOT_ASKED)
    request = LoadRequest(
        spark=SparkRequest(_MASTER, ()),
        checkpoint=CheckpointAddress(copy.uri, options),
        batch=required.batch,
        state_format=required.commit.state_format,
    )
    try:
        events = run_state_process("load", copy.uri, request)
        loaded = take_answer(events, StateLoaded, lambda _step: None)
    except (NotInstalled, ServiceError) as error:
        return Trial(why_not=error.message)
    except AshoreError as error:
        raise CheckpointUnfit(
            f"{copy.place}: the copy is not a repair, and was deleted: {error.message}",
            hint="restore a savepoint; nothing else was changed",
            why="not_loaded",
        ) from error
    return Trial(len(required.chains), sum(each.rows for each in loaded.stores))
