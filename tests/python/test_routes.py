"""Routes rebuilt from the trails that records carry, over stored logs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from magicbyte import usage
from magicbyte.middleware.trail import Hop
from magicbyte.routes import routes

from partitions import T, batch, partition

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def hop(who: str, after: int, **fields: object) -> tuple[str, bytes]:
    return "mb.trail", Hop(who, T + after, **fields).to_bytes()  # type: ignore[arg-type]


SENT = hop("shop", 5, cluster="eu", topic="orders")
READ = hop("mirror", 20, source_cluster="eu", source_topic="orders", partition=0, offset=7)
OVER = hop("mirror", 45, cluster="us", topic="orders")
BACK = hop("mirror-2", 100, cluster="eu", topic="orders")


@pytest.mark.parametrize("task_bytes", [1 << 30, 100])
def test_legs_latencies_and_loops(tmp_path: Path, task_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "TASK_BYTES", task_bytes)
    data = batch(0, (b"a", b"1", [SENT]), (b"b", b"2", [SENT, READ, OVER]))
    data += batch(2, (b"c", b"3", [SENT, OVER, BACK]), (b"d", b"4"), (b"e", b"5", [("mb.trail", b"no hop"), SENT]))
    found = routes(partition(tmp_path, data))
    assert [(row["from"], row["to"], row["records"], row["min_ms"], row["max_ms"]) for row in found.table()] == [
        ("shop", "eu:orders", 4, 5, 5),
        ("eu:orders", "us:orders", 2, 40, 40),
        ("us:orders", "eu:orders", 1, 55, 55),
    ]
    assert (found.records, found.trails, found.broken, found.loops) == (5, 4, 1, 1)
    assert '"eu:orders" -> "us:orders" [label="2, 40 ms"];' in found.dot()


def test_what_travels_to_workers_and_back(tmp_path: Path) -> None:
    def run(tasks: Any, work: Any) -> Any:
        tasks, work = pickle.loads(pickle.dumps((tasks, work)))
        return [pickle.loads(pickle.dumps(work(stretch))) for _, stretch in tasks]

    source = partition(tmp_path, batch(0, (b"a", b"1", [SENT, OVER])))
    assert routes(source, run=run) == routes(source)
    assert usage.chargeback(source, "topic", run=run).table() == usage.chargeback(source, "topic").table()


def test_names_that_senders_choose_are_bounded_and_quoted(tmp_path: Path) -> None:
    some = [(b"k", b"v", [hop(f'"; x{n}\n', 1, cluster="eu", topic="t")]) for n in range(5)]
    found = routes(partition(tmp_path, batch(0, *some)), groups=3)
    assert (len(found.legs), found.left_out) == (3, 2)
    assert all(line.count('"') - line.count('\\"') == 6 for line in found.dot().splitlines() if "->" in line)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from magicbyte.cli import main

    directory = str(partition(tmp_path, batch(0, (b"a", b"1", [SENT, OVER, BACK]), (b"b", b"2"))))
    assert main(["trail", directory, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["trails"], told["loops"], len(told["hops"])) == (2, 1, 1, 3)
    assert main(["trail", directory, "--dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph routes {")
    assert main(["trail", directory]) == 0
    assert "2 records, 1 with a trail, 1 of them in a loop" in capsys.readouterr().out
    assert main(["trail", directory, "--header", "none"]) == 3
