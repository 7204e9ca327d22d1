"""Which part of its text Spark complains of.

What it is: `find_position`, of an error of analysis.
What it promises: a place that Spark names itself; none is guessed.
"""

from dataclasses import dataclass

from pyspark.errors import PySparkException


@dataclass(frozen=True, slots=True)
class TextPosition:
    """A character of the text that Spark was given, from 0.

    `view`: whose SELECT that is; empty for the text itself.
    """

    view: str
    index: int


def find_position(error: Exception) -> TextPosition | None:
    """Return where the first thing stands that an error is about; None: Spark does not say."""
    contexts = error.getQueryContext() if isinstance(error, PySparkException) else None
    for each in contexts or ():
        if each.contextType().name == "SQL" and each.startIndex() >= 0:
            view = each.objectName() if each.objectType() == "VIEW" else ""
            return TextPosition(view, each.startIndex())
    return None
