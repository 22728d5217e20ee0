"""Chains: order, many records of one, errors by either policy, timings, and the same over any iterable."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import magicbyte as mb
from magicbyte.interceptors import (
    Chain,
    ConsumerInterceptor,
    ConsumerPreDeserializationInterceptor,
    ProducerInterceptor,
    ProducerPostSerializationInterceptor,
    RecordMetadata,
    as_chain,
)


def sent(value: Any = b"v", **fields: Any) -> mb.ProducerRecord:
    return mb.ProducerRecord("t", value, **fields)


def received(offset: int = 0, value: bytes | None = b"v", headers: Any = ()) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("t", 0, offset, 5, 0, None, value, headers)


class Stamp:
    """Adds a header at every stage that it is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _stamp(self, record: Any, stage: str) -> Any:
        record.headers.add(stage, self.name.encode())
        return record

    def on_send(self, record: Any) -> Any:
        return self._stamp(record, "on_send")

    def post_serialize(self, record: Any) -> Any:
        return self._stamp(record, "post_serialize")

    def pre_deserialize(self, record: Any) -> Any:
        return self._stamp(record, "pre_deserialize")

    def on_record(self, record: Any) -> Any:
        return self._stamp(record, "on_record")

    def on_consume(self, records: list[Any]) -> list[Any]:
        return [self._stamp(record, f"on_consume of {len(records)}") for record in records]


def halves(record: mb.ProducerRecord) -> Iterator[mb.ProducerRecord]:
    value = record.value
    middle = len(value) // 2
    for number, part in enumerate((value[:middle], value[middle:])):
        half = record.replace(value=part)
        half.headers.add("half", b"%d" % number)
        yield half


class Glue(ConsumerPreDeserializationInterceptor):
    def __init__(self) -> None:
        self.first: mb.ConsumerRecord | None = None

    def pre_deserialize(self, record: mb.ConsumerRecord) -> Iterable[mb.ConsumerRecord]:
        if self.first is None:
            self.first = record
            return ()
        whole = self.first.replace(value=self.first.value + record.value)
        whole.headers.remove("half")
        self.first = None
        return [whole]

    def flush(self) -> Iterable[mb.ConsumerRecord]:
        return () if self.first is None else (self.first,)


