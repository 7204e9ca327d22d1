"""The command `ashore rejoin`.

What it must not know: which topics can be continued with.
"""

from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, JobFile, TakeOver
from ashore.cli.output import print_answer, reported_errors
from ashore.topics.open_job import open_job
from ashore.topics.use.take_over import rejoin_topic


def rejoin(
    job_file: JobFile,
    topic: Annotated[str, typer.Argument(help="The topic that was created again.")],
    take_over: TakeOver = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Continue with a topic that was deleted and created again, from its beginning."""
    with reported_errors(as_json=as_json, debug=debug), open_job(job_file) as opened:
        joined = rejoin_topic(opened, topic, takes_over=take_over)
        line = f"{topic}: {joined} partitions joined" if joined else f"{topic}: nothing to rejoin"
        print_answer([line], {"topic": topic, "partitions": joined}, as_json=as_json)
