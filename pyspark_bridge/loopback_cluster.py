"""A Spark standalone cluster on this machine: a master and workers in processes of their own, from pip's PySpark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import weakref
from pathlib import Path
from types import TracebackType

from muntin.host.errors import MuntinError
from muntin.pyspark_bridge.java_runtime import ensure_java

HOST = "127.0.0.1"
START_SECONDS = 180.0
_CLASS = "org.apache.spark.deploy"


class LoopbackCluster:
    """A master and workers that listen on loopback alone, on ports that the system chooses. A context manager.

    Parameters
    ----------
    folder : Path
        For logs and the workers' files.
    workers : int
        How many, each with one core, which is one executor.
    memory : str
        Of a worker.

    Attributes
    ----------
    master : str
        Its address, for `SparkSession.builder.master`.

    Raises
    ------
    MuntinError
        A process did not start; the message has the end of its log.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g"):
        ensure_java()
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._end = weakref.finalize(self, _end, self._processes)
        try:
            self.master = self._start(
                "master", [f"{_CLASS}.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0"],
                r"Starting Spark master at (spark://\S+)",
            )  # fmt: skip
            for number in range(workers):
                place = folder / f"worker{number}"
                options = ["--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", memory]
                command = [f"{_CLASS}.worker.Worker", *options, "--work-dir", str(place), self.master]
                self._start(f"worker{number}", command, r"(Successfully registered with master)")
        except BaseException:
            self.close()
            raise

    @property
    def executors(self) -> list[int]:
        """Process ids of the executors that run."""
        workers = {process.pid for process in self._processes}
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in workers and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # it has just ended
                continue
        return sorted(found)

    def kill_executor(self) -> int:
        """Kill the executor that has run longest, at once; its process id. Its worker starts another."""
        executors = self.executors
        if not executors:
            raise MuntinError("no executor of the cluster runs")
        os.kill(executors[0], signal.SIGKILL)
        return executors[0]

    def close(self) -> None:
        """End all processes, executors too. May be called again."""
        self._end()

    def __enter__(self) -> LoopbackCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _start(self, name: str, command: list[str], ready: str) -> str:
        """Start a process and wait until its log says that it is ready; the first group of what it says."""
        import pyspark

        log = self._folder / f"{name}.log"
        # Spark's own log configuration is quiet where a shell starts it; these lines are what tells the port.
        options = "-Dlog4j2.rootLogger.level=info"
        environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m"}
        environment["SPARK_DAEMON_JAVA_OPTS"] = options
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [str(spark_class), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        self._processes.append(process)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            found = re.search(ready, log.read_text(errors="replace"))
            if found is not None:
                return found[1]
            time.sleep(0.1)
        tail = log.read_text(errors="replace")[-1000:]
        raise MuntinError(f"the cluster's {name} did not start within {START_SECONDS:g} seconds; its log ends: {tail}")


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    while processes:  # workers before the master
        process = processes.pop()
        try:
            os.killpg(process.pid, signal.SIGKILL)  # executors belong to their worker's group
        except ProcessLookupError:
            continue
        finally:
            process.wait()
