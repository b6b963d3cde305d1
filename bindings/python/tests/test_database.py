"""Options, reads, writes and errors, beyond plyvel's own tests."""

import errno
import inspect
import os
import re

import pytest

import esker
import esker.plyvel


def fill(db, count):
    with db.write_batch() as batch:
        for number in range(count):
            batch.put(b"%05d" % number, b"value %d" % number)


def test_plyvel_replacement_has_same_classes():
    for name in esker.plyvel.__all__:
        if not name.startswith("__"):
            assert getattr(esker.plyvel, name) is getattr(esker, name)
    assert re.match(r"\d+\.\d+\.\d+", esker.plyvel.__version__)


def test_names_may_be_str_bytes_or_paths(tmp_path):
    for number, kind in enumerate((str, os.fsencode, lambda path: path)):
        name = kind(tmp_path / f"db{number}")
        with esker.DB(name, create_if_missing=True) as db:
            assert db.name == name
            assert repr(name) in repr(db)
    assert len(os.listdir(tmp_path)) == 3


def test_every_engine_option_is_accepted(place):
    rows = {row.name: row for row in esker.options()}
    assert {"policy", "memtable_size_bytes", "durability"} <= rows.keys()
    assert all(row.doc and row.range for row in rows.values())
    plyvels = {"create_if_missing", "error_if_exists", "compression"}
    defaults = {name: row.default for name, row in rows.items() if name not in plyvels}
    with esker.DB(place, create_if_missing=True, **defaults) as db:
        for name, value in defaults.items():
            assert db.option(name) == value, name


def test_options_accept_str_numbers_bool_and_none(place):
    given = dict(
        policy="tiered", block_size_bytes=8192, base_rewrite_ratio=0.5, auto_compaction=False
    )
    with esker.DB(place, create_if_missing=True, cache_size_bytes=None, **given) as db:
        assert db.option("policy") == "tiered"
        assert db.option("block_size_bytes") == "8192"
        assert db.option("auto_compaction") == "false"
        assert db.option("cache_size_bytes") == "auto"
        db.set_option("fan_out", 4)
        assert db.option("fan_out") == "4"
        with pytest.raises(esker.Error, match="fan_out"):
            db.set_option("fan_out", 1)
        with pytest.raises(KeyError):
            db.option("fan_in")


def test_plyvel_options_are_clamped_and_set_engine_options(place):
    given = dict(write_buffer_size=1, lru_cache_size=1 << 20, bloom_filter_bits=7, compression=None)
    with esker.DB(place, create_if_missing=True, **given) as db:
        assert db.option("memtable_size_bytes") == str(64 << 10)
        assert db.option("cache_size_bytes") == str(1 << 20)
        assert db.option("filter_bits_per_key") == "7"
        assert db.option("compression") == "none"
    with esker.DB(place, compression=b"snappy") as db:
        assert db.option("compression") == "snappy"


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (dict(polycy="leveled"), TypeError, "policy"),
        (dict(policy="levelled"), ValueError, "leveled"),
        (dict(policy=["leveled"]), TypeError, "policy"),
        (dict(fan_out=1), ValueError, "fan_out"),
        (dict(write_buffer_size="64"), TypeError, "write_buffer_size"),
        (dict(write_buffer_size=-1), OverflowError, "write_buffer_size"),
        (dict(create_if_missing=3), TypeError, "create_if_missing"),
        (dict(compression="best"), ValueError, "zstd"),
        (dict(compression=b"\xff"), ValueError, "zstd"),
        (dict(compression=3), TypeError, "compression"),
        (dict(comparator=max), ValueError, "comparator_name"),
        (dict(key_orders=["name"]), TypeError, "key_orders"),
        (dict(key_orders={"name": 1}), TypeError, "callable"),
        (dict(key_orders={1: max}), TypeError, "str or bytes"),
    ],
)
def test_unknown_option_is_named_and_creates_nothing(place, wrong, error, message):
    with pytest.raises(error, match=message):
        esker.DB(place, **{"create_if_missing": True, **wrong})
    assert not place.exists()


def test_errors_have_kind_path_and_code(db, place):
    with pytest.raises(esker.IOError) as locked:
        esker.DB(place)
    assert locked.value.kind == "locked" and locked.value.errno == errno.EWOULDBLOCK
    assert locked.value.path and str(place) in str(locked.value)
    assert isinstance(locked.value, OSError) and isinstance(locked.value, esker.Error)
    with pytest.raises(esker.IOError) as missing:
        esker.DB(place.parent / "none")
    assert missing.value.errno == errno.ENOENT
    with pytest.raises(esker.Error) as large:
        db.put(b"k" * (1 << 20) + b"k", b"")
    assert large.value.kind == "invalid argument"
    assert not isinstance(large.value, esker.IOError)


