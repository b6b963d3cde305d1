"""Values that are put from file objects and read by readers."""

import io
import os
import shutil
import subprocess
import sys
import textwrap
import threading

import pytest

import esker

LONG = os.urandom(1 << 20) * 2 + b"the end"
EXAMPLES = [b"", b"short", os.urandom(300_000), LONG]


@pytest.mark.parametrize("value", EXAMPLES, ids=[str(len(value)) for value in EXAMPLES])
def test_value_of_a_file_is_read_in_parts(db, value):
    for part in (db, db.keyspace("films"), db.prefixed_db(b"p/")):
        assert part.put_reader(b"film", io.BytesIO(value)) == len(value)
        assert part.get(b"film") == value
        with part.get_reader(b"film") as reader:
            assert reader.size_bytes == len(value) and reader.tell() == 0
            assert reader.read(3) == value[:3]
            assert reader.read() == value[3:] and reader.read() == b"" and reader.read(9) == b""
            assert reader.seek(0) == 0 and reader.read(None) == value
            copy = io.BytesIO()
            reader.seek(0)
            shutil.copyfileobj(reader, copy, 10_007)
            assert copy.getvalue() == value
            room = bytearray(len(value) + 5)
            reader.seek(0)
            assert reader.readinto(room) == len(value) and room == value + bytes(5)
            assert reader.readinto(room) == 0
        assert part.get_reader(b"none") is None
    assert db[b"p/film"] == value


def test_reader_moves_and_is_a_raw_file(db, tmp_path):
    source = tmp_path / "film"
    source.write_bytes(LONG)
    with source.open("rb") as file:
        db.put_reader(bytearray(b"film"), file)
    with db.get_reader(memoryview(b"film")) as reader:
        assert reader.readable() and reader.seekable() and not reader.writable()
        assert reader.seek(-7, os.SEEK_END) == len(LONG) - 7 and reader.read() == b"the end"
        reader.seek(10)
        assert reader.seek(5, os.SEEK_CUR) == 15 and reader.read(70_000) == LONG[15:70_015]
        assert reader.tell() == 70_015
        assert reader.seek(len(LONG) + 9) == len(LONG) + 9 and reader.read() == b""
        for wrong in [(-1,), (-len(LONG) - 1, 2), (0, 3)]:
            with pytest.raises(ValueError):
                reader.seek(*wrong)
        with pytest.raises(TypeError):
            reader.readinto(b"not writable")
        buffered = io.BufferedReader(reader)
        buffered.seek(0)
        assert buffered.read(100) == LONG[:100] and buffered.read() == LONG[100:]
        assert "bytes>" in repr(reader)


def test_reader_keeps_its_version(db):
    db.put_reader(b"k", io.BytesIO(LONG))
    reader, short = db.get_reader(b"k"), db.get_reader(b"k")
    db.put(b"k", b"other")
    db.flush()
    db.compact_range()
    assert reader.read() == LONG and db.get_reader(b"k").read() == b"other"
    db.delete(b"k")
    assert db.get_reader(b"k") is None
    short.close()
    reader.seek(1)
    assert reader.read(2) == LONG[1:3]


