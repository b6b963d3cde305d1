"""Merges and pairs that expire."""

import math
import time

import pytest

import esker

DAY_SECONDS = 86_400


def gone(part, key):
    """Polls until the key does not exist. A busy machine only makes the loop longer."""
    while key in part:
        time.sleep(0.001)
    return part.get(key) is None


def longest(_key, existing, operands):
    return max([existing or b"", *operands], key=len)


def fails(_key, existing, operands):
    if b"bad" in operands:
        raise ValueError("an operand is bad")
    if b"number" in operands:
        return 7
    return b"+".join([existing or b"none", *operands])


def chained(_key, operands):
    return b"+".join(operands) if b"apart" not in operands else None


def test_built_in_counter(place):
    with esker.DB(place, create_if_missing=True, merge="add_i64") as db:
        for operand in (b"40", b"-1", bytearray(b"3")):
            db.merge(b"n", operand)
        db.merge(b"n", b"0", sync=True)
        assert db[b"n"] == b"42"
        with pytest.raises(esker.Error, match="add_i64"):
            db.merge(b"n", b"seven")
        with db.write_batch() as batch:
            batch.merge(b"n", b"1")
            batch.merge(b"m", b"5")
        assert (db[b"n"], db[b"m"]) == (b"43", b"5")
        db.prefixed_db(b"p").merge(b"n", b"9")
        assert db[b"pn"] == b"9"
    # The name is kept with the database.
    with esker.DB(place) as db:
        db.merge(b"n", b"1")
        db.compact_range()
        assert list(db) == [(b"m", b"5"), (b"n", b"44"), (b"pn", b"9")]
    with pytest.raises(esker.Error, match="add_i64"):
        esker.DB(place, merge="max")


def test_merge_without_operator_is_refused(db):
    plain = db.keyspace("plain")
    batch = db.write_batch()
    batch.merge(b"k", b"1")
    for call in (lambda: db.merge(b"k", b"1"), lambda: plain.merge(b"k", b"1"), batch.write):
        with pytest.raises(esker.Error, match="merge operator"):
            call()
    with pytest.raises(esker.Error, match="unknown"):
        db.keyspace("other", merge="unknown")
    for wrong in (7, longest):
        with pytest.raises(TypeError, match="merge"):
            db.keyspace("other", merge=wrong)
    with pytest.raises(TypeError, match="bytes"):
        db.merge(b"k", "1")
    assert list(db) == []


def test_function_merges_in_database_and_keyspace(place):
    operators = {"test.longest": longest, "test.fails": (fails, chained)}
    options = {"create_if_missing": True, "merge_operators": operators}
    with esker.DB(place, merge=longest, **options) as db:
        words = db.keyspace("words", merge="test.fails")
        for word in (b"a", b"ccc", b"bb"):
            db.merge(b"k", word)
            words.merge(b"k", word)
        words.put(b"old", b"")
        with db.write_batch() as batch:
            batch.merge(b"old", b"x", keyspace=words)
            batch.merge(b"apart", b"apart", keyspace=words)
            batch.merge(b"apart", b"y", keyspace=words)

        def check():
            assert db[b"k"] == b"ccc"
            assert words[b"k"] == b"none+a+ccc+bb"
            assert (words[b"old"], words[b"apart"]) == (b"none+x", b"none+apart+y")

        check()
        words.compact_range()
        db.compact_range()
        check()
        assert db.keyspace("words", merge=fails).id == words.id
    # Without its functions the database opens, and what needs them is refused.
    with esker.DB(place) as db:
        words = db.find_keyspace("words")
        with pytest.raises(esker.Error, match=r"test\.fails"):
            words.merge(b"k", b"d")


def test_function_that_raises_is_an_error_of_the_read(place):
    options = {"create_if_missing": True, "merge_operators": {"test.fails": (fails, chained)}}
    with esker.DB(place, merge="test.fails", **options) as db:
        for operand, why in ((b"bad", "ValueError: an operand is bad"), (b"number", "TypeError")):
            db.merge(operand, operand)
            for _ in range(2):
                with pytest.raises(esker.Error, match=why):
                    db.get(operand)
            with pytest.raises(esker.Error, match=why):
                list(db)
            # A compaction keeps the operands.
            db.compact_range()
            with pytest.raises(esker.Error, match=why):
                db.get(operand)
            db.put(operand, b"good")
            assert db[operand] == b"good"
        db.merge(b"bad", b"x")
        assert db[b"bad"] == b"good+x"


