"""What the optional extras bring: whoever lacks something is told which extra has it."""

from __future__ import annotations

from types import ModuleType, TracebackType

__all__ = ["extra", "pyarrow"]


class extra:
    """Stands around imports of what an extra brings, as a statement: ``with extra("crypto"): import …``

    Raises:
        ModuleNotFoundError: as the import does, with what to install.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, ModuleNotFoundError) or "pip install" in str(error):
            return
        if (error.name or "magicbyte").partition(".")[0] != "magicbyte":
            told = f"{error}; pip install 'magicbyte[{self.name}]'"
            raise ModuleNotFoundError(told, name=error.name, path=error.path) from None


def pyarrow() -> ModuleType:
    """pyarrow, for the core."""
    with extra("arrow"):
        import pyarrow as module
    found: ModuleType = module
    return found
