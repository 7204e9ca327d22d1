"""What an entry brings about beside its files: effects that may come late.

What it is: the actions that this release knows.
What it promises: their spellings stand in the log, so none of them ever changes.
What it must not know: how an action is done.
"""

from enum import StrEnum


class Action(StrEnum):
    """What has to be done about a table partition so that others learn of it.

    A log that a later release wrote may hold more. Such an action stays a plain string: it is
    owed, it is named, and nobody here does it.
    """

    REGISTER = "register"  # the catalog is told that the partition is there
    SUCCESS_FILE = "success_file"  # a success file is written beside its files
    CATALOG = "catalog"  # the catalog is told that it is complete: version and rows
    HTTP = "http"  # a POST tells the same
