"""A Spark cluster on this machine: one master, three executors, and a Spark Connect server.

`make cluster` runs it until Ctrl-C; `make test-cluster` starts its own. Each is a process of its
own on the loopback address, so that tests can kill one. The catalog is in the Connect server's
memory, so a killed one has lost it.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

EXECUTORS = 3
HOST = "127.0.0.1"
_READY_SECONDS = 120
_FOR_SMALL_TABLES = {
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": 1000,
}
"""Compiling queries takes half of the time of builds with few rows."""


@dataclass
class Cluster:
    """The processes of a cluster, their logs in a folder; `python` has PySpark."""

    python: str
    folder: Path
    executors: int = EXECUTORS
    is_measured: bool = False
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.master_port, self.port = _free_port(), _free_port()

    @property
    def address(self) -> str:
        """The address for Spark Connect."""
        return f"sc://{HOST}:{self.port}"

    def start(self) -> None:
        """Start all processes; return when queries are answered."""
        master = f"spark://{HOST}:{self.master_port}"
        self._run("master", "master.Master", "--host", HOST, "--port", str(self.master_port))
        _wait_for(self.master_port, self.processes["master"])
        for number in range(1, self.executors + 1):
            self.start_executor(number)
        self.start_driver(master)

    def start_executor(self, number: int) -> None:
        """Start a worker, whose executor has one core."""
        work = self.folder / f"executor-{number}"
        self._run(
            f"executor-{number}",
            "worker.Worker",
            *("--host", HOST, "--cores", "1", "--memory", "2g", "--work-dir", str(work)),
            f"spark://{HOST}:{self.master_port}",
        )

    def start_driver(self, master: str = "") -> None:
        """Start the Spark Connect server, which plans the queries and holds the catalog."""
        settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": self.port,
            "spark.cores.max": self.executors,
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.executor.cores": 1,
            "spark.executor.memory": "1600m",
            # One plan for each query, so that runs compare.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.shuffle.partitions": self.executors,
            "spark.sql.warehouse.dir": self.folder / "tables",
            "spark.ui.enabled": "false",
        }
        if self.is_measured:
            events = self.folder / "events"
            events.mkdir(exist_ok=True)
            settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
            settings |= {"spark.eventLog.compress": "false"}
        else:
            settings |= _FOR_SMALL_TABLES
        pairs = (f"{name}={value}" for name, value in settings.items())
        options = [word for pair in pairs for word in ("--conf", pair)]
        self._start(
            "driver",
            "org.apache.spark.deploy.SparkSubmit",
            *("--master", master or f"spark://{HOST}:{self.master_port}"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *(*options, "spark-internal"),
            memory="4g",
        )
        _wait_for(self.port, self.processes["driver"])

    def kill(self, name: str) -> None:
        """Kill a process and what it started, without a warning."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all processes."""
        for name in reversed(list(self.processes)):
            self.kill(name)

    def _run(self, name: str, program: str, *arguments: str) -> None:
        self._start(name, f"org.apache.spark.deploy.{program}", "--webui-port", "0", *arguments)

    def _start(self, name: str, program: str, *arguments: str, memory: str = "256m") -> None:
        home = Path(
            subprocess.run(
                [self.python, "-c", "import pyspark; print(pyspark.__path__[0])"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
        )
        log = (self.folder / f"{name}.log").open("ab")
        inherited = {**os.environ}
        inherited.pop("SPARK_REMOTE", None)  # of an earlier cluster: Spark refuses a second address
        environment = {
            **inherited,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": memory,
        }
        with log:
            self.processes[name] = subprocess.Popen(
                [home / "bin" / "spark-class", program, *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def running(
    python: str, folder: Path, executors: int = EXECUTORS, *, is_measured: bool = False
) -> Iterator[Cluster]:
    """Run a cluster, and end it.

    One that `is_measured` logs its tasks in the folder `events`, and compiles queries.
    """
    cluster = Cluster(python, folder, executors, is_measured)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_port() -> int:
    """Return a port that no other program gets meanwhile: the system does not give it out."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as listener:
            listener.bind((HOST, port))
            return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens. Raises: TimeoutError, or RuntimeError if it ended."""
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.2)
    raise TimeoutError(f"port {port} did not answer within {_READY_SECONDS} s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a cluster until Ctrl-C."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has PySpark")
    parser.add_argument(
        "--folder", type=Path, help="for logs and shuffles (default: one that is removed)"
    )
    parser.add_argument("--executors", type=int, default=EXECUTORS)
    given = parser.parse_args(arguments)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="cluster-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with running(given.python, folder.resolve(), given.executors) as cluster:
            sys.stdout.write(f"ready {cluster.address}\n")
            sys.stdout.flush()
            signal.pause()
    except KeyboardInterrupt:
        pass
    finally:
        if not given.folder:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
