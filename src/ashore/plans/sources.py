"""What a plan reads."""

from dataclasses import dataclass

_NAMED_ROWS = "CTERelationRef"  # what a WITH calls its rows: what these read is in the plan too


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A source, as often as a plan reads it. No option of it that may hold a secret."""

    name: str  # that the query gave it, or what it reads
    format: str
    reads: str
    is_streaming: bool

    @property
    def is_kafka(self) -> bool:
        """Whether records come from topics, one by one."""
        return self.is_streaming and self.format == "kafka"


def list_topics(sources: tuple[PlanSource, ...]) -> list[list[str]]:
    """Return the topics of each stream of Kafka.

    They are in the order of the plan, which is that of the offsets in a checkpoint.
    """
    return [each.reads.split(",") for each in sources if each.is_kafka]


def list_fixed(sources: tuple[PlanSource, ...]) -> dict[int, str]:
    """Return what each stream reads that is not Kafka's, by its place among all streams.

    Its offsets are known by the place alone: nothing says which stream they are of.
    """
    streams = (each for each in sources if each.is_streaming and each.format != _NAMED_ROWS)
    return {
        place: f"{each.format} {each.reads}"
        for place, each in enumerate(streams)
        if not each.is_kafka
    }
