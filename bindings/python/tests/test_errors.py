"""Every error kind that a program can cause raises the class in the documentation's table."""

import errno
import threading
from pathlib import Path

import pytest

import esker

WITHOUT_PATH = ("invalid argument", "conflict", "busy", "deadlock")
PAGE = Path(__file__).parents[3] / "docs" / "errors.md"


def rows():
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 6 and cells[1].startswith("`"):
            yield cells[1].strip("`"), cells[4]


def not_found(place):
    esker.DB(place)


def not_found_to_read(place):
    esker.DB(place, read_only=True, create_if_missing=True)


def not_found_to_repair(place):
    esker.repair_db(place)


def invalid_argument(place):
    with esker.DB(place, create_if_missing=True) as db:
        db.put(bytes((1 << 20) + 1), b"")


def locked(place):
    with esker.DB(place, create_if_missing=True):
        esker.DB(place)


def incompatible(place):
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    esker.DB(place, create_if_missing=True)


def read_only(place):
    esker.DB(place, create_if_missing=True).close()
    with esker.DB(place, read_only=True) as db:
        db.put(b"k", b"v")


def corruption(place):
    with esker.DB(place, create_if_missing=True) as db:
        db.put(b"k", b"v")
        db.flush()
    (table,) = place.glob("*.sst")
    table.unlink()
    with esker.DB(place) as db:
        db.get(b"k")


def closed(place):
    db = esker.DB(place, create_if_missing=True)
    db.close()
    db.get(b"k")


def conflict(place):
    with esker.DB(place, create_if_missing=True) as db, db.transaction() as transaction:
        transaction[b"k"] = b"1"
        db[b"k"] = b"2"


def busy(place):
    options = dict(concurrency="pessimistic", lock_timeout_ms=0)
    with esker.DB(place, create_if_missing=True) as db:
        holder, other = db.transaction(**options), db.transaction(**options)
        holder[b"k"] = b"1"
        other[b"k"] = b"2"


def deadlock(place):
    options = dict(concurrency="pessimistic", lock_timeout_ms=600_000)
    with esker.DB(place, create_if_missing=True) as db:
        one, two = db.transaction(**options), db.transaction(**options)
        one[b"a"], two[b"b"] = b"1", b"2"
        raised = []

        def cross(transaction, key):
            try:
                with transaction:
                    transaction[key] = b"3"
            except esker.Error as error:
                raised.append(error)

        thread = threading.Thread(target=cross, args=(one, b"b"))
        thread.start()
        cross(two, b"a")
        thread.join()
        (error,) = raised
        raise error


def system(place):
    esker.DB(place / "in" / "no" / "directory", create_if_missing=True)


@pytest.mark.parametrize(
    "kind, errs, number",
    [
        ("not found", not_found, errno.ENOENT),
        ("not found", not_found_to_read, errno.ENOENT),
        ("not found", not_found_to_repair, errno.ENOENT),
        ("invalid argument", invalid_argument, None),
        ("locked", locked, errno.EWOULDBLOCK),
        ("incompatible", incompatible, None),
        ("read-only", read_only, errno.EROFS),
        ("corruption", corruption, None),
        ("closed", closed, None),
        ("conflict", conflict, None),
        ("busy", busy, None),
        ("deadlock", deadlock, None),
        ("i/o", system, errno.ENOENT),
    ],
)
def test_error_classes_match_documentation(place, kind, errs, number):
    named = dict(rows())[kind]
    with pytest.raises(Exception) as caught:
        errs(place)
    error = caught.value
    assert named.startswith(f"`{type(error).__name__}`"), (named, error)
    if kind != "closed":
        assert error.kind == kind, error
        assert (error.path or "").startswith("" if kind in WITHOUT_PATH else str(place))
    if number is not None:
        assert error.errno == number
        if kind != "i/o":
            assert errno.errorcode[number].replace("EAGAIN", "EWOULDBLOCK") in named
