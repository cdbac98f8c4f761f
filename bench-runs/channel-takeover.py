#!/usr/bin/env python3
"""What a node pays for a small file of signatures beside a large table, as a channel brings it.

    bench-runs/channel-takeover.py GAUNTLET TABLE [--versions 30] [--probes]

GAUNTLET is the program; TABLE a table of signatures, as

    cargo run --release -p gauntlet-learning --example channel_delta -- FOLDER 10000000

leaves it in FOLDER/table. All versions (the table, and 1,000 other entries each time) are published
beforehand; a version is let out by putting its timestamp.json in place, so that publishing costs the
machine nothing while it is measured. Rounds of take-overs: without load (time, memory); while the
scan service is asked as fast as it answers (throughput in pairs: the second before a take-over and
the second that begins with it; and the node's CPU time for a message, which other work on the
machine changes less); and under requests and mail at half of what the node does (latency).

--probes measures three nodes, looks every 30 s, instead: from the first message to a trap of one to
the block on both others. It needs nginx.
"""

import argparse
import datetime
import http.client
import json
import os
import re
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

ARGUMENTS = argparse.ArgumentParser()
ARGUMENTS.add_argument("gauntlet", type=Path)
ARGUMENTS.add_argument("table", type=Path, nargs="?")
ARGUMENTS.add_argument("--versions", type=int, default=30)
ARGUMENTS.add_argument("--entries", type=int, default=1000)
ARGUMENTS.add_argument("--probes", action="store_true")
ARGS = ARGUMENTS.parse_args()
PROGRAM = str(ARGS.gauntlet.absolute())
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "GAUNTLET_CONFIG"}


def run(*arguments):
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    if done.returncode:
        sys.exit(f"gauntlet {' '.join(map(str, arguments))}: {done.stdout}{done.stderr}")
    return done.stdout


