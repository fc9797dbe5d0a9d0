"""The core's own tests over builds of it with sanitizers: address and undefined behaviour, data races."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parents[2]
BUILD = TREE / "build/native-sanitize"
SANITIZERS = {
    "address": ("libasan.so", {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}),
    # Python and its libraries are not instrumented: accesses in them tell of no race, their locks count.
    "thread": ("libtsan.so", {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66"}),
}
#: Runs with the sanitizer's core in the place of the one beside the sources.
RUN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("muntin.host.native._core", sys.argv[1])
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import hypothesis, pytest
hypothesis.settings.register_profile("short", max_examples=5, deadline=None, derandomize=True)
sys.exit(pytest.main(sys.argv[2:]))
"""


def _library(compiler: str, name: str) -> Path:
    """A library of the compiler's."""
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    library = Path(found.stdout.strip())
    if not library.is_absolute():
        pytest.skip(f"g++ has no {name} here")
    return library.resolve()


def _compiler() -> str:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here, whose sanitizers these builds use (Debian: apt install g++)")
    return compiler


def _build(compiler: str, target: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Builds a target of host/native/CMakeLists.txt; also the environment that it was built in."""
    tools = Path(sys.executable).parent
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CXX": compiler}
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:  # another build may run in another worker of pytest
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            ["cmake", "-S", TREE / "host/native", "-B", BUILD, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"],
            ["cmake", "--build", BUILD, "--target", target],
        ):
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                break
    return done, environment


def _core(sanitizer: str) -> tuple[Path, dict[str, str]]:
    """The module built with a sanitizer, and the environment that a Python to import it needs."""
    runtime_name, options = SANITIZERS[sanitizer]
    compiler = _compiler()
    # The runtime looks up what it intercepts of the C++ library as it starts, so that is loaded with it.
    preloaded = [_library(compiler, name) for name in (runtime_name, "libstdc++.so.6")]
    done, environment = _build(compiler, f"_core_{sanitizer}")
    assert done.returncode == 0, done.stdout + done.stderr
    (module,) = (BUILD / sanitizer).glob("_core*.so")
    return module, {**environment, **options, "LD_PRELOAD": ":".join(map(str, preloaded))}


@pytest.mark.full
def test_no_type_has_two_definitions() -> None:
    """The linker sees all files of the core at once: a type that two of them define otherwise ends the build."""
    done, _ = _build(_compiler(), "_core_types")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("sanitizer", ["address", pytest.param("thread", marks=pytest.mark.full)])
def test_the_cores_tests_pass_with_sanitizer(sanitizer: str, request: pytest.FixtureRequest) -> None:
    module, environment = _core(sanitizer)
    # Nothing is captured: a sanitizer ends the process once it has reported.
    folder = Path(__file__).parent
    others = (__file__, folder / "test_wheel.py")  # they run no code of this core
    arguments = [str(folder), *(f"--ignore={other}" for other in others), "-q", "-s", "-p", "no:cacheprovider"]
    if not request.config.getoption("--full"):
        arguments += ["--hypothesis-profile=short"]
    # Address space layout randomization puts memory where older runtimes of the thread sanitizer do not expect it.
    command = ["setarch", "--addr-no-randomize", sys.executable, "-c", RUN, module, *arguments]
    done = subprocess.run(
        command, env={**environment, "PYTHONPATH": str(TREE)}, cwd=TREE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
