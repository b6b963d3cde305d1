#!/usr/bin/env python3
"""Drives unchanged programs that store their data in RocksDB, on RocksDB's library and on Esker's in
turn, kills them with SIGKILL, and checks that every acknowledged text (sonic-server) and every
committed block (cometbft) is still there. Prints a table of medians over the rounds. The engine that
is first alternates.

Each leg has two kills: one at a random moment of its writes, after which the rest of the leg is
written, and one after them.

cometbft gets a fixed number of transactions in each leg, from SENDERS threads with an HTTP connection
each, which POST JSON-RPC batches of BATCH calls of broadcast_tx_sync. What a full mempool refuses is
sent again after a short wait. A leg ends when all of its transactions are in blocks.

Invariants: a program that uses another library than the one that is measured is an error, and so is
every lost or different answer."""

import argparse
import base64
import hashlib
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
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SENDERS = 4
BATCH = 100


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
        """The bytes written since the start. Keeps the largest resident memory."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        self.resident = max(self.resident, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10)
        io = Path(f"/proc/{self.child.pid}/io").read_text()
        return int(re.search(r"^write_bytes: (\d+)", io, re.M)[1])

    def count_written(self):
        """Adds the bytes written since the start: once in each life, before the checks."""
        self.written += self.sample()

    def kill_within(self, least, most):
        """Kills the program from another thread, after a random number of seconds."""
        child = self.child

        def strike():
            time.sleep(random.uniform(least, most))
            self.count_written()
            child.send_signal(signal.SIGKILL)
            child.wait()

        striker = threading.Thread(target=strike)
        striker.start()
        return striker

    def kill(self):
        if self.child is not None and self.child.poll() is None:
            self.sample()
            self.child.send_signal(signal.SIGKILL)
            self.child.wait()
        self.child = None


class Sonic:
    """A search server (crate sonic-server): pushes texts, counts the terms of each again, and searches.
    It finds no words like the one that is asked for, and leaves out no frequent ones (its section
    `search`), so that every answer can be checked."""

    name = "sonic-server"
    legs = 4

    def __init__(self, options, library, place):
        self.options = options
        # Texts whose push a kill has interrupted.
        self.uncertain = set()
        self.port = free_port()
        config = place / "config.cfg"
        config.write_text(
            f"""[server]
