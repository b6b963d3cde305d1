"""Encrypted databases: keys, refusals, copies, another key."""

import pathlib

import pytest

import esker

SECRET = b"a value that nobody may read"
KEY, OTHER = b"\x5a" * 32, b"0b" * 32


def plain_files(place):
    """Returns the names of the files that have the secret."""
    files = [path for path in pathlib.Path(place).rglob("*") if path.is_file()]
    assert len(files) > 3
    return [path.name for path in files if SECRET in path.read_bytes()]


def make(place, **options):
    with esker.DB(place, create_if_missing=True, **options) as db:
        db[b"table"] = SECRET
        db.flush()
        db[b"log"] = SECRET


def test_encrypted_database_opens_with_its_key_only(tmp_path):
    make(tmp_path / "plain")
    make(tmp_path / "db", key=KEY)
    assert plain_files(tmp_path / "plain") and not plain_files(tmp_path / "db")
    for key, why in [
        (None, "the store is encrypted"),
        (OTHER, "does not open this store"),
        (tmp_path / "none", "cannot read the key file"),
    ]:
        with pytest.raises(esker.Error, match=why) as caught:
            esker.DB(tmp_path / "db", key=key)
        assert caught.value.kind == "invalid argument"
    with pytest.raises(esker.Error, match="the store is not encrypted"):
        esker.DB(tmp_path / "plain", key=KEY)
    (tmp_path / "key").write_text("5A" * 32 + "\n")
    for key in (KEY, bytearray(KEY), memoryview(KEY), b"5a" * 32, tmp_path / "key"):
        with esker.DB(tmp_path / "db", key=key) as db:
            assert db[b"table"] == db[b"log"] == SECRET
    with esker.DB(tmp_path / "db", key=KEY, read_only=True) as db:
        assert db[b"log"] == SECRET


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 64, b"\x5a" * 33])
def test_what_is_no_key_is_refused_without_its_bytes(place, key):
    with pytest.raises(ValueError, match="'key': expected a key") as caught:
        esker.DB(place, create_if_missing=True, key=key)
    assert "xxx" not in str(caught.value) and not place.exists()


@pytest.mark.parametrize("key", ["5a" * 32, 7, object()])
def test_wrong_types_of_keys_are_refused(place, key):
    with pytest.raises(TypeError):
        esker.DB(place, create_if_missing=True, key=key)


def test_function_gives_keys_by_name(place):
    asked, db = [], None

    def key_of(name):
        asked.append(name)
        if db is not None:
            with pytest.raises(esker.Error, match="must not use its own store"):
                db.flush()
        return b"k" * 32, "key 1"

    with esker.DB(place, create_if_missing=True, key=key_of) as db:
        assert asked[0] is None
        db[b"k"] = b"v"
        asked.clear()
        db.fork(place.parent / "fork")
        assert asked
    db = None
    asked.clear()
    with esker.DB(place, key=key_of) as opened:
        assert opened[b"k"] == b"v"
    assert set(asked) == {"key 1"}

    def fails(name):
        raise LookupError("the service is down")

    for function, why in [
        (fails, "the service is down"),
        (lambda name: None, "bytes-like"),
        (lambda name: (b"short", "key 1"), "found 5"),
        (lambda name: (b"k" * 32, ""), "1 to 64 bytes"),
        (lambda name: (b"k" * 32,), "IndexError"),
        (lambda name: b"o" * 32, "does not open this store"),
    ]:
        with pytest.raises(esker.Error, match=why):
            esker.DB(place, key=function)


def test_rekey_replaces_the_key(tmp_path, place):
    make(place, key=KEY)
    with esker.DB(place, key=KEY), pytest.raises(esker.IOError) as caught:
        esker.rekey_db(place, KEY, OTHER)
    assert caught.value.kind == "locked"
    for arguments in [(OTHER, KEY), (KEY, None), (None, KEY)]:
        with pytest.raises(esker.Error):
            esker.rekey_db(place, *arguments)
    with pytest.raises(ValueError, match="'new_key'"):
        esker.rekey_db(place, KEY, b"short")
    with pytest.raises(esker.IOError):
        esker.rekey_db(tmp_path / "none", KEY, OTHER)
    report = esker.rekey_db(place, KEY, OTHER)
    assert len(report.old) == len(report.new) == 16 and report.old != report.new
    assert report.data_keys >= 1 and report.removed_data_keys == 0
    with pytest.raises(esker.Error) as caught:
        esker.DB(place, key=KEY)
    assert report.old in str(caught.value) and report.new in str(caught.value)
    with esker.DB(place, key=OTHER) as db:
        assert db[b"table"] == db[b"log"] == SECRET
        db.compact_range()
    assert not plain_files(place)


def test_copies_are_encrypted_under_the_same_key(tmp_path, place):
    make(place, key=KEY)
    with esker.DB(place, key=KEY) as db:
        db.backup(tmp_path / "backups")
        db.backup(tmp_path / "backups")
        db.checkpoint(tmp_path / "checkpoint")
        assert esker.live_status(place, key=KEY)["process"] > 0
        writer = esker.SortedWriter(tmp_path / "sorted", key=KEY)
        writer.put(b"sorted", SECRET)
        db.ingest([writer.finish().path])
        assert db[b"sorted"] == SECRET
    backups = esker.list_backups(tmp_path / "backups", key=KEY)
    assert [backup.problem for backup in backups] == [None, None]
    assert esker.prune_backups(tmp_path / "backups", keep=1, key=KEY) == [1]
    assert esker.restore_db(tmp_path / "backups", tmp_path / "restored", key=KEY) == 2
    assert esker.repair_db(tmp_path / "restored", key=KEY) == []
    for copy in ("checkpoint", "restored"):
        assert not plain_files(tmp_path / copy)
        with esker.DB(tmp_path / copy, key=KEY) as db:
            assert db[b"log"] == SECRET
    assert not plain_files(place) and not plain_files(tmp_path / "backups")
