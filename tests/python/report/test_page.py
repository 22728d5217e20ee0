"""`magicbyte report`: its figures are those of the other commands, and a hostile log is only text on its page."""

from __future__ import annotations

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import magicbyte as mb
from cli.conftest import HOSTILE, Run, run
from magicbyte.cli.output import show_name

from places import DATA

pytest.importorskip("matplotlib")
LOGS = DATA / "kafka-logs"
EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "$\\frac{1}{2}$",
    HOSTILE,
]

__all__ = ["run"]


class Page(HTMLParser):
    """What a browser would find: scripts, event handlers, addresses, and the cells by section."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.handlers: list[str] = []
        self.addresses: list[str] = []
        self.styles = 0
        self.cells: dict[str, list[str]] = {}
        self.tiles: list[str] = []
        self._in: list[str] = []
        self._section = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in.append(tag)
        given = dict(attrs)
        self._section = given.get("id") or self._section if tag == "section" else self._section
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.styles += "style" in given
        self.addresses += [v or "" for name, v in attrs if name in ("src", "href", "xlink:href", "action", "data")]
        if tag in ("td", "b"):
            (self.cells.setdefault(self._section, []) if tag == "td" else self.tiles).append("")
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._in and self._in[-1] == "script":
            self.scripts[-1] += data
        elif self._in and self._in[-1] == "td":
            self.cells[self._section][-1] += data
        elif self._in and self._in[-1] == "b":
            self.tiles[-1] += data


def page(run: Run, out: Path, *args: object) -> tuple[int, str]:
    ran = run("report", *args, "-o", out)
    assert ran.err == ""
    return ran.status, out.read_text()


def test_the_figures_are_those_of_the_other_commands(run: Run, tmp_path: Path) -> None:
    status, html = page(run, tmp_path / "r.html", LOGS)
    assert status == 0
    found = Page(html)
    [inspected] = run("inspect", LOGS, "--json").json
    [saved] = run("savings", LOGS, "--json").json
    [verified] = run("verify", LOGS, "--json").json
    total = inspected["totals"]
    own = saved["totals"]["compressed"]["own"]
    assert found.tiles[1:] == [
        str(len({p["topic"] for p in inspected["partitions"]})), str(total["partitions"]), f"{total['records']:,}",
        f"{total['batches']:,}", f"{total['headerShare']:.1%}", f"{own['saved'] / own['v2']:.2%}", str(verified["errors"]),
    ]  # fmt: skip
    headers = found.cells["headers"]
    assert [headers[i] for i in range(0, len(headers), 5)] == [show_name(key["key"]) for key in total["headerKeys"]]
    assert [headers[i + 1] for i in range(0, len(headers), 5)] == [f"{key['count']:,}" for key in total["headerKeys"]]
    v3 = found.cells["v3"]
    by_topic = {v3[i]: v3[i + 1 : i + 10] for i in range(0, len(v3), 10)}
    for topic in saved["topics"]:
        if topic["batches"]:
            plain, compressed = topic["uncompressed"], topic["compressed"]["own"]
            cells = by_topic[topic["topic"]]
            expected = [topic["batches"], plain["v2"], plain["v3"], plain["saved"], compressed["v2"], compressed["v3"]]
            assert [cells[i] for i in (0, 1, 2, 3, 5, 6)] == [f"{n:,}" for n in expected]
    assert by_topic["all"][5] == f"{own['v2']:,}"
    kinds = found.cells["defects"][: 3 * len(verified["counts"])]
    assert {(kinds[i + 1], kinds[i], kinds[i + 2]) for i in range(0, len(kinds), 3)} == {
        (c["kind"], c["severity"], f"{c['count']:,}") for c in verified["counts"]
    }


def test_framing_is_what_is_left_of_a_batch(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "orders-0"
    log.mkdir()
    data = mb.encode([mb.ProducerRecord("orders", b"vv", b"k", [("h", b"x")])] * 10, format="v2")
    (log / "00000000000000000000.log").write_bytes(data)
    _, html = page(run, tmp_path / "r.html", log)
    cells = Page(html).cells["topics"]
    assert cells[6:10] == ["10 B", "20 B", "20 B", f"{len(data) - 50} B"]


def test_damage_is_on_the_page_and_in_the_status(run: Run, tmp_path: Path) -> None:
    log = tmp_path / "orders-0"
    log.mkdir()
    data = bytearray(mb.encode([mb.ProducerRecord("orders", b"v")]))
    data[-1] ^= 1
    (log / "00000000000000000000.log").write_bytes(data)
    status, html = page(run, tmp_path / "r.html", log)
    assert status == 1
    assert "not sound" in html and "crc" in Page(html).cells["defects"]


def test_a_hostile_log_is_text(run: Run, tmp_path: Path) -> None:
    logs = tmp_path / "".join(EVIL).replace("/", "∕").replace("\0", "")[:80]
    for number, evil in enumerate(EVIL):
        # The name of what holds the partitions is chosen by somebody else, too; those of partitions are Kafka's.
        log = logs / f"t{number}-{number}"
        log.mkdir(parents=True)
        records = [mb.ProducerRecord("t", evil.encode(), evil.encode(), [(evil, evil.encode())], timestamp=2**62)]
        data = bytearray(mb.encode(records))
        data += data[:30]
        (log / f"{0:020}.log").write_bytes(data)
        (log / f"{0:020}.log{evil.replace('/', '')[:9].replace(chr(0), '')}.deleted").write_bytes(b"")
    _, html = page(run, tmp_path / "r.html", logs)
    found = Page(html)
    assert len(found.scripts) == 1 and "alert" not in found.scripts[0]
    assert found.handlers == [] and found.styles == 0
    assert all(address.startswith(("#", "data:,")) for address in found.addresses)
    assert not {c for c in html if not c.isprintable()} - {"\n"}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1] and "unsafe" not in policy[1] and "http" not in policy[1]
    # Namespaces are names, not addresses; there is no other.
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    # Every picture's ids are its own.
    ids = re.findall(r' id="([^"]*)"', html)
    assert len(ids) == len(set(ids))


def test_nothing_to_read_and_nothing_to_draw_with(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "orders-0"
    empty.mkdir()
    (empty / "00000000000000000000.log").write_bytes(b"")
    assert run("report", empty, "-o", tmp_path / "r.html").status == 3
    assert not (tmp_path / "r.html").exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    ran = run("report", LOGS, "-o", tmp_path / "r.html")
    assert ran.status == 2 and "magicbyte[report]" in ran.err


def test_a_timeline_stays_small_and_loses_nothing() -> None:
    from magicbyte.cli.reporting.watch import MOST_BINS, Timeline

    one, other = Timeline(), Timeline()
    one.times(range(0, 40_000_000, 1000))
    other.times([5, 86_400_000 * 365, -1])
    one.merge(other)
    assert len(one.bins) <= MOST_BINS and sum(one.bins.values()) == 40_002
    width, points = one.points(100)
    assert len(points) <= 100 and sum(count for _, count in points) == 40_002
    assert all(start % width == 0 for start, _ in points)


def test_the_two_ways_to_read_agree(tmp_path: Path) -> None:
    """Record by record for little, Arrow columns for much."""
    pytest.importorskip("pyarrow")
    from magicbyte.cli.gather import Gather
    from magicbyte.cli.options import Selection
    from magicbyte.cli.reporting.watch import Watch

    for arrow in (True, False):
        watch = Watch()
        for part in mb.Log(LOGS).parts():
            Gather(Selection(mode="DROPMALFORMED"), arrow=arrow, watch=watch).segment(part, 1)
        if arrow:
            first = watch
    assert (first.sizes, first.counts, first.timeline, first.producers) == (
        watch.sizes, watch.counts, watch.timeline, watch.producers,
    )  # fmt: skip


def test_the_stretch_where_nearly_all_lie() -> None:
    from magicbyte.cli.reporting.watch import Timeline

    line = Timeline()
    for second in range(1000):
        line.add(1_700_000_000 + second, 100)
    line.add(5, 3)
    line.add(1_900_000_000, 7)
    dense = line.dense(0.99)
    assert min(dense.bins) >= 1_700_000_000 and max(dense.bins) < 1_700_001_000
    assert sum(dense.bins.values()) >= 0.99 * sum(line.bins.values()) and dense.span == 1000 * len(dense.bins)
    # Without one bin less it would not be enough.
    assert sum(dense.bins.values()) - 100 < 0.99 * sum(line.bins.values())
    assert line.dense(1.0).span == line.span
    alone = Timeline()
    alone.add(7, 1)
    assert alone.dense(0.99).bins == {7: 1}


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0, "0.0%"),
        (1, "100.0%"),
        (0.5, "50.0%"),
        (1e-9, "<0.1%"),
        (1 - 1e-9, ">99.9%"),
        (0.0005, "0.1%"),
        (0.9994, "99.9%"),
    ],
)
def test_a_share_that_is_there_is_not_nothing_and_what_is_not_all_is_not_all(share: float, shown: str) -> None:
    from magicbyte.cli.reporting.sections import _share

    assert _share(share) == shown
