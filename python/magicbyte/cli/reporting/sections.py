"""What a report says, part by part."""

from __future__ import annotations

import re
from collections.abc import Iterable

from magicbyte.cli.output import counted, human_bytes, show_name, show_time
from magicbyte.cli.problems import TAILS
from magicbyte.cli.reporting import charts
from magicbyte.cli.reporting.facts import Facts, Topic
from magicbyte.cli.reporting.page import Cell, Head, Section, Sheet, Tile, number, text
from magicbyte.cli.reporting.watch import LAGS
from magicbyte.cli.savings import OWN, Pair, Savings

MOST_ROWS = 1_000  # of a table
MOST_STEPS = 140  # of a drawn timeline
MOST = 0.99  # of all records, that a stretch of time may be drawn for by itself
STEPS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
PARTS = ("keys", "values", "headers", "framing")


def tiles(facts: Facts) -> list[Tile]:
    """The figures at the head."""
    total = facts.total
    found = [
        Tile("on disk", human_bytes(total.size)),
        Tile("topics", f"{len(facts.topics):,}"),
        Tile("partitions", f"{sum(topic.partitions for topic in facts.topics):,}"),
        Tile("records", f"{total.records:,}"),
        Tile("batches", f"{total.batches:,}"),
        Tile("of the payload is headers", "–" if total.header_share is None else _share(total.header_share)),
    ]
    if facts.savings is not None:
        pair = facts.savings.compressed.get(OWN)
        share = pair.saved / pair.v2 if pair is not None and pair.v2 else None
        found.append(Tile("less with v3", "–" if share is None else f"{share:.2%}"))
    word = "errors" if facts.errors != 1 else "error"
    mood = "bad" if facts.errors else "good" if facts.records else ""
    found.append(
        Tile(f"{word} found" if facts.records or facts.errors else "nothing to check", f"{facts.errors:,}", mood)
    )
    return found


def sections(facts: Facts) -> list[Section]:
    """All parts that have something to say, in order."""
    parts = [
        _topics(facts), _split(facts), _header_keys(facts), _codecs(facts), _sizes(facts), _timeline(facts), _lags(facts),
        _producers(facts), _savings(facts), _defects(facts), _left_out(facts),
    ]  # fmt: skip
    return [part for part in parts if part is not None]


def _by_size(topics: Iterable[Topic]) -> list[Topic]:
    return sorted(topics, key=lambda topic: -topic.survey.size)


def _cut(rows: int) -> str:
    return f"… and {rows - MOST_ROWS:,} more" if rows > MOST_ROWS else ""


def _topics(facts: Facts) -> Section:
    topics = _by_size(facts.topics)
    heads = [Head("Topic"), *(Head(name, number=True) for name in (
        "Partitions", "Segments", "On disk", "Batches", "Records", "Keys", "Values", "Headers", "Framing", "Headers %")),
        Head("From", number=True), Head("To", number=True)]  # fmt: skip
    cells = [
        [
            text(t.name), number(t.partitions), number(t.survey.segments), _bytes(t.survey.size), number(t.survey.batches),
            number(t.survey.records), _bytes(t.survey.key_bytes), _bytes(t.survey.value_bytes),
            _bytes(t.survey.headers.bytes), _bytes(t.framing),
            number(t.survey.header_share, None if t.survey.header_share is None else _share(t.survey.header_share)),
            _time(t.survey.first_time), _time(t.survey.last_time),
        ]
        for t in topics[:MOST_ROWS]
    ]  # fmt: skip
    drawn = charts.bars("Topics by bytes on disk", [(t.name, (t.survey.size,)) for t in topics], ["bytes"], size=True)
    return Section("topics", "Topics by size", "", [drawn], [Sheet(heads, cells, _cut(len(topics)))], all=True)


def _share(share: float, digits: int = 1) -> str:
    """A share in percent; what is there never shows as nothing, nor what is not all as all."""
    least = 10**-digits
    if 0 < share * 100 < least / 2:
        return f"<{least:.{digits}f}%"
    if 100 - least / 2 <= share * 100 < 100:
        return f">{100 - least:.{digits}f}%"
    return f"{share:.{digits}%}"


def _bytes(size: int | None) -> Cell:
    return number(size, None if size is None else human_bytes(size))


def _time(milliseconds: int | None) -> Cell:
    # To the second: the table is wide enough.
    shown = re.sub(r"T(.{8})\.\d{3}Z$", r" \1", show_time(milliseconds))
    return Cell(shown, -1 if milliseconds is None else milliseconds)


def _split(facts: Facts) -> Section | None:
    known = [t for t in _by_size(facts.topics) if t.survey.payload]
    if not known:
        return None
    rows = [(t.name, (t.survey.key_bytes, t.survey.value_bytes, t.survey.headers.bytes, t.framing or 0)) for t in known]
    rows.sort(key=lambda row: -sum(row[1]))
    without = [t.name for t in known if t.framing is None]
    note = "Bytes without compression. "
    if without:
        note += f"What framing takes is not known of {counted(len(without), 'topic')} with compressed entries of older formats"
        note += "." if facts.savings is not None else ", or without the pass for v3."
    return Section("split", "Where the bytes go", note, [charts.bars("Bytes by part", rows, PARTS, size=True)])