def test_file_and_foreign_directory_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(esker.IOError) as error:
        esker.DB(tmp_path / "file", create_if_missing=True)
    assert error.value.errno == errno.ENOTDIR
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000001\n")
    (tmp_path / "MANIFEST-000001").write_bytes(b"")
    with pytest.raises(esker.Error, match="esker import leveldb"):
        esker.DB(tmp_path, create_if_missing=True)


def test_damage_raises_and_repair_lists_losses(place):
    with esker.DB(place, create_if_missing=True) as db:
        fill(db, 5000)
        db.flush()
        assert db.verify() == []
    table = max(place.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 3] ^= 0xFF
    table.write_bytes(data)
    with esker.DB(place) as db:
        with pytest.raises(esker.CorruptionError) as error:
            list(db)
        assert error.value.kind == "corruption" and error.value.offset_bytes is not None
        assert db.verify() != []
    lost = esker.repair_db(place)
    assert lost and all(isinstance(line, str) for line in lost)
    with esker.DB(place) as db:
        assert 0 < len(db.keys()) < 5000


def test_values_may_be_any_bytes_like_object(db):
    for value in (b"x", bytearray(b"x"), memoryview(b"axa")[1:2], memoryview(b"x1x2x")[::4][:1]):
        db.put(b"k", value)
        assert db[b"k"] == b"x"
    for wrong in ("x", 1, None, [120]):
        with pytest.raises(TypeError):
            db.put(b"k", wrong)
        with pytest.raises(TypeError):
            db.write_batch().put(b"k", wrong)
    for wrong in ("k", 1, None, [107]):
        for call in (db.get, db.delete, db.__getitem__, db.__contains__, db.write_batch().delete):
            with pytest.raises(TypeError):
                call(wrong)
    assert db.get(b"k") == b"x"


def test_keys_may_be_any_bytes_like_object(db):
    part, others = db.prefixed_db(bytearray(b"p")), (bytearray, memoryview, bytes)
    keyspace = db.keyspace("keyspace")
    for kind in others:
        for place in (db, part, keyspace):
            key = kind(b"key")
            place.put(key, b"1")
            assert place.get(key) == place[key] == b"1" and key in place
            assert list(place.iterator(start=key, include_key=False)) == [b"1"]
            assert list(place.iterator(prefix=key, include_value=False)) == [b"key"]
            with place.snapshot() as snapshot:
                assert snapshot.get(key) == snapshot[key] == b"1" and key in snapshot
            place.delete(key)
            place[key] = b"2"
            del place[key]
            with pytest.raises(KeyError) as missing:
                place[key]
            assert missing.value.args[0] is key
            with place.write_batch() as batch:
                batch.put(key, b"3")
                batch.delete(key)
                batch.delete_range(key, kind(b"z"))
            assert place.pop(key, None) is None and key not in place
        db[kind(b"a")] = b"1"
        assert db.get_many([kind(b"a"), kind(b"b")]) == [b"1", None]
        step, raw = db.iterator(include_value=False), db.raw_iterator()
        step.seek(kind(b"a"))
        raw.seek(kind(b"a"))
        assert next(step) == raw.key() == b"a"
        size = db.approximate_size(b"a", b"b")
        assert db.approximate_size(kind(b"a"), kind(b"b")) == size
        assert db.approximate_sizes((kind(b"a"), kind(b"b"))) == [size]
        db.compact_range(start=kind(b"a"), stop=kind(b"b"))
        db.delete_range(kind(b"a"), kind(b"b"))


def test_str_is_refused_with_hint(db):
    calls = [db.get, db.delete, db.__getitem__, db.__contains__, lambda key: db.put(key, b"1")]
    calls += [lambda key: db.put(b"k", key), lambda key: db.get_many([key]), db.prefixed_db]
    calls += [db.snapshot().get, db.write_batch().delete, db.iterator().seek, db.raw_iterator().seek]
    for call in calls:
        with pytest.raises(TypeError, match="encode it first"):
            call("text")


def test_backups(db, place, tmp_path):
    fill(db, 100)
    backups = tmp_path / "backups"
    first = db.backup(backups)
    assert (first.number, first.linked_files) == (1, 0) and first.copied_files > 0
    fill(db, 200)
    second = db.backup(str(backups))
    assert second.number == 2 and second.linked_bytes == first.copied_bytes
    listed = esker.list_backups(backups)
    assert [each.number for each in listed] == [1, 2]
    assert listed[0].store_path == str(place.resolve()) and len(listed[0].store_id) == 16
    assert listed[0].created <= listed[1].created and listed[1].tables > 0
    assert esker.restore_db(backups, tmp_path / "old", backup=1) == 1
    assert esker.restore_db(backups, tmp_path / "new") == 2
    with esker.DB(tmp_path / "old") as old, esker.DB(tmp_path / "new") as new:
        assert (len(old.keys()), len(new.keys())) == (100, 200)
        with pytest.raises(esker.Error, match="belongs to another store") as error:
            new.backup(backups)
        assert error.value.kind == "incompatible"
        assert new.backup(backups, take_over=True).number == 3
    with pytest.raises(esker.Error, match="inside a store"):
        db.backup(place / "backups")
    with pytest.raises(esker.IOError, match="there is no backup 9") as error:
        esker.restore_db(backups, tmp_path / "x", backup=9)
    assert error.value.errno == errno.ENOENT
    assert esker.prune_backups(backups, keep=1) == [1, 2]
    with pytest.raises(esker.Error, match="keep at least 1"):
        esker.prune_backups(backups, keep=0)
    assert not (tmp_path / "x").exists()


