"""Calls with arguments of random types: each ends with a result or an exception, none with a signal, a
panic or a hang.

The calls run in a process of their own, which this file also is: `test_random_calls.py SEED CALLS`.
"""

import array
import faulthandler
import io
import os
import pathlib
import random
import subprocess
import sys

import pytest

import esker

#: Calls that wait for something else, for as long as an argument says.
WAITS = {"wait", "wait_for", "write_next", "follow", "catch_up_every"}
SPECIAL = (
    "__getitem__ __setitem__ __delitem__ __contains__ __len__ __iter__ __next__ __enter__ __exit__ "
    "__repr__ __eq__ __hash__ __bool__ __buffer__"
).split()
#: A call that takes longer than this ends the process with a traceback.
HANG_SECONDS = 120


def values(rng, objects):
    """Returns a value of a random type."""
    numbers = [-1, 0, 1, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, True, False]
    reals = [0.0, -1.5, 1e-9, 1e308, float("nan"), float("inf")]
    texts = ["", "a", "other", "\udc80", "x" * 70_000, "key\0", "merge_operator", "leveled"]
    raw = [b"", b"key", b"\xff" * 300, b"x" * (1 << 20), b"k" * ((1 << 20) + 1)]
    views = [bytearray(b"key"), memoryview(b"abcdef")[::2], array.array("d", [1.5, 2.5])]
    nests = [[], [b"a", None], (b"a", b"b"), {}, {"ttl": "x"}, {b"k": b"v"}, iter([b"a"]), range(3)]
    others = [None, object(), len, lambda *_: 1 / 0, io.BytesIO(b"value"), pathlib.Path("sub")]
    kind = rng.choice([numbers, reals, texts, raw, raw, views, nests, others, objects, objects])
    return rng.choice(kind)


def things(rng, number):
    """Returns a store and what it gives out."""
    db = esker.DB(f"store{number}", create_if_missing=True, memory_budget_bytes=8 << 20)
    for each in range(200):
        db.put(b"key%03d" % each, b"value" * rng.randrange(40))
    keyspace = db.keyspace("other")
    slot = db.subscribe(f"slot{number}")
    writer = esker.SortedWriter(f"sorted{number}")
    return [db, keyspace, db.snapshot(), db.write_batch(), db.transaction(), db.iterator(),
            db.raw_iterator(), slot, slot.changes(), writer, db.mapping(), db.prefixed_db(b"k"),
            esker.Runtime(memory_budget_bytes=8 << 20)]  # fmt: skip


def public(thing):
    names = [name for name in dir(thing) if not name.startswith("_")]
    return [name for name in names + SPECIAL if name not in WAITS]


def one_call(rng, objects):
    """Makes a call. Returns what it returned, or None."""
    thing = esker if rng.random() < 0.1 else rng.choice(objects)
    name = rng.choice(public(thing))
    named = ["ttl", "sync", "start", "stop", "keyspace", "key", "default", "prefix", "timeout_", "x"]
    positional = [values(rng, objects) for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4]))]
    keywords = {rng.choice(named): values(rng, objects) for _ in range(rng.choice([0, 0, 0, 1, 2]))}
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    try:
        found = getattr(thing, name)
        return found(*positional, **keywords) if callable(found) else found
    except Exception:
        # Any exception but a panic, which is a BaseException.
        return None
    finally:
        faulthandler.cancel_dump_traceback_later()


def main(seed, calls):
    rng = random.Random(seed)
    returned = 0
    objects = things(rng, 0)
    for number in range(1, calls + 1):
        found = one_call(rng, objects)
        if found is not None:
            returned += 1
            objects.append(found)
        if len(objects) > 60:
            objects.pop(rng.randrange(len(objects)))
        if number % 300 == 0:
            objects = things(rng, number)
    print(f"{returned} of {calls} calls returned something")


@pytest.mark.parametrize("seed", range(4))
def test_calls_with_random_arguments_end_as_calls_of_python_do(tmp_path, seed):
    calls = int(os.environ.get("ESKER_RANDOM_CALLS", "3000"))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-X", "faulthandler", __file__, str(seed), str(calls)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, f"exit code {ran.returncode}\n{ran.stdout[-500:]}{ran.stderr[-6000:]}"
    words = ran.stdout.split()
    # Most calls have arguments of a wrong type, but a test without any right one would test little.
    assert int(words[0]) > calls // 20, ran.stdout


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
