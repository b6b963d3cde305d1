"""Keyspaces: their list, options and key orders, batches and snapshots over several, errors."""

import errno
import threading

import pytest

import esker


def by_length(a, b):
    return (len(a) > len(b)) - (len(a) < len(b)) or (a > b) - (a < b)


ORDERS = dict(create_if_missing=True, key_orders={"test.ByLength": by_length})


def test_keyspaces_hold_their_own_pairs(db):
    users, mails = db.keyspace("users"), db.keyspace("mails")
    users[b"a"], mails[b"a"], db[b"a"] = b"user", b"mail", b"default"
    assert (users[b"a"], mails[b"a"], db[b"a"]) == (b"user", b"mail", b"default")
    users.put(b"b", b"2", sync=True)
    users.put(b"c", b"3")
    assert users.get_many([b"c", b"none", b"a"]) == [b"3", None, b"user"]
    assert list(users.iterator(start=b"b", include_value=False)) == [b"b", b"c"]
    assert list(users.iterator(stop=b"c", reverse=True)) == [(b"b", b"2"), (b"a", b"user")]
    with users.raw_iterator() as raw:
        raw.seek_to_last()
        assert raw.item() == (b"c", b"3")
        raw.next()
        assert not raw.valid()
        raw.seek(b"aa")
        assert raw.key() == b"b"
    users.delete(b"a")
    users.delete_range(b"b", b"c", sync=True)
    assert list(users.keys()) == [b"c"] and list(mails.keys()) == [b"a"] == list(db.keys())
    users.clear()
    assert list(users) == [] and list(mails) == [(b"a", b"mail")]


def test_keyspaces_are_listed_renamed_found_and_dropped(db, place):
    assert db.keyspaces() == ["default"] and db.find_keyspace("zebra") is None
    zebra, antelope = db.keyspace("zebra"), db.keyspace("antelope")
    assert db.keyspaces() == ["default", "antelope", "zebra"]
    assert zebra.db is db and zebra.name == "zebra" and "zebra" in repr(zebra)
    assert 0 < zebra.id < antelope.id == db.find_keyspace("antelope").id
    default = db.keyspace("default")
    assert (default.id, default.name) == (0, "default") and default.db is db
    zebra[b"k"] = b"v"
    db.rename_keyspace("zebra", "horse")
    assert zebra.name == "horse" and db.find_keyspace("horse")[b"k"] == b"v"
    assert "horse" in repr(zebra.prefixed_db(b"p"))
    steps = zebra.iterator()
    db.drop_keyspace("horse")
    assert db.keyspaces() == ["default", "antelope"]
    assert list(steps) == [(b"k", b"v")]
    for use in (lambda: zebra[b"k"], lambda: zebra.put(b"k", b"v"), zebra.iterator, zebra.clear):
        with pytest.raises(esker.IOError, match="dropped") as error:
            use()
        assert error.value.kind == "not found" and error.value.errno == errno.ENOENT
    again = db.keyspace("horse")
    assert again.id > antelope.id and list(again) == []
    again[b"k"] = b"w"
    db.close()
    with esker.DB(place) as db:
        assert db.keyspaces() == ["default", "antelope", "horse"]
        assert db.find_keyspace("horse")[b"k"] == b"w"


def test_keyspace_has_options_and_order_of_its_own(place):
    with esker.DB(place, **ORDERS) as db:
        plain = db.keyspace("plain", compression=None, block_size=8192, filter_bits=4.5)
        sizes = db.keyspace("sizes", order="test.ByLength", policy="leveled")
        backwards = db.keyspace("backwards", order=b"esker.reverse")
        for keyspace in (plain, sizes, backwards):
            keyspace.update({b"bb": b"", b"a": b"", b"ccc": b"", b"c": b""})
        db.flush()
        assert list(plain.keys()) == [b"a", b"bb", b"c", b"ccc"]
        assert list(sizes.keys()) == [b"a", b"c", b"bb", b"ccc"]
        assert list(backwards.keys()) == [b"ccc", b"c", b"bb", b"a"]
        assert list(sizes.iterator(start=b"b", stop=b"ccc", include_value=False)) == [b"c", b"bb"]
        sizes.mapping().clear()
        assert list(sizes) == [] and len(backwards.keys()) == 4
        assert db.keyspace("plain", filter_bits="4.5", block_size="8KiB", compression="none")
        for wrong in (dict(), dict(order="esker.reverse"), dict(compression=None)):
            with pytest.raises(esker.Error, match="plain") as error:
                db.keyspace("plain", **wrong)
            assert error.value.kind == "invalid argument"
        assert db.find_keyspace("plain").id == plain.id
    with pytest.raises(esker.Error, match="test.ByLength") as error:
        esker.DB(place)
    assert error.value.kind == "incompatible"
    assert esker.repair_db(place, **ORDERS) == []
    with esker.DB(place, key_orders={b"test.ByLength": by_length}) as db:
        assert list(db.keyspace("sizes", order=b"test.ByLength", policy="leveled")) == []
        assert list(db.keyspace("backwards", order="esker.reverse").keys())[0] == b"ccc"


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (dict(polycy="leveled"), TypeError, "policy"),
        (dict(policy="levelled"), ValueError, "leveled"),
        (dict(policy=["leveled"]), TypeError, "policy"),
        (dict(fan_out=1), ValueError, "fan_out"),
        (dict(compression="best"), ValueError, "zstd"),
        (dict(durability="sync"), ValueError, "whole store"),
        (dict(create_if_missing=True), ValueError, "whole store"),
        (dict(order="test.Unknown"), ValueError, "test.Unknown"),
        (dict(order=max), TypeError, "str or bytes"),
    ],
)
def test_wrong_option_is_named_and_creates_nothing(db, wrong, error, message):
    with pytest.raises(error, match=message):
        db.keyspace("new", **wrong)
    assert db.keyspaces() == ["default"]


