"""Values read into buffers, and arrays of keys and values of one size."""

import array
import threading

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


def test_buffer_stays_as_it_is_behind_the_value_and_for_a_missing_key(part):
    part.put(b"k", b"value")
    whole = bytearray(b".........")
    assert part.get_into(b"k", memoryview(whole)[2:7]) == 5 and whole == b"..value.."
    assert part.get_into(b"none", whole) is None and whole == b"..value.."
    whole.append(0)  # the buffer is free again


def test_array_of_wrong_row_size_or_count_is_not_changed(part):
    part.put_array(b"abc", memoryview(b"112233").cast("B", (3, 2)))
    for rows, error in [
        (bytearray(b"...."), "3 keys, but 4 values"),
        (memoryview(bytearray(b".........")).cast("B", (3, 3)), "2 bytes, but a row .* has 3"),
        (bytearray(b"..."), "2 bytes, but a row .* has 1"),
        (array.array("I", [7, 7, 7]), "2 bytes, but a row .* has 4"),
    ]:
        before = bytes(rows)
        with pytest.raises(ValueError, match=error):
            part.get_array(b"abc", rows)
        assert bytes(rows) == before
    found = array.array("H", [0, 0, 0])
    assert part.get_array(b"axc", found) == b"\1\0\1"
    assert found.tobytes() == b"11" + bytes(2) + b"33"


def test_targets_that_are_read_only_or_not_contiguous_are_refused(part):
    part.put_array(b"ab", b"12")
    for wrong, error in [
        (b"..", "must be writable"),
        (memoryview(bytearray(b"..")).toreadonly(), "must be writable"),
        (memoryview(bytearray(b"...."))[::2], "must be a contiguous array"),
        (memoryview(bytearray(b".."))[::-1], "must be a contiguous array"),
    ]:
        for call in (part.get_array, lambda keys, rows: part.get_into(keys[:1], rows)):
            before = bytes(wrong)
            with pytest.raises(TypeError, match=error):
                call(b"ab", wrong)
            assert bytes(wrong) == before


def test_arrays_without_rows_or_with_empty_rows(part):
    for none in (b"", bytearray(), array.array("d"), memoryview(bytearray(4))[4:]):
        part.put_array(none, none)
        assert part.get_array(none, bytearray()) == b""
        with pytest.raises(ValueError, match="0 keys, but 1 values"):
            part.put_array(none, b"1")
    assert list(part) == []
    number = memoryview(array.array("d", [1.0])).cast("B").cast("d", ())
    with pytest.raises(TypeError, match="must have rows"):
        part.put_array(number, b"1")


def test_sources_that_are_not_contiguous_are_read_as_they_are_seen(part):
    source = bytearray(b"aXbYcZ")
    part.put_array(memoryview(source)[::2], memoryview(source)[1::2])
    assert list(part) == [(b"a", b"X"), (b"b", b"Y"), (b"c", b"Z")]
    found = bytearray(3)
    assert part.get_array(memoryview(source)[4::-2], found) == b"\1\1\1" and found == b"ZYX"
    source.append(0)  # the buffer is free again


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


def test_numpy_arrays_of_any_type_and_stride(part):
    np = pytest.importorskip("numpy")
    keys = np.array([3, 1, 2], dtype=">u4")
    values = np.array([30.5, 10.5, 20.5], dtype=">f8")
    values.flags.writeable = False
    part.put_array(keys, values)
    found = np.zeros(3, dtype=">f8")
    assert part.get_array(keys, found) == b"\1\1\1" and (found == values).all()
    record = np.zeros(3, dtype=[("a", "<u4"), ("b", "<u4")])
    assert part.get_array(keys, record) == b"\1\1\1" and record.tobytes() == values.tobytes()
    with pytest.raises(TypeError, match="must be writable"):
        part.get_array(keys, values)

    table = np.arange(24, dtype="i4").reshape(4, 6)
    names = np.array([b"ada", b"bob", b"cid", b"dan"], dtype="S3")
    by_column = np.asfortranarray(table)
    for shown in (table[:, ::2], table[::-1, 1:4], by_column, table.T[:4]):
        part.put_array(names, shown)
        back = np.full(shown.shape, -1, dtype="i4")
        assert part.get_array(names, back) == b"\1\1\1\1" and (back == shown).all()
        assert part.get_array(names[::-1], back) == b"\1\1\1\1" and (back == shown[::-1]).all()
    for wrong in (table[:, ::2], by_column, table[::-1]):
        before = wrong.copy()
        with pytest.raises(TypeError, match="must be a contiguous array"):
            part.get_array(names, wrong)
        assert (wrong == before).all()
    assert part.get_array(names[:0], table[:0]) == b""
    part.put_array(names, table[:, :0])
    assert part.get(b"ada") == b""


def test_numpy_rows_of_zero_bytes(part):
    np = pytest.importorskip("numpy")
    names = np.array([b"ada", b"bob", b"cid"], dtype="S3")
    nothing = np.empty((3, 0), dtype="i4")
    part.put_array(names[:2], nothing[:2])
    assert part.get_array(names, nothing) == b"\1\1\0"
    assert part.get_array(names, np.empty((3, 4, 0))) == b"\1\1\0"
    part.put(b"ada", b"x")
    with pytest.raises(ValueError, match="has 1 bytes, but a row of the array has 0"):
        part.get_array(names, nothing)
    part.put(b"ada", b"")
    assert part.get_into(b"ada", np.empty((0, 2))) == 0
    nothing.flags.writeable = False
    with pytest.raises(TypeError, match="must be writable"):
        part.get_array(names, nothing)


def test_many_rows_with_gaps_and_rows_longer_than_a_group(part):
    count = 20000  # several groups of rows
    keys = array.array("I", range(count))
    part.put_array(keys, array.array("Q", range(count)))
    wanted = array.array("I", [at if at // 7000 % 2 == 0 else count + at for at in range(count)])
    found = array.array("Q", [9] * count)
    mask = part.get_array(wanted, found)
    assert list(mask) == [at // 7000 % 2 == 0 for at in range(count)]
    assert found.tolist() == [at if mask[at] else 9 for at in range(count)]
    long = memoryview(bytearray(bytes([1]) * 70000 + bytes([2]) * 70000)).cast("B", (2, 70000))
    part.put_array(b"ab", long)
    back = memoryview(bytearray(3 * 70000)).cast("B", (3, 70000))
    assert part.get_array(b"bxa", back) == b"\1\0\1"
    assert bytes(back) == bytes([2]) * 70000 + bytes(70000) + bytes([1]) * 70000


def test_row_that_another_thread_changes_is_an_old_or_a_new_one(part):
    keys, rows = b"abcd", memoryview(bytearray(4 * 512)).cast("B", (4, 512))
    going = True

    def change():
        while going:
            for byte in range(256):
                rows.cast("B")[:512] = bytes([byte]) * 512

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            part.put_array(keys, rows)
            assert len(set(part[b"a"])) == 1 and part[b"b"] == bytes(512)
    finally:
        going = False
        thread.join()
