"""What an error of the HDFS client means.

What it is: from what `hdfs_native` raises to the error tree, by type and words.
What it promises: NotApplied only where no NameNode can have applied the call; what is not known
here may have been applied.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ashore.errors import AnswerUnknown, NotApplied, PathExists, PathMissing, StorageError

# What a NameNode says that is not active, or not yet: the call was turned away.
_TURNED_AWAY = {"StandbyException", "RetriableException", "SafeModeException"}
# No connection was made. One that breaks later says so in other words.
_UNREACHABLE = (
    "Connection refused",
    "Host is unreachable",
    "Network is unreachable",
    "No route to host",
    "failed to lookup address",
)
_HINTS = {
    "AccessControlException": "give the user of the process permission there",
    "NSQuotaExceededException": "raise the name quota of the directory",
    "DSQuotaExceededException": "raise the space quota of the directory",
    "InvalidPathException": "HDFS does not allow a colon in a name",
}
_BELOW_A_FILE = "(is not a directory)"
_NOT_A_FILE = "Path is not a file"
_FILE_ONTO_DIRECTORY = "must both be directories"
_JAVA_ERROR = re.compile(r'(?:Fatal)?RPCError\("(?:[\w$]+\.)*([\w$]+)", "(.*)', re.DOTALL)


@contextmanager
def storage_errors(action: str, path: str) -> Iterator[None]:
    """Turn an error of the client into the error tree."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise _translate(error, action, path) from error
    except BaseException as error:
        # A panic of the library is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise _build(StorageError, f"cannot {action} {path}: {error}", path) from error


def is_below_a_file(error: Exception) -> bool:
    """Return whether a NameNode said that a part of the path is a file."""
    return _BELOW_A_FILE in str(error)


def _translate(error: OSError | RuntimeError, action: str, path: str) -> StorageError:
    name, text = _read(str(error))
    message = f"cannot {action} {path}: {text}"
    return _build(_classify(error, name, text), message, path, _HINTS.get(name, ""))


def _classify(error: OSError | RuntimeError, name: str, text: str) -> type[StorageError]:
    if isinstance(error, FileExistsError) or _FILE_ONTO_DIRECTORY in text:
        return PathExists
    if isinstance(error, FileNotFoundError):
        return StorageError if _NOT_A_FILE in text else PathMissing
    if isinstance(error, OSError):
        return NotApplied if text.startswith(_UNREACHABLE) else AnswerUnknown
    if name in _TURNED_AWAY:
        return NotApplied
    if name == "AccessControlException" and _BELOW_A_FILE in text:
        return PathMissing
    # What a NameNode refused it will refuse again. All else is trouble with DataNodes.
    return StorageError if name else AnswerUnknown


def _read(text: str) -> tuple[str, str]:
    """Return the name of the Java exception, if it is one, and the message without its stack."""
    match = _JAVA_ERROR.match(text)
    name, said = (match[1], match[2]) if match else ("", text)
    return name, re.split(r"(?:\\n|\n)\s*(?:\\t|\t)at ", said)[0].removesuffix('")')


def _build(kind: type[StorageError], message: str, path: str, hint: str = "") -> StorageError:
    return kind(message, hint=hint, path=path)
