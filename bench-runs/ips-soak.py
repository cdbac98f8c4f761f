#!/usr/bin/env python3
"""The bridge of `gauntlet ips run` under load for long, while its rules are read anew again and again:
nothing may be lost, no connection may fail, and memory has to stay flat.

    ips-soak.py GAUNTLET [--seconds 1800] [--reload-every 10] [--rules FILE] [--connections 32] [--threads 1]

Needs root, nginx and wrk. Network namespaces as in `ips-inline.py`. wrk asks for 1 KB over kept
connections with pauses, curl fetches 100 KB over new connections and checks every byte. Each reload
gives the rules another line in turn: the new one has to alert, the old one not, and a request whose
first half was sent before the reload has to alert once its second half has come. The log is moved away
at each reload, as logrotate does, and its alerts are counted from what was moved.

Exit status: 0 all of that held; 1 it did not.
"""
import argparse
import hashlib
import importlib.util
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("ips_inline", HERE / "ips-inline.py")
inline = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(inline)

PATIENCE = 10
# Memory of the last third of the samples may be so much above that of the second.
GROWTH_MAX = 1.05
GROWTH_BYTES_MAX = 2**21
SPLIT, TURN = 9_000_000, 9_000_001
# One request in two halves; between them it waits for a line.
HALVES = f"""
import socket, sys
for line in sys.stdin:
    s = socket.create_connection(("{inline.SERVER}", 80), {PATIENCE})
    s.sendall(b"GET /split-")
    print("half", flush=True)
    sys.stdin.readline()
    s.sendall(b"reload-" + line.strip().encode() + b" HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
    answer = b""
    while part := s.recv(65536):
        answer += part
    print(answer.split(b" ")[1].decode(), flush=True)
"""


class Rules:
    def __init__(self, folder, others):
        self.file, self.turn = folder / "soak.rules", 0
        self.others = pathlib.Path(others).read_text() if others else ""
        self.write()

    def write(self):
        turn = f'alert http any any -> any any (http.uri; content:"/turn"; sid:{TURN + self.turn};)\n'
        split = f'alert tcp any any -> any 80 (flow:established,to_server; content:"/split-reload-"; sid:{SPLIT};)\n'
        new = self.file.with_suffix(".new")
        new.write_text(self.others + turn + split)
        new.rename(self.file)

    def swap(self):
        self.turn = 1 - self.turn
        self.write()


class Alerts:
    """Counts alerts of the log and of those that were moved away."""

    def __init__(self, eve):
        self.eve, self.counts, self.number, self.place = eve, {}, 0, 0
        self.stream = None

    def read(self):
        if self.stream is None:
            if not self.eve.exists():
                return
            self.stream, self.rest = open(self.eve, "rb"), b""
        self.rest += self.stream.read()
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            if b'"event_type":"alert"' in line:
                sid = json.loads(line)["alert"]["signature_id"]
                self.counts[sid] = self.counts.get(sid, 0) + 1

    def of(self, sid):
        self.read()
        return self.counts.get(sid, 0)

    def move_away(self):
        self.read()
        self.moved = self.eve.with_suffix(".old")
        self.eve.rename(self.moved)

    def follow(self):
        """Goes on in the new file, once there is one."""
        end = time.monotonic() + PATIENCE
        while not self.eve.exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        self.read()
        self.stream.close()
        self.stream = None
        self.moved.unlink()
        return True


class Downloads(threading.Thread):
    """100 KB over a new connection, again and again."""

    def __init__(self, net, end):
        super().__init__(daemon=True)
        self.net, self.end, self.done, self.failures = net, end, 0, []
        self.digest = hashlib.sha256((net.folder / "large").read_bytes()).digest()

    def run(self):
        words = ["ip", "netns", "exec", self.net.of("client"), "curl", "-sS", "--max-time", str(PATIENCE),
                 f"http://{inline.SERVER}/large"]
        while time.monotonic() < self.end:
            out = subprocess.run(words, capture_output=True)
            if out.returncode or hashlib.sha256(out.stdout).digest() != self.digest:
                self.failures.append(f"curl: {out.returncode} {out.stderr.decode()} {len(out.stdout)} bytes")
            self.done += 1
            time.sleep(0.02)


def memory(processes):
    """Resident bytes of the processes' own."""
    total = 0
    for process in processes:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        total += int(next(line for line in status.splitlines() if line.startswith("RssAnon:")).split()[1]) * 1024
    return total


def children(process):
    found = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process] + [deep for child in found for deep in children(int(child))]


