"""The command `ashore serve`.

What it must not know: how jobs are run, or requests answered.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.options import Debug
from ashore.cli.output import escape, reported_errors, say
from ashore.errors import NotInstalled

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The directory of job files."),
]


def serve(
    directory: Directory,
    host: Annotated[
        str, typer.Option(help="The address to listen on; by default this machine only.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 8420,
    debug: Debug = False,
) -> None:
    """Run the jobs of a directory, and serve REST, metrics and pages over them."""
    with reported_errors(as_json=False, debug=debug):
        try:
            from ashore.server.serve import ServerSettings  # noqa: PLC0415 - an extra
            from ashore.server.serve import serve as run  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise NotInstalled(
                f"the package {error.name} is missing: `ashore serve` needs it",
                hint="pip install 'ashore[server]'",
            ) from error
        run(
            ServerSettings(directory, host=host, port=port),
            lambda url: say(f"serving the jobs of {escape(str(directory))} at {url}"),
        )
