"""The command line: what a person types and sees.

What it is: Typer commands over the use cases in `control`; rich for what is shown.
What it promises: stdout is data, stderr is talk; `--json` everywhere; exit codes are those of
`ashore.errors`; no traceback without `--debug`; colour never carries meaning.
What it must not know: how anything is done. It decides nothing.
"""

from ashore.cli.app import main

__all__ = ["main"]