def until(seconds, holds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def reload(ours, rules, alerts, client, net, faults):
    """One reload, and what has to hold after it: seconds until the new rules counted."""
    print("", file=client.stdin, flush=True)
    client.stdout.readline()
    before = alerts.of(SPLIT)
    rules.swap()
    alerts.move_away()
    begun = time.monotonic()
    ours.child.send_signal(signal.SIGHUP)
    if not alerts.follow():
        faults.append("no new log")
        sys.exit("no new log")
    new, old = TURN + rules.turn, TURN + 1 - rules.turn
    count = alerts.of(new)

    def counts():
        subprocess.run(["ip", "netns", "exec", net.of("client"), "curl", "-s", "-o", "/dev/null", "--max-time",
                        "5", f"http://{inline.SERVER}/turn"])
        time.sleep(0.05)
        return alerts.of(new) > count

    if not until(PATIENCE, counts):
        faults.append(f"rule {new} did not count in {PATIENCE} s")
    took = time.monotonic() - begun
    olds = alerts.of(old)
    counts()
    if alerts.of(old) > olds:
        faults.append(f"rule {old} counted after it was gone")
    print("", file=client.stdin, flush=True)
    status = client.stdout.readline().strip()
    if status != "404":
        faults.append(f"the request in two halves: {status}")
    if not until(PATIENCE, lambda: alerts.of(SPLIT) > before):
        faults.append("a request in two halves did not alert")
    return took


def soak(args, net, rules):
    eve = net.folder / "eve.json"
    ours = inline.Gauntlet(net, args.gauntlet, rules.file, args.threads, [])
    end = time.monotonic() + args.seconds
    alerts, faults, samples, took = Alerts(eve), [], [], []
    delay = net.folder / "pause.lua"
    delay.write_text("function delay() return math.random(0, 20) end\n")
    wrk = subprocess.Popen(
        ["ip", "netns", "exec", net.of("client"), "wrk", "--latency", "-s", str(delay), "-t1",
         f"-c{args.connections}", f"-d{int(args.seconds)}s", f"http://{inline.SERVER}/small"],
        stdout=subprocess.PIPE, text=True)
    downloads = Downloads(net, end)
    downloads.start()
    client = subprocess.Popen(["ip", "netns", "exec", net.of("client"), sys.executable, "-c", HALVES],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    processes = children(ours.child.pid)
    while time.monotonic() + 2 * args.reload_every < end:
        next_reload = time.monotonic() + args.reload_every
        while time.monotonic() < next_reload:
            samples.append(memory(processes))
            alerts.read()
            time.sleep(0.5)
        took.append(reload(ours, rules, alerts, client, net, faults))
    client.stdin.close()
    client.wait()
    downloads.join()
    text = wrk.communicate()[0]
    still = children(ours.child.pid)
    stats = ours.stop()
    return report(args, net, text, downloads, faults, samples, took, stats, still == processes)


def report(args, net, text, downloads, faults, samples, took, stats, same_processes):
    errors = [line.strip() for line in text.splitlines() if "Socket errors" in line or "Non-2xx" in line]
    numbers = [line.strip() for line in text.splitlines() if "requests in" in line or "99%" in line]
    third = len(samples) // 3
    parts = [sum(samples[n * third:(n + 1) * third]) / max(third, 1) for n in range(3)]
    is_flat = parts[2] <= parts[1] * GROWTH_MAX + GROWTH_BYTES_MAX
    drops, sends = stats["capture"]["kernel_drops"], stats["ips"]["send_failures"]
    print(f"{args.seconds:.0f} s, {args.connections} kept connections, rules read anew {len(took)} times")
    print(f"wrk: {'; '.join(numbers)}; {'; '.join(errors) or 'no errors'}")
    print(f"downloads of 100 KB: {downloads.done}, of which {len(downloads.failures)} failed")
    print(*downloads.failures[:5], *faults[:5], sep="\n", end="\n" if downloads.failures or faults else "")
    print(f"new rules counted after {max(took, default=0):.2f} s at most; {len(faults)} faults")
    packets = stats["decoder"]["pkts"]
    print(f"packets: {packets}, dropped by the kernel {drops}, not sent on {sends}, blocked {stats['ips']['blocked']}")
    mib = ", ".join(f"{part / 2**20:.1f}" for part in parts)
    print(f"memory (MiB), means of the thirds: {mib}; most {max(samples) / 2**20:.1f}")
    said = [line for line in (net.folder / "log").read_text().splitlines() if "read anew" not in line]
    print(*said[:12], sep="\n")
    good = not (errors or downloads.failures or faults or drops or sends) and is_flat and same_processes and took
    print("good" if good else "NOT good" + ("" if is_flat else ": memory grows"))
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gauntlet")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--reload-every", type=float, default=10)
    parser.add_argument("--rules")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ips-soak") as name:
        folder = pathlib.Path(name)
        net = inline.Net(folder)
        try:
            sys.exit(soak(args, net, Rules(folder, args.rules)))
        finally:
            net.close()


if __name__ == "__main__":
    main()
