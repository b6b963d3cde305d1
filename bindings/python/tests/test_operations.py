"""The operations of a batch."""

import math

import pytest

import esker


def shown(batch):
    return [
        (each.kind, each.keyspace_id, each.key, each.value, each.stop, each.ttl) for each in batch
    ]


def test_operations_are_listed_in_order(db):
    users = db.keyspace("users", merge="append")
    batch = db.write_batch()
    assert batch.operations() == [] and list(batch) == []
    batch.put(b"a", b"1")
    batch.put(b"b", b"2", ttl=1.5)
    batch.put(b"c", b"", ttl=math.inf)
    batch.merge(b"d", b"3", keyspace=users)
    batch.delete(b"e", keyspace=users)
    batch.delete_range(b"f", b"g")
    batch.delete_range(b"", b"z", keyspace=users)
    assert shown(batch) == [
        ("put", 0, b"a", b"1", None, None),
        ("put", 0, b"b", b"2", None, 1.5),
        ("put", 0, b"c", b"", None, None),
        ("merge", users.id, b"d", b"3", None, None),
        ("delete", users.id, b"e", None, None, None),
        ("delete_range", 0, b"f", None, b"g", None),
        ("delete_range", users.id, b"", None, b"z", None),
    ]
    assert users.id > 0 and len(batch.operations()) == batch.count() == 7
    assert repr(batch.operations()[4]) == f"<esker.Operation delete b'e' in keyspace {users.id}>"


def test_keys_have_prefixes_and_puts_the_time_of_their_keyspace(db):
    sessions = db.keyspace("sessions", ttl=60)
    batch = sessions.write_batch()
    batch.put(b"k", b"v")
    batch.put(b"l", b"v", ttl=math.inf)
    assert shown(batch) == [
        ("put", sessions.id, b"k", b"v", None, 60.0),
        ("put", sessions.id, b"l", b"v", None, None),
    ]
    batch = db.prefixed_db(b"a-").write_batch()
    batch.delete(b"k")
    assert [each.key for each in batch] == [b"a-k"]


def test_list_stays_as_it_was_when_the_batch_changes(db):
    batch, other = db.write_batch(), db.write_batch()
    batch.put(b"a", b"1")
    seen = []
    for each in batch:
        seen.append(each.key)
        batch.put(b"more", b"1")
    other.delete(b"b")
    batch.append(other)
    old = batch.operations()
    batch.clear()
    assert seen == [b"a"] and batch.operations() == []
    assert [each.key for each in old] == [b"a", b"more", b"b"]


def test_operations_make_an_equal_batch(db, tmp_path):
    users = db.keyspace("users", merge="add_i64")
    batch = db.write_batch()
    batch.put(b"a", b"1", ttl=1000)
    batch.merge(b"n", b"2", keyspace=users)
    batch.delete_range(b"b", b"c")
    with esker.DB(tmp_path / "copy", create_if_missing=True) as copy:
        keyspaces = {0: None, users.id: copy.keyspace("users", merge="add_i64")}
        copy.put(b"b", b"0")
        with copy.write_batch() as again:
            for each in batch:
                part = keyspaces[each.keyspace_id]
                if each.kind == "put":
                    ttl = math.inf if each.ttl is None else each.ttl
                    again.put(each.key, each.value, ttl=ttl, keyspace=part)
                elif each.kind == "merge":
                    again.merge(each.key, each.value, keyspace=part)
                elif each.kind == "delete":
                    again.delete(each.key, keyspace=part)
                else:
                    again.delete_range(each.key, each.stop, keyspace=part)
        assert list(copy) == [(b"a", b"1")] and copy.expiry(b"a") is not None
        assert list(keyspaces[users.id]) == [(b"n", b"2")]


def test_refused_operation_is_not_listed_and_fails_the_write(db):
    batch = db.write_batch()
    batch.put(b"a", b"1")
    batch.put(b"k" * ((1 << 20) + 1), b"v")
    assert [each.key for each in batch] == [b"a"]
    with pytest.raises(esker.Error):
        batch.write()


def test_batch_of_a_closed_database_raises(place):
    with esker.DB(place, create_if_missing=True) as db:
        batch = db.write_batch()
        batch.put(b"a", b"1")
    for call in (batch.operations, lambda: list(batch)):
        with pytest.raises(RuntimeError, match="closed"):
            call()
