"""The command `ashore schema`.

What it promises: one JSON document on stdout; nothing is read.
What it must not know: what the schema says.
"""

from ashore.cli.output import print_json
from ashore.jobs.file.json_schema import job_schema


def schema() -> None:
    """Print the JSON Schema of the job file, for editors."""
    print_json(job_schema())
