"""Where schemas are kept: in memory, in a directory, or in a schema registry through confluent-kafka's client.

All of them give a schema for an integer id, for a GUID, and for the MD5 of its canonical form; a schema is JSON text. The first two
derive the GUID from the MD5, so that the same schema has the same GUID everywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from magicbyte._extras import extra

with extra("avro"):
    import fastavro

__all__ = ["ConfluentRegistry", "DirectoryRegistry", "MemoryRegistry", "Registered", "Registry", "md5_of"]

KNOWN = 4096
"""Schemas that an adapter remembers; so many are in use at once nowhere."""
UNKNOWN_SECONDS = 60
"""How long an id that the registry did not know is not asked for again."""
ID_FILE = re.compile(r"(\d{1,10})\.avsc")


class Registered(NamedTuple):
    """A schema in a registry."""

    schema: str
    id: int
    guid: str


class Registry(Protocol):
    """Threads may share it; Spark pickles it."""

    def register(self, subject: str, schema: str) -> Registered:
        """The schema's id and GUID; it is added under the subject if it is not there."""

    def by_id(self, id: int) -> str | None:
        """The schema of an id."""

    def by_guid(self, guid: str) -> str | None:
        """The schema of a GUID, given in small letters with dashes."""

    def by_md5(self, md5: bytes) -> str | None:
        """The schema whose canonical form has this MD5 (16 bytes)."""


def md5_of(schema: str) -> bytes:
    """The MD5 of an Avro schema's parsing canonical form, one of the fingerprints that the Avro specification names: it tells
    schemas apart, and says nothing of who made them.

    Raises:
        ValueError: no Avro schema.
    """
    canonical = fastavro.schema.to_parsing_canonical_form(fastavro.parse_schema(json.loads(schema)))
    return hashlib.md5(canonical.encode(), usedforsecurity=False).digest()


class MemoryRegistry:
    """A registry in memory, for tests and for single jobs. Ids count from 1."""

    def __init__(self, schemas: Mapping[int, str] | None = None) -> None:
        self._lock = threading.Lock()
        self.schemas: dict[int, str] = {}
        self._md5: dict[bytes, int] = {}
        for id, schema in (schemas or {}).items():
            self._add(id, schema)

    def _add(self, id: int, schema: str) -> None:
        self.schemas[id] = schema
        self._md5.setdefault(md5_of(schema), id)

    def register(self, subject: str, schema: str) -> Registered:
        """As ``Registry``; a schema has one id, whatever the subject."""
        md5 = md5_of(schema)
        with self._lock:
            id = self._md5.get(md5)
            if id is None:
                id = max(self.schemas, default=0) + 1
                self._add(id, schema)
            return Registered(self.schemas[id], id, str(uuid.UUID(bytes=md5)))

    def by_id(self, id: int) -> str | None:
        """As ``Registry``."""
        return self.schemas.get(id)

    def by_guid(self, guid: str) -> str | None:
        """As ``Registry``."""
        return self.by_md5(uuid.UUID(guid).bytes)

    def by_md5(self, md5: bytes) -> str | None:
        """As ``Registry``."""
        id = self._md5.get(md5)
        return None if id is None else self.schemas[id]

    def __reduce__(self) -> tuple[object, ...]:
        return (MemoryRegistry, (dict(self.schemas),))


