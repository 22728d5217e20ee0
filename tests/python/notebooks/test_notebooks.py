"""The example notebooks run from top to bottom, and a log shows in them as a table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import magicbyte as mb

from places import DATA, REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    # It may write beside itself: not into the repository.
    shutil.copy(path, tmp_path)
    monkeypatch.setenv("KAFKA_LOGS", str(DATA / "kafka-logs"))
    notebook = nbformat.read(tmp_path / path.name, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert shown and not [out for out in shown if out["output_type"] == "error"]
    assert any("<table>" in out.get("data", {}).get("text/html", "") for out in shown)


def test_notebooks_are_kept_without_what_they_printed() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs") and cell.get("execution_count") is None, path


def test_a_log_shows_as_a_table() -> None:
    html = mb.Log(DATA / "kafka-logs")._repr_html_()
    assert html.count("<tr>") == 24 and "<td>payments</td><td>0</td><td>6</td>" in html
    assert "<td>?</td>" in mb.Log(mb.encode([mb.ProducerRecord("t", b"v")]))._repr_html_()


def test_names_in_the_table_are_text(tmp_path: Path) -> None:
    place = tmp_path / "<img src=x onerror=alert(1)>\x1b[31m"
    (place / "t-0").mkdir(parents=True)
    (place / "t-0" / f"{0:020}.log").write_bytes(b"")
    html = mb.Log(place)._repr_html_()
    assert "<img" not in html and "&lt;img" in html and "\x1b" not in html
