"""Values read into buffers, and arrays of keys and values of one size."""

import array

import pytest

import esker


@pytest.fixture(params=["database", "keyspace", "prefixed"])
def part(db, request):
    parts = {"database": db, "keyspace": db.keyspace("k"), "prefixed": db.prefixed_db(b"p")}
    return parts[request.param]


def test_value_is_read_into_a_buffer(part):
    part.put(b"k", b"value")
    for buffer in (bytearray(b".......")), memoryview(bytearray(b".......")):
        assert part.get_into(b"k", buffer) == 5
        assert bytes(buffer) == b"value.."
        assert part.get_into(b"none", buffer) is None
        assert bytes(buffer) == b"value.."
    numbers = array.array("Q", [0, 7])
    part.put(b"n", (5).to_bytes(8, "little"))
    assert part.get_into(b"n", numbers) == 8
    assert numbers.tolist() == [int.from_bytes((5).to_bytes(8, "little"), "little"), 7]
    exact = bytearray(5)
    assert part.get_into(b"k", memoryview(exact)) == 5 and exact == b"value"
    part.put(b"empty", b"")
    assert part.get_into(b"empty", bytearray()) == 0


def test_buffers_that_do_not_fit_are_refused_and_not_changed(part):
    part.put(b"k", b"value")
    short = bytearray(b"....")
    with pytest.raises(ValueError, match="5 bytes.* only 4"):
        part.get_into(b"k", short)
    assert short == b"...."
    for wrong in (b"bytes", memoryview(b"bytes"), memoryview(bytearray(10))[::2], "text", None):
        with pytest.raises(TypeError):
            part.get_into(b"k", wrong)
    with pytest.raises(TypeError):
        part.get_into("k", bytearray(9))


def test_arrays_are_put_and_read(part):
    keys = memoryview(b"aabbcc").cast("B", (3, 2))
    part.put_array(keys, array.array("I", [1, 2, 3]))
    assert [key for key, _ in part] == [b"aa", b"bb", b"cc"]
    found = array.array("I", [9, 9, 9, 9])
    wanted = memoryview(b"ccxxaaaa").cast("B", (4, 2))
    assert part.get_array(wanted, found) == b"\1\0\1\1"
    assert found.tolist() == [3, 9, 1, 1]
    # Rows of no items, and no rows.
    part.put_array(b"", memoryview(b""))
    assert part.get_array(memoryview(b""), bytearray()) == b""
    part.put_array(b"xy", b"12")
    assert part[b"x"] == b"1" and part[b"y"] == b"2"


def test_arrays_of_wrong_shapes_are_refused_and_nothing_is_changed(part):
    with pytest.raises(ValueError, match="3 keys, but 2 values"):
        part.put_array(b"abc", b"12")
    with pytest.raises(ValueError, match="1 keys, but 2 values"):
        part.get_array(b"a", bytearray(2))
    part.put(b"a", b"1")
    part.put(b"b", b"long")
    rows = bytearray(b"..")
    with pytest.raises(ValueError, match="b'b' has 4 bytes, but a row of the array has 1"):
        part.get_array(b"ab", rows)
    assert rows == b".."
    for wrong in (b"..", memoryview(bytearray(4))[::2], 3, None, "ab"):
        with pytest.raises(TypeError):
            part.get_array(b"ab", wrong)
    for wrong in ("ab", 7, None):
        with pytest.raises(TypeError):
            part.put_array(wrong, b"12")
    assert len(list(part)) == 2


def test_closed_database_raises(db):
    db.close()
    with pytest.raises(RuntimeError):
        db.get_into(b"k", bytearray(1))
    with pytest.raises(RuntimeError):
        db.put_array(b"k", b"v")
    with pytest.raises(RuntimeError):
        db.get_array(b"k", bytearray(1))


def test_key_that_is_too_long_fails_the_whole_batch(db):
    keys = memoryview(bytes(2 * ((1 << 20) + 1))).cast("B", (2, (1 << 20) + 1))
    with pytest.raises(esker.Error):
        db.put_array(keys, b"12")
    assert list(db) == []


def test_numpy_arrays(db):
    np = pytest.importorskip("numpy")
    keys = np.arange(1000, dtype=">u8")
    values = np.random.default_rng(1).random((1000, 4))
    db.put_array(keys, values)
    first = [keys[at : at + 1].tobytes() for at in range(8)]
    assert [key for key, _ in db.iterator(stop=first[3])] == first[:3]
    assert db.get_array(keys[:0], values[:0]) == b""
    found = np.full((1001, 4), np.nan)
    wanted = np.append(keys[::-1], 5000).astype(">u8")
    mask = np.frombuffer(db.get_array(wanted, found), bool)
    assert mask[:-1].all() and not mask[-1] and np.isnan(found[-1]).all()
    assert (found[:-1] == values[::-1]).all()
    names = np.array([b"ada", b"bob"], dtype="S3")
    db.put_array(names, np.array([1, 2], dtype="i4"))
    assert db[b"bob"] == np.int32(2).tobytes()
    back = np.empty(2, dtype="i4")
    db.get_array(names, back)
    assert back.tolist() == [1, 2]
    row = np.zeros(4)
    assert db.get_into(first[7], row) == 32 and (row == values[7]).all()
    # A stride is read as it is seen.
    db.put_array(names, np.arange(4, dtype="i4")[::2])
    db.get_array(names, back)
    assert back.tolist() == [0, 2]
