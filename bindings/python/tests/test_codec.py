"""Typed keys: their bytes, their order, and mappings of them."""

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esker import codec

GOLDEN = [
    (codec.u8, 7, "07"),
    (codec.u32, 258, "00000102"),
    (codec.u128, 1, "00" * 15 + "01"),
    (codec.i8, -128, "00"),
    (codec.i64, -1, "7fffffffffffffff"),
    (codec.i64, 0, "8000000000000000"),
    (codec.f64, 1.0, "bff0000000000000"),
    (codec.f64, -1.0, "400fffffffffffff"),
    (codec.f32, 0.0, "80000000"),
    (codec.boolean, True, "01"),
    (codec.char, "a", "00000061"),
    (codec.string, "ada", "6164610001"),
    (codec.binary, b"a\0b", "6100ff620001"),
    (codec.fixed(2), b"\0\1", "0001"),
    (codec.optional(codec.u8), None, "00"),
    (codec.optional(codec.u8), 5, "0105"),
    (codec.desc(codec.u16), 1, "fffe"),
    (codec.desc(codec.string), "a", "9efffe"),
    (codec.tuple_of(codec.string, codec.desc(codec.u8)), ("a", 1), "610001fe"),
    (codec.raw, b"a\0", "6100"),
    (codec.text, "a", "61"),
]


@pytest.mark.parametrize("of, value, encoded", GOLDEN, ids=lambda value: repr(value))
def test_bytes_are_those_of_the_format(of, value, encoded):
    assert of.encode(value).hex() == encoded
    assert of.decode(bytes.fromhex(encoded)) == value


TEXT = st.text(alphabet="a\0\x01\xffb", max_size=4)
PAIRS = [
    (codec.u64, st.integers(0, 2**64 - 1)),
    (codec.i16, st.integers(-(2**15), 2**15 - 1)),
    (codec.i128, st.integers(-(2**127), 2**127 - 1)),
    (codec.f64, st.floats(allow_nan=False).map(lambda value: value + 0.0)),
    (codec.f32, st.floats(width=32, allow_nan=False).map(lambda value: value + 0.0)),
    (codec.boolean, st.booleans()),
    (codec.string, TEXT),
    (codec.binary, TEXT.map(str.encode)),
    (codec.tuple_of(codec.string, codec.i8), st.tuples(TEXT, st.integers(-128, 127))),
    (codec.tuple_of(codec.desc(codec.binary), codec.u8),
     st.tuples(TEXT.map(str.encode), st.integers(0, 255))),
]


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize("of, values", PAIRS, ids=[repr(pair[0]) for pair in PAIRS])
def test_values_come_back_and_keep_their_order(of, values, data):
    a, b = data.draw(values), data.draw(values)
    x, y = of.encode(a), of.encode(b)
    assert of.decode(x) == a
    if "desc" in repr(of):
        a, b = (b[0], a[1]), (a[0], b[1])
    assert (a < b) == (x < y) and (a == b) == (x == y)
    assert x == y or not y.startswith(x)


def test_floats_are_ordered_with_their_special_values():
    values = [-math.inf, -1.5, -0.0, 0.0, 5e-324, 1.5, math.inf]
    encoded = [codec.f64.encode(value) for value in values]
    assert encoded == sorted(encoded) and encoded[2] != encoded[3]
    assert math.isnan(codec.f64.decode(codec.f64.encode(math.nan)))


@pytest.mark.parametrize("of, value", [
    (codec.u8, 256), (codec.u8, -1), (codec.i8, 128), (codec.char, "ab"), (codec.char, "\ud800"),
    (codec.fixed(2), b"a"), (codec.tuple_of(codec.u8), (1, 2)),
], ids=repr)
def test_values_out_of_range_are_refused(of, value):
    with pytest.raises(ValueError):
        of.encode(value)


@pytest.mark.parametrize("of, value", [
    (codec.u8, "1"), (codec.u8, 1.0), (codec.u8, True), (codec.string, b"a"),
    (codec.f64, "1"),
], ids=repr)
def test_values_of_other_types_are_refused(of, value):
    with pytest.raises((TypeError, AttributeError, struct.error)):
        of.encode(value)


@pytest.mark.parametrize("of, data", [
    (codec.u32, b"\0\0\1"), (codec.u32, b"\0\0\0\1\2"), (codec.string, b"a"),
    (codec.string, b"a\0\2"), (codec.string, b"a\0"), (codec.string, b"\xff\0\1"),
    (codec.boolean, b"\2"), (codec.char, b"\0\x11\0\0"), (codec.optional(codec.u8), b"\1"),
    (codec.f32, b""), (codec.tuple_of(codec.u8, codec.u8), b"\1"),
], ids=repr)
def test_bytes_that_are_no_encoding_are_refused(of, data):
    with pytest.raises(ValueError):
        of.decode(data)


@pytest.fixture(params=["database", "keyspace", "prefixed"])
def ages(db, request):
    part = {"database": db, "keyspace": db.keyspace("k"), "prefixed": db.prefixed_db(b"p")}
    return codec.TypedMapping(part[request.param], codec.i32, codec.text)


def test_typed_mapping_is_a_mapping_in_key_order(ages):
    assert not ages and len(ages) == 0
    ages[5] = "five"
    ages.update({-1: "minus", 70000: "many"})
    ages.update([(0, "zero")])
    assert list(ages) == [-1, 0, 5, 70000] and list(reversed(ages)) == [70000, 5, 0, -1]
    assert dict(ages) == {-1: "minus", 0: "zero", 5: "five", 70000: "many"} == ages
    assert list(ages.range(0, 70000)) == [(0, "zero"), (5, "five")]
    assert list(ages.range(reverse=True, start=5)) == [(70000, "many"), (5, "five")]
    assert 5 in ages and 6 not in ages and "5" not in ages and None not in ages
    assert ages.get("5") is None and ages.pop(5) == "five" and ages.setdefault(5, "x") == "x"
    with pytest.raises(KeyError) as error:
        ages[99]
    assert error.value.args == (99,)
    for missing in (99, "99"):
        with pytest.raises(KeyError):
            del ages[missing]
    with pytest.raises(ValueError):
        ages[2**31] = "too large"
    with pytest.raises((TypeError, AttributeError)):
        ages.update([(1, "written"), (2, 3)])
    assert 1 not in ages
    ages.clear()
    assert not ages and list(ages) == []


def test_pair_that_is_no_encoding_is_not_served(db):
    db[b"abc"] = b"\xff"
    numbers = codec.TypedMapping(db, codec.u64, codec.raw)
    with pytest.raises(ValueError):
        list(numbers)
    words = codec.TypedMapping(db, codec.text, codec.text)
    with pytest.raises(ValueError):
        words["abc"]


def test_zicts_tests_of_mappings(db):
    zict = pytest.importorskip("zict.tests.utils_test")
    words = codec.TypedMapping(db.keyspace("words"), codec.text, codec.raw)
    zict.check_mapping(words)
    zict.check_empty_mapping(codec.TypedMapping(db.keyspace("none"), codec.text, codec.raw))
