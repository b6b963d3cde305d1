"""Followers: views, catch-ups, waits and what ends them, promotion after a kill."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import esker
from esker import aio

WRITER = textwrap.dedent("""
    import sys, esker
    key = bytes.fromhex(sys.argv[2]) or None
    db = esker.DB(sys.argv[1], create_if_missing=True, key=key)
    print("open", flush=True)
    for number, _ in enumerate(sys.stdin):
        with db.write_batch(transaction=True) as batch:
            batch.put(b"k%d" % number, b"written")
            batch.put(b"last", b"k%d" % number)
        print(number, flush=True)
""")


class Writer:
    """A process that writes a batch for each order."""

    def __init__(self, place, key):
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(place), (key or b"").hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "open\n"

    def write(self):
        self.process.stdin.write("write\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.mark.parametrize("key", [None, b"\x5a" * 32], ids=["plain", "encrypted"])
def test_follower_shows_prefixes_and_takes_the_place_of_a_killed_writer(place, key):
    writer = Writer(place, key)
    assert writer.write() == 0
    follower = esker.follow(place, key=key)
    first = follower.db()
    assert first[b"last"] == b"k0" and first.name == place
    with pytest.raises(esker.IOError) as caught:
        first[b"k"] = b"v"
    assert caught.value.kind == "read-only"
    writer.write()
    lag = follower.lag()
    assert lag.operations == 2 and lag.newest == lag.position + 2 and lag.error is None
    assert lag.position == follower.position and lag.age >= 0
    assert follower.catch_up() == lag.newest == follower.position
    second = follower.db()
    assert second[b"last"] == b"k1" and first[b"last"] == b"k0" and b"k1" not in first
    assert follower.wait_for(lag.newest, 0) and not follower.wait_for(lag.newest + 1, 0.01)
    with pytest.raises(esker.IOError) as caught:
        follower.promote()
    assert caught.value.kind == "locked"
    with pytest.raises(esker.Error, match="longer than zero"):
        follower.catch_up_every(0)
    follower.catch_up_every(float("inf"))
    follower.catch_up_every(0.001)
    writer.write()
    end = time.monotonic() + 600
    while follower.position < lag.newest + 2 and time.monotonic() < end:
        time.sleep(0.001)
    with follower.db() as third:
        assert third[b"last"] == b"k2"
    writer.kill()
    with follower.promote() as promoted:
        assert promoted[b"last"] == b"k2"
        promoted[b"mine"] = b"1"
        assert follower.wait_for(lag.newest + 3)
        with follower.db() as view:
            assert view[b"mine"] == b"1"
        follower.close()
        follower.close()
        assert follower.closed and "closed" in repr(follower)
        assert promoted[b"mine"] == b"1" and second[b"last"] == b"k1"
    first.close()
    with pytest.raises(RuntimeError, match="closed"):
        first.get(b"last")


def test_calls_on_a_closed_follower_raise(db, place):
    with esker.follow(place) as follower:
        pass
    calls = [
        follower.db,
        follower.catch_up,
        follower.lag,
        follower.promote,
        lambda: follower.catch_up_every(1),
        lambda: follower.wait_for(1),
        lambda: follower.position,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="the follower is closed"):
            call()


def test_what_is_no_database_is_not_followed(tmp_path):
    with pytest.raises(esker.IOError):
        esker.follow(tmp_path / "none")
    with pytest.raises(TypeError):
        esker.follow(tmp_path / "none", no_such_option=1)


def test_close_ends_a_wait(db, place):
    follower, failed = esker.follow(place), []

    def wait():
        try:
            follower.wait_for(1 << 60)
        except RuntimeError as error:
            failed.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    follower.close()
    waiting.join()
    assert failed == ["the follower is closed"]


def test_signal_ends_a_wait(db, place):
    class Interrupted(Exception):
        pass

    def interrupt(_number, _frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with esker.follow(place) as follower:
            with pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                follower.wait_for(1 << 60)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_follower_with_python_functions(place):
    def backwards(a, b):
        return (a < b) - (a > b)

    def join(key, existing, operands):
        return b"".join([existing or b"", *operands])

    options = {"comparator": backwards, "comparator_name": b"test.backwards", "merge": join,
               "merge_operators": {"test.join": join}}
    with esker.DB(place, create_if_missing=True, **options) as db:
        with esker.follow(place, **options) as follower:
            follower.catch_up_every(0.001)
            for key in (b"a", b"b", b"c"):
                db.merge(key, b"1")
                db.merge(key, b"2")
            assert follower.wait_for(6, 600)
            with follower.db() as view:
                assert list(view) == [(b"c", b"12"), (b"b", b"12"), (b"a", b"12")]
    # One that is not closed ends with the interpreter.
    program = f"""if True:
        import esker
        def backwards(a, b):
            return (a < b) - (a > b)
        def join(key, existing, operands):
            return b"".join([existing or b"", *operands])
        follower = esker.follow({str(place)!r}, comparator=backwards,
            comparator_name=b"test.backwards", merge=join, merge_operators={{"test.join": join}})
        follower.catch_up_every(0.0001)
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)


def test_child_of_a_fork_leaves_the_follower_to_its_parent(db, place):
    db[b"k"] = b"1"
    with esker.follow(place) as follower:
        follower.catch_up_every(0.001)
        child = os.fork()
        if child == 0:
            refused = 1
            try:
                follower.catch_up()
            except RuntimeError:
                refused = 0
            os._exit(refused if follower.closed else 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        db[b"k"] = b"2"
        assert follower.wait_for(2, 600)


def test_follower_of_asyncio(place):
    async def main():
        async with aio.open(place, create_if_missing=True) as db:
            await db.put(b"k", b"1")
            async with aio.follow(place) as follower:
                await follower.catch_up_every(3600)
                await db.put(b"k", b"2")
                assert await follower.wait_for(2, 600) and not await follower.wait_for(3, 0.01)
                view = await follower.db()
                assert await view.get(b"k") == b"2"
                await view.aclose()
                await db.put(b"k", b"3")
                assert (await follower.lag()).operations == 1
                assert await follower.catch_up() == follower.sync.position == 3
                with pytest.raises(esker.IOError):
                    await follower.promote()
                wait = asyncio.ensure_future(follower.wait_for(1 << 60))
                await asyncio.sleep(0)
                wait.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await wait
        assert follower.sync.closed

    asyncio.run(main())