def test_wrong_names_and_objects_are_refused(db, tmp_path):
    users = db.keyspace("users")
    for name in ("", "a\nb", "a\0b", "n" * 256, "n" * (1 << 20)):
        for call in (db.keyspace, lambda name: db.rename_keyspace("users", name)):
            with pytest.raises(esker.Error) as error:
                call(name)
            assert error.value.kind == "invalid argument"
    for name in (b"users", None, 3):
        for call in (db.keyspace, db.find_keyspace, db.drop_keyspace):
            with pytest.raises(TypeError):
                call(name)
    for call in (
        lambda: db.drop_keyspace("default"),
        lambda: db.rename_keyspace("default", "other"),
        lambda: db.rename_keyspace("users", "default"),
        lambda: db.rename_keyspace("users", "users"),
    ):
        with pytest.raises(esker.Error) as error:
            call()
        assert error.value.kind == "invalid argument"
    assert db.keyspace("default").size_bytes() >= 0
    for call in (lambda: db.drop_keyspace("none"), lambda: db.rename_keyspace("none", "some")):
        with pytest.raises(esker.IOError) as error:
            call()
        assert error.value.errno == errno.ENOENT
    with pytest.raises(TypeError):
        db.write_batch().put(b"k", b"v", keyspace="users")
    with esker.DB(tmp_path / "other", create_if_missing=True) as other:
        batch = other.write_batch()
        batch.put(b"k", b"v")
        batch.put(b"k", b"v", keyspace=users)
        with pytest.raises(esker.Error, match="another store"):
            batch.write()
        with other.snapshot() as snapshot, pytest.raises(esker.Error, match="another store"):
            snapshot.keyspace(users).get(b"k")
        assert list(other) == [] == list(users)


def test_batch_over_keyspaces_is_applied_as_a_whole(db):
    users, mails = db.keyspace("users"), db.keyspace("mails")
    users.update({b"a": b"1", b"b": b"1", b"c": b"1"})
    with db.write_batch(transaction=True) as batch:
        batch.put(b"a", b"2")
        batch.put(b"a", b"2", keyspace=mails)
        batch.delete(b"a", keyspace=users)
        batch.delete_range(b"b", b"c", keyspace=users)
    assert (list(db.keys()), list(mails.keys()), list(users.keys())) == ([b"a"], [b"a"], [b"c"])
    with users.write_batch() as batch:
        batch.put(b"d", b"3")
        batch.put(b"d", b"3", keyspace=db.keyspace("default"))
    with users.prefixed_db(b"p").write_batch() as batch:
        batch.put(b"e", b"4")
        batch.put(b"e", b"4", keyspace=users)
    assert list(users.keys()) == [b"c", b"d", b"e", b"pe"] and list(db.keys()) == [b"a", b"d"]
    with pytest.raises(ZeroDivisionError), users.write_batch(transaction=True) as batch:
        batch.clear()
        batch.put(b"f", b"5")
        raise ZeroDivisionError
    db.drop_keyspace("mails")
    batch = db.write_batch()
    batch.put(b"g", b"6", keyspace=users)
    batch.put(b"g", b"6", keyspace=mails)
    with pytest.raises(esker.IOError, match="dropped"):
        batch.write()
    assert b"f" not in users and b"g" not in users


def test_snapshot_shows_every_keyspace_at_one_moment(db):
    users, mails = db.keyspace("users"), db.keyspace("mails")
    users[b"a"] = mails[b"a"] = db[b"a"] = b"old"
    snapshot = db.snapshot()
    users[b"a"] = mails[b"a"] = db[b"a"] = b"new"
    late = db.keyspace("late")
    late[b"a"] = b"new"
    of_users, of_mails = snapshot.keyspace(users), snapshot.keyspace(mails)
    assert snapshot[b"a"] == of_users[b"a"] == of_mails.get(b"a") == b"old"
    assert list(snapshot.keyspace(late)) == [] and b"a" in of_users
    assert list(of_users.iterator(prefix=b"a", include_key=False)) == [b"old"]
    with of_users.raw_iterator() as raw:
        raw.seek_to_first()
        assert raw.item() == (b"a", b"old")
    snapshot.close()
    with pytest.raises(RuntimeError, match="closed"):
        snapshot.keyspace(users)
    assert of_users[b"a"] == b"old", "each snapshot is closed separately"
    of_users.close()
    with pytest.raises(RuntimeError, match="closed"):
        of_users.get(b"a")
    with users.snapshot() as own:
        assert own[b"a"] == b"new" and own.keyspace(db.keyspace("default"))[b"a"] == b"new"
    with users.prefixed_db(b"a").snapshot() as part:
        assert list(part) == [(b"", b"new")]
        assert list(part.keyspace(mails)) == [(b"a", b"new")]