def test_function_cannot_use_its_database(place):
    caught = []

    def greedy(_key, _existing, operands):
        for call in (lambda: db.get(b"k"), lambda: db.merge(b"k", b"1"), db.close):
            try:
                call()
            except esker.Error as error:
                caught.append(str(error))
        return operands[-1]

    options = {"create_if_missing": True, "merge_operators": {"test.greedy": greedy}}
    with esker.DB(place, merge="test.greedy", **options) as db:
        db.merge(b"k", b"1")
        assert db[b"k"] == b"1"
        assert len(caught) >= 3
        assert all("must not use its own store" in text for text in caught)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"merge": "unknown"}, ValueError),
        ({"merge": longest}, TypeError),
        ({"merge": 7}, TypeError),
        ({"merge_operators": [longest]}, TypeError),
        ({"merge_operators": {7: longest}}, TypeError),
        ({"merge_operators": {"test": 7}}, TypeError),
        ({"merge_operators": {"test": (longest, 7)}}, TypeError),
        ({"merge_operators": {"add_i64": longest}}, ValueError),
        ({"merge_operators": {"": longest}}, ValueError),
    ],
)
def test_wrong_operators_are_refused(place, options, error):
    with pytest.raises(error):
        esker.DB(place, create_if_missing=True, **options)
    assert not place.exists()


def test_pairs_expire(db):
    users = db.keyspace("users")
    for part in (db, users, db.prefixed_db(b"p")):
        part.put(b"short", b"1", ttl=0.01)
        part.put(b"never", b"2", ttl=math.inf)
        part.put(b"plain", b"3")
        before = time.time()
        part.put(b"long", b"4", ttl=DAY_SECONDS)
        assert part.expiry(b"long") >= before + DAY_SECONDS - 1
        assert part.expiry(b"never") is None
        assert part.expiry(b"plain") is None
        assert gone(part, b"short")
        with pytest.raises(KeyError):
            part.expiry(b"short")
        part.put(b"zero", b"5", ttl=0)
        assert b"zero" not in part
        assert (part[b"long"], part[b"never"], part[b"plain"]) == (b"4", b"2", b"3")


def test_touch(db):
    db.put(b"k", b"v", ttl=DAY_SECONDS)
    first = db.expiry(b"k")
    assert db.touch(b"k", 2 * DAY_SECONDS)
    assert db.expiry(b"k") >= first + DAY_SECONDS - 1
    assert db.touch(b"k", None)
    assert db.expiry(b"k") is None
    assert db[b"k"] == b"v"
    assert db.touch(b"k", 0)
    assert b"k" not in db
    assert not db.touch(b"k", 1)


def test_keyspace_with_a_time_to_live(db):
    sessions = db.keyspace("sessions", ttl=0.01)
    sessions.put(b"kept", b"1", ttl=math.inf)
    sessions.put(b"short", b"2")
    with db.write_batch() as batch:
        batch.put(b"batch", b"3", keyspace=sessions)
        batch.put(b"longer", b"4", ttl=DAY_SECONDS, keyspace=sessions)
        batch.put(b"own", b"5", ttl=0)
    assert gone(sessions, b"short")
    assert gone(sessions, b"batch")
    assert list(sessions) == [(b"kept", b"1"), (b"longer", b"4")]
    assert list(db) == []
    with pytest.raises(esker.Error):
        db.keyspace("sessions", ttl=5)


@pytest.mark.parametrize(("ttl", "error"), [(-1, ValueError), (math.nan, ValueError), ("1", TypeError)])
def test_wrong_times_to_live_are_refused(db, ttl, error):
    batch = db.write_batch()
    for call in (
        lambda: db.put(b"k", b"v", ttl=ttl),
        lambda: batch.put(b"k", b"v", ttl=ttl),
        lambda: db.touch(b"k", ttl),
        lambda: db.keyspace("other", ttl=ttl),
    ):
        with pytest.raises(error):
            call()
    assert list(db) == []
    assert db.keyspaces() == ["default"]