def entries(count, seed):
    """A file of entries that no mail resembles (crates/learning/src/signatures.rs)."""
    out = bytearray(b"GNTLSIGJ" + struct.pack("<II", 1, 1))
    for number in range(count):
        random = os.urandom(48) if seed else bytes(48)
        day = int(time.time() // 86400)
        entry = struct.pack("<HHHHI", 0, 1, 0, day, 100 + number % 50) + random
        out += entry + struct.pack("<I", zlib.crc32(entry))
    return bytes(out)


class Node:
    """A node in a folder of its own."""

    def __init__(self, folder, config):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True)
        (self.folder / "gauntlet.toml").write_text(
            f'[node]\nname = "gw.test"\ndata = "{self.folder}/data"\n'
            f'[console]\naddress = "127.0.0.1:0"\n[facts]\nenabled = false\n{config}',
            encoding="utf-8",
        )
        self.log = open(self.folder / "node.log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--config", str(self.folder / "gauntlet.toml")],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env=ENVIRONMENT,
        )
        self.places = {}
        for line in self.process.stdout:
            words = line.split()
            if words[:2] == ["to", "stop"]:
                break
            address = re.search(r"127\.0\.0\.1:(\d+)", line)
            if address:
                self.places.setdefault(words[0].rstrip(","), int(address[1]))
        else:
            sys.exit(f"a node did not start: {(self.folder / 'node.log').read_text()}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.places["console"], timeout=20)
        connection.request("GET", "/metrics")
        for line in connection.getresponse().read().decode().splitlines():
            if line.startswith(name + " "):
                return int(float(line.rsplit(" ", 1)[1]))
        return 0

    def anonymous_kb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1])

    def cpu_of_all(self):
        """Seconds that all threads were on a CPU."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
            except OSError:
                pass  # It has just ended.
        return total / 1e9

    def cpu(self):
        """Of the thread that follows channels: seconds on a CPU, and seconds that it waited for one."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text(encoding="ascii").strip() == "channels":
                ran, waited, _ = (task / "schedstat").read_text(encoding="ascii").split()
                return int(ran) / 1e9, int(waited) / 1e9
        sys.exit("the node has no thread that follows channels")

    def log_text(self):
        return (self.folder / "node.log").read_text(encoding="utf-8")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Channel:
    """A channel whose versions are let out one by one."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.content, self.out = self.folder / "content", self.folder / "channel"
        self.content.mkdir(parents=True)
        run("channel", "init", self.out, "--keys", self.folder / "keys")
        self.stamps = []

    def publish(self):
        run("channel", "publish", self.out, self.content, "--keys", self.folder / "keys",
            "--keep", 1000, "--deltas", 1)
        self.stamps.append((self.out / "timestamp.json").read_bytes())

    def let_out(self, number):
        beside = self.out / "timestamp.new"
        beside.write_bytes(self.stamps[number])
        beside.rename(self.out / "timestamp.json")
        return number + 2

    def settings(self, seconds, url=None):
        return (
            f'[[channel]]\nname = "main"\nurl = "{url or f"file://{self.out}"}"\n'
            f'root = "{self.out}/1.root.json"\ninterval_seconds = {seconds}\ncanary_seconds = 0\n'
        )


VERSION = 'gauntlet_channel_version{channel="main"}'
TOOK = 'gauntlet_channel_take_over_milliseconds{channel="main"}'
SWAP = 'gauntlet_channel_swap_milliseconds{channel="main"}'


def wait_for(node, version):
    began = time.time()
    while node.metric(VERSION) != version:
        if time.time() - began > 300 or node.process.poll() is not None:
            sys.exit(f"version {version} was not taken over: {node.log_text()[-4000:]}")
        time.sleep(0.1)


def take_overs(node):
    """Of each take-over by the log: when it ended, and how long it took, in seconds."""
    found = {}
    for line in node.log_text().splitlines():
        if '"taken over"' not in line:
            continue
        said = json.loads(line)
        took = re.fullmatch(r"([\d.]+)(ms|s|µs)", said["took"])
        seconds = float(took[1]) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[took[2]]
        end = datetime.datetime.fromisoformat(said["timestamp"]).timestamp()
        found[said["version"]] = (end, seconds)
    return found


MESSAGE = (
    "From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: Minutes {n}\r\n"
    "Date: Fri, 27 Nov 2026 10:00:00 +0000\r\nMessage-ID: <{n}@example.org>\r\n\r\n"
    + "We agreed to meet again next week and to bring the figures of this one.\r\n" * 60
)


class Load:
    """Threads that do something again and again; when each was done, and how long it took."""

    def __init__(self, clients, begin, rate=None):
        self.done, self.ends, self.began = [], False, time.time()
        self.rate = rate and rate / clients
        self.threads = [threading.Thread(target=self.work, args=(begin, n)) for n in range(clients)]
        for thread in self.threads:
            thread.start()

    def work(self, begin, number):
        ask, count = begin(), 0
        due = time.time() + number * 0.01
        while not self.ends:
            if self.rate:
                due += 1 / self.rate
                time.sleep(max(0, due - time.time()))
                began = due
            else:
                began = time.time()
            ask(f"{number}-{count}")
            now = time.time()
            self.done.append((now, now - began))
            count += 1

    def stop(self):
        self.ends = True
        for thread in self.threads:
            thread.join()


def scanner(node):
    def begin():
        connection = http.client.HTTPConnection("127.0.0.1", node.places["http"], timeout=60)

        def ask(token):
            connection.request("POST", "/v1/scan", MESSAGE.replace("{n}", token).encode(),
                               {"Content-Type": "message/rfc822"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            return json.loads(body)
        return ask
    return begin


def sender(port):
    def begin():
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        file = connection.makefile("rb")

        def reply(expected):
            line = file.readline()
            while line[3:4] == b"-":
                line = file.readline()
            assert line.startswith(expected), line

        def say(text, expected):
            connection.sendall(text.encode())
            reply(expected)

        reply(b"220")
        say("EHLO client.example\r\n", b"250")

        def send(token, to="bob@example.net", text=MESSAGE):
            say("MAIL FROM:<ann@example.org>\r\n", b"250")
            say(f"RCPT TO:<{to}>\r\n", b"250")
            say("DATA\r\n", b"354")
            say(text.replace("{n}", token) + ".\r\n", b"250")
        return send
    return begin


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def idle_round(node, channel, numbers):
    """Time and memory of take-overs without load."""
    peaks, cpus, before_all = [], [], node.anonymous_kb()
    for number in numbers:
        before, peak, ends = node.anonymous_kb(), [0], threading.Event()

        def watch():
            while not ends.is_set():
                peak[0] = max(peak[0], node.anonymous_kb())
                time.sleep(0.002)
        watching = threading.Thread(target=watch)
        watching.start()
        ran = node.cpu()
        wait_for(node, channel.let_out(number))
        time.sleep(0.3)
        ends.set()
        watching.join()
        cpus.append([now - then for now, then in zip(node.cpu(), ran)])
        peaks.append((peak[0] - before) / 1024)
    print(f"memory at most {max(peaks):.1f} MB more during a take-over (median "
          f"{statistics.median(peaks):.1f}); after {len(peaks)} of them "
          f"{(node.anonymous_kb() - before_all) / 1024:.1f} MB more than before")
    print("CPU of a take-over: median "
          f"{statistics.median(ran for ran, _ in cpus) * 1e3:.0f} ms, at most "
          f"{max(ran for ran, _ in cpus) * 1e3:.0f}; it waited for a CPU "
          f"{statistics.median(waited for _, waited in cpus) * 1e3:.0f} ms (median)")


class Cpu:
    """The CPU time of a node, by the clock."""

    def __init__(self, node):
        self.node, self.samples, self.ends = node, [], threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self):
        while not self.ends.wait(0.02):
            self.samples.append((time.time(), self.node.cpu_of_all()))

    def stop(self):
        self.ends.set()
        self.thread.join()

    def between(self, begin, end):
        def at(moment):
            earlier, later = self.samples[0], self.samples[-1]
            for sample in self.samples:
                if sample[0] <= moment:
                    earlier = sample
                else:
                    later = sample
                    break
            share = (moment - earlier[0]) / max(later[0] - earlier[0], 1e-9)
            return earlier[1] + share * (later[1] - earlier[1])
        return at(end) - at(begin)


def windows(node, versions, done, seconds):
    """What was done in the seconds before each take-over, and in those around it."""
    pairs = []
    for version in versions:
        end, took = take_overs(node)[version]
        length = max(seconds, took)
        begin = end - took
        before = [latency for at, latency in done if begin - length <= at < begin]
        during = [latency for at, latency in done if begin <= at < begin + length]
        pairs.append((before, during))
    return pairs


def load_round(node, channel, numbers, load):
    """Lets versions out under load. Nothing is asked meanwhile, which would cost what is measured."""
    versions = []
    time.sleep(3)
    for number in numbers:
        versions.append(channel.let_out(number))
        time.sleep(4)
        while versions[-1] not in take_overs(node):
            time.sleep(2)
    load.stop()
    return versions


def latencies(node, channel, what):
    """Latency before and during take-overs, at half of what the node does at most."""
    name, numbers, begin, clients = what
    most = Load(clients, begin)
    time.sleep(4)
    most.stop()
    rate = len(most.done) / 4 / 2
    load = Load(4 * clients, begin, rate)
    versions = load_round(node, channel, numbers, load)
    pairs = windows(node, versions, load.done, 2.0)
    sides = ([latency for side in sides for latency in side] for sides in zip(*pairs))
    print(f"{name} at {rate:.0f}/s, half of what it does: {len(pairs)} pairs of 2 s; "
          + "; ".join(
              f"{side} p50 {percentile(all_, .5) * 1e3:.1f} p99 {percentile(all_, .99) * 1e3:.1f} "
              f"at most {max(all_) * 1e3:.1f} ms ({len(all_)})"
              for side, all_ in zip(("before", "during"), sides)))


def take_over_figures():
    folder = tempfile.mkdtemp(dir=ARGS.table.absolute().parent)
    try:
        channel = Channel(f"{folder}/publisher")
        (channel.content / "signatures").mkdir()
        shutil.copy(ARGS.table, channel.content / "signatures/table")
        began = time.time()
        for number in range(ARGS.versions):
            (channel.content / "signatures/today").write_bytes(entries(ARGS.entries, number + 1))
            channel.publish()
        print(f"{ARGS.versions} versions published in {time.time() - began:.0f} s; the table has "
              f"{ARGS.table.stat().st_size} bytes")
        channel.let_out(0)
        node = Node(
            f"{folder}/node",
            '[[listener]]\naddress = "127.0.0.1:0"\n[[service]]\nprotocol = "http"\n'
            'address = "127.0.0.1:0"\nlog = false\n'
            + channel.settings(1),
        )
        wait_for(node, 2)
        numbers = range(1, ARGS.versions)
        part = len(numbers) // 5
        idle, scans = numbers[:part], numbers[part:-2 * part]
        calm, mails = numbers[-2 * part:-part], numbers[-part:]
        idle_round(node, channel, idle)
        # The first brought the table.
        took = [seconds for version, (_, seconds) in take_overs(node).items() if version > 2]
        print(f"without load: {len(took)} take-overs of {ARGS.entries} entries, median "
              f"{statistics.median(took) * 1e3:.0f} ms, at most {max(took) * 1e3:.0f} ms, from the "
              f"first request to the swap; the swap itself {node.metric(SWAP)} ms")
        load, cpu = Load(2, scanner(node)), Cpu(node)
        versions = load_round(node, channel, scans, load)
        cpu.stop()
        pairs = windows(node, versions, load.done, 1.0)
        each = []
        for version, (before, during) in zip(versions, pairs):
            end, took = take_overs(node)[version]
            begin, length = end - took, max(1.0, took)
            each.append((cpu.between(begin - length, begin) / len(before),
                         cpu.between(begin, begin + length) / len(during)))
        sums = [sum(side) / len(each) * 1e6 for side in zip(*each)]
        print(f"CPU of the node for a message: {sums[0]:.0f} us before, {sums[1]:.0f} during "
              f"take-over (median of the pairs "
              f"{100 * statistics.median(now / then for then, now in each):.1f} %)")
        ratios = [len(during) / len(before) for before, during in pairs]
        rates = [sum(map(len, side)) for side in zip(*pairs)]
        took = [take_overs(node)[version][1] * 1e3 for version in versions]
        print(f"scanning: {len(load.done) / (load.done[-1][0] - load.began):.0f} messages/s; "
              f"{len(pairs)} pairs of a second: {rates[0]} before, {rates[1]} during take-over "
              f"({100 * rates[1] / rates[0]:.1f} %), median of the pairs "
              f"{100 * statistics.median(ratios):.1f} %; a take-over took "
              f"{statistics.median(took):.0f} ms, at most {max(took):.0f}")
        latencies(node, channel, ("requests to the scan service", calm, scanner(node), 2))
        mail = sender(node.places["smtp"])
        latencies(node, channel, ("mail", mails, mail, 4))
        node.stop()
    finally:
        shutil.rmtree(folder)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def probe_figures():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        channel = Channel(f"{folder}/publisher")
        port = free_port()
        Path(f"{folder}/nginx.conf").write_text(
            f"user root; daemon off; worker_processes 1; pid {folder}/pid;\n"
            f"error_log {folder}/error.log;\nevents {{ }}\nhttp {{ access_log off; server {{\n"
            f"listen 127.0.0.1:{port}; root {channel.out}; }} }}\n", encoding="ascii")
        nginx = subprocess.Popen(["nginx", "-c", f"{folder}/nginx.conf"])
        keys = channel.folder / "keys"
        (keys / "root-1.pem").rename(channel.folder / "root-1.pem")
        first = Node(
            f"{folder}/first",
            '[[listener]]\naddress = "127.0.0.1:0"\nrole = "trap"\n[channel_publish]\n'
            f'folder = "{channel.out}"\nkeys = "{keys}"\ninterval_seconds = 10\n')
        service = '[[listener]]\naddress = "127.0.0.1:0"\n[[service]]\nprotocol = "http"\naddress = "127.0.0.1:0"\nlog = false\n'
        others = [
            Node(f"{folder}/other{n}",
                 service + channel.settings(30, f"http://127.0.0.1:{port}")) for n in range(2)]
        asks = [scanner(node)() for node in others]
        time.sleep(35)
        text = MESSAGE.replace("We agreed", f"Buy replica watches {os.urandom(8).hex()}")
        began = time.time()
        trap = next(port for name, port in first.places.items() if name not in ("console",))
        sender(trap)()("trap", "anybody@anywhere.example", text)
        known = {}
        while len(known) < len(asks) and time.time() - began < 300:
            for number, ask in enumerate(asks):
                verdict = ask_text(ask, text)
                if number not in known and "SIGNATURE_BAD" in json.dumps(verdict):
                    known[number] = time.time() - began
            time.sleep(0.2)
        print("from the first message to a trap to the block on the two others: "
              + " and ".join(f"{known.get(n, float('nan')):.1f} s" for n in range(len(asks))))
        for node in [first, *others]:
            node.stop()
        nginx.terminate()
        nginx.wait()


def ask_text(ask, text):
    global MESSAGE
    kept, MESSAGE = MESSAGE, text
    try:
        return ask("x")
    finally:
        MESSAGE = kept


if ARGS.probes:
    probe_figures()
elif ARGS.table:
    take_over_figures()
else:
    ARGUMENTS.error("a TABLE, or --probes")