log_level = "warn"
[channel]
inet = "127.0.0.1:{self.port}"
tcp_timeout = 300
auth_password = "SecretPassword"
[search]
query_limit_default = 10
query_alternates_try = 0
query_minimum_term_idf_default = 0.0
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
        pushed, pauses = 0, []
        restart_seconds = query_seconds = 0.0
        per_leg = self.options.pushes // self.legs
        queries = struck = 0
        for leg in range(1, self.legs + 1):
            self.start()
            expected = (per_leg * leg - pushed) / self.options.speed
            striker = self.process.kill_within(0.2 * expected, 0.8 * expected)
            before = len(pauses)
            pushed = self.push(pushed, per_leg * leg, pauses)
            striker.join()
            self.start()
            self.check(pushed)
            if pushed < per_leg * leg:
                struck += 1
                # A push is several writes of the store, so the text whose push had no answer may be
                # there in part. It is left out of the checks, and not pushed again: that would add
                # its terms twice.
                self.uncertain.add(pushed)
                pushed = self.push(pushed + 1, per_leg * leg, pauses)
            if pushed < per_leg * leg:
                fail("sonic-server: it ended by itself; its log says why")
            self.options.speed = max(100, (len(pauses) - before) / sum(pauses[before:]))
            self.process.count_written()
            self.process.kill()
            start = time.perf_counter()
            self.start()
            # sonic-server opens its store at the first use.
            self.check(1)
            restart_seconds += time.perf_counter() - start
            self.process.count_written()
            self.check(pushed)
            seconds, count = self.search(pushed)
            query_seconds += seconds
            queries += count
            self.process.kill()
        if struck == 0:
            fail("sonic-server: no kill came during a push; more --pushes")
        push_seconds = sum(pauses)
        return [
            ("texts pushed/s", len(pauses) / push_seconds, "{:,.0f}"),
            ("kills during pushes", struck, "{:.0f}"),
            ("longest push, ms", max(pauses) * 1e3, "{:.1f}"),
            ("queries/s", queries / query_seconds, "{:,.0f}"),
            ("time to open after a kill, s", restart_seconds / self.legs, "{:.2f}"),
        ]

    def push(self, first, end, pauses):
        """Pushes texts until the end, or until the server is killed. Returns the number that were
        acknowledged, and adds the time of each to `pauses`."""
        stream = self.connect("ingest")
        for number in range(first, end):
            line = f'PUSH texts all object{number} "{" ".join(self.text(number))}" LANG(none)\n'
            start = time.perf_counter()
            try:
                answer = self.ask(stream, line)
            except OSError:
                return number
            took = time.perf_counter() - start
            if answer == "":
                return number
            if answer != "OK":
                fail(f"sonic-server: {answer!r} to a push")
            pauses.append(took)
        return end

    def check(self, pushed):
        """Every object has its terms: counted by the server from its store."""
        stream = self.connect("ingest")
        for number in range(pushed):
            if number in self.uncertain:
                continue
            answer = self.ask(stream, f"COUNT texts all object{number}\n")
            expected = f"RESULT {len(set(self.text(number)))}"
            if answer != expected:
                fail(f"sonic-server: object{number}: {answer!r} instead of {expected!r} after a kill")

    def search(self, pushed):
        """Searches words that one object has and, as often, frequent ones. Returns the seconds and the
        number of queries; the answers are checked later."""
        stream = self.connect("search")
        source = random.Random(pushed)
        asked = []
        for turn in range(self.options.pushes // 10):
            number = source.randrange(pushed)
            if number in self.uncertain:
                continue
            # A word of a text is most likely one that many texts have.
            word = f"own{number}x" if turn % 2 else source.choice(self.text(number)[:-1])
            asked.append((number, word))
        answers = []
        began = time.perf_counter()
        for _, word in asked:
            pending = self.ask(stream, f'QUERY texts all "{word}" LANG(none)\n')
            answers.append((pending, stream.readline().decode().split()))
        seconds = time.perf_counter() - began
        for (number, word), (pending, answer) in zip(asked, answers):
            found = answer[3:]
            if not pending.startswith("PENDING") or not found:
                fail(f"sonic-server: {word} finds nothing: {pending!r}, {answer}")
            if word.startswith("own") and found != [f"object{number}"]:
                fail(f"sonic-server: {word} finds {found}")
            for name in found:
                if word not in self.text(int(name.removeprefix("object"))):
                    fail(f"sonic-server: {word} finds {name}, which does not have it")
        return seconds, len(asked)


class Comet:
    """A blockchain node (cometbft) with one validator: commits transactions, and has all blocks of
    them, with the same results, after a kill."""

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
            ("create_empty_blocks", "false"),
            ("max_request_batch_size", str(BATCH)),
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
        self.lock = threading.Lock()
        self.taken = 0
        # Whether a kill is due: calls may fail.
        self.struck = False

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

    def send(self, transactions):
        """Sends transactions (in base64) until the mempool has taken all of them, or the node is
        killed."""
        try:
            self.send_all(transactions)
        except (OSError, http.client.HTTPException):
            if not self.struck:
                raise

    def send_all(self, transactions):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        waiting = list(transactions)
        while waiting:
            batch = [
                {"jsonrpc": "2.0", "id": at, "method": "broadcast_tx_sync", "params": {"tx": each}}
                for at, each in enumerate(waiting[:BATCH])
            ]
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/", json.dumps(batch), headers)
            answers = json.loads(connection.getresponse().read())
            # One answer stands alone.
            answers = answers if isinstance(answers, list) else [answers]
            if sorted(answer["id"] for answer in answers) != list(range(len(batch))):
                fail(f"cometbft: {len(answers)} answers to {len(batch)} transactions")
            refused = []
            for answer in answers:
                if "mempool is full" in str(answer.get("error")):
                    refused.append(waiting[answer["id"]])
                elif "error" in answer or answer["result"]["code"] != 0:
                    fail(f"cometbft: {answer} to a transaction")
            with self.lock:
                self.taken += len(batch) - len(refused)
            waiting[:BATCH] = refused
            if refused:
                time.sleep(0.005)
        connection.close()

    def new_blocks(self, height):
        """The height and the number of transactions of the next blocks after a height."""
        try:
            answer = self.call(f"/blockchain?minHeight={height + 1}&maxHeight={height + 20}")
        except ValueError as error:
            if "greater than max height" in str(error):
                return []
            raise
        metas = answer["block_metas"]
        return [(int(meta["header"]["height"]), int(meta["num_txs"])) for meta in metas]

    def interrupted(self, transactions, height):
        """Sends transactions until the node is killed. Returns the height of the last block that was
        seen before."""
        self.taken, self.struck = 0, True
        expected = len(transactions) / self.options.rate
        striker = self.process.kill_within(0.2 * expected, 0.6 * expected)
        with ThreadPoolExecutor(SENDERS) as pool:
            senders = [pool.submit(self.send, transactions[at::SENDERS]) for at in range(SENDERS)]
            while striker.is_alive():
                try:
                    height = max([height] + [at for at, _ in self.new_blocks(height)])
                except (OSError, http.client.HTTPException):
                    break
                time.sleep(0.005)
            striker.join()
            for sender in senders:
                sender.result()
        self.struck = False
        return height

    def settled(self):
        """The height when no block has been added for two seconds: a proposal that the kill
        interrupted is repeated."""
        height, since = self.height(), time.monotonic()
        while time.monotonic() - since < 2:
            time.sleep(0.05)
            if self.height() != height:
                height, since = self.height(), time.monotonic()
        return height

    def commit(self, transactions, height):
        """Sends transactions, and waits until the blocks after a height have as many. Returns the last
        block's height, the seconds, and the longest time without a block while transactions waited."""
        self.taken, committed, longest = 0, 0, 0.0
        with ThreadPoolExecutor(SENDERS) as pool:
            began = since = now = time.perf_counter()
            senders = [pool.submit(self.send, transactions[at::SENDERS]) for at in range(SENDERS)]
            while committed < len(transactions):
                idle = committed >= self.taken
                found = self.new_blocks(height)
                now = time.perf_counter()
                if found:
                    longest = max(longest, now - since)
                    height = max(at for at, _ in found)
                    committed += sum(count for _, count in found)
                if found or idle:
                    since = now
                if now - since > 120:
                    fail("cometbft: no block for 120 s, but transactions wait")
                for sender in senders:
                    if sender.done():
                        sender.result()
                time.sleep(0.005)
            for sender in senders:
                sender.result()
        return height, now - began, longest

    def blocks(self, first, last):
        """Each block's transactions, and a hash of all that the node answers for it and its results."""
        found = {}
        for height in range(first, last + 1):
            block = self.call(f"/block?height={height}")
            results = self.results(height)
            for result in results["txs_results"] or []:
                if result["code"] != 0:
                    fail(f"cometbft: {result} of a transaction in block {height}")
            transactions = block["block"]["data"]["txs"]
            if len(results["txs_results"] or []) != len(transactions):
                fail(f"cometbft: block {height} has not as many results as transactions")
            answers = json.dumps([block, results], sort_keys=True).encode()
            found[height] = (transactions, hashlib.sha256(answers).digest())
        return found

    def results(self, height):
        """The results of a block, which are stored after the block itself."""
        end = time.monotonic() + 30
        while True:
            try:
                return self.call(f"/block_results?height={height}")
            except ValueError as error:
                if time.monotonic() > end:
                    fail(f"cometbft: no results of block {height}: {error}")
                time.sleep(0.01)

    def check(self, blocks, sent):
        """The blocks contain each transaction that was sent once, and no other."""
        if sorted(each for transactions, _ in blocks.values() for each in transactions) != sorted(sent):
            fail("cometbft: the blocks do not contain exactly the transactions that were sent")

    def run(self):
        known, sent, full = {}, [], 0
        struck = committed = 0
        seconds = restart_seconds = longest = 0.0
        for _ in range(self.legs):
            self.start()
            next_ones = [
                base64.b64encode(f"k{at}={at:0200d}".encode()).decode()
                for at in range(len(sent), len(sent) + self.options.transactions)
            ]
            seen = self.interrupted(next_ones, len(known))
            self.start()
            height = self.settled()
            if height < seen:
                fail(f"cometbft: block {seen} was there before a kill, and {height} is the last after")
            found = self.blocks(1, height)
            if lost := [at for at in known if found.get(at) != known[at]]:
                fail(f"cometbft: blocks {lost} are lost or differ after a kill")
            early = {each for at in found if at not in known for each in found[at][0]}
            if extra := early - set(next_ones):
                fail(f"cometbft: {len(extra)} transactions in blocks were never sent")
            known = found
            struck += 0 < len(early) < len(next_ones)
            rest = [each for each in next_ones if each not in early]
            height, took, pause = self.commit(rest, len(known))
            self.options.rate = max(100, len(rest) / took)
            self.process.count_written()
            sent += next_ones
            committed += len(rest)
            seconds += took
            longest = max(longest, pause)
            known |= self.blocks(len(known) + 1, height)
            self.check(known, sent)
            self.process.kill()
            start = time.perf_counter()
            self.start()
            restart_seconds += time.perf_counter() - start
            self.process.count_written()
            found = self.blocks(1, self.height())
            if lost := [at for at in known if found.get(at) != known[at]]:
                fail(f"cometbft: blocks {lost} are lost or differ after a kill")
            self.check(found, sent)
            known = found
            full = sum(bool(transactions) for transactions, _ in known.values())
            self.process.kill()
        if struck == 0:
            fail("cometbft: no kill came between commits; more --transactions")
        opens = "time to open after a kill, with the replay of all blocks into the application in memory, s"
        return [
            ("transactions committed/s", committed / seconds, "{:,.0f}"),
            ("kills between commits", struck, "{:.0f}"),
            ("transactions in a block", len(sent) / full, "{:,.0f}"),
            ("longest time without a block, transactions waiting, ms", longest * 1e3, "{:.0f}"),
            (opens, restart_seconds / self.legs, "{:.2f}"),
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
    # sonic-server finds an object by a hash of 32 bits of its name: of 160,000 some share theirs.
    parser.add_argument("--pushes", type=int, default=80_000, help="texts that sonic gets")
    parser.add_argument("--transactions", type=int, default=60_000, help="of each of three legs")
    # What the programs do in a second, until a leg has told.
    parser.set_defaults(speed=4000, rate=12000)
    options = parser.parse_args()
    apps = [app for app, path in [(Sonic, options.sonic), (Comet, options.comet)] if path]
    rows = {}
    for turn in range(1, options.rounds + 1):
        engines = [("rocksdb", options.rocksdb), ("esker", options.esker)]
        for engine, library in engines if turn % 2 else engines[::-1]:
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
