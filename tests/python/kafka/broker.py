"""A real Kafka broker for tests: one KRaft node on 127.0.0.1, its ports and its data its own.

    with Broker(tmp_path) as broker:
        broker.create_topic("orders", partitions=2)
        ...                                  # any client, at broker.bootstrap
        broker.segments("orders", 0)         # the .log files of orders-0, oldest first
        broker.restart()                     # same ports, same data, a higher leader epoch

Partition directories may be read at any time. They may be added or changed only between ``stop`` and ``start``.
"""

from __future__ import annotations

import atexit
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from jars import FILES, Unavailable, java_with

__all__ = ["Broker", "BrokerError", "Unavailable"]

CLUSTER_ID = "bWFnaWNieXRlLXRlc3RzMQ"
READY = "Kafka Server started"
PORT_TAKEN = ("Address already in use", "BindException")


class BrokerError(Exception):
    """The broker did not start, or did not stop; the text holds the end of its log."""


def free_port() -> int:
    """A port that nobody listens on, below the range that the kernel gives to outgoing connections: a client that
    knocks while the broker is down could otherwise be given the broker's own port, and keep it."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Broker:
    """One broker. ``root`` gets ``data`` (``log.dirs``), ``server.properties`` and a log file for each start."""

    def __init__(self, root: Path, *, heap: str = "400m", settings: dict[str, str] | None = None) -> None:
        self.root = root
        self.heap = heap
        self.settings = dict(settings or {})
        self.data_dir = root / "data"
        self.ports = (0, 0)
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    # Life

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients; stays the same over restarts."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def log_file(self) -> Path:
        """What the broker said since its latest start."""
        return self.root / f"broker-{self._starts}.log"

    def start(self, *, timeout: float = 300) -> Broker:
        """Formats the storage on the first start, starts, and returns when clients are served.

        Raises:
            Unavailable: no Java, or no jars.
            BrokerError: it ended, or was not ready within ``timeout`` seconds.
        """
        if self.running:
            return self
        if self.data_dir.exists():
            return self._launch(timeout)
        # Another process may take a port between our probe and the broker's bind: then with new ports.
        for attempt in range(3):
            self.ports = (free_port(), free_port())
            self._format()
            try:
                return self._launch(timeout)
            except BrokerError:
                said = self.log_file.read_text(errors="replace")
                if attempt == 2 or not any(words in said for words in PORT_TAKEN):
                    raise
                shutil.rmtree(self.data_dir)
        raise AssertionError("unreachable")

    def stop(self, *, timeout: float = 180) -> None:
        """Asks the broker to end (SIGTERM: it flushes, trims its index files, writes clean-shutdown marks) and waits.

        Raises:
            BrokerError: it had to be killed, or had died before.
        """
        process = self._process
        if process is None:
            return
        if process.poll() is not None:
            self._process = None
            raise BrokerError(f"the broker had died with {process.returncode}:\n{self._tail()}")
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"the broker did not stop within {timeout} s:\n{self._tail()}") from None
        self._process = None

    def kill(self) -> None:
        """Ends the broker at once (SIGKILL), as a crash would: preallocated index files stay, the next start recovers.

        That start takes some seconds more: the controller waits until it believes the old process dead.
        """
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> Broker:
        """Stops in good order and starts again; partitions get a higher leader epoch."""
        self.stop()
        return self.start()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop() if kind is None else self.kill()

    # Topics and files

    def admin(self) -> AdminClient:
        """A new admin client of this broker."""
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Creates a topic and returns its name, once a leader serves each of its partitions and its files are there.

        ``config`` are topic settings in Kafka's own words. Kafka 4 refuses ``segment.bytes`` below 1 MiB; for smaller
        segments give ``internal.segment.bytes``.
        """
        admin = self.admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        admin.create_topics([topic])[name].result(120)
        deadline = time.monotonic() + 120
        while True:
            described = admin.list_topics(name, timeout=120).topics[name]
            led = [p for p in described.partitions.values() if p.leader == 1]
            # The leader is known before it has made the partition's first files.
            if len(led) == partitions and all(self.segments(name, number) for number in range(partitions)):
                break
            if time.monotonic() > deadline:
                raise BrokerError(f"{name} has no leader, or no files, after 120 s")
            time.sleep(0.05)
        return name

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The high watermark: the offset that the next record gets."""
        asked = TopicPartition(topic, partition)
        admin = self.admin()  # named: its futures never resolve once the client is collected
        offset: int = admin.list_offsets({asked: OffsetSpec.latest()})[asked].result(120).offset
        return offset

    def partition_dir(self, topic: str, partition: int = 0) -> Path:
        """The directory of a topic-partition."""
        return self.data_dir / f"{topic}-{partition}"

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        """The ``.log`` files of a topic-partition, oldest first, the active one last."""
        return sorted(self.partition_dir(topic, partition).glob("*.log"))

    def copy(self, topic: str, partition: int, target: Path) -> Path:
        """Copies a topic-partition's directory while the broker may be at work in it.

        It renames and removes what its cleaner replaced, whenever it likes: then the copy is made anew. What is about to be
        removed is left out.
        """
        for tried in range(20):
            try:
                leaving = shutil.ignore_patterns("*.deleted", "*.swap", "*.cleaned")
                return Path(shutil.copytree(self.partition_dir(topic, partition), target, ignore=leaving))
            except (shutil.Error, FileNotFoundError):
                shutil.rmtree(target, ignore_errors=True)
                time.sleep(0.2 * tried)
        raise BrokerError(f"{topic}-{partition} was never still for long enough to be copied")

    def put(self, topic: str, partition: int, files: Iterable[Path]) -> None:
        """Gives an existing, empty topic-partition other files: segments and what stands beside them. Only while stopped.

        ``partition.metadata`` (the topic's id) stays; all else goes first. What is missing of indexes, producer snapshots
        and the leader-epoch checkpoint the broker makes anew at its start, from the segments.
        """
        if self.running:
            raise BrokerError("a running broker would not see the files, and would overwrite them")
        directory = self.partition_dir(topic, partition)
        for path in directory.iterdir():
            if path.name != "partition.metadata":
                path.unlink()
        for path in files:
            if path.name != "partition.metadata":
                shutil.copy(path, directory / path.name)

    def checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """A checkpoint file of the data directory (``cleaner-offset-checkpoint``, ``recovery-point-offset-checkpoint``,
        ``log-start-offset-checkpoint``, ``replication-offset-checkpoint``) as offsets by (topic, partition)."""
        path = self.data_dir / name
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        fields = (line.rsplit(" ", 2) for line in lines)
        return {(topic, int(partition)): int(offset) for topic, partition, offset in fields}

    def wait_cleaned(self, topic: str, partition: int = 0, *, timeout: float = 240) -> None:
        """Waits until the log cleaner has been through every segment but the active one.

        Raises:
            BrokerError: not within ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            bound = int(self.segments(topic, partition)[-1].stem)
            if 0 < bound <= self.checkpoint("cleaner-offset-checkpoint").get((topic, partition), -1):
                return
            if time.monotonic() > deadline:
                raise BrokerError(f"{topic}-{partition} was not cleaned within {timeout} s:\n{self._tail()}")
            time.sleep(0.1)

    # Inside

    def _format(self) -> None:
        self.data_dir.mkdir(parents=True)
        port, controller = self.ports
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
        own = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        lines = [(FILES / "server.properties").read_text(), *(f"{key}={value}" for key, value in own.items()), ""]
        (self.root / "server.properties").write_text("\n".join(lines))
        command = self._java("128m", "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c")
        said = subprocess.run(
            [*command, str(self.root / "server.properties")], capture_output=True, text=True, check=False
        )
        if said.returncode != 0:
            shutil.rmtree(self.data_dir)
            raise BrokerError(f"the storage was not formatted:\n{said.stdout}{said.stderr}")

    def _launch(self, timeout: float) -> Broker:
        self._starts += 1
        command = self._java(self.heap, "kafka.Kafka", str(self.root / "server.properties"))
        # Should this process be killed, Linux ends the broker too.
        if bound := shutil.which("setpriv"):
            command = [bound, "--pdeathsig", "TERM", "--", *command]
        with self.log_file.open("wb") as out:
            # A session of its own: Ctrl-C reaches us, and we stop it in good order.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.root,
            )
        atexit.register(self.kill)
        deadline = time.monotonic() + timeout
        while READY not in self.log_file.read_text(errors="replace"):
            if not self.running:
                self._process = None
                raise BrokerError(f"the broker ended while starting:\n{self._tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"the broker was not ready within {timeout} s:\n{self._tail()}")
            time.sleep(0.05)
        return self

    def _java(self, heap: str, *arguments: str) -> list[str]:
        return [*java_with(f"-Xmx{heap}"), *arguments]

    def _tail(self) -> str:
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-40:])