def test_size_and_compaction(db):
    logs = db.keyspace("logs", compression=None)
    logs.update((b"%03d" % number, b"v" * 1000) for number in range(100))
    logs.compact_range()
    full = logs.size_bytes()
    assert full > 50_000
    logs.clear()
    logs.compact_range(start=b"000", stop=b"050")
    logs.compact_range()
    assert logs.size_bytes() < full / 2 and db.verify() == []


def test_read_only_database_shows_keyspaces(db, place):
    db.keyspace("users")[b"k"] = b"v"
    with esker.DB(place, read_only=True) as seen:
        assert seen.keyspace("users")[b"k"] == b"v" and seen.keyspaces() == ["default", "users"]
        for call in (lambda: seen.keyspace("new"), lambda: seen.drop_keyspace("users")):
            with pytest.raises(esker.IOError) as error:
                call()
            assert error.value.kind == "read-only"


def test_keyspace_keeps_its_database_open(place):
    users = esker.DB(place, create_if_missing=True).keyspace("users")
    users[b"k"] = b"v"
    with pytest.raises(esker.IOError):
        esker.DB(place)
    users.db.close()
    with pytest.raises(RuntimeError, match="closed"):
        users[b"k"]
    assert users.name == "users"
    with esker.DB(place) as db:
        batch = db.write_batch()
        batch.put(b"k", b"w", keyspace=users)
        with pytest.raises(esker.Error, match="another opening"):
            batch.write()
        assert db.keyspace("users")[b"k"] == b"v"


def test_order_of_keyspace_that_raises_stops_database(place):
    broken = False

    def order(a, b):
        if broken:
            raise ZeroDivisionError("no order")
        return (a > b) - (a < b)

    given = dict(create_if_missing=True, key_orders={"test.Broken": order})
    db = esker.DB(place, **given)
    keyspace = db.keyspace("broken", order="test.Broken")
    keyspace[b"a"] = keyspace[b"b"] = b"1"
    broken = True
    with pytest.raises(RuntimeError, match="test.Broken") as error:
        keyspace[b"a"]
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    with pytest.raises(RuntimeError, match="test.Broken"):
        db[b"a"] = b"1"
    db.close()
    broken = False
    with esker.DB(place, **given) as db:
        assert list(db.find_keyspace("broken").keys()) == [b"a", b"b"]


@pytest.mark.parametrize("use", ["put", "get", "keyspace", "drop", "batch", "close"])
def test_order_of_keyspace_cannot_use_its_own_database(place, use):
    inner, raised = [], []
    uses = {
        "put": lambda db, keyspace: db.put(b"c", b""),
        "get": lambda db, keyspace: keyspace.get(b"a"),
        "keyspace": lambda db, keyspace: db.keyspace("other"),
        "drop": lambda db, keyspace: db.drop_keyspace("own"),
        "batch": lambda db, keyspace: keyspace.write_batch().put(b"c", b""),
        "close": lambda db, keyspace: db.close(),
    }

    def order(a, b):
        if inner:
            with pytest.raises(esker.Error, match="must not use its own store") as error:
                uses[use](*inner.pop())
            raised.append(error.value.kind)
        return (a > b) - (a < b)

    with esker.DB(place, create_if_missing=True, key_orders={"test.Uses": order}) as db:
        keyspace = db.keyspace("own", order="test.Uses")
        keyspace[b"a"] = b"1"
        inner.append((db, keyspace))
        keyspace[b"b"] = b"1"
        assert raised == ["invalid argument"]
        assert list(keyspace.keys()) == [b"a", b"b"] and db.keyspaces() == ["default", "own"]


def test_threads_share_keyspaces(place):
    with esker.DB(place, create_if_missing=True, write_buffer_size=64 << 10) as db:
        raised = []

        def work(number):
            try:
                keyspace = db.keyspace("shared")
                own = db.keyspace(f"own {number}")
                for at in range(300):
                    key = b"%d-%d" % (number, at)
                    with db.write_batch(transaction=True) as batch:
                        batch.put(key, key * 10, keyspace=keyspace)
                        batch.put(key, key, keyspace=own)
                    assert keyspace[key] == key * 10 and own[key] == key
                db.drop_keyspace(f"own {number}")
            except BaseException as error:
                raised.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert raised == []
        assert db.keyspaces() == ["default", "shared"]
        assert len(db.keyspace("shared").keys()) == 1800
        assert db.verify() == []
