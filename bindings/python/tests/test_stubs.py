"""The stubs match the module."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import esker


def run(*arguments, **more):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAM = """
import esker
from collections.abc import MutableMapping
def last(key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
    return operands[-1]
with esker.DB('x', policy='leveled', create_if_missing=True, merge='last',
              merge_operators={'last': last, 'no': (last, lambda key, parts: None)}) as db:
    value: bytes | None = db.get(b'k')
    sure: bytes = db.get(b'k', b'')
    pairs: list[tuple[bytes, bytes]] = list(db)
    keys: list[bytes] = list(db.iterator(include_value=False))
    mapping: MutableMapping[bytes, bytes] = db.mapping()
    part: esker.PrefixedDB = db.prefixed_db(b'p')
    users: esker.Keyspace = db.keyspace('users', order='esker.reverse', fan_out=4)
    counters: esker.Keyspace = db.keyspace('counters', merge='add_i64', ttl=0.5)
    counters.merge(b'k', b'1')
    db.put(b'k', b'v', ttl=60)
    touched: bool = db.touch(b'k', None)
    time: float | None = db.expiry(b'k')
    found: esker.Keyspace | None = db.find_keyspace('users')
    name: bytes | None = users.get(b'k')
    with db.write_batch() as batch:
        batch.put(b'k', b'v', keyspace=users)
    with db.snapshot() as snapshot:
        old: bytes = snapshot.keyspace(users)[b'k']
    def work(t: esker.Transaction) -> int:
        t.put(b'k', b'v', keyspace=users)
        return len(t.get(b'k', b''))
    total: int = db.transact(work, retries=3, isolation='serializable')
    with db.transaction(concurrency='pessimistic', lock_timeout_ms=5) as t:
        seen: bytes | None = t.get_for_update(b'k', keyspace=users)
        with t.savepoint():
            t[b'k'] = b'v'
        both: list[tuple[bytes, bytes]] = list(t.iterator(prefix=b'k', keyspace=users))
        only: list[bytes] = list(t.iterator(include_key=False))
    retry: type[esker.ConflictError] = esker.DeadlockError
    db.transaction(isolation='none')  # type: ignore[arg-type]  # pyright: ignore
    db.put('k', b'v')  # type: ignore[arg-type]  # pyright: ignore
import array, asyncio, io, shutil, sys
from pathlib import Path
from esker import aio, codec
def keep(key: bytes, value: bytes) -> bool | bytes:
    return value or False
class Policy:
    name = 'any'
    def create(self, keys: list[bytes]) -> bytes:
        return keys[0][:1] if keys else b''
    def may_match(self, key: bytes, filter: bytes) -> bool:
        return key[:1] >= filter
runtime = esker.Runtime(memory_budget_bytes='64MiB', threads_max=3)
stores: int = runtime.metrics()['stores']
with esker.DB('y', create_if_missing=True, runtime=runtime, listener=lambda event: event['kind'],
              compaction_filter='keep', compaction_filters={'keep': keep},
              filter_policy=Policy(), clock=lambda: 1.5) as db:
    length: int | None = db.get_into(b'k', bytearray(8))
    db.put_array(b'ab', array.array('d', [1, 2]))
    mask: bytes = db.get_array(memoryview(b'ab'), array.array('d', [0, 0]))
    db.put(b'k', b'v', durability='none', timeout=0.5)
    db.set_options(policy='leveled', fan_out=10)
    sizes: list[int] = [table.size_bytes for table in db.tables()]
    report: list[str] = db.verify(progress=lambda done, total: print(done / total))
    checked: int = db.verify().bytes
    repaired: int = esker.repair_db('w').pairs
    with open('film', 'rb') as film:
        streamed: int = db.put_reader(b'film', film)
    reader = db.get_reader(b'film')
    if reader is not None:
        with reader, open('copy', 'wb') as out:
            shutil.copyfileobj(reader, out)
    position: int | None = db.change_writer(io.BytesIO()).write_next(db.changes(), 0)
    kinds: list[str] = [item.kind for item in db.applier(sys.stdin.buffer)]
    db.put(b'k', b'v', durability='always')  # type: ignore[arg-type]  # pyright: ignore
    stall = db.stall()
    if stall is not None:
        cause: str = stall.cause
    batch = db.write_batch()
    batch.write(timeout=0.5)
    listed: list[tuple[str, bytes, bytes | None]] = [(o.kind, o.key, o.value) for o in batch]
    lives: list[float | None] = [o.ttl for o in batch.operations()]
    esker.DB('v', clock=7)  # type: ignore[arg-type]  # pyright: ignore
    with db.transaction() as t:
        t.merge(b'n', b'1')
        t.put(b'n', b'1', ttl=5)
    with db.snapshot() as snapshot:
        several: list[bytes | None] = snapshot.get_many([b'a'])
    replica: esker.Follower = esker.follow('y', key=b'k' * 32)
    view: esker.DB = replica.db()
    behind: int = replica.lag().operations
    def key_of(name: str | None) -> tuple[bytes, str]:
        return b'k' * 32, name or 'k1'
    names: tuple[str, str] = (esker.rekey_db('z', key_of, Path('key')).old, 'k1')
    event = codec.tuple_of(codec.string, codec.desc(codec.u64))
    who, when = event.decode(event.encode(('ada', 7)))
    sure_who: str = who
    sure_when: int = when
    times = codec.TypedMapping(db.keyspace('times'), event, codec.optional(codec.f64))
    times['ada', 1] = None
    time_of: float | None = times['ada', 1]
    pairs_of: MutableMapping[tuple[str, int], float | None] = times
    counts: dict[str, int] = esker.take_perf()
    times['ada'] = 1.0  # type: ignore[index]  # pyright: ignore
async def main() -> None:
    async with aio.open('y') as db:
        await db.put(b'k', b'v')
        size: int = await db.transact(lambda t: len(t.get(b'k', b'')))
        async with await db.transaction() as t:
            await t.put(b'k', b'v')
            async with await t.savepoint():
                await t.delete_range(b'a', b'b')
        names: list[str] = await db.keyspaces()
        async for pair in db.iterator(prefix=b'k'):
            print(pair)
        length: int = await db.put_reader(b'k', asyncio.StreamReader())
        length = await db.put_reader(b'k', io.BytesIO())
        reader = await db.get_reader(b'k')
        if reader is not None:
            pieces: list[bytes] = [piece async for piece in reader]
        operations: list[esker.Operation] = list(db.write_batch())
        await db.put_reader(b'k', 'text')  # type: ignore[arg-type]  # pyright: ignore
    async with aio.follow('y') as follower:
        shown: bool = await follower.wait_for(1, 0.5)
        view: aio.DB = await follower.db()
asyncio.run(main())
"""


def test_typed_modules_type_check(tmp_path):
    run("mypy", "--strict", "-m", "esker.aio", "-m", "esker.codec", cwd=tmp_path)


def test_stubs_match_module(tmp_path):
    run("mypy.stubtest", "esker", cwd=tmp_path)


@pytest.fixture
def program(tmp_path):
    """A program that uses the package."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return program


def test_program_type_checks(program):
    run("mypy", "--strict", str(program), cwd=program.parent)
    assert (Path(esker.__file__).parent / "py.typed").exists()


def test_program_passes_pyright(program):
    # The wheel of this fork of pyright has all that it needs, also Node.
    pytest.importorskip("basedpyright", reason="pyright did not run: no module basedpyright")
    config = program.with_name("pyrightconfig.json")
    config.write_text('{ "typeCheckingMode": "strict", "reportUnusedVariable": false }')
    run("basedpyright", "--pythonpath", sys.executable, str(program), cwd=program.parent)
    # The test could not fail if it did not see the package.
    program.write_text("import esker\nesker.DB('x').put('k', b'v')\n")
    with pytest.raises(AssertionError, match="reportArgumentType"):
        run("basedpyright", "--pythonpath", sys.executable, str(program), cwd=program.parent)


def test_iterator_takes_its_type_where_a_program_runs():
    assert esker.Iterator[bytes].__args__ == (bytes,)


def test_wheel_has_licenses_and_no_build_paths():
    files = {path.name: path for path in importlib.metadata.files("esker")}
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert files[name].locate().read_text().strip(), name
    assert not [name for name in files if name.endswith(".cyclonedx.json")]
