"""The pages of `chargeback --plot` and `trail --plot`: the figures of the table, a picture, and names only as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Run, run
from magicbyte.middleware.trail import Hop
from report.test_page import EVIL, Page

from partitions import T, batch, partition

pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

__all__ = ["run"]


def harmless(text: str) -> Page:
    page = Page(text)
    assert len(page.scripts) == 1
    assert not page.handlers
    assert not page.styles
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    return page


def test_chargeback(run: Run, tmp_path: Path) -> None:
    records = [(b"k", b"value", [("tenant", name.encode())]) for name in EVIL for _ in range(3)]
    log = partition(tmp_path, batch(0, *records, (b"k", b"v")))
    ended = run("chargeback", log, "--by", "tenant", "--plot", tmp_path / "usage.html")
    assert ended.status == 0
    assert "SHARE" in ended.out
    page = harmless((tmp_path / "usage.html").read_text("utf-8"))
    cells = page.cells["usage"]
    rows = [cells[at : at + 7] for at in range(0, len(cells), 7)]
    assert sorted(row[1] for row in rows) == ["1", *["3"] * len(EVIL)]
    assert "<svg" in (tmp_path / "usage.html").read_text("utf-8")


def test_trail(run: Run, tmp_path: Path) -> None:
    def hop(who: str, after: int, cluster: str) -> tuple[str, bytes]:
        return "mb.trail", Hop(who, T + after, cluster=cluster, topic="orders").to_bytes()

    records = [(b"k", b"v", [hop(name, 1, "eu"), hop("m", 9, "us"), hop("m", 30, "eu")]) for name in EVIL]
    records.append((b"k", b"v", [hop("a", 1, "eu"), hop("b", 2, "eu")]))
    log = partition(tmp_path, batch(0, *records))
    ended = run("trail", log, "--plot", "-")
    assert ended.status == 0
    page = harmless(ended.out)
    assert str(len(records)) in page.tiles
    assert "eu:orders" in page.cells["routes"]
    assert "8 ms" in page.cells["routes"]


@pytest.mark.parametrize(
    ("hops", "wanted"),
    [
        ([("a", "b", ""), ("b", "c", ""), ("a", "c", "")], [["a"], ["b", "c"]]),
        ([("a", "b", ""), ("b", "a", "")], [["a"], ["b"]]),
        ([("a", "a", "")], [["a"]]),
        (
            [("s", "b", ""), ("b", "c", ""), ("c", "b", ""), ("x", "y", ""), ("y", "x", "")],
            [["s", "x"], ["b", "y"], ["c"]],
        ),
    ],
)
def test_places_stand_below_those_that_lead_there(hops: list[tuple[str, str, str]], wanted: list[list[str]]) -> None:
    from magicbyte.cli.reporting.routes import levels

    assert levels(hops) == wanted
