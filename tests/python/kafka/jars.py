"""The broker's jars: found in a cache directory, or resolved once from the committed pom by ``mvn``."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
FILES = REPO / "tests" / "kafka"

# Newer copies of the plugin work as well; a fixed one keeps the resolution the same everywhere.
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

# What mvn says when the network, and not the pom, is at fault.
_OFFLINE = re.compile(
    r"Could not transfer|Unknown host|UnknownHost|Network is unreachable|Connection (refused|timed out|reset)"
    r"|Temporary failure in name resolution|cannot access .* in offline mode|ConnectTimeout|SocketTimeout"
)


class Unavailable(Exception):
    """This machine can't run a broker; the text says what is missing."""


@functools.cache
def java() -> str:
    """The ``java`` command, at least version 17 and with its compiler (the Java consumer is started from source).

    Raises:
        Unavailable: there is none, or it is older, or it is a runtime without a compiler.
    """
    command = shutil.which("java")
    if command is None:
        raise Unavailable("java is not installed")
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if version is None or int(version[1]) < 17:
        raise Unavailable(f"Kafka 4 needs Java 17, {command} is {version[1] if version else 'unknown'}")
    modules = subprocess.run([command, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler" not in modules:
        raise Unavailable(f"{command} is a runtime without a compiler (a JDK is needed)")
    return command


def java_with(*options: str) -> list[str]:
    """The command for a program on the broker's jars, which logs as the tests' `log4j2.xml` says; its class or file follows."""
    always = [
        "-XX:+UseSerialGC",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dlog4j2.configurationFile={FILES / 'log4j2.xml'}",
    ]
    return [java(), *always, *options, "-cp", f"{lib()}/*"]


def answering(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a Java program of ours that answers on its standard output what it is asked on its standard input."""
    command = java_with("-Xmx192m", "-Dmagicbyte.log=err", "-Dmagicbyte.level=WARN")
    return subprocess.Popen(
        [*command, str(FILES / "java" / program), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", start_new_session=True,
    )  # fmt: skip


@functools.cache
def lib() -> Path:
    """The directory of the broker's jars: ``MAGICBYTE_KAFKA_LIB``, else ``target/kafka/lib``, filled on first use.

    Raises:
        Unavailable: mvn is missing, or Maven Central can't be reached.
        RuntimeError: mvn failed for another reason, with its output.
    """
    named = os.environ.get("MAGICBYTE_KAFKA_LIB")
    if named:
        if not any(Path(named).glob("kafka_2.13-*.jar")):
            raise RuntimeError(f"MAGICBYTE_KAFKA_LIB={named} holds no kafka_2.13 jar")
        return Path(named)
    cache = REPO / "target" / "kafka"
    done = cache / "lib"
    if done.is_dir() and (done / "pom.xml").read_bytes() == (FILES / "pom.xml").read_bytes():
        return done
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable("mvn is not installed, and MAGICBYTE_KAFKA_LIB names no directory of jars")
    # Filled aside and renamed: an interrrupted download is never taken for a whole one.
    part = cache / f"lib.{os.getpid()}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    said = subprocess.run(
        [
            mvn,
            "-q",
            "-B",
            "-f",
            str(FILES / "pom.xml"),
            COPY_GOAL,
            f"-DoutputDirectory={part}",
            "-DincludeScope=runtime",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if said.returncode != 0:
        shutil.rmtree(part, ignore_errors=True)
        words = said.stdout + said.stderr
        if _OFFLINE.search(words):
            raise Unavailable("Maven Central can't be reached")
        raise RuntimeError(f"mvn could not resolve the broker's jars:\n{words}")
    shutil.copy(FILES / "pom.xml", part / "pom.xml")
    shutil.rmtree(done, ignore_errors=True)
    part.rename(done)
    return done