def _header_keys(facts: Facts) -> Section | None:
    total = facts.total
    if not total.header_keys:
        return None
    heaviest = sorted(total.header_keys.items(), key=lambda item: -item[1].bytes)
    rows = [(show_name(key), (weight.bytes,)) for key, weight in heaviest]
    heads = [Head("Header key", wrap=True), Head("Count", number=True), Head("Bytes", number=True),
             Head("Of the payload", number=True), Head("Bytes each", number=True)]  # fmt: skip
    cells = [
        [text(show_name(key)), number(w.count), _bytes(w.bytes), number(w.bytes / total.payload, _share(w.bytes / total.payload, 2)),
         number(w.bytes / w.count, f"{w.bytes / w.count:.1f}")]
        for key, w in heaviest[:MOST_ROWS]
    ]  # fmt: skip
    more = "; keys beyond the first 10,000 are counted in the total only" if total.header_keys_cut else ""
    said = f"{total.headers.count:,} headers, {human_bytes(total.headers.bytes)} of keys and values{more}."
    drawn = charts.bars("Header keys by bytes", rows, ["bytes"], size=True)
    return Section("headers", "Header keys by weight", said, [drawn], [Sheet(heads, cells, _cut(len(heaviest)))])


def _codecs(facts: Facts) -> Section | None:
    codecs = sorted(facts.total.codecs.items(), key=lambda item: -item[1].bytes)
    if not codecs:
        return None
    heads = [Head("Codec"), Head("Batches", number=True), Head("Stored", number=True), Head("Payload", number=True),
             Head("Ratio", number=True)]  # fmt: skip
    cells = [
        [text(name), number(c.batches), _bytes(c.bytes), _bytes(c.payload),
         number(c.ratio, None if c.ratio is None else f"{c.ratio:.2f}")]
        for name, c in codecs
    ]  # fmt: skip
    drawn = charts.bars("Stored bytes by codec", [(name, (c.bytes,)) for name, c in codecs], ["bytes"], size=True)
    said = "Ratio is payload for one byte stored; without compression, framing keeps it below 1."
    return Section("codecs", "Codecs and ratios", said, [drawn], [Sheet(heads, cells)])


def _sizes(facts: Facts) -> Section | None:
    watch = facts.watch
    if not watch.sizes:
        return None
    sizes = [(human_bytes(2**bits).replace(".0", ""), n) for bits, n in _steps(watch.sizes)]
    pictures = [charts.columns("Batches by bytes, each class up to that size", sizes)]
    if watch.counts:
        counts = [(f"{2**bits - 1:,}", n) for bits, n in _steps(watch.counts)]
        pictures.append(charts.columns("Batches by records, each class up to that number", counts))
    mean = facts.total.batch_bytes / facts.total.batches
    each = f", {facts.total.records / facts.total.batches:,.1f} records" if facts.total.batches else ""
    said = f"Batches by size as stored, below by their number of records. Mean: {human_bytes(mean)}{each}."
    return Section("sizes", "Batch sizes", said, pictures)


def _steps(found: dict[int, int]) -> list[tuple[int, int]]:
    return [(bits, found.get(bits, 0)) for bits in range(min(found), max(found) + 1)]


def _timeline(facts: Facts) -> Section | None:
    whole = facts.watch.timeline
    width, points = whole.points(MOST_STEPS)
    if not points:
        return None
    said = f"By the records' own timestamps, {_step(width)} a step: from {show_time(facts.total.first_time)} "
    said += f"to {show_time(facts.total.last_time)}."
    pictures = [charts.timeline("Records over time", points, width)]
    # A few strays years away make a needle of everything else: then that is drawn by itself, too.
    most = whole.dense(MOST)
    if most.span * 10 < whole.span:
        width, points = most.points(MOST_STEPS)
        if len(points) > 1:
            held = sum(most.bins.values()) / sum(whole.bins.values())
            said += f" {_share(held)} of them lie in the stretch of the second picture, {_step(width)} a step."
            pictures.append(charts.timeline("The stretch where nearly all of them lie", points, width))
    return Section("time", "Records over time", said, pictures)


def _step(width: int) -> str:
    return next(f"about {width / ms:,.2g} {unit}" for ms, unit in STEPS if width >= ms)


def _lags(facts: Facts) -> Section | None:
    heads = [Head("Lag"), Head("Batches", number=True), Head("Share", number=True)]
    sheets, pictures, words = [], [], []
    for found, what, why in (
        (facts.watch.lateness, "Late within their partition",
         "how far a batch's earliest time lies behind the newest before it in its partition"),
        (facts.watch.delay, "From the client's clock to the append",
         "how long after the client's own time a broker appended a batch (LogAppendTime)"),
    ):  # fmt: skip
        whole = sum(found.values())
        if not whole:
            continue
        rows = [(name, found.get(name, 0)) for _, name in LAGS]
        pictures.append(charts.columns(what, rows))
        words.append(why)
        cells = [[text(name), number(n), number(n / whole, _share(n / whole))] for name, n in rows if n]
        sheets.append(Sheet(heads, cells))
    if not sheets:
        return None
    said = "; below, ".join(words)
    return Section("lag", "Time lag", said[:1].upper() + said[1:] + ".", pictures, sheets)


