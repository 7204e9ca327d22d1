"""The command line: what a person types and sees.

What it is: Typer commands over use cases; rich for what is shown.
What it promises: stdout is data, stderr is talk; `--json` everywhere; exit codes are those of
`ashore.errors`; no traceback without `--debug`; colour never carries meaning.
"""

import gc

# What a command imports is kept to its end, so collections while it is loaded free nothing. Fewer
# of them save some percent of the CPU time of `status` and `stop`.
gc.set_threshold(50_000, 20, 20)

from ashore.cli.app import main  # noqa: E402 - after the line above

__all__ = ["main"]
