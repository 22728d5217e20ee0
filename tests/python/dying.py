"""A process that dies in the middle of the Spark sink's commit, as far as the commit can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from magicbyte.spark import commit
from magicbyte.spark.commit import Move

JOB = "0123abcd"


class Died(BaseException):
    """The process ends here: nothing of it cleans up."""


def dies_at(at: int, root: Path, moves: list[Move], stream: tuple[str, int] | None, patch: pytest.MonkeyPatch) -> None:
    """Carries out the commit of ``moves`` until ``at`` of them are made."""
    done: list[Move] = []
    forward = Move.forward

    def dies(self: Move, root: Path) -> None:
        if len(done) == at:
            raise Died
        done.append(self)
        forward(self, root)

    with patch.context() as own:
        own.setattr(Move, "forward", dies)
        own.setattr(Move, "back", lambda self, root: None)
        own.setattr(commit, "_forget", lambda *given: (_ for _ in ()).throw(Died))
        with commit.locked(root), pytest.raises(Died):
            commit.carry_out(root, JOB, moves, stream)