def _producers(facts: Facts) -> Section | None:
    found = sorted(facts.watch.producers.items(), key=lambda item: -item[1].bytes)
    if not found:
        return None
    heads = [Head("Producer id"), *(Head(n, number=True) for n in ("Epoch", "Batches", "Records", "Stored", "Transactional")),
             Head("From", number=True), Head("To", number=True), Head("Topics", wrap=True)]  # fmt: skip
    cells = [
        [
            text("none" if number_ < 0 else str(number_)), number(p.epoch if p.epoch >= 0 else None), number(p.batches),
            number(p.records), _bytes(p.bytes), number(p.transactional), _time(p.first_time),
            _time(p.last_time), text(_some(sorted(p.topics))),
        ]
        for number_, p in found[:MOST_ROWS]
    ]  # fmt: skip
    ids = sum(number_ >= 0 for number_, _ in found)
    more = " or more" if facts.watch.producers_cut else ""
    said = f"{counted(ids, 'id')}{more}. Producers that are neither idempotent nor transactional have none. "
    said += "Entries of the oldest formats do not say how many records they hold."
    return Section("producers", "Producers", said, [], [Sheet(heads, cells, _cut(len(found)))], all=True)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8:,} more" if len(names) > 8 else "")


def _savings(facts: Facts) -> Section | None:
    if facts.savings is None or not facts.savings.batches:
        return None
    heads = [Head("Topic"), *(Head(n, number=True) for n in (
        "Batches", "Plain v2", "Plain v3", "Saved", "%", "Compressed v2", "Compressed v3", "Saved", "%"))]  # fmt: skip
    named = [(t.name, t.savings) for t in _by_size(facts.topics) if t.savings is not None and t.savings.batches]
    cells = [
        [text(name), number(s.batches), *_pair(s.plain), *_pair(s.compressed[OWN])] for name, s in named[:MOST_ROWS]
    ]
    whole = facts.savings
    foot = (
        [text("all"), number(whole.batches), *_pair(whole.plain), *_pair(whole.compressed[OWN])]
        if len(named) > 1
        else []
    )
    said = "The v3 proposal (KIP-931) against v2: without compression, and with each batch's own codec (both compressed here)."
    if facts.savings.other:
        said += f" {counted(facts.savings.other, 'entry').replace('entrys', 'entries')} of v0 and v1 left out."
    rows: list[tuple[str, Savings]] = sorted(named, key=lambda item: -item[1].compressed[OWN].saved)
    drawn = charts.bars(
        "Bytes saved by v3, with each batch's own codec",
        [(name, (max(s.compressed[OWN].saved, 0),)) for name, s in rows], ["bytes"], size=True,
    )  # fmt: skip
    return Section("v3", "What v3 would save", said, [drawn], [Sheet(heads, cells, _cut(len(named)), foot)], all=True)


def _pair(pair: Pair) -> list[Cell]:
    v2, v3 = pair.v2, pair.v3
    share = (v2 - v3) / v2 if v2 else None
    return [number(v2), number(v3), number(v2 - v3), number(share, None if share is None else f"{share:.2%}")]


def _defects(facts: Facts) -> Section:
    counts = sorted(facts.counts.items(), key=lambda item: (item[0][1], -item[1], item[0][0]))
    verdict = "not sound" if facts.errors else "sound" if facts.records else "nothing was checked"
    said = f"The strict pass over {counted(facts.batches, 'batch')} and {counted(facts.records, 'record')}: {verdict}. "
    said += "An error means that something is lost, contradicts itself or is read differently by other readers; a note, that "
    said += "every reader gets the same records."
    if not counts:
        return Section("defects", "Defects", said, all=True)
    kinds = Sheet(
        [Head("Severity"), Head("Kind"), Head("Count", number=True)],
        [[text(severity), text(kind), number(count)] for (kind, severity), count in counts],
    )
    worst = sorted(facts.defects, key=lambda found: (found[1].severity, found[1].kind in TAILS))
    rows = [
        [text(d.severity), text(d.kind), text(path), number(d.position), text(d.message)]
        for path, d in worst[:MOST_ROWS]
    ]
    heads = [
        Head("Severity"),
        Head("Kind"),
        Head("File", wrap=True),
        Head("At byte", number=True),
        Head("What", wrap=True),
    ]
    whole = sum(facts.counts.values())
    more = f"… and {whole - len(rows):,} more: magicbyte verify" if whole > len(rows) else ""
    return Section("defects", "Defects", said, [], [kinds, Sheet(heads, rows, more)], all=True)


def _left_out(facts: Facts) -> Section | None:
    if not facts.left_out:
        return None
    rows = [[text(str(path)), text(reason)] for path, reason in facts.left_out[:MOST_ROWS]]
    heads = [Head("File", wrap=True), Head("Why", wrap=True)]
    return Section("left-out", "Files left out", "", [], [Sheet(heads, rows, _cut(len(facts.left_out)))], all=True)
