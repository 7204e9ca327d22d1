"""Looking into a checkpoint: the use case behind `ashore checkpoint inspect`.

What it promises: reads only.
"""

from ashore.base.clock import Clock
from ashore.queries.state.inspection import Inspection, Schemas, inspect_checkpoint, schema_paths
from ashore.queries.state.layout import parse_schemas
from ashore.queries.state.survey import Survey, take_survey
from ashore.queries.state.versions import read_kept
from ashore.queries.tools.addresses import find_checkpoint


def inspect(where: str, query: str | None, batch: int | None, clock: Clock) -> Inspection:
    """Return what a checkpoint holds.

    Arguments:
        where: see `find_checkpoint`.
        query: as above.
        batch: that is looked at; None: the newest that is done.
        clock: of the storage.

    Raises as `find_checkpoint`, `take_survey` and `read_kept`.

    """
    checkpoint = find_checkpoint(where, query, clock)
    survey = take_survey(checkpoint, batch)
    return inspect_checkpoint(survey, read_schemas(survey), read_kept(checkpoint))


def read_schemas(survey: Survey) -> Schemas:
    """Return what the files with schemas say that a batch needs.

    Raises CheckpointUnfit, StorageError.
    """
    paths = schema_paths(survey.required)
    place = survey.checkpoint.place
    read = zip(paths, survey.checkpoint.read_all(paths), strict=True)
    return {path: parse_schemas(data, f"{place}/{path.path}") for path, data in read}
