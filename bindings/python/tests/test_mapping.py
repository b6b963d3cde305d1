"""The methods of a dict, on a database, a keyspace, a prefixed database, and their mappings."""

from collections.abc import MutableMapping

import pytest


@pytest.fixture(params=["database", "prefixed", "keyspace", "prefixed in a keyspace", "default"])
def part(db, request):
    if request.param == "database":
        yield db
        return
    if request.param == "default":
        yield db.keyspace("default")
        return
    others = [db.keyspace("before"), db.keyspace("zz behind")]
    whole = db
    if "keyspace" in request.param:
        others.append(db)
        whole = db.keyspace("own")
    for other in others:
        other.update({b"a": b"before", b"q": b"behind"})
    if "prefixed" in request.param:
        whole.update({b"a": b"before", b"q": b"behind"})
        yield whole.prefixed_db(b"p")
        assert whole.get(b"a") == b"before" and whole.get(b"q") == b"behind"
    else:
        yield whole
    for other in others:
        assert list(other) == [(b"a", b"before"), (b"q", b"behind")]


def test_items_by_key(part):
    part[b"k"] = b"v"
    assert part[b"k"] == b"v" and b"k" in part and b"none" not in part
    del part[b"k"]
    with pytest.raises(KeyError) as error:
        part[b"k"]
    assert error.value.args == (b"k",)
    with pytest.raises(KeyError):
        del part[b"k"]
    with part.snapshot() as snapshot:
        part[b"k"] = b"v"
        assert b"k" not in snapshot
        with pytest.raises(KeyError):
            snapshot[b"k"]
    assert part.snapshot()[b"k"] == b"v"


def test_iteration_gives_pairs_and_views_give_keys_values_and_items(part):
    part.update({b"a": b"1", b"c": b"3"})
    part.update([(b"b", b"2")])
    assert list(part) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert list(part.keys()) == [b"a", b"b", b"c"]
    assert list(part.values()) == [b"1", b"2", b"3"]
    assert list(part.items()) == list(part)
    assert list(reversed(part.keys())) == [b"c", b"b", b"a"]
    assert list(reversed(part.values())) == [b"3", b"2", b"1"]
    assert list(reversed(part.items())) == list(reversed(list(part)))
    assert len(part.keys()) == len(part.values()) == len(part.items()) == 3
    assert b"a" in part.keys() and b"2" in part.values() and (b"c", b"3") in part.items()
    assert b"d" not in part.keys() and b"4" not in part.values()
    assert part.keys() & {b"a", b"z"} == {b"a"}


def test_pop_setdefault_and_popitem(part):
    part.update({b"a": b"1", b"b": b"2", b"c": b"3"})
    assert part.pop(b"a") == b"1"
    assert part.pop(b"a", None) is None and part.pop(b"a", b"x") == b"x"
    with pytest.raises(KeyError):
        part.pop(b"a")
    with pytest.raises(TypeError):
        part.pop(b"a", 1, 2)
    assert part.setdefault(b"b", b"x") == b"2" and part.setdefault(b"d", b"x") == b"x"
    assert part.mapping().popitem() == (b"d", b"x")
    part.clear()
    assert list(part) == []
    part.clear()
    with pytest.raises(KeyError):
        part.mapping().popitem()


def test_mapping_methods(part):
    mapping = part.mapping()
    assert isinstance(mapping, MutableMapping)
    assert not mapping and len(mapping) == 0
    mapping.update({b"a": b"1", b"b": b"2"})
    assert mapping and dict(mapping) == {b"a": b"1", b"b": b"2"} == mapping
    assert list(mapping) == [b"a", b"b"] and list(reversed(mapping)) == [b"b", b"a"]
    assert mapping.get(b"c") is None and mapping.get(b"c", b"x") == b"x"
    assert b"a" in mapping and mapping.pop(b"a") == b"1" and len(mapping) == 1
    assert "Mapping of" in repr(mapping)


def test_failed_update_changes_nothing(part):
    with pytest.raises(TypeError):
        part.update([(b"a", b"1"), (b"b", 2)])
    assert list(part) == []