def test_metrics(db):
    fill(db, 100)
    db.flush()
    metrics = db.metrics()
    assert metrics["user_ops"] == 100 and metrics["table_files"] == 1 and metrics["flushes"] == 1
    assert metrics["levels"][0]["files"] == 1 and metrics["scrub_problem"] is None
    assert metrics["memory"]["budget_bytes"] > 0 and metrics["write_amplification"] > 0
    db.close()
    with pytest.raises(RuntimeError):
        db.metrics()


def test_empty_and_huge_keys_and_values(db):
    db[b""] = b""
    assert db[b""] == b"" and b"" in db
    key, value = b"k" * (1 << 20), os.urandom(32 << 20)
    db[key] = value
    assert db[key] == value
    assert [len(key) for key in db.keys()] == [0, 1 << 20]


def test_get_many(db):
    fill(db, 100)
    assert db.get_many([b"00007", b"none", b"00003"]) == [b"value 7", None, b"value 3"]
    assert db.get_many([]) == []
    with pytest.raises(TypeError):
        db.get_many([b"00007", "none"])


def test_delete_range(db):
    fill(db, 100)
    db.delete_range(b"00010", b"00090", sync=True)
    assert len(db.keys()) == 20
    with db.prefixed_db(b"0000").write_batch() as batch:
        batch.delete_range(b"0", b"5")
    assert next(db.iterator(include_value=False)) == b"00005"


def test_read_only_database_sees_earlier_writes(db, place):
    db[b"before"] = b"1"
    with esker.DB(place, read_only=True) as seen:
        db[b"after"] = b"1"
        assert list(seen.keys()) == [b"before"]
        with pytest.raises(esker.IOError) as error:
            seen[b"k"] = b"v"
        assert error.value.errno == errno.EROFS


def test_checkpoint_is_a_database(db, tmp_path):
    fill(db, 100)
    db.checkpoint(tmp_path / "copy")
    db.clear()
    with esker.DB(tmp_path / "copy") as copy:
        assert len(copy.keys()) == 100
    db.sync()


def test_format_version_is_raised_and_never_lowered(db):
    db.upgrade_format(2)
    with pytest.raises(esker.Error, match="cannot be lowered"):
        db.upgrade_format(1)


def test_properties(db):
    fill(db, 100)
    db.flush()
    assert b"Level" in db.get_property(b"leveldb.stats")
    assert db.get_property(b"leveldb.num-files-at-level0") == b"1"
    assert int(db.get_property(b"leveldb.approximate-memory-usage")) > 0
    assert db.get_property(b"esker.option.policy") == b"fluid"
    assert db.get_property(b"\xff") is None
    assert db.approximate_size(b"", b"\xff") == db.approximate_sizes((b"", b"\xff"))[0] > 0


def test_approximate_size_accepts_any_two_keys(db):
    assert db.approximate_sizes() == []
    assert db.approximate_sizes([b"a", b"b"], (b"a", b"b")) == [0, 0]
    for wrong in ((b"a",), (b"a", b"b", b"c"), b"ab", ("a", "b")):
        with pytest.raises(TypeError, match="two keys of bytes"):
            db.approximate_sizes(wrong)


@pytest.mark.parametrize("name", ["start", "stop", "prefix"])
def test_invalid_bound_is_named(db, name):
    with pytest.raises(TypeError, match=f"argument '{name}'"):
        db.iterator(**{name: "text"})


def test_destroy_db(db, place):
    with pytest.raises(esker.IOError):
        esker.destroy_db(place)
    db.close()
    esker.destroy_db(place)
    assert not place.exists()
    esker.destroy_db(place)


def test_every_method_has_a_docstring():
    kinds = (esker.DB, esker.Keyspace, esker.PrefixedDB, esker.Snapshot, esker.WriteBatch)
    for kind in (*kinds, esker.Iterator):
        assert inspect.getdoc(kind)
        for name, method in vars(kind).items():
            if not name.startswith("_") and callable(method):
                assert inspect.getdoc(method), f"{kind.__name__}.{name}"
                inspect.signature(method)
