"""The core's names of formats and codecs, for whoever must list them before the core is imported."""

from __future__ import annotations

#: How a log is read: ``kafka`` is v0 to v3 mixed; or the one format to accept.
FORMATS = ("kafka", "kip87", "kip82a", "kip82b", "v0", "v1", "v2", "v3")
#: What is written, in the order of the core's table.
TARGETS = ("v0", "v1", "v2", "v3", "kip87", "kip82a", "kip82b")
#: By their numbers in a batch's attributes.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
