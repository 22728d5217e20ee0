"""The site builds, and every warning is an error: a broken link, a name that the reference does not find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from places import REPOSITORY


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=REPOSITORY, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    reference = (tmp_path / "site" / "reference" / "api" / "index.html").read_text()
    assert 'id="magicbyte.Log"' in reference or "magicbyte.Log" in reference
    # Nothing is loaded from elsewhere: no fonts, no scripts.
    page = (tmp_path / "site" / "index.html").read_text()
    assert "fonts.g" not in page and 'script src="http' not in page
