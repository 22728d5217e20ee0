"""Integer header ids: who owns which, the view over headers, the wire form."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.ids import HeaderIds, IdConflictError, IdHeaders

TRACE, ORIGIN, SECRET = 0x0100_0001, 0x0100_0002, 0xFFFF_0001


@pytest.fixture
def ids() -> HeaderIds:
    made = HeaderIds()
    made.reserve(0x0100_0000, 0x01FF_FFFF, owner="example.org")
    made.reserve(0, 0xFF, owner="kafka")
    made.reserve_private(0xFFFF_0000, 0xFFFF_FFFF)
    made.register(TRACE, "trace", owner="example.org")
    made.register(ORIGIN, "origin", owner="example.org")
    made.register(SECRET, "secret")
    return made


class TestRegistry:
    @pytest.mark.parametrize(
        "first, last", [(0, 0), (0xFF, 0x100), (0x00FF_FFFF, 0x0200_0000), (0x0100_0000, 0x01FF_FFFF)]
    )
    def test_ranges_do_not_overlap(self, ids: HeaderIds, first: int, last: int) -> None:
        with pytest.raises(IdConflictError, match="overlaps"):
            ids.reserve(first, last, owner="someone else")
        with pytest.raises(IdConflictError):
            ids.reserve_private(first, last)

    def test_the_same_range_again_is_no_conflict(self, ids: HeaderIds) -> None:
        before = ids.ranges
        ids.reserve(0x0100_0000, 0x01FF_FFFF, owner="example.org")
        ids.reserve_private(0xFFFF_0000, 0xFFFF_FFFF)
        assert ids.ranges == before
        assert [one.first for one in before] == sorted(one.first for one in before)

    @pytest.mark.parametrize("first, last", [(-1, 5), (5, 4), (0, 1 << 32)])
    def test_ranges_are_of_unsigned_32_bit_numbers(self, first: int, last: int) -> None:
        with pytest.raises(ValueError, match="no range"):
            HeaderIds().reserve(first, last, owner="x")

    def test_a_public_range_has_an_owner(self) -> None:
        for owner in ("", "private"):
            with pytest.raises(ValueError, match="owner"):
                HeaderIds().reserve(0, 1, owner=owner)

    def test_conflicts_are_refused(self, ids: HeaderIds) -> None:
        for id, name, owner in [
            (TRACE, "other", "example.org"),  # the id is taken
            (TRACE + 9, "trace", "example.org"),  # the name is taken
            (TRACE + 9, "new", "kafka"),  # another's range
            (TRACE + 9, "new", "private"),
            (0x5000_0000, "new", "example.org"),  # nobody's
            (SECRET + 1, "new", "example.org"),  # the house's
        ]:
            with pytest.raises(IdConflictError):
                ids.register(id, name, owner=owner)
        assert dict(ids.names) == {TRACE: "trace", ORIGIN: "origin", SECRET: "secret"}

    def test_registering_again_is_no_conflict(self, ids: HeaderIds) -> None:
        ids.register(TRACE, "trace", owner="example.org")

    def test_a_name_for_unregistered_ids_is_nobodys(self, ids: HeaderIds) -> None:
        with pytest.raises(ValueError, match="not registered"):
            ids.register(5, "#00000005", owner="kafka")

    def test_merging_is_all_or_nothing(self, ids: HeaderIds) -> None:
        other = HeaderIds()
        other.reserve(0x0200_0000, 0x02FF_FFFF, owner="other.org")
        other.register(0x0200_0001, "theirs", owner="other.org")
        other.reserve(0x0100_0000, 0x01FF_FFFF, owner="example.org")
        other.register(TRACE, "not trace", owner="example.org")
        before = (ids.ranges, dict(ids.names))
        with pytest.raises(IdConflictError):
            ids.merge(other)
        assert (ids.ranges, dict(ids.names)) == before
        good = ids.copy()
        good.reserve(0x0200_0000, 0x02FF_FFFF, owner="other.org")
        good.register(0x0200_0001, "theirs", owner="other.org")
        ids.merge(good)
        assert ids.id_of("theirs") == 0x0200_0001

    def test_names(self, ids: HeaderIds) -> None:
        assert ids.name_of(TRACE) == "trace" and ids.id_of("trace") == TRACE
        assert ids.name_of(0xDEAD_BEEF) == "#deadbeef" and ids.id_of("#deadbeef") == 0xDEAD_BEEF
        for name in ("nothing", "#", "#DEADBEEF", "#0", "#deadbeef0", " #deadbeef"):
            assert ids.id_of(name) is None
        for id in (-1, 1 << 32):
            with pytest.raises(ValueError):
                ids.name_of(id)


class TestView:
    def test_a_mapping(self, ids: HeaderIds) -> None:
        headers = mb.Headers([("trace", b"1"), ("plain", b"x"), ("#0000000a", None), ("trace", b"2"), ("secret", b"s")])
        view = ids.of(headers)
        assert isinstance(view, Mapping)
        assert dict(view) == {TRACE: b"2", 10: None, SECRET: b"s"}
        assert list(view.items()) == [(TRACE, b"1"), (10, None), (TRACE, b"2"), (SECRET, b"s")]
        assert list(view) == [TRACE, 10, SECRET] and len(view) == 3
        assert view.all(TRACE) == [b"1", b"2"] and view.get(10) is None and view.get(ORIGIN, b"no") == b"no"
        assert 10 in view and ORIGIN not in view and "trace" not in view and -5 not in view
        with pytest.raises(KeyError):
            view[ORIGIN]

    def test_it_follows_its_headers(self, ids: HeaderIds) -> None:
        headers = mb.Headers()
        view = ids.of(headers)
        view.add(ORIGIN, b"here")
        view.add(77, None)
        assert headers.to_list() == [("origin", b"here"), ("#0000004d", None)]
        headers.remove("origin")
        assert dict(view) == {77: None}
        headers.close()
        with pytest.raises(mb.IllegalStateError):
            view.add(ORIGIN, b"")

    def test_what_was_written_before_an_id_was_registered_still_reads(self, ids: HeaderIds) -> None:
        headers = mb.Headers([(f"#{TRACE:08x}", b"old"), ("trace", b"new")])
        assert ids.of(headers).all(TRACE) == [b"old", b"new"]

    def test_private_ids_never_leave_the_house(self, ids: HeaderIds) -> None:
        headers = mb.Headers([("secret", b"s"), ("trace", b"1"), ("plain", b"x"), ("#ffff0002", b"also")])
        assert ids.public(headers).to_list() == [("trace", b"1"), ("plain", b"x")]
        assert len(headers) == 4
        assert dict(ids.of(ids.from_bytes(ids.to_bytes(headers)))) == {TRACE: b"1"}
        assert len(ids.of(ids.from_bytes(ids.to_bytes(headers, private=True)))) == 3


class TestWireForm:
    def test_bytes_by_hand(self, ids: HeaderIds) -> None:
        headers = mb.Headers([("trace", b"ab"), ("#fffefffe", None), ("trace", b""), ("plain", b"left out")])
        expected = bytes.fromhex("00000003 01000001 00000002 6162 fffefffe ffffffff 01000001 00000000")
        assert ids.to_bytes(headers) == expected
        assert ids.from_bytes(expected).to_list() == [("trace", b"ab"), ("#fffefffe", None), ("trace", b"")]
        assert ids.to_bytes(mb.Headers()) == bytes(4)

    @given(st.lists(st.tuples(st.integers(0, 0xFFFF_FFFF), st.none() | st.binary(max_size=5))))
    def test_there_and_back(self, pairs: list[tuple[int, bytes | None]]) -> None:
        ids = HeaderIds()
        view = IdHeaders(mb.Headers(), ids)
        for id, value in pairs:
            view.add(id, value)
        assert list(ids.of(ids.from_bytes(ids.to_bytes(view.headers))).items()) == pairs

    @pytest.mark.parametrize(
        "data, position",
        [
            ("", 0),
            ("000000", 0),
            ("ffffffff", 0),
            ("00000001", 4),
            ("7fffffff", 4),
            ("00000001 00000001 00000005 6162", 4),
            ("00000001 00000001 fffffffe", 4),
            ("00000001 00000001 7fffffff", 4),
            ("00000000 00", 4),
        ],
    )
    def test_bad_bytes(self, data: str, position: int) -> None:
        with pytest.raises(mb.CorruptRecordError) as caught:
            HeaderIds().from_bytes(bytes.fromhex(data))
        assert caught.value.position == position

    @given(st.binary(max_size=40))
    def test_any_bytes(self, data: bytes) -> None:
        try:
            headers = HeaderIds().from_bytes(data)
        except mb.CorruptRecordError:
            return
        assert HeaderIds().to_bytes(headers) == data
