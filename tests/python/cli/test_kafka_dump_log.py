"""`magicbyte kafka-dump-log` against what Kafka's own tool printed of the same files (tests/data/topics/kafka-dump-log)."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from cli.conftest import Run, assert_harmless
from magicbyte.cli.output import escape

from places import DATA

GOLDEN = DATA / "topics" / "kafka-dump-log"
OWN = DATA / "topics" / "logs"


def golden(name: str) -> str:
    return gzip.decompress((GOLDEN / name).read_bytes()).decode()


def files(text: str) -> str:
    return ",".join(line.removeprefix("Dumping ") for line in text.splitlines() if line.startswith("Dumping "))


@pytest.mark.parametrize(
    "name, where, option",
    [
        ("deep.txt.gz", "kafka-logs", "--deep-iteration"),
        ("verify-index.txt.gz", "kafka-logs", "--verify-index-only"),
        ("sanity.txt.gz", "kafka-logs", "--index-sanity-check"),
    ],
)
def test_the_same_lines(name: str, where: str, option: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / where)
    said = golden(name)
    ran = run("kafka-dump-log", "--files", files(said), option)
    assert ran.lines == said.splitlines()
    if name == "deep.txt.gz":
        # Where an index and offsets are at odds, too; in Kafka's tool the files come in no order.
        assert ran.status == 1
        told = ran.err.replace(f"{DATA / where}/", "").splitlines()
        assert sorted(told) == sorted((GOLDEN / "deep.err").read_text().splitlines())


def test_the_same_contents_with_controls_as_escapes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "kafka-logs")
    said = golden("contents.txt.gz")
    ran = run("kafka-dump-log", "--files", files(said), "--print-data-log")
    # Kafka prints what is there, line breaks too: those are escapes here, so both are compared as one line.
    # How many replacement characters stand for some bytes that are no UTF-8 is each language's own.
    ours, kafkas = (re.sub("\ufffd+", "?", text) for text in ("\\n".join(ran.out.split("\n")), escape(said)))
    assert ours == kafkas
    assert_harmless(ran.out)


def test_kafkas_own_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN)
    said = golden("own.txt.gz")
    ours = run("kafka-dump-log", "--files", files(said), "--deep-iteration").lines
    differ = [(one, other) for one, other in zip(said.splitlines(), ours, strict=True) if one != other]
    # That tool was of Kafka 3.7, and did not know KIP-853's control records.
    assert len(differ) == 4
    assert all(
        "controlType: UNKNOWN" in one and ("KRaftVersion {" in other or "KRaftVoters {" in other)
        for one, other in differ
    )


def test_metadata_records(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OWN)
    said = golden("metadata.txt.gz").splitlines()
    path = "__cluster_metadata-0/00000000000000000000.log"
    ours = run("kafka-dump-log", "--files", path, "--cluster-metadata-decoder", "--skip-record-metadata").lines
    differ = [(one, other) for one, other in zip(said, ours, strict=True) if one != other]
    # A record of Kafka 4.4 that Kafka 3.7 can't read, has no field for, or calls otherwise.
    for one, other in differ:
        renamed = one.replace("lastKnownELR", "lastKnownElr").replace(
            '"brokerEpoch":16}}', '"brokerEpoch":16,"cordonedLogDirs":[]}}'
        )
        assert "Error at" in one or renamed == other
    assert len(differ) < len(ours) / 10


@pytest.mark.parametrize(
    "option, path, expected",
    [
        ("--offsets-decoder", "kafka-logs/__consumer_offsets-0", 'key: {"type":"1","data":{"group":"pub-group","topic":"pub.v2-basic-none","partition":0}} payload: {"version":"4","data":{"offset":1,"leaderEpoch":-1,"metadata":"meta-é-1",'),  # noqa: E501
        ("--transaction-log-decoder", "topics/logs/__transaction_state-0", 'key: {"type":"0","data":{"transactionalId":"ct-second"}} payload: {"version":"1","data":{"producerId":2,'),  # noqa: E501
    ],
)  # fmt: skip
def test_decoders(option: str, path: str, expected: str, run: Run) -> None:
    ran = run("kafka-dump-log", "--files", DATA / path / "00000000000000000000.log", option)
    assert ran.status == 0
    assert expected in ran.out


def test_plain_decoders(tmp_path: Path, run: Run) -> None:
    import magicbyte as mb

    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(mb.encode([mb.ProducerRecord("t", (7).to_bytes(8, "big"), (5).to_bytes(4, "big"))]))
    ran = run(
        "kafka-dump-log", "--files", path, "--key-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder",
        "--value-decoder-class", "kafka.serializer.LongDecoder",
    )  # fmt: skip
    assert ran.lines[-1].endswith("key: 5 payload: 7")


def test_a_part_of_a_log(run: Run) -> None:
    log = DATA / "kafka-logs" / "basic-0" / "00000000000000000000.log"
    ran = run("kafka-dump-log", "--files", log, "--max-bytes", "2000")
    # Whole batches up to there, and no word on what was not asked for: as Kafka's tool.
    assert [line.split(" ")[0] for line in ran.lines] == ["Dumping", "Log", "baseOffset:"]
    assert (ran.status, ran.err) == (0, "")


def test_wrong_usage_says_what_to_do(run: Run, tmp_path: Path) -> None:
    ran = run("kafka-dump-log", "--files", "x.log", "--value-decoder-class", "com.acme.Mine")
    assert ran.status == 2 and "no Java runs here" in ran.err and "StringDecoder" in ran.err
    assert run("kafka-dump-log").status == 2
    other = tmp_path / "notes.txt"
    other.write_text("x")
    ran = run("kafka-dump-log", "--files", other)
    assert ran.status == 3 and "left out" in ran.err


def test_damage_ends_with_its_place(damaged: Path, run: Run) -> None:
    ran = run("kafka-dump-log", "--files", damaged, "--deep-iteration")
    assert ran.status == 1
    assert "isvalid: false" in ran.out and "Found 40 invalid bytes at the end of" in ran.out
    snapshot = damaged.with_suffix(".snapshot")
    good = bytearray((OWN / "producers-0").glob("*.snapshot").__next__().read_bytes())
    good[-1] ^= 1
    snapshot.write_bytes(good)
    ran = run("kafka-dump-log", "--files", snapshot)
    assert ran.status == 1 and "wrong checksum" in ran.err