class Given(io.RawIOBase):
    """Returns answers of a list, or raises them."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def read(self, size):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def test_source_that_fails_changes_nothing(db):
    db[b"k"] = b"old"
    big = b"v" * 65536
    for answers, error in [
        ([ValueError("no more")], ValueError),
        ([big] * 12 + [KeyboardInterrupt()], KeyboardInterrupt),
        ([b"a", "text"], TypeError),
        ([b"a", None], ValueError),
        ([b"a" * 65537], ValueError),
        ([3], TypeError),
    ]:
        with pytest.raises(error):
            db.put_reader(b"k", Given(*answers))
        assert db[b"k"] == b"old"
    for wrong in (None, 3, b"bytes", object()):
        with pytest.raises(TypeError, match="file object"):
            db.put_reader(b"k", wrong)
    with pytest.raises(TypeError):
        db.put_reader("text", io.BytesIO())
    with pytest.raises(esker.Error):
        db.put_reader(bytes((1 << 20) + 1), io.BytesIO())
    sessions = db.keyspace("sessions", ttl=60)
    with pytest.raises(esker.Error, match="ttl"):
        sessions.put_reader(b"k", io.BytesIO(b"v"))
    assert db.verify() == []


def test_small_reads_make_one_value(db):
    pieces = [bytes([number]) * (number + 1) for number in range(200)] * 40
    assert db.put_reader(b"k", Given(*pieces, b"")) == len(b"".join(pieces))
    assert db[b"k"] == b"".join(pieces)


def test_source_may_use_the_database_but_not_close_it(db):
    seen = []

    class Source:
        count = 0

        def read(self, size):
            self.count += 1
            db.put(b"%d" % self.count, b"")
            try:
                db.close()
            except esker.Error as error:
                seen.append(error)
            return b"v" * 60_000 if self.count < 15 else b""

    assert db.put_reader(b"k", Source()) == 14 * 60_000
    assert len(seen) == 15 and b"15" in db and len(db[b"k"]) == 14 * 60_000


def test_old_format_takes_no_long_values(place):
    with esker.DB(place, create_if_missing=True, format_version=1) as db:
        assert db.put_reader(b"k", io.BytesIO(b"short")) == 5
        with pytest.raises(esker.Error) as raised:
            db.put_reader(b"k", io.BytesIO(LONG))
        assert raised.value.kind == "incompatible" and db[b"k"] == b"short"


def test_damaged_piece_is_not_returned(place):
    with esker.DB(place, create_if_missing=True) as db:
        db.put_reader(b"k", io.BytesIO(LONG))
    [file] = place.glob("*.val")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with esker.DB(place) as db, db.get_reader(b"k") as reader:
        assert reader.read(1000) == LONG[:1000]
        for call in (reader.read, lambda: reader.readinto(bytearray(len(LONG)))):
            with pytest.raises(esker.CorruptionError) as raised:
                call()
            assert raised.value.path.endswith(".val") and reader.tell() == 1000
        reader.seek(-1000, os.SEEK_END)
        assert reader.read() == LONG[-1000:]
        report = db.verify()
        assert len(report) == 1 and report.value_files == 1


def test_closed_readers_raise(db):
    db.put_reader(b"k", io.BytesIO(LONG))
    closed, left = db.get_reader(b"k"), db.get_reader(b"k")
    with closed:
        assert not closed.closed
    closed.close()
    db.close()
    for reader in (closed, left):
        assert reader.closed
        for call in (
            reader.read,
            reader.tell,
            reader.readable,
            reader.seekable,
            reader.writable,
            lambda reader=reader: reader.seek(0),
            lambda reader=reader: reader.readinto(bytearray(3)),
        ):
            with pytest.raises(RuntimeError, match="closed"):
                call()
        reader.close()
    for call in (lambda: db.put_reader(b"k", io.BytesIO()), lambda: db.get_reader(b"k")):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_threads_share_a_reader(db):
    db.put_reader(b"k", io.BytesIO(LONG))
    pieces, reader = [], db.get_reader(b"k")

    def work():
        while piece := reader.read(1000):
            pieces.append(piece)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(map(len, pieces)) == len(LONG)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read as on Linux")
def test_long_values_need_little_memory(place):
    program = """
        import resource, sys, esker
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        class Source:
            left = 0
            def read(self, size):
                taken = min(size, self.left)
                self.left -= taken
                return b"v" * taken
        with esker.DB(sys.argv[1], create_if_missing=True) as db:
            source = Source()
            source.left = 2 << 20
            db.put_reader(b"k", source)
            with db.get_reader(b"k") as reader:
                reader.read(1000)
            before = peak()
            source.left = 96 << 20
            assert db.put_reader(b"k", source) == 96 << 20
            count, room = 0, bytearray(1 << 20)
            with db.get_reader(b"k") as reader:
                while read := reader.readinto(room):
                    count += read
            assert count == 96 << 20
            print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(place)],
        capture_output=True, text=True, timeout=600, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 32, f"{done.stdout} MiB for a value of 96 MiB"
