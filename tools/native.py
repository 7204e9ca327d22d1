"""The crate under `native/`: its lock, its build into .venv, its lint, its wheel.

    python tools/native.py setup|lint|test|test-arm|lock|wheel
    python tools/native.py fuzz decode|batches SECONDS

What it promises: without a cargo that is new enough, or without its registry, `setup` does nothing
and says so in one line; so does `lint` without cargo. The crates that are built are those of
`native/crates.lock`, by version and checksum, or nothing is built.
`crates.lock` is Cargo.lock without its `source` lines, which name the host of a registry; cargo
itself is asked what to write there.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CRATE = ROOT / "native"
PINNED = CRATE / "crates.lock"
CARGO_LOCK = CRATE / "Cargo.lock"
BUILT = ROOT / ".venv" / "native"
IS_BUILT = ROOT / ".venv" / ".native"  # make looks at it
HEADER = "# Crates with checksums: Cargo.lock without the registry. Written by `make lock`.\n\n"
GOES_ON = "goes on without the native module (docs/internals/native.md)"
ARM = "aarch64-unknown-linux-gnu"
ARM_NEEDS = {
    "aarch64-linux-gnu-gcc": "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "qemu-aarch64": "apt-get install qemu-user",
}
_SOURCE = re.compile(r'^source = "(.*)"\n', re.MULTILINE)
_CHECKSUM = re.compile(r"^checksum = ", re.MULTILINE)


def strip_sources(cargo_lock: str) -> str:
    """Return the text of crates.lock for that of a Cargo.lock.

    Raises ValueError where a crate comes from anywhere but one registry.
    """
    sources = set(_SOURCE.findall(cargo_lock))
    if len(sources) > 1 or not all(each.startswith(("registry+", "sparse+")) for each in sources):
        raise ValueError(f"crates come from {len(sources)} sources; one registry is expected")
    body = cargo_lock.partition("\nversion = ")
    return f"{HEADER}version = {_SOURCE.sub('', body[2])}"


def fill_sources(pinned: str, source: str) -> str:
    """Return the text of Cargo.lock for that of a crates.lock."""
    return _CHECKSUM.sub(f'source = "{source}"\nchecksum = ', pinned)


def checksums(lock: str) -> dict[tuple[str, str], str | None]:
    """Return the checksum of each crate and version in a lock; None for the crate itself."""
    packages = tomllib.loads(lock)["package"]
    return {(each["name"], each["version"]): each.get("checksum") for each in packages}


def ask_for_source(pinned: str) -> str:
    """Return what cargo calls the registry, from the lock of a crate that needs one other."""
    name, version = next(key for key, found in checksums(pinned).items() if found)
    manifest = '[package]\nname = "ask"\nversion = "0.0.0"\n[dependencies]\n'
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "src").mkdir()
        (here / "src" / "lib.rs").touch()
        (here / "Cargo.toml").write_text(f'{manifest}{name} = "={version}"\n', "utf-8")
        command = ["cargo", "generate-lockfile", "--quiet"]
        offline = subprocess.run(
            [*command, "--offline"], cwd=here, capture_output=True, check=False
        )
        if offline.returncode:
            subprocess.run(command, cwd=here, check=True)
        (source,) = set(_SOURCE.findall((here / "Cargo.lock").read_text("utf-8")))
    return str(source)


def restore_lock() -> None:
    """Write Cargo.lock from crates.lock, unless it holds the same. Exits where it cannot be so."""
    pinned = PINNED.read_text("utf-8")
    try:
        if strip_sources(CARGO_LOCK.read_text("utf-8")) == pinned:
            return
    except (FileNotFoundError, ValueError):
        pass
    CARGO_LOCK.write_text(fill_sources(pinned, ask_for_source(pinned)), "utf-8")
    # Cargo compares the checksums with those of the registry, and what it downloads with them.
    _run("cargo", "fetch", "--locked", "--quiet")
    if checksums(CARGO_LOCK.read_text("utf-8")) != checksums(pinned):
        sys.exit("native/Cargo.lock is not what native/crates.lock says; run: make lock")


def why_not() -> str | None:
    """Return why the crate cannot be built on this machine, or None where cargo is new enough."""
    if shutil.which("cargo") is None:
        return "no cargo"
    least = tomllib.loads((CRATE / "Cargo.toml").read_text("utf-8"))["package"]["rust-version"]
    asked = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"cargo (\d+)\.(\d+)", asked.stdout)
    if found is None:
        return f"cargo does not work: {asked.stderr.strip()}"
    if tuple(map(int, found.groups())) < tuple(map(int, least.split("."))):
        return f"cargo {found[1]}.{found[2]} is older than {least}"
    return None


def setup() -> None:
    """Build the module into .venv; without it everything works, and is slower."""
    if reason := why_not():
        print(f"{reason}: {GOES_ON}")
        return
    print("building the native reader and decoder", file=sys.stderr)
    try:
        restore_lock()
    except subprocess.CalledProcessError:  # cargo has said why
        print(f"no registry of crates: {GOES_ON}")
        return
    wheels = BUILT / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    _maturin("--out", str(wheels))
    (wheel,) = wheels.glob("*.whl")
    install = ("-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--reinstall")
    _run(sys.executable, *install, "--python", sys.executable, str(wheel))
    IS_BUILT.touch()


def wheel() -> None:
    """Build a wheel for other machines into dist/, tagged by what it needs of their libc."""
    restore_lock()
    _maturin("--out", str(ROOT / "dist"))  # tagged manylinux, by the libc that it was linked with


def lint() -> None:
    """Check format and clippy's warnings."""
    if reason := why_not():
        print(f"{reason}: native/ is not checked")
        return
    restore_lock()
    _run("cargo", "fmt", "--check")
    clippy = ("cargo", "clippy", "--locked", "--quiet", "--all-targets")
    for features in ((), ("--no-default-features",)):
        _run(*clippy, *features, "--", "-Dwarnings")