class Failing:
    """Fails at every stage, after it was half-way."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error or RuntimeError("no")

    def _fail(self, *_: Any) -> Any:
        raise self.error

    on_send = post_serialize = pre_deserialize = on_record = on_consume = on_commit = on_acknowledgement = _fail


class TestStages:
    def test_in_order(self) -> None:
        chain = Chain(Stamp("a"), Stamp("b"))
        assert chain.on_send(sent()).headers.to_list() == [("on_send", b"a"), ("on_send", b"b")]
        (record,) = chain.post_serialize(sent())
        assert record.headers.get("post_serialize") == [b"a", b"b"]
        (record,) = chain.pre_deserialize(received())
        assert record.headers.get("pre_deserialize") == [b"a", b"b"]
        first, second = chain.on_consume([received(0), received(1)])
        assert first.headers.to_list() == [
            ("on_record", b"a"),
            ("on_record", b"b"),
            ("on_consume of 2", b"a"),
            ("on_consume of 2", b"b"),
        ]
        assert second.headers == first.headers

    def test_backwards(self) -> None:
        chain = Chain(Stamp("a"), Stamp("b"), errors="raise").reversed()
        assert chain.on_send(sent()).headers.get("on_send") == [b"b", b"a"]
        assert chain.errors == "raise"

    def test_chains_of_chains(self) -> None:
        inner = Chain(Stamp("b"), Stamp("c"))
        chain = Chain(Stamp("a"), inner)
        assert chain.on_send(sent()).headers.get("on_send") == [b"a", b"b", b"c"]
        assert len(chain) == 3
        assert as_chain(chain) is chain
        assert len(as_chain(None)) == 0 and len(as_chain([Stamp("a")])) == len(as_chain(Stamp("a"))) == 1

    def test_many_of_one_and_one_of_many(self) -> None:
        chain = Chain(halves, ProducerInterceptor(), Stamp("x"), errors="raise")
        records = chain.post_serialize(sent(b"abcd"))
        assert [record.value for record in records] == [b"ab", b"cd"]
        assert [record.headers.get("half") for record in records] == [[b"0"], [b"1"]]
        assert all(record.headers.get("post_serialize") == [b"x"] for record in records)
        quarters = Chain(halves, halves, errors="raise").post_serialize(sent(b"abcd"))
        assert [record.value for record in quarters] == [b"a", b"b", b"c", b"d"]
        glue = Chain(Glue(), Glue(), errors="raise")
        found = [glue.pre_deserialize(received(number, value)) for number, value in enumerate([b"a", b"b", b"c", b"d"])]
        assert [len(some) for some in found] == [0, 0, 0, 1]
        assert found[3][0].value == b"abcd"

    def test_what_is_held_back_comes_at_the_end_and_through_those_behind(self) -> None:
        chain = Chain(Glue(), Stamp("x"), Glue(), errors="raise")
        records = list(chain(received(number, b"%d" % number) for number in range(7)))
        assert [record.value for record in records] == [b"0123", b"456"]
        assert len(records[0].headers.get("pre_deserialize")) == 1

    def test_dropped_records(self) -> None:
        chain = Chain(lambda record: record if record.offset % 2 else (), Stamp("x"), errors="raise")
        assert [record.offset for record in chain(map(received, range(6)))] == [1, 3, 5]
        assert chain.on_consume([]) == []

    def test_functions_see_bytes_both_ways(self) -> None:
        def shout(record: Any) -> Any:
            return record.replace(value=record.value.upper())

        chain = Chain(shout, errors="raise")
        assert chain.on_send(sent(b"a")).value == b"a"
        assert chain.post_serialize(sent(b"a"))[0].value == b"A"
        assert [record.value for record in chain([received(0, b"a")])] == [b"A"]
        assert [record.value for record in chain.sending([sent(b"a")])] == [b"A"]
        assert list(chain.timings) == ["shout"]

    def test_acknowledgements_and_commits(self) -> None:
        seen: list[Any] = []

        class Audit(ProducerInterceptor, ConsumerInterceptor):
            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                seen.append((metadata, error, headers))

            def on_commit(self, offsets: Any) -> None:
                seen.append(offsets)

        chain = Chain(Failing(), Audit())
        metadata, headers = RecordMetadata("t", 1, 2, 3), mb.Headers([("a", b"")])
        chain.on_acknowledgement(metadata, None, headers)
        chain.on_commit({("t", 1): 3})
        assert seen == [(metadata, None, headers), {("t", 1): 3}]

    def test_idle_methods_are_not_called(self) -> None:
        class Nothing(
            ProducerInterceptor,
            ProducerPostSerializationInterceptor,
            ConsumerPreDeserializationInterceptor,
            ConsumerInterceptor,
        ):
            pass

        chain = Chain(Nothing())
        assert not chain.has("on_send", "post_serialize", "pre_deserialize", "on_record", "on_consume", "on_commit")
        record = received()
        assert next(iter(chain([record]))) is record
        assert chain.timings["Nothing"].calls == 0

    @pytest.mark.parametrize("wrong", [5, "name", object(), Stamp])
    def test_what_is_no_interceptor(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="no interceptor"):
            Chain(wrong)

    def test_errors_is_one_of_two(self) -> None:
        with pytest.raises(ValueError):
            Chain(errors="ignore")  # type: ignore[arg-type]


class TestErrors:
    def test_logged_and_going_on_with_the_last_good_record(self, caplog: pytest.LogCaptureFixture) -> None:
        chain = Chain(Stamp("a"), Failing(), Stamp("b"))
        with caplog.at_level(logging.WARNING, "magicbyte.interceptors"):
            assert chain.on_send(sent()).headers.get("on_send") == [b"a", b"b"]
            assert chain.post_serialize(sent())[0].headers.get("post_serialize") == [b"a", b"b"]
            (record,) = chain([received()])
        assert record.headers.keys() == ["pre_deserialize", "on_record", "on_consume of 1"]
        assert caplog.text.count("interceptor Failing failed; going on with the last good record") == 5
        assert "RuntimeError: no" in caplog.text
        assert chain.timings["Failing"].errors == 5

    def test_raised_with_the_name(self) -> None:
        chain = Chain(Stamp("a"), Failing(KeyError("no")), errors="raise")
        for work in (
            lambda: chain.on_send(sent()),
            lambda: chain.post_serialize(sent()),
            lambda: chain.pre_deserialize(received()),
            lambda: chain.on_consume([received()]),
            lambda: list(chain([received()])),
        ):
            with pytest.raises(KeyError) as caught:
                work()
            assert any("in interceptor Failing" in note for note in caught.value.__notes__)

    @pytest.mark.parametrize("answer", [None, 5, "text", [None], [5]])
    def test_a_wrong_answer_is_an_error_and_loses_nothing(self, answer: Any) -> None:
        class Wrong:
            def on_send(self, record: Any) -> Any:
                return answer

            post_serialize = pre_deserialize = on_record = on_consume = on_send

        record = sent()
        assert Chain(Wrong()).on_send(record) is record
        assert Chain(Wrong()).post_serialize(record) == [record]
        assert len(list(Chain(Wrong())([received()]))) == 1
        with pytest.raises(TypeError, match="must be returned"):
            Chain(Wrong(), errors="raise").on_send(record)
        with pytest.raises(TypeError, match="must be returned"):
            list(Chain(Wrong(), errors="raise")([received()]))

    def test_an_iterator_that_fails_half_way_gives_the_last_good_record(self) -> None:
        def broken(record: Any) -> Iterator[Any]:
            yield record.replace(value=b"half")
            raise RuntimeError("no")

        record = sent()
        assert Chain(broken).post_serialize(record) == [record]

    @pytest.mark.parametrize("errors", ["log", "raise"])
    def test_closed_headers_are_the_senders_mistake(self, errors: Any) -> None:
        record = sent()
        record.close()
        with pytest.raises(mb.IllegalStateError, match=r"record\.copy\(\)"):
            Chain(Stamp("a"), errors=errors).on_send(record)
        Chain(Stamp("a"), errors=errors).on_send(record.copy())
        # Who only looks may have it again.
        assert Chain(lambda it: it, errors=errors).post_serialize(record) == [record]

    def test_closing(self, caplog: pytest.LogCaptureFixture) -> None:
        closed: list[str] = []

        class Closes(Stamp):
            def close(self) -> None:
                closed.append(self.name)
                if self.name == "a":
                    raise RuntimeError("no")

        Chain(Closes("a"), Stamp("b"), Closes("c")).close()
        assert closed == ["a", "c"]
        assert "close failed" in caplog.text


class TestTimings:
    def test_measured(self) -> None:
        def slow(record: Any) -> Any:
            time.sleep(0.002)
            return record

        chain = Chain(slow, halves, Stamp("a"), Stamp("a"), errors="raise")
        for _ in range(5):
            chain.post_serialize(sent(b"ab"))
        timings = chain.timings
        assert list(timings) == ["slow", "halves", "a", "a#2"]
        assert (timings["slow"].calls, timings["slow"].records_in, timings["slow"].records_out) == (5, 5, 5)
        assert (timings["halves"].records_in, timings["halves"].records_out) == (5, 10)
        assert timings["a#2"].records_in == 10
        assert timings["slow"].seconds >= 0.009  # five sleeps; how long the others take is the machine's affair
        assert timings["a"].seconds > 0

    def test_threads_lose_no_count(self) -> None:
        chain = Chain(lambda record: record)
        threads = [
            threading.Thread(target=lambda: [chain.post_serialize(sent()) for _ in range(500)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert chain.timings["<lambda>"].calls == 2000


class TestOverRecords:
    def test_lazy_unless_batches_are_wanted(self) -> None:
        read: list[int] = []

        def source() -> Iterator[mb.ConsumerRecord]:
            for number in range(1200):
                read.append(number)
                yield received(number)

        records = Chain(lambda record: record, errors="raise")(source())
        next(records)
        assert read == [0]
        read.clear()
        (*found,) = Chain(Stamp("x"), errors="raise")(source())
        assert found[0].headers.keys()[-1] == "on_consume of 500"
        assert found[1199].headers.keys()[-1] == "on_consume of 200"

    def test_pickled_without_its_timings(self) -> None:
        chain = Chain(Stamp("a"), errors="raise")
        chain.on_send(sent())
        back = pickle.loads(pickle.dumps(chain))
        assert back.errors == "raise" and back.timings["a"].calls == 0
        assert back.on_send(sent()).headers.get("on_send") == [b"a"]

    def test_a_log_and_its_raw_bytes_and_back(self) -> None:
        """Broker-side: what comes in is changed before it is stored."""
        records = [sent(b"%d" % number, headers=[("n", b"%d" % number)]) for number in range(5)]
        chain = Chain(Stamp("x"), errors="raise")
        data = mb.encode(chain.sending(records))
        back = list(Chain()(mb.decode(data)))
        assert [record.headers.keys() for record in back] == [["n", "on_send", "post_serialize"]] * 5
