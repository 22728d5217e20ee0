"""Every message of Kafka's own topics, in every version, as Kafka wrote it and as Kafka shows it."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte import topics
from magicbyte.topics.messages import Malformed, Reader, find

from places import DATA

VECTORS = [
    json.loads(line) for line in gzip.decompress((DATA / "topics" / "messages.jsonl.gz").read_bytes()).splitlines()
]


def test_every_message_reads_as_kafka_shows_it() -> None:
    assert len(VECTORS) > 180
    for said in VECTORS:
        message = find(said["group"], said["role"], said["number"])
        assert message is not None, said
        reader = Reader(bytes.fromhex(said["hex"]))
        found = message.read(reader, said["version"])
        assert found == said["json"], said
        assert list(found) == list(said["json"]), said  # in the order of the definition
        assert reader.left == 0, said


def test_every_message_cut_short_is_malformed() -> None:
    for said in VECTORS[::2]:
        message, data = find(said["group"], said["role"], said["number"]), bytes.fromhex(said["hex"])
        assert message is not None
        for size in range(len(data)):
            with pytest.raises(Malformed, match="at byte|before byte"):
                message.read(Reader(data[:size]), said["version"])


@settings(max_examples=300, deadline=None)
@given(group=st.sampled_from(list(topics.GROUPS.values())), key=st.binary(max_size=40), value=st.binary(max_size=200))
def test_no_bytes_are_an_exception(group: str, key: bytes, value: bytes) -> None:
    record = mb.ConsumerRecord("t", 0, 1, 2, 0, key, value)
    found = topics.decode(record, group)
    assert (found.error is None) == (found.name != "" and (found.value is not None or found.version is None))


def test_an_array_that_claims_more_than_there_is_takes_no_memory() -> None:
    message = find("offsets", "value", 2)
    assert message is not None
    with pytest.raises(Malformed, match="array of 2147483647, 0 bytes left"):
        message.read(Reader(b"\0\1x\0\0\0\1\xff\xff\xff\xff\x7f\xff\xff\xff"), 0)


def test_committed_offsets_of_a_real_group() -> None:
    found = [topics.decode(record) for record in mb.Log(DATA / "kafka-logs" / "__consumer_offsets-0").records()]
    commits = [one for one in found if one.name == "OffsetCommit"]
    assert commits[0].key == {"group": "pub-group", "topic": "pub.v2-basic-none", "partition": 0}
    assert commits[0].value is not None
    assert (commits[0].value["offset"], commits[0].value["metadata"]) == (1, "meta-é-1")
    members = next(one.value["members"] for one in found if one.value and one.value.get("members"))
    assert members[0]["subscription"]["topics"] == ["pub.v2-basic-none"]
    assert members[0]["assignment"]["assignedPartitions"] == [{"topic": "pub.v2-basic-none", "partitions": [0]}]


def test_a_delete_an_unknown_type_and_a_foreign_topic() -> None:
    key = b"\0\1\0\1g\0\1t\0\0\0\7"
    deleted = topics.decode(mb.ConsumerRecord("__consumer_offsets", 0, 1, 2, 0, key, None))
    assert (deleted.name, deleted.key, deleted.version, deleted.error) == (
        "OffsetCommit", {"group": "g", "topic": "t", "partition": 7}, None, None,
    )  # fmt: skip
    unknown = topics.decode(mb.ConsumerRecord("__consumer_offsets", 0, 1, 2, 0, b"\0\x63", b""))
    assert (unknown.number, unknown.error) == (99, "a message of the unknown type 99")
    newer = topics.decode(mb.ConsumerRecord("__consumer_offsets", 0, 1, 2, 0, key, b"\0\x09"))
    assert newer.name == "OffsetCommit" and newer.error == "OffsetCommitValue of version 9; known are 0 to 4"
    with pytest.raises(ValueError, match="none of Kafka's own topics"):
        topics.decode(mb.ConsumerRecord("orders", 0, 1, 2, 0, b"", b""))


def test_remote_log_metadata_as_kafka_frames_it() -> None:
    # Written by Kafka 4.4's RemoteLogMetadataSerde.
    data = bytes.fromhex(
        "010000076f72646572730000000000000001000000000000000200000003000000000000000005000000000000000600000000000000000a"
        "0000000000000014000000070000018bcfe568000000018bcfe568010200000000000000000000000a0000000400000000"
    )
    found = topics.decode(mb.ConsumerRecord("__remote_log_metadata", 0, 1, 2, 0, None, data))
    assert (found.name, found.number, found.version, found.error) == ("RemoteLogSegmentMetadataRecord", 0, 0, None)
    assert found.value is not None
    assert (found.value["startOffset"], found.value["endOffset"], found.value["segmentSizeInBytes"]) == (10, 20, 1024)
    assert found.value["remoteLogSegmentId"]["topicIdPartition"] == {
        "name": "orders", "id": "AAAAAAAAAAEAAAAAAAAAAg", "partition": 3,
    }  # fmt: skip