class DirectoryRegistry:
    """A registry in a directory: ``7.avsc`` is the schema of id 7. Other ``.avsc`` files are found by their MD5 and GUID.

    Several processes may register at once. What others add is seen when something is asked for that is not known yet, and the
    last look was ``every`` seconds ago.
    """

    def __init__(self, path: str | os.PathLike[str], *, every: float = 1.0) -> None:
        self.path, self.every = Path(path), every
        self._looked = float("-inf")
        self._lock = threading.Lock()
        self._ids: dict[int, str] = {}
        self._md5: dict[bytes, tuple[int | None, str]] = {}
        self._seen: dict[str, int] = {}
        self._highest = 0

    def _look(self) -> None:
        """Reads the files that are new."""
        for entry in sorted(self.path.glob("*.avsc")):
            number = ID_FILE.fullmatch(entry.name)
            id = int(number[1]) if number else None
            self._highest = max(self._highest, id or 0)  # taken, whatever is in it
            stamp = entry.stat().st_mtime_ns
            if self._seen.get(entry.name) == stamp:
                continue
            self._seen[entry.name] = stamp
            try:
                text = entry.read_text()
                md5 = md5_of(text)
            except Exception:  # a file that is half written, or no schema: it is looked at again when it has changed
                continue
            if id is not None:
                self._ids[id] = text
            if md5 not in self._md5 or self._md5[md5][0] is None:
                self._md5[md5] = (id, text)

    def _find(self, known: Callable[[], str | None]) -> str | None:
        with self._lock:
            if (found := known()) is None and time.monotonic() - self._looked >= self.every:
                self._look()
                found = known()
                self._looked = time.monotonic()
            return found

    def register(self, subject: str, schema: str) -> Registered:
        """As ``Registry``; a schema has one id, whatever the subject.

        Raises:
            OSError: the directory cannot be written.
        """
        md5 = md5_of(schema)
        guid = str(uuid.UUID(bytes=md5))
        with self._lock:
            while True:
                self._look()
                id, text = self._md5.get(md5, (None, schema))
                if id is not None:
                    return Registered(text, id, guid)
                own = self.path / f"{self._highest + 1}.avsc"
                # Written aside and linked: nobody reads half a schema, and of two who take the same id one goes on to the next.
                aside = self.path / f".{uuid.uuid4()}.tmp"
                aside.write_text(schema)
                try:
                    os.link(aside, own)
                except FileExistsError:
                    continue
                finally:
                    aside.unlink()

    def by_id(self, id: int) -> str | None:
        """As ``Registry``."""
        return self._find(lambda: self._ids.get(id))

    def by_guid(self, guid: str) -> str | None:
        """As ``Registry``."""
        return self.by_md5(uuid.UUID(guid).bytes)

    def by_md5(self, md5: bytes) -> str | None:
        """As ``Registry``."""
        return self._find(lambda: self._md5.get(md5, (None, None))[1])

    def __reduce__(self) -> tuple[object, ...]:
        return (DirectoryRegistry, (self.path,))


class ConfluentRegistry:
    """A schema registry behind confluent-kafka's ``SchemaRegistryClient`` (extra ``schema-registry``).

    The registry has no lookup by MD5: only schemas that went through this object are found so.

    Args:
        config: of the client: ``{"url": …}`` and what else it takes. It is pickled, credentials included.
        client: one that exists; then this object cannot be pickled.

    Errors of the network come out as the client's own; schemas that are not there are None.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, *, client: Any = None) -> None:
        if (config is None) == (client is None):
            raise ValueError("either config or client")
        with extra("schema-registry"):
            from confluent_kafka.schema_registry import SchemaRegistryClient

        self._config = None if config is None else dict(config)
        self._client = SchemaRegistryClient(dict(config)) if config is not None else client
        self._lock = threading.Lock()
        self._known: OrderedDict[Any, tuple[str | None, float]] = OrderedDict()

    def register(self, subject: str, schema: str) -> Registered:
        """As ``Registry``; the GUID is empty where the registry gives none (before Confluent Platform 8.0).

        Raises:
            SchemaRegistryError: the registry refuses it.
        """
        from confluent_kafka.schema_registry import Schema

        made = self._client.register_schema_full_response(subject, Schema(schema, "AVRO"))
        self._remember(md5_of(schema), schema)
        return Registered(schema, int(made.schema_id or 0), made.guid or "")

    def by_id(self, id: int) -> str | None:
        """As ``Registry``."""
        return self._asked(id, self._client.get_schema)

    def by_guid(self, guid: str) -> str | None:
        """As ``Registry``."""
        return self._asked(guid, self._client.get_schema_by_guid)

    def by_md5(self, md5: bytes) -> str | None:
        """As ``Registry``."""
        with self._lock:
            return self._known.get(md5, (None, 0.0))[0]

    def _asked(self, id: Any, ask: Callable[[Any], Any]) -> str | None:
        from confluent_kafka.schema_registry import SchemaRegistryError

        with self._lock:
            text, until = self._known.get(id, (None, 0.0))
        if text is not None or time.monotonic() < until:
            return text
        try:
            found = ask(id)
        except SchemaRegistryError as error:
            if error.http_status_code != 404:
                raise
            found = None
        # A schema that refers to others is no schema by itself, and JSON Schema and Protobuf are not Avro.
        usable = found is not None and not found.references and (found.schema_type or "AVRO") == "AVRO"
        text = found.schema_str if usable else None
        self._remember(id, text)
        if text is not None:
            self._remember(md5_of(text), text)
        return text

    def _remember(self, id: Any, schema: str | None) -> None:
        with self._lock:
            self._known[id] = (schema, time.monotonic() + UNKNOWN_SECONDS)
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)

    def __reduce__(self) -> tuple[object, ...]:
        if self._config is None:
            raise TypeError("a ConfluentRegistry around a client cannot be pickled; give it the client's config")
        return (ConfluentRegistry, (self._config,))
