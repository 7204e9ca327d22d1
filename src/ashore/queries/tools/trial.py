"""A copy of a checkpoint, tried: Spark loads each of its stores, in a process of its own.

What it is: `CopyTrial`, which runs it, and `Trial`, what became of it.
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
    """What became of trying a copy that can be loaded, as far as is known.

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


@dataclass(slots=True)
class CopyTrial:
    """A copy that is to be tried before its `metadata` is written.

    Arguments:
        copy: all of it but `metadata` is written when it is tried.
        required: what its last batch needs.
        options: with which Hadoop reaches it.
        is_enabled: whether it is tried.
        result: what became of that.

    """

    copy: Checkpoint
    required: Required
    options: tuple[tuple[str, str], ...] = ()
    is_enabled: bool = True
    result: Trial = Trial(why_not=NOT_ASKED)

    def run(self) -> None:
        """Let Spark load each store. Raises CheckpointUnfit where it cannot."""
        if not self.required.chains:
            self.result = Trial()
        elif self.is_enabled:
            self.result = self._load()

    def _load(self) -> Trial:
        request = LoadRequest(
            spark=SparkRequest(_MASTER, ()),
            checkpoint=CheckpointAddress(self.copy.uri, self.options),
            batch=self.required.batch,
            state_format=self.required.commit.state_format,
        )
        try:
            events = run_state_process("load", self.copy.uri, request)
            loaded = take_answer(events, StateLoaded, lambda _step: None)
        except (NotInstalled, ServiceError) as error:
            return Trial(why_not=error.message)
        except AshoreError as error:
            raise CheckpointUnfit(
                f"{self.copy.place}: the copy is not a repair, and was deleted: {error.message}",
                hint="restore a savepoint; nothing else was changed",
                why="not_loaded",
            ) from error
        return Trial(len(self.required.chains), sum(each.rows for each in loaded.stores))
