"""Key orders implemented by Python functions."""

import pytest

import esker


def by_length(a, b):
    return (len(a) > len(b)) - (len(a) < len(b)) or (a > b) - (a < b)


ORDER = dict(comparator=by_length, comparator_name=b"test.ByLength")


def test_comparator_orders_files_and_reopened_databases(place):
    with esker.DB(place, create_if_missing=True, **ORDER) as db:
        for key in (b"ccc", b"a", b"bb", b"", b"aaaa"):
            db[key] = key
        db.flush()
        db[b"b"] = b"b"
        db.compact_range()
        keys = [b"", b"a", b"b", b"bb", b"ccc", b"aaaa"]
        assert list(db.keys()) == keys
        assert list(db.iterator(start=b"b", stop=b"aaaa", include_key=False)) == keys[2:5]
        assert db[b"bb"] == b"bb"
    with esker.DB(place, **ORDER) as db:
        assert list(db.keys()) == keys
    with pytest.raises(esker.Error, match="test.ByLength"):
        esker.DB(place)
    assert esker.repair_db(place, **ORDER) == []


def test_background_flushes_call_comparator(place):
    with esker.DB(place, create_if_missing=True, write_buffer_size=64 << 10, **ORDER) as db:
        for number in range(3000):
            db[b"%d" % (number * 7919 % 3000)] = b"v" * 100
        assert [int(key) for key in db.keys()] == list(range(3000))


USES = {
    "put": lambda db, _: db.put(b"c", b""),
    "get": lambda db, _: db.get(b"a"),
    "close": lambda db, _: db.close(),
    "flush": lambda db, _: db.flush(),
    "iterator": lambda db, _: list(db.iterator()),
    "next": lambda _, it: next(it),
    "end of an iterator": lambda _, it: it.close(),
    "snapshot": lambda db, _: db.snapshot(),
    "batch": lambda db, _: db.write_batch().put(b"c", b""),
    "metrics": lambda db, _: db.metrics(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("outer", ["put", "get", "walk", "batch"])
def test_comparator_cannot_use_its_own_database(place, tmp_path, use, outer):
    inner, raised = [], []
    other = esker.DB(tmp_path / "other", create_if_missing=True)
    other[b"rank"] = b"1"

    def order(a, b):
        assert other[b"rank"] == b"1"
        if inner:
            with pytest.raises(esker.Error, match="must not use its own store") as error:
                USES[use](*inner.pop())
            raised.append(error.value.kind)
        return (a > b) - (a < b)

    given = dict(comparator=order, comparator_name=b"test.Uses")
    with other, esker.DB(place, create_if_missing=True, **given) as db:
        db[b"a"] = db[b"b"] = b"1"
        steps = db.iterator()
        batch = db.write_batch()
        batch.put(b"d", b"1")
        inner.append((db, steps))
        if outer == "put":
            db[b"d"] = b"1"
        elif outer == "get":
            assert db[b"a"] == b"1"
        elif outer == "walk":
            steps.seek(b"b")
        else:
            batch.write()
        assert raised == ["invalid argument"]
        assert not inner and db.get(b"a") == b"1" and next(steps)[0] in (b"a", b"b")


def test_comparator_that_propagates_refusal_stops_database(place):
    inner = []

    def order(a, b):
        if inner:
            inner.pop().close()
        return (a > b) - (a < b)

    db = esker.DB(place, create_if_missing=True, comparator=order, comparator_name=b"test.Closes")
    db[b"a"] = b"1"
    inner.append(db)
    with pytest.raises(RuntimeError) as error:
        db[b"b"] = b"1"
    assert isinstance(error.value.__cause__, esker.Error)
    db.close()


def test_comparator_that_raises_stops_database(place):
    broken = False

    def order(a, b):
        if broken:
            raise ZeroDivisionError("no order")
        return (a > b) - (a < b)

    given = dict(comparator=order, comparator_name=b"test.Broken")
    db = esker.DB(place, create_if_missing=True, **given)
    db[b"a"] = db[b"b"] = b"1"
    steps = db.iterator()
    broken = True
    for call in (lambda: db.get(b"a"), lambda: db.put(b"c", b""), lambda: next(steps)):
        with pytest.raises(RuntimeError) as error:
            call()
        assert isinstance(error.value.__cause__, ZeroDivisionError)
    broken = False
    with pytest.raises(RuntimeError):
        db[b"a"]
    db.close()
    with esker.DB(place, **given) as db:
        assert list(db.keys()) == [b"a", b"b"]


def test_comparator_must_return_a_number(place):
    given = dict(comparator=lambda a, b: "less", comparator_name=b"test.Words")
    db = esker.DB(place, create_if_missing=True, **given)
    with pytest.raises(RuntimeError) as error:
        db[b"a"] = b""
        db[b"b"] = b""
    assert isinstance(error.value.__cause__, TypeError)
    db.close()
