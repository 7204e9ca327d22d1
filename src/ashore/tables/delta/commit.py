"""One version of a table: whether it is there, and how it is made.

What it is: `is_committed` and `require_history`, which judge by the table's log alone.
What it promises: an answer that is lost is looked for, never guessed. The mark of a slice is the
transaction of its application id, whose version is the number of its last entry: Delta keeps it in
every state of the table, also where the table is set back to an older version.
"""

from ashore.errors import TableOwned, TableReplaced, TableRolledBack
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.tables.delta.table_log import TableLog, TableState


def application(name: SliceName) -> str:
    """Return the application id of a slice."""
    return f"ashore.{name.job}.{name.slice}"


def require_same_table(state: TableState | None, commit: TableCommit) -> TableState:
    """Return the state. Raises TableReplaced where the table is not the one of a commit."""
    if state is None or state.metadata["id"] != commit.table_uuid:
        found = f"its id is {state.metadata['id']}" if state else "it is not there"
        raise TableReplaced(
            f"table {commit.table} was dropped or created again: {found}, the log has "
            f"{commit.table_uuid}",
            hint="restore the former table under its name, or land in a table of another name",
            table=commit.table,
        )
    return state


def require_history(log: TableLog, state: TableState, name: SliceName, commit: TableCommit) -> None:
    """Raise TableRolledBack where a table has lost what a slice has committed last.

    Versions whose files are gone, as the log of a table is cleaned, show nothing.
    """
    if state.version < commit.snapshot_id:
        raise _rolled_back(commit, f"its log ends with version {state.version}")
    app = application(name)
    for number in range(commit.snapshot_id + 1, state.version + 1):
        version = log.version(number)
        if version is None:
            return
        if app in version.transactions:
            _require_line(log, state, commit, number)
            return


def _require_line(log: TableLog, state: TableState, commit: TableCommit, number: int) -> None:
    """Raise TableRolledBack unless the content of a table follows from version `number`."""
    at = state.version
    while at > number:
        version = log.version(at)
        if version is None:
            return
        at = at - 1 if version.restored is None else version.restored
    if at < number:
        raise _rolled_back(commit, f"version {number}, which the log has committed, was taken out")


def _rolled_back(commit: TableCommit, why: str) -> TableRolledBack:
    return TableRolledBack(
        f"table {commit.table} was rolled back: {why}",
        hint="restore the table to that version, by its number, or to one that follows it, and "
        "start again; the job has landed these records and does not land them again",
        table=commit.table,
        snapshot_id=commit.snapshot_id,
    )


def require_no_mark(state: TableState, name: SliceName, table: str) -> None:
    """Raise TableOwned where another log of the same name has filled a table."""
    mark = state.transactions.get(application(name))
    if mark is not None:
        raise _owned(table, name, mark)


def is_committed(
    log: TableLog, state: TableState, name: SliceName, commit: TableCommit, number: int
) -> bool:
    """Return whether the commit of entry `number` has happened.

    Raises TableReplaced; TableRolledBack where it has happened and was undone; TableOwned where the
    mark is of another log.
    """
    require_same_table(state, commit)
    app = application(name)
    mark = state.transactions.get(app, -1)
    if mark < number:
        return False
    for version_number in range(commit.snapshot_id + 1, state.version + 1):
        version = log.version(version_number)
        if version is None:
            return True  # its file was cleaned: a writer of a later entry has seen it
        if version.transactions.get(app) == number:
            _require_line(log, state, commit, version_number)
            return True
    raise _owned(commit.table, name, mark)


def _owned(table: str, name: SliceName, mark: int) -> TableOwned:
    return TableOwned(
        f"table {table} was filled by another log of {name}: its transaction "
        f"{application(name)} is at {mark}, which this log does not have",
        hint="restore that log, or land in a table of another name",
        table=table,
    )
