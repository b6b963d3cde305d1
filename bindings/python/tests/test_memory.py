"""Valgrind finds no invalid access while threads use objects that are being closed."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import esker

PROGRAM = """
    import sys, threading, esker
    order = dict(comparator=lambda a, b: (a > b) - (a < b), comparator_name=b"o")
    db = esker.DB(sys.argv[1], create_if_missing=True, write_buffer_size=65536, **order)
    raised = []
    def work(number):
        try:
            for at in range(40):
                db.put(b"%d-%d" % (number, at), b"v" * 300)
                db.get(b"0-%d" % at)
                for pair in db.iterator(reverse=True):
                    break
        except RuntimeError as error:
            raised.append(error)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert raised == []
    steps, raw, snapshot, batch = db.iterator(), db.raw_iterator(), db.snapshot(), db.write_batch()
    next(steps)
    batch.put(b"a", bytearray(b"b"))
    late = threading.Thread(target=work, args=(9,))
    late.start()
    db.close()
    late.join()
    for call in (lambda: next(steps), raw.valid, lambda: snapshot.get(b"x"), batch.write):
        try:
            call()
        except RuntimeError:
            raised.append(call)
    assert len(raised) in (4, 5)
    del steps, raw, snapshot, batch
    print("went well")
"""


# Valgrind reports errors in some builds of Python itself. The module works with any of these.
PYTHONS = [sys.executable, *filter(os.path.exists, ["/usr/bin/python3"])]


def valgrind(python, program, *arguments):
    packages = os.path.dirname(os.path.dirname(esker.__file__))
    return subprocess.run(
        ["valgrind", "-q", "--error-exitcode=9", python, "-c", program, *arguments],
        env={**os.environ, "PYTHONMALLOC": "malloc", "PYTHONPATH": packages},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_no_invalid_memory_access(place):
    bare_program = (
        "import ctypes, decimal, json, sys, threading\n"
        "assert sys.version_info >= (3, 11)\n"
        "print('went well')\n"
    )
    for python in PYTHONS:
        bare = valgrind(python, bare_program)
        if (bare.returncode, bare.stdout) == (0, "went well\n"):
            break
    else:
        pytest.skip(f"valgrind complains of each Python without the module, too: {PYTHONS}")
    done = valgrind(python, textwrap.dedent(PROGRAM), str(place))
    assert (done.returncode, done.stdout) == (0, "went well\n"), done.stderr
