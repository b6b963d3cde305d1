#!/usr/bin/env python3
"""Drives unchanged programs that store their data in RocksDB, on RocksDB's library and on Esker's in
turn, kills them with SIGKILL, and checks that everything they acknowledged is still there. Prints a
table of medians over the rounds.

Invariants: a program that uses another library than the one that is measured is an error, and so is
every lost or different answer."""

import argparse
import base64
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path


def fail(message):
    sys.exit(f"rocksdb-apps: {message}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Process:
    """A program on the library in one directory, and what it used over all its lives."""

    def __init__(self, command, library, log):
        self.command, self.library, self.log = command, Path(library), log
        self.child = None
        self.written = 0
        self.resident = 0

    def start(self):
        environment = dict(os.environ, LD_LIBRARY_PATH=str(self.library))
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command, stdout=log, stderr=log, env=environment)

    def check_library(self):
        wanted = str((self.library / "librocksdb.so.11").resolve())
        maps = Path(f"/proc/{self.child.pid}/maps").read_text()
        if wanted not in maps:
            fail(f"{self.command[0]} does not use {wanted}")

    def wait_until(self, ready, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.child.poll() is not None:
                break
            try:
                if ready():
                    self.check_library()
                    return
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(0.02)
        fail(f"{self.command[0]} does not answer; its log: {self.log}")

    def sample(self):
        """Adds up the bytes written, and keeps the largest resident memory."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        self.resident = max(self.resident, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10)
        io = Path(f"/proc/{self.child.pid}/io").read_text()
        return int(re.search(r"^write_bytes: (\d+)", io, re.M)[1])

    def kill(self):
        if self.child is not None and self.child.poll() is None:
            self.written += self.sample()
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.child = None


class Sonic:
    """A search server (crate sonic-server): pushes texts, and counts the terms of each again."""

    name = "sonic-server"
    legs = 4

    def __init__(self, options, library, place):
        self.options = options
        self.port = free_port()
        config = place / "config.cfg"
        config.write_text(
            f"""[server]
log_level = "warn"
[channel]
inet = "127.0.0.1:{self.port}"
tcp_timeout = 300
auth_password = "SecretPassword"
[channel.search]
query_limit_default = 10
[store.kv]
path = "{place}/kv/"
retain_word_objects = 1000
pool.inactive_after = 1800
database.flush_after = 900
database.compression_type = "zstd"
database.parallelism = 2
database.max_files = 100
database.write_buffer_size = 4096
database.write_ahead_log = true
[store.fst]
path = "{place}/fst/"
graph.consolidate_after = 180
"""
        )
        self.process = Process(
            [options.sonic, "--config", str(config)], library, place / "sonic.log"
        )

    def connect(self, mode):
        channel = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = channel.makefile("rwb", buffering=0)
        if not stream.readline().startswith(b"CONNECTED"):
            raise ValueError("no greeting")
        stream.write(f"START {mode} SecretPassword\n".encode())
        if not stream.readline().startswith(b"STARTED"):
            raise ValueError("not started")
        self.channel = channel
        return stream

    def ask(self, stream, line):
        stream.write(line.encode())
        return stream.readline().decode().strip()

    def start(self):
        self.process.start()
        self.process.wait_until(lambda: self.connect("ingest") is not None)

    def text(self, number):
        """The text of an object: words with a skewed frequency, and one of its own."""
        source = random.Random(number)
        words = [f"w{int(source.paretovariate(0.6)) % 20000}x" for _ in range(24)]
        return words + [f"own{number}x"]

    def run(self):
        pushed, began, pauses = 0, [], []
        push_seconds = restart_seconds = query_seconds = 0.0
        per_leg = self.options.pushes // self.legs
        queries = 0
        for _ in range(self.legs):
            self.start()
            stream = self.connect("ingest")
            for number in range(pushed, pushed + per_leg):
                line = f'PUSH texts all object{number} "{" ".join(self.text(number))}" LANG(none)\n'
                start = time.perf_counter()
                answer = self.ask(stream, line)
                took = time.perf_counter() - start
                push_seconds += took
                pauses.append(took)
                if answer != "OK":
                    fail(f"sonic-server: {answer!r} to a push")
            pushed += per_leg
            self.process.kill()
            start = time.perf_counter()
            self.start()
            restart_seconds += time.perf_counter() - start
            self.check(pushed)
            seconds, count = self.search(pushed)
            query_seconds += seconds
            queries += count
            self.process.kill()
        return [
            ("texts pushed/s", pushed / push_seconds, "{:,.0f}"),
            ("longest push, ms", max(pauses) * 1e3, "{:.1f}"),
            ("queries/s", queries / query_seconds, "{:,.0f}"),
            ("time to open after a kill, s", restart_seconds / self.legs, "{:.2f}"),
        ]

    def check(self, pushed):
        """Every object has its terms: counted by the server from its store."""
        stream = self.connect("ingest")
        for number in range(pushed):
            answer = self.ask(stream, f"COUNT texts all object{number}\n")
            expected = f"RESULT {len(set(self.text(number)))}"
            if answer != expected:
                fail(f"sonic-server: object{number}: {answer!r} instead of {expected!r} after a kill")

    def search(self, pushed):
        """Words that one object has, and frequent ones."""
        stream = self.connect("search")
        source = random.Random(pushed)
        began = time.perf_counter()
        count = self.options.pushes // 10
        for _ in range(count):
            number = source.randrange(pushed)
            pending = self.ask(stream, f'QUERY texts all "own{number}x" LANG(none)\n')
            answer = stream.readline().decode().split()
            if not pending.startswith("PENDING") or answer[3:] != [f"object{number}"]:
                fail(f"sonic-server: own{number}x finds {answer}")
        return time.perf_counter() - began, count


class Comet:
    """A blockchain node (cometbft) with one validator: commits transactions, and has all blocks."""

    name = "cometbft"
    legs = 3

    def __init__(self, options, library, place):
        self.options = options
        self.port = free_port()
        self.home = place / "home"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
        environment = dict(os.environ, LD_LIBRARY_PATH=str(library))
        command = [options.comet, "init", "--home", str(self.home)]
        subprocess.run(command, check=True, env=environment, **quiet)
        config = self.home / "config" / "config.toml"
        text = config.read_text()
        for name, value in [
            ("db_backend", '"rocksdb"'),
            ("proxy_app", '"kvstore"'),
            ("log_level", '"error"'),
            ("timeout_commit", '"0s"'),
            ("skip_timeout_commit", "true"),
        ]:
            text, changed = re.subn(rf"(?m)^{name} = .*$", f"{name} = {value}", text)
            if changed != 1:
                fail(f"cometbft: {changed} settings {name} in its configuration")
        text = text.replace("tcp://127.0.0.1:26657", f"tcp://127.0.0.1:{self.port}")
        text = text.replace("tcp://0.0.0.0:26656", f"tcp://127.0.0.1:{free_port()}")
        config.write_text(text)
        self.process = Process(
            [options.comet, "node", "--home", str(self.home)], library, place / "comet.log"
        )
        self.connection = None

    def call(self, path):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self.connection.request("GET", path)
            answer = json.loads(self.connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["result"]

    def height(self):
        return int(self.call("/status")["sync_info"]["latest_block_height"])

    def start(self):
        self.connection = None
        self.process.start()
        self.process.wait_until(lambda: self.height() >= 0)

    def blocks(self, up_to):
        """The hash of each block and of what the application answered, from the node's stores."""
        found = {}
        for height in range(1, up_to + 1):
            block = self.call(f"/block?height={height}")
            results = self.call(f"/block_results?height={height}")
            codes = [result["code"] for result in results["txs_results"] or []]
            found[height] = (block["block_id"]["hash"], len(block["block"]["data"]["txs"]), codes)
        return found

    def run(self):
        known, transactions, blocks = {}, 0, 0
        seconds = restart_seconds = longest = 0.0
        sent = 0
        for leg in range(self.legs):
            self.start()
            before, began = self.height(), time.perf_counter()
            height, since = before, began
            while time.perf_counter() - began < self.options.comet_seconds:
                for _ in range(20):
                    transaction = base64.b16encode(f"k{sent}={sent:0200d}".encode()).decode()
                    self.call(f"/broadcast_tx_async?tx=0x{transaction}")
                    sent += 1
                now = self.height()
                if now > height:
                    longest = max(longest, time.perf_counter() - since)
                    height, since = now, time.perf_counter()
            seconds += time.perf_counter() - began
            # The results of a block are stored after the block itself.
            now = self.blocks(height - 1)
            for at, block in known.items():
                if now[at] != block:
                    fail(f"cometbft: block {at} is {now[at]} instead of {block} after a kill")
            transactions += sum(now[at][1] for at in range(before + 1, height))
            blocks += height - 1 - before
            known = now
            self.process.kill()
            start = time.perf_counter()
            self.start()
            restart_seconds += time.perf_counter() - start
            if (found := self.blocks(len(known))) != known:
                lost = [at for at in known if found[at] != known[at]]
                fail(f"cometbft: blocks {lost} differ after a kill")
            self.process.kill()
        return [
            ("transactions committed/s", transactions / seconds, "{:,.0f}"),
            ("blocks committed/s", blocks / seconds, "{:.1f}"),
            ("longest time without a block, ms", longest * 1e3, "{:.0f}"),
            ("time to open after a kill, s", restart_seconds / self.legs, "{:.2f}"),
        ]


def measure(app, options, engine, library, rows):
    place = Path(options.work) / f"{app.name}-{engine}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    program = app(options, library, place)
    try:
        results = program.run()
    finally:
        program.process.kill()
    mebibytes = 1 << 20
    results.append(("written, MiB", program.process.written / mebibytes, "{:.1f}"))
    results.append(("resident at most, MiB", program.process.resident / mebibytes, "{:.0f}"))
    for what, value, form in results:
        rows.setdefault((app.name, what, form), {}).setdefault(engine, []).append(value)
    shutil.rmtree(place)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rocksdb", required=True, help="directory of RocksDB's librocksdb.so.11")
    parser.add_argument("--esker", required=True, help="directory of Esker's")
    parser.add_argument("--work", required=True, help="directory for the programs' data")
    parser.add_argument("--sonic", help="the program sonic")
    parser.add_argument("--comet", help="the program cometbft")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pushes", type=int, default=40_000, help="texts that sonic gets")
    parser.add_argument("--comet-seconds", type=float, default=20, help="of each of three legs")
    options = parser.parse_args()
    apps = [app for app, path in [(Sonic, options.sonic), (Comet, options.comet)] if path]
    rows = {}
    for turn in range(1, options.rounds + 1):
        for engine, library in [("rocksdb", options.rocksdb), ("esker", options.esker)]:
            for app in apps:
                print(f"round {turn} of {options.rounds}: {app.name} on {engine}", file=sys.stderr)
                measure(app, options, engine, library, rows)
    print("| program | what | RocksDB | Esker |")
    print("|---|---|---:|---:|")
    for (name, what, form), engines in rows.items():
        cells = []
        for engine in ("rocksdb", "esker"):
            values = [form.format(value) for value in sorted(engines[engine])]
            middle = form.format(statistics.median(engines[engine]))
            cells.append(f"{middle} ({values[0]}..{values[-1]})")
        print(f"| {name} | {what} | {cells[0]} | {cells[1]} |")


main()
