"""What can be wrong with a checkpoint: a code each, what it means, and what a repair does.

What it promises: pure. A code never changes its meaning.
"""

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Something that is wrong with a checkpoint."""

    HALF_DONE_REPARTITION = "half_done_repartition"
    MOVED = "moved"
    MISSING_LINE = "missing_line"
    STALE_PARTITIONS = "stale_partitions"
    MISSING_FILE = "missing_file"
    DAMAGED_FILE = "damaged_file"
    STALE_CHECKSUM = "stale_checksum"
    LOG_GAP = "log_gap"
    TOPIC_RECREATED = "topic_recreated"
    WRONG_FORMAT = "wrong_format"
    TWO_LINEAGES = "two_lineages"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code stands for, in the reference."""

    means: str
    repair: str


MEANINGS = {
    Code.HALF_DONE_REPARTITION: Meaning(
        "A batch is planned that only changes the number of state partitions, and it was never "
        "done: Spark's own repartition has stopped after it wrote the batch's offsets. Spark "
        "refuses to start the query.",
        "The planned batch is left out, with what was written of its state.",
    ),
    Code.MOVED: Meaning(
        "Operators name the schemas of their state at another place. Spark does not start "
        "`transformWithState` there, and `rescale` refuses the checkpoint.",
        "The paths name the copy.",
    ),
    Code.MISSING_LINE: Meaning(
        "The query reads more sources than the offsets of its last batch have lines: its union "
        "grew. Spark stops with `There are [1] sources in the checkpoint offsets and now there are "
        "[2] sources`. Seen by the directories of sources, or by `--sources`.",
        "A line `-` for each new source is added at the end. Right only where the new sources "
        "stand last in the query.",
    ),
    Code.STALE_PARTITIONS: Meaning(
        "There are files of partitions that are not in use, or an operator names another number of "
        "partitions than the last batch: the number was changed once. `rescale` refuses such "
        "files.",
        "The files are left out, and operators name the number of the last batch.",
    ),
    Code.MISSING_FILE: Meaning(
        "A file is missing that a restart after the newest batch reads.",
        "The copy ends with the last complete batch.",
    ),
    Code.DAMAGED_FILE: Meaning(
        "A file is truncated, cannot be parsed, or does not have the size or the checksum that "
        "another file says.",
        "The copy ends with the last complete batch. Where only the offsets of a planned "
        "batch are damaged, they are left out, and Spark plans the batch again.",
    ),
    Code.STALE_CHECKSUM: Meaning(
        "A text can be parsed and agrees with its neighbours, but the `.crc` file beside it is of "
        "other bytes: it was edited by hand, or damaged. Its content is not proven. Spark refuses "
        "to read it from a local disk.",
        "None, where the last complete batch needs the text: a person restores it, or deletes the "
        "`.crc` file of a text that was edited on purpose. A copy that does not need it leaves it "
        "out. A text that contradicts its neighbours is a `damaged_file`.",
    ),
    Code.LOG_GAP: Meaning(
        "A batch is missing between others, or more than one batch is planned and not done. Spark "
        "continues with the newest one, and records in between are lost or counted twice.",
        "The copy has no batch that does not follow the one before it.",
    ),
    Code.TOPIC_RECREATED: Meaning(
        "A topic ends before the offsets of the last batch, has fewer partitions, or is gone: it "
        "was deleted and created again. Kafka is asked where `--brokers` names it, or the job "
        "file. A topic that has grown beyond these offsets again is not noticed: a checkpoint has "
        "no topic ids.",
        "The offsets of the topic are those of its beginning. The state still has what came "
        "before. Not for the query of a job: its log has the offsets as well.",
    ),
    Code.WRONG_FORMAT: Meaning(
        "A file begins with a version that Ashore does not know, a store has files of both formats "
        "of state, or the settings name another state store than that of the files.",
        "Files of the other format are left out, and the settings name the store that the files "
        "are of. A future version has no repair: the release of Spark that wrote it reads it.",
    ),
    Code.TWO_LINEAGES: Meaning(
        "State is further than the batches: offsets and commits were restored from a backup, and "
        "not the state, or two programs wrote to one checkpoint. Spark would read snapshots of the "
        "other one later. Or the offsets of a batch begin before those of the batch before it.",
        "State after the last batch is left out; the copy ends before the batch that went back.",
    ),
}


@dataclass(frozen=True, slots=True)
class CheckpointFinding:
    """Something that is wrong.

    Arguments:
        code: what.
        file: below the root of the checkpoint.
        sentence: what was found.
        repair: what a copy has instead, or what a person can do.
        is_repairable: whether a copy can be made that does not have it.

    """

    code: Code
    file: str
    sentence: str
    repair: str
    is_repairable: bool = True