def test() -> None:
    """Run the tests of the crate, which need no Python."""
    if reason := why_not():
        print(f"{reason}: native/ is not tested")
        return
    restore_lock()
    _run("cargo", "test", "--locked", "--no-default-features", *sys.argv[2:])


def test_arm() -> None:
    """Check and test the crate as a 64-bit ARM processor runs it, under QEMU on any other."""
    for program, install in ARM_NEEDS.items():
        if shutil.which(program) is None:
            sys.exit(f"{program} is needed: {install}; and: rustup target add {ARM}")
    restore_lock()
    variable = f"CARGO_TARGET_{ARM.upper().replace('-', '_')}"
    os.environ[f"{variable}_LINKER"] = "aarch64-linux-gnu-gcc"
    os.environ[f"{variable}_RUNNER"] = "qemu-aarch64 -L /usr/aarch64-linux-gnu"
    crate = ("--locked", "--no-default-features", "--target", ARM)
    _run("cargo", "clippy", *crate, "--quiet", "--all-targets", "--", "-Dwarnings")
    _run("cargo", "test", *crate, *sys.argv[2:])


def fuzz() -> None:
    """Run a fuzzer for so long. It needs a nightly Rust, and cargo-fuzz."""
    target, seconds = sys.argv[2:]
    corpus = BUILT / "fuzz" / target
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = [f"fuzz/seeds/{target}"] if (CRATE / "fuzz" / "seeds" / target).is_dir() else []
    command = (
        "cargo",
        "+nightly",
        "fuzz",
        "run",
        "--fuzz-dir",
        "fuzz",
        target,
        str(corpus),
        *seeds,
    )
    _run(*command, "--", f"-max_total_time={seconds}", "-max_len=4096", "-print_final_stats=1")


def lock() -> None:
    """Resolve the crates; those that are locked stay unless `--upgrade` is given."""
    if reason := why_not():
        sys.exit(f"{reason}: cargo is needed to lock the crates of native/")
    if "--upgrade" in sys.argv:
        CARGO_LOCK.unlink(missing_ok=True)
    elif PINNED.exists():
        pinned = PINNED.read_text("utf-8")
        CARGO_LOCK.write_text(fill_sources(pinned, ask_for_source(pinned)), "utf-8")
    _run("cargo", "metadata", "--format-version=1", quiet=True)
    PINNED.write_text(strip_sources(CARGO_LOCK.read_text("utf-8")), "utf-8")


def _maturin(*options: str) -> None:
    fixed = ("build", "--release", "--locked", "--interpreter", sys.executable)
    _run(sys.executable, "-m", "maturin", *fixed, *options, quiet=True)


def _run(*command: str, quiet: bool = False) -> None:
    """Run in the crate, with what is built kept in .venv. Exits as the command does."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILT / "target")}
    for name in ("MAKEFLAGS", "MFLAGS"):  # cargo would warn that it has no part in make -j
        environment.pop(name, None)
    done = subprocess.run(command, cwd=CRATE, env=environment, capture_output=quiet, check=False)
    if done.returncode:
        sys.stderr.buffer.write(done.stderr or b"")
        sys.exit(done.returncode)


COMMANDS = {
    "setup": setup,
    "lint": lint,
    "test": test,
    "test-arm": test_arm,
    "fuzz": fuzz,
    "lock": lock,
    "wheel": wheel,
}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]]()
