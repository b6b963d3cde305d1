"""Options, reads, writes and errors, beyond what plyvel's own tests ask for."""

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


def test_the_stand_in_has_the_same_classes():
    for name in esker.plyvel.__all__:
        if not name.startswith("__"):
            assert getattr(esker.plyvel, name) is getattr(esker, name)
    assert re.match(r"\d+\.\d+\.\d+", esker.plyvel.__version__)


def test_names_may_be_text_bytes_or_paths(tmp_path):
    for number, kind in enumerate((str, os.fsencode, lambda path: path)):
        name = kind(tmp_path / f"db{number}")
        with esker.DB(name, create_if_missing=True) as db:
            assert db.name == name
            assert repr(name) in repr(db)
    assert len(os.listdir(tmp_path)) == 3


def test_every_option_of_the_engine_is_taken_by_its_name(place):
    rows = {row.name: row for row in esker.options()}
    assert {"policy", "memtable_size_bytes", "durability"} <= rows.keys()
    assert all(row.doc and row.range for row in rows.values())
    plyvels = {"create_if_missing", "error_if_exists", "compression"}
    defaults = {name: row.default for name, row in rows.items() if name not in plyvels}
    with esker.DB(place, create_if_missing=True, **defaults) as db:
        for name, value in defaults.items():
            assert db.option(name) == value, name


def test_options_are_words_numbers_switches_and_none(place):
    given = dict(policy="tiered", block_size_bytes=8192, alpha=0.5, auto_compaction=False)
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


def test_plyvels_options_reach_their_knobs_within_leveldbs_ranges(place):
    given = dict(write_buffer_size=1, lru_cache_size=1 << 20, bloom_filter_bits=7, compression=None)
    with esker.DB(place, create_if_missing=True, **given) as db:
        assert db.option("memtable_size_bytes") == str(64 << 10)
        assert db.option("cache_size_bytes") == str(1 << 20)
        assert db.option("filter_bits_per_key") == "7"
        assert db.option("compression") == "none"
    with esker.DB(place, compression=b"snappy") as db:
        assert db.option("compression") == "snappy"


@pytest.mark.parametrize(
    "wrong, error, said",
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
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_made(place, wrong, error, said):
    with pytest.raises(error, match=said):
        esker.DB(place, **{"create_if_missing": True, **wrong})
    assert not place.exists()


def test_errors_carry_what_a_program_needs(db, place):
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


def test_a_file_in_the_way_and_a_foreign_directory_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(esker.IOError) as error:
        esker.DB(tmp_path / "file", create_if_missing=True)
    assert error.value.errno == errno.ENOTDIR
    (tmp_path / "CURRENT").write_bytes(b"MANIFEST-000001\n")
    (tmp_path / "MANIFEST-000001").write_bytes(b"")
    with pytest.raises(esker.Error, match="esker import leveldb"):
        esker.DB(tmp_path, create_if_missing=True)


def test_damage_raises_and_repair_tells_what_was_lost(place):
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


def test_values_may_be_anything_that_shows_its_bytes(db):
    for value in (b"x", bytearray(b"x"), memoryview(b"axa")[1:2], memoryview(b"x1x2x")[::4][:1]):
        db.put(b"k", value)
        assert db[b"k"] == b"x"
    for wrong in ("x", 1, None, [120]):
        with pytest.raises(TypeError):
            db.put(b"k", wrong)
        with pytest.raises(TypeError):
            db.write_batch().put(b"k", wrong)
    for wrong in ("k", 1, None, bytearray(b"k")):
        for call in (db.get, db.delete, db.__getitem__, db.__contains__, db.write_batch().delete):
            with pytest.raises(TypeError):
                call(wrong)
    assert db.get(b"k") == b"x"


def test_empty_and_huge_keys_and_values(db):
    db[b""] = b""
    assert db[b""] == b"" and b"" in db
    key, value = b"k" * (1 << 20), os.urandom(32 << 20)
    db[key] = value
    assert db[key] == value
    assert [len(key) for key in db.keys()] == [0, 1 << 20]


def test_many_keys_at_once(db):
    fill(db, 100)
    assert db.get_many([b"00007", b"none", b"00003"]) == [b"value 7", None, b"value 3"]
    assert db.get_many([]) == []
    with pytest.raises(TypeError):
        db.get_many([b"00007", "none"])


def test_ranges_are_deleted(db):
    fill(db, 100)
    db.delete_range(b"00010", b"00090", sync=True)
    assert len(db.keys()) == 20
    with db.prefixed_db(b"0000").write_batch() as batch:
        batch.delete_range(b"0", b"5")
    assert next(db.iterator(include_value=False)) == b"00005"


def test_a_read_only_opening_sees_what_was_written_before(db, place):
    db[b"before"] = b"1"
    with esker.DB(place, read_only=True) as seen:
        db[b"after"] = b"1"
        assert list(seen.keys()) == [b"before"]
        with pytest.raises(esker.IOError) as error:
            seen[b"k"] = b"v"
        assert error.value.errno == errno.EROFS


def test_a_checkpoint_is_a_database(db, tmp_path):
    fill(db, 100)
    db.checkpoint(tmp_path / "copy")
    db.clear()
    with esker.DB(tmp_path / "copy") as copy:
        assert len(copy.keys()) == 100
    db.sync()


def test_properties(db):
    fill(db, 100)
    db.flush()
    assert b"Level" in db.get_property(b"leveldb.stats")
    assert db.get_property(b"leveldb.num-files-at-level0") == b"1"
    assert int(db.get_property(b"leveldb.approximate-memory-usage")) > 0
    assert db.get_property(b"esker.option.policy") == b"fluid"
    assert db.get_property(b"\xff") is None
    assert db.approximate_size(b"", b"\xff") == db.approximate_sizes((b"", b"\xff"))[0] > 0


def test_a_range_is_any_two_keys(db):
    assert db.approximate_sizes() == []
    assert db.approximate_sizes([b"a", b"b"], (b"a", b"b")) == [0, 0]
    for wrong in ((b"a",), (b"a", b"b", b"c"), b"ab", ("a", "b")):
        with pytest.raises(TypeError, match="two keys of bytes"):
            db.approximate_sizes(wrong)


@pytest.mark.parametrize("name", ["start", "stop", "prefix"])
def test_a_wrong_bound_is_named(db, name):
    with pytest.raises(TypeError, match=f"argument '{name}'"):
        db.iterator(**{name: "text"})


def test_removing(db, place):
    with pytest.raises(esker.IOError):
        esker.destroy_db(place)
    db.close()
    esker.destroy_db(place)
    assert not place.exists()
    esker.destroy_db(place)


def test_every_method_says_what_it_does():
    for kind in (esker.DB, esker.PrefixedDB, esker.Snapshot, esker.WriteBatch, esker.Iterator):
        assert inspect.getdoc(kind)
        for name, method in vars(kind).items():
            if not name.startswith("_") and callable(method):
                assert inspect.getdoc(method), f"{kind.__name__}.{name}"
                inspect.signature(method)
