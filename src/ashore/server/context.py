"""What the handlers of a server share.

What it is: `Context`, made once for an app; `context_of` finds it for a handler.
What it must not know: HTTP beyond the request that it is found by.
"""

from dataclasses import dataclass
from typing import Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from ashore.base.clock import Clock
from ashore.runtime.layout import ServerFiles
from ashore.runtime.supervisor import Supervisor
from ashore.runtime.verbs import Verbs


@dataclass(frozen=True, slots=True)
class Context:
    """What a server works with."""

    layout: ServerFiles
    supervisor: Supervisor
    verbs: Verbs
    clock: Clock


def context_of(connection: HTTPConnection) -> Context:
    """Return what the app of a request works with."""
    return cast("Context", connection.app.state.context)


Shared = Annotated[Context, Depends(context_of)]
