"""Logs of a real broker, for `docs/v3-savings.md`: ordinary events, sent in full batches, in small ones, and one by one.

python tests/python/kafka/savings.py DIRECTORY         then: magicbyte savings DIRECTORY/* --codec all
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from broker import Broker
from messages import Message, T
from producers import Sender

COUNT = 200_000
#: Topic → settings of librdkafka's producer. Its batches are of 16 KiB, Kafka's default, unless said otherwise.
TOPICS = {
    "full-batches": {"linger_ms": 200, "batch_size": 16_384},
    "batches-of-10": {"linger_ms": 200, "batch_num_messages": 10},
    "one-by-one": {"linger_ms": 0, "batch_num_messages": 1},
}


def events(count: int) -> list[Message]:
    """Clicks of a shop's customers as JSON, with two headers, a few milliseconds apart."""
    source = random.Random(931)
    moment, some = T, []
    for _ in range(count):
        moment += source.randrange(8)
        customer = source.randrange(20_000)
        event = {"customer": customer, "page": f"/shop/{source.randrange(500)}", "ms": source.randrange(900),
                 "agent": source.choice(["firefox", "chrome", "safari"]), "ab": source.choice("AB")}  # fmt: skip
        headers = (("trace-id", source.randbytes(8)), ("content-type", b"application/json"))
        some.append(Message(b"customer-%d" % customer, json.dumps(event).encode(), headers, moment))
    return some


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as root, Broker(Path(root)) as broker:
        for topic, settings in TOPICS.items():
            broker.create_topic(topic, config={"retention.ms": "-1"})
            sender = Sender(broker.bootstrap, queue_buffering_max_messages=1_000_000, **settings)
            sender.send(topic, events(COUNT if topic == "full-batches" else COUNT // 10))
        broker.stop()
        for topic in TOPICS:
            shutil.copytree(broker.partition_dir(topic), target / f"{topic}-0")
        broker.start()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
