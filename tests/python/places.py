"""Where test data are: what ships, and the corpus beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "tests" / "data"


def shared_directory() -> Path | None:
    """The directory of the golden corpus and the vectors: MAGICBYTE_SHARED, or `shared` beside the repository."""
    named = os.environ.get("MAGICBYTE_SHARED")
    path = Path(named) if named else REPOSITORY.parent / "shared"
    return path if (path / "golden").is_dir() else None
