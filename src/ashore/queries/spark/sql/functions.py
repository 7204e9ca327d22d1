"""Functions of one's own that SQL calls, written in Python.

What it is: `load_functions`, from the file that a job names to what a session knows by name.
What it promises: functions take and give whole batches of Arrow. What the file holds is pickled
with them, so that executors need no copy of it. A function that would hide one of Spark's is
refused. The digest changes with the file's code, not with its comments and empty lines.
"""

import hashlib
import io
import sys
import tokenize
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.util import PythonEvalType

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job

# A function of one row at a time is called once a batch as well, where it says useArrow.
_OF_ROWS = frozenset(
    {
        PythonEvalType.SQL_ARROW_BATCHED_UDF,
        PythonEvalType.SQL_SCALAR_ARROW_UDF,
        PythonEvalType.SQL_SCALAR_ARROW_ITER_UDF,
        PythonEvalType.SQL_SCALAR_PANDAS_UDF,
        PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF,
    }
)
_ARROW = (
    "make it with `arrow_udf`, `pandas_udf`, or `udf(..., useArrow=True)`, from columns of one row"
)


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of a file, by their names in lower case."""

    digest: str = ""
    file: str = ""
    by_name: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """What SQL calls them, in lower case."""
        return frozenset(self.by_name)

    def register(self, session: SparkSession) -> None:
        """Let the SQL of a session call them. Raises JobFileInvalid."""
        for name, function in sorted(self.by_name.items()):
            if session.catalog.functionExists(name):
                raise JobFileInvalid(
                    f"{self.file}: {name} has the name of a built-in function of Spark",
                    hint="choose another name",
                    file=self.file,
                )
            session.udf.register(name, function)


NO_FUNCTIONS = Functions()


def load_functions(job: Job) -> Functions:
    """Return the functions that the job file names. Raises JobFileInvalid."""
    named = job.sql.functions if job.sql else None
    if named is None:
        return NO_FUNCTIONS
    path = Path(job.path).parent / named
    line = job.line_of("sql", "functions")
    place = f"{job.path}:{line}: sql.functions"
    try:
        source = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise JobFileInvalid(
            f"{place}: {path} cannot be read: {error}",
            hint="name a Python file beside the job file, or write an absolute path",
            file=job.path,
            line=line,
        ) from None
    return read_functions(source, str(path))


def read_functions(source: str, file: str) -> Functions:
    """Return the functions of a source text. `file`: for messages. Raises JobFileInvalid.

    Runs the text, as an import would: once for all that asks for it in this process.
    """
    try:
        compile(source, file, "exec")  # names what is wrong with its line
        digest = _digest(source)
        module = _module(source, file, digest)
    except Exception as error:  # user code may raise anything
        place = f"{file}:{_line(error, file)}"
        raise JobFileInvalid(
            f"{place}: the functions cannot be loaded: {type(error).__name__}: {error}",
            hint="correct the file; what it imports has to be installed, here and on executors",
            file=file,
        ) from error
    found = {
        name.casefold(): value
        for name, value in vars(module).items()
        if hasattr(value, "evalType") and not name.startswith("_")
    }
    for name, function in found.items():
        if function.evalType not in _OF_ROWS:
            words = "is not Arrow-optimized, or is an aggregate"
            raise JobFileInvalid(f"{file}: the function {name} {words}", hint=_ARROW, file=file)
    if not found:
        raise JobFileInvalid(
            f"{file} defines no function that SQL can call", hint=_ARROW, file=file
        )
    return Functions(digest, file, found)


def _module(source: str, file: str, digest: str) -> ModuleType:
    name = f"ashore_functions_{digest[:16]}"
    known = sys.modules.get(name)
    if known is not None:
        return known
    module = ModuleType(name)
    module.__file__ = file
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - the job's own file
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)
    return module


def _digest(source: str) -> str:
    """Return the digest of a text without its comments and empty lines. Requires: it compiles."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    code = (line.rstrip() for line in lines)
    return hashlib.sha256("\n".join(line for line in code if line).encode()).hexdigest()


def _line(error: Exception, file: str) -> int:
    if isinstance(error, SyntaxError) and error.lineno:
        return error.lineno
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
    return (frames[-1].lineno or 1) if frames else 1
