"""The configuration of an HDFS client: Hadoop's files, and keys that are handed in.

What it is: from `hdfs://AUTHORITY` and options to the addresses of NameNodes and the settings.
What it promises: reads core-site.xml and hdfs-site.xml, and nothing else; options win over files.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from xml.etree import ElementTree as ET

from ashore.errors import JobFileInvalid

CONF_DIR = "conf_dir"  # options without a dot are ours; all others are Hadoop's keys
DURABILITY = "durability"
FILES = ("core-site.xml", "hdfs-site.xml")
UMASK_DEFAULT = 0o022
BLOCK_SIZE_DEFAULT = 128 << 20
_SIZE_UNITS = {unit: 1 << (10 * power) for power, unit in enumerate(("", "k", "m", "g", "t"))}
_WHERE = "set HADOOP_CONF_DIR to the directory that holds core-site.xml and hdfs-site.xml"


@dataclass(frozen=True, slots=True)
class HdfsConf:
    """One HDFS as a client sees it."""

    authority: str  # a nameservice, or host:port
    namenodes: Mapping[str, str]  # addresses by id, in the order in which they are configured
    hadoop: Mapping[str, str]  # every setting of Hadoop
    is_synced: bool  # whether a file is on the disks of its DataNodes when it is closed
    replication: int | None  # None: what the NameNode says
    block_size: int | None  # bytes; always known where files are synced
    file_mode: int
    directory_mode: int

    @property
    def uri(self) -> str:
        """Return the address without a path."""
        return f"hdfs://{self.authority}"

    def client_settings(self, namenodes: Sequence[str]) -> dict[str, str]:
        """Return the settings of a client that knows only some NameNodes, in that order.

        They keep the nameservice's name, which the tokens and principals of a secure cluster name.
        """
        if ":" in self.authority:
            return dict(self.hadoop)
        return {
            **self.hadoop,
            "dfs.nameservices": self.authority,
            f"dfs.ha.namenodes.{self.authority}": ",".join(namenodes),
            **{_address_key(self.authority, each): self.namenodes[each] for each in namenodes},
        }


def resolve_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options that mean the same on a machine without these files. Raises JobFileInvalid."""
    own = {key: value for key, value in options.items() if key != CONF_DIR}
    return {**_load_files(_directory_of(options)), **own}


def _directory_of(options: Mapping[str, str]) -> str:
    """Return where Hadoop's files are; empty: not configured."""
    return options.get(CONF_DIR) or os.environ.get("HADOOP_CONF_DIR", "")


def load_conf(authority: str, options: Mapping[str, str] | None = None) -> HdfsConf:
    """Return the configuration for `hdfs://authority`. Raises JobFileInvalid.

    Arguments:
        authority: a nameservice, or host:port.
        options: keys of Hadoop; `conf_dir`, where its files are (else HADOOP_CONF_DIR says);
            `durability`, close or disk.

    """
    options = options or {}
    unknown = sorted(key for key in options if "." not in key and key not in (CONF_DIR, DURABILITY))
    if unknown:
        raise JobFileInvalid(
            f"{unknown[0]!r} is not an option of HDFS",
            hint=f"write {CONF_DIR}, {DURABILITY}, or a key of Hadoop such as dfs.replication",
        )
    directory = _directory_of(options)
    hadoop = _load_files(directory)
    hadoop.update((key, value.strip()) for key, value in options.items() if "." in key)
    umask = _parse("fs.permissions.umask-mode", hadoop, _parse_umask)
    umask = UMASK_DEFAULT if umask is None else umask
    block_size = _parse("dfs.blocksize", hadoop, _parse_size)
    is_synced = _parse_durability(options.get(DURABILITY, "close"))
    return HdfsConf(
        authority=authority,
        namenodes=MappingProxyType(_find_namenodes(authority, hadoop, directory)),
        hadoop=MappingProxyType(hadoop),
        is_synced=is_synced,
        replication=_parse("dfs.replication", hadoop, int),
        block_size=block_size or (BLOCK_SIZE_DEFAULT if is_synced else None),
        file_mode=0o666 & ~umask,
        directory_mode=0o777 & ~umask,
    )


def _find_namenodes(authority: str, hadoop: Mapping[str, str], directory: str) -> dict[str, str]:
    if ":" in authority:
        return {authority: authority}
    ids = _split(hadoop.get(f"dfs.ha.namenodes.{authority}", ""))
    single = hadoop.get(f"dfs.namenode.rpc-address.{authority}")
    if not ids and single:
        return {"nn": single}  # a nameservice without a standby
    if not ids:
        known = ", ".join(_split(hadoop.get("dfs.nameservices", ""))) or "none"
        raise JobFileInvalid(
            f"{authority!r} is not a nameservice of {directory or 'the options'}; known: {known}",
            hint=f"{_WHERE}, or write hdfs://{authority}:8020/ if it is a host",
            authority=authority,
        )
    for each in ids:
        key = _address_key(authority, each)
        if key not in hadoop:
            raise JobFileInvalid(f"NameNode {each} of {authority} has no {key}", hint=_WHERE)
    return {each: hadoop[_address_key(authority, each)] for each in ids}


def _address_key(nameservice: str, namenode: str) -> str:
    return f"dfs.namenode.rpc-address.{nameservice}.{namenode}"


def _load_files(directory: str) -> dict[str, str]:
    if not directory:
        return {}
    paths = [Path(directory) / name for name in FILES]
    if not any(path.exists() for path in paths):
        raise JobFileInvalid(f"{directory} holds neither {' nor '.join(FILES)}", hint=_WHERE)
    found: dict[str, str] = {}
    for path in paths:
        if path.exists():
            found.update(_load_file(path))
    return found


def _load_file(path: Path) -> dict[str, str]:
    """Return the properties of one file. Its `final` marks and `${}` mean nothing here."""
    try:
        root = ET.fromstring(path.read_bytes())  # noqa: S314  # the operator's own file
    except (OSError, ET.ParseError) as error:
        raise JobFileInvalid(f"{path} cannot be read: {error}", hint=_WHERE) from error
    pairs = ((each.findtext("name"), each.findtext("value")) for each in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in pairs if name}


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse(key: str, hadoop: Mapping[str, str], parse: Callable[[str], int]) -> int | None:
    """Return a number among the settings, None where it is not set."""
    text = hadoop.get(key)
    if not text:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise JobFileInvalid(f"{key} is {text!r}: {error}", hint=f"correct {key}") from error


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kmgt]?)", text.lower())
    if not match:
        raise ValueError("not a size such as 134217728 or 128m")
    return int(match[1]) * _SIZE_UNITS[match[2]]


def _parse_umask(text: str) -> int:
    if not re.fullmatch(r"[0-7]{3,4}", text):
        raise ValueError("not an octal umask such as 022")
    return int(text, 8)


def _parse_durability(text: str) -> bool:
    if text not in ("close", "disk"):
        raise JobFileInvalid(f"unknown durability {text!r}", hint="write close or disk")
    return text == "disk"
