"""Middlewares on record headers: each one file, independent of the others, and composed by ``interceptors.Chain``.

They see bytes, on either side of the wire, and do not know of each other. Their own headers are configurable; input that is
forged, cut, repeated or of another encoding never breaks a record: it is passed on, quarantined or rejected, and counted.
A middleware is imported from its own module, so that only what is used needs its libraries.
"""

from ._base import (
    QUARANTINE_HEADER,
    BadHeaderError,
    Counts,
    HeaderMiddleware,
    HeaderName,
    Policy,
    Quarantine,
    header_name,
    mark,
    quarantined,
)

__all__ = [
    "QUARANTINE_HEADER",
    "BadHeaderError",
    "Counts",
    "HeaderMiddleware",
    "HeaderName",
    "Policy",
    "Quarantine",
    "header_name",
    "mark",
    "quarantined",
]
