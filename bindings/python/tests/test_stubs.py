"""The stubs match the module."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import esker


def run(*arguments, **more):
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, **more
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_match_module(tmp_path):
    run("mypy.stubtest", "esker", cwd=tmp_path)


def test_program_type_checks(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import esker\n"
        "from collections.abc import MutableMapping\n"
        "with esker.DB('x', policy='leveled', create_if_missing=True) as db:\n"
        "    value: bytes | None = db.get(b'k')\n"
        "    sure: bytes = db.get(b'k', b'')\n"
        "    pairs: list[tuple[bytes, bytes]] = list(db)\n"
        "    keys: list[bytes] = list(db.iterator(include_value=False))\n"
        "    mapping: MutableMapping[bytes, bytes] = db.mapping()\n"
        "    part: esker.PrefixedDB = db.prefixed_db(b'p')\n"
        "    users: esker.Keyspace = db.keyspace('users', order='esker.reverse', fan_out=4)\n"
        "    found: esker.Keyspace | None = db.find_keyspace('users')\n"
        "    name: bytes | None = users.get(b'k')\n"
        "    with db.write_batch() as batch:\n"
        "        batch.put(b'k', b'v', keyspace=users)\n"
        "    with db.snapshot() as snapshot:\n"
        "        old: bytes = snapshot.keyspace(users)[b'k']\n"
        "    def work(t: esker.Transaction) -> int:\n"
        "        t.put(b'k', b'v', keyspace=users)\n"
        "        return len(t.get(b'k', b''))\n"
        "    total: int = db.transact(work, retries=3, isolation='serializable')\n"
        "    with db.transaction(concurrency='pessimistic', lock_timeout_ms=5) as t:\n"
        "        seen: bytes | None = t.get_for_update(b'k', keyspace=users)\n"
        "        with t.savepoint():\n"
        "            t[b'k'] = b'v'\n"
        "        both: list[tuple[bytes, bytes]] = list(t.iterator(prefix=b'k', keyspace=users))\n"
        "        only: list[bytes] = list(t.iterator(include_key=False))\n"
        "    retry: type[esker.ConflictError] = esker.DeadlockError\n"
        "    db.transaction(isolation='none')  # type: ignore[arg-type]\n"
        "    db.put('k', b'v')  # type: ignore[arg-type]\n"
    )
    run("mypy", "--strict", str(program), cwd=tmp_path)
    assert (Path(esker.__file__).parent / "py.typed").exists()


def test_wheel_has_licenses_and_no_build_paths():
    files = {path.name: path for path in importlib.metadata.files("esker")}
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert files[name].locate().read_text().strip(), name
    assert not [name for name in files if name.endswith(".cyclonedx.json")]
