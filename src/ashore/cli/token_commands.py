"""The commands of `ashore token`: who may ask a server, and for what.

What it promises: a new token is printed once, to stdout, and kept by its digest. A change applies
within seconds, also where the server runs: it is not started again.
What it must not know: how tokens are kept.
"""

from pathlib import Path
from typing import Annotated

import typer

from ashore.cli.options import AsJson, Debug, new_group
from ashore.cli.output import print_answer, reported_errors, say
from ashore.runtime.layout import ServerFiles
from ashore.runtime.tokens import TokenFile, UserRole

Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", exists=True, file_okay=False, help="The directory of job files."),
]
State = Annotated[
    Path | None,
    typer.Option(help="Where the server keeps its state; by default .ashore in DIR."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What audit lines call its owner.")]
Role = Annotated[UserRole, typer.Option(help="What it allows: to look, or everything.")]

token = new_group("Tokens of a server: who may ask it, and for what.")


@token.command("list")
def token_list(
    directory: Directory, state: State = None, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List the names and roles of tokens, users and groups; no token is shown."""
    with reported_errors(as_json=as_json, debug=debug):
        known = _file(directory, state).open()
        found = [
            *({"token": each.name, "role": str(each.role)} for each in known.callers.values()),
            *({"user": name, "role": str(role)} for name, role in known.users.items()),
            *({"group": name, "role": str(role)} for name, role in known.groups.items()),
        ]
        lines = [" ".join(f"{key} {value}" for key, value in each.items()) for each in found]
        print_answer(lines or ["no token"], {"access": found}, as_json=as_json)


@token.command("add")
def token_add(
    directory: Directory,
    name: Name,
    role: Role = UserRole.READ,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Make a token and print it: it is shown this once."""
    with reported_errors(as_json=as_json, debug=debug):
        made = _file(directory, state).add(name, role)
        document = {"name": name, "role": str(role), "token": made}
        print_answer([made], document, as_json=as_json)
        if not as_json:
            say(f"token of {name}, role {role}: it is not shown again")


@token.command("allow")
def token_allow(  # noqa: PLR0913, PLR0917 - each parameter is an option of the command
    directory: Directory,
    name: Annotated[str, typer.Argument(metavar="NAME", help="As the proxy says it.")],
    role: Role = UserRole.READ,
    group: Annotated[bool, typer.Option("--group", help="Name a group, not a user.")] = False,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give a role to a user or a group that a trusted proxy names."""
    kind = "group" if group else "user"
    with reported_errors(as_json=as_json, debug=debug):
        _file(directory, state).allow(kind, name, role)
        print_answer(
            [f"{kind} {name} role {role}"], {kind: name, "role": str(role)}, as_json=as_json
        )


@token.command("revoke")
def token_revoke(
    directory: Directory,
    name: Name,
    state: State = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Revoke a token with its logins, or the role of a user or a group."""
    with reported_errors(as_json=as_json, debug=debug):
        _file(directory, state).revoke(name)
        print_answer([f"revoked {name}"], {"revoked": name}, as_json=as_json)


def _file(directory: Path, state: Path | None) -> TokenFile:
    files = ServerFiles.of(directory, state)
    files.make()
    return TokenFile(files.tokens)
