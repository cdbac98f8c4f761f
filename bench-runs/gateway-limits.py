#!/usr/bin/env python3
"""What a node holds and how fast it answers: idle sessions, cut-through at half of its capacity, small
mail beside messages of 10 MB, a large queue, one kind of mail for a long time.

    bench-runs/gateway-limits.py GAUNTLET sessions [--sessions N]
    bench-runs/gateway-limits.py GAUNTLET many --sessions 100000 --nodes 6
    bench-runs/gateway-limits.py GAUNTLET latency --mail FOLDER
    bench-runs/gateway-limits.py GAUNTLET large --mail FOLDER [--rounds N]
    bench-runs/gateway-limits.py GAUNTLET queue [--messages N] [--recipients N]
    bench-runs/gateway-limits.py GAUNTLET soak --mail LABELLED_FOLDER [--seconds N] [--labels spam,ham]

Everything runs on loopback addresses and free ports, in a temporary folder that is removed.
"""
import argparse
import base64
import email.utils
import importlib.util
import io
import multiprocessing
import os
import pathlib
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import zipfile

here = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("beside", here / "gateway-beside-postfix.py")
beside = importlib.util.module_from_spec(spec)
spec.loader.exec_module(beside)


def reply(file):
    while True:
        line = file.readline()
        if line[3:4] != b"-":
            return line


def connect(port, source="127.0.0.1"):
    s = socket.socket()
    s.bind((source, 0))
    s.settimeout(60)
    s.connect(("127.0.0.1", port))
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = s.makefile("rb")
    reply(file)
    s.sendall(b"EHLO load.test\r\n")
    reply(file)
    return s, file


def sessions(args, folder):
    hop = beside.Sink()
    server = beside.Gauntlet("gauntlet", args.program, folder, hop.port,
                             "[receiver]\nsessions_max = 200000\nsessions_per_client_max = 200000\n"
                             "command_seconds_max = 3600\n")
    limit = pathlib.Path(f"/proc/{server.pid}/limits").read_text()
    print("open files allowed:", [l for l in limit.splitlines() if "open files" in l][0].split()[3])
    time.sleep(1)
    before = beside.resident_kb(server.pid)
    idle, slowest, start = [], 0.0, time.monotonic()
    for n in range(args.sessions):
        began = time.monotonic()
        idle.append(connect(server.port, f"127.0.{1 + n // 5000}.1")[0])
        slowest = max(slowest, time.monotonic() - began)
    took = time.monotonic() - start
    time.sleep(1)
    after = beside.resident_kb(server.pid)
    print(f"{len(idle)} idle sessions in {took:.1f} s: {before} KB resident before, {after} KB with them, "
          f"{1024 * (after - before) / len(idle):.0f} bytes a session; slowest connect to EHLO {slowest * 1000:.1f} ms")
    times = []
    for _ in range(500):
        began = time.monotonic()
        connect(server.port)[0].close()
        times.append(time.monotonic() - began)
    times.sort()
    print(f"500 new sessions while they idle, connect to EHLO's answer: {times[250] * 1000:.2f} ms (median), "
          f"{times[494] * 1000:.2f} ms (99th), {times[-1] * 1000:.2f} ms (slowest)")
    server.stop()
    hop.stop()


def many(args, folder):
    """Idle sessions over several nodes that share a port; each node's worth is held by a process of its own."""
    hop, port = beside.Sink(), beside.free_port()
    settings = ("[receiver]\nsessions_max = 200000\nsessions_per_client_max = 200000\ncommand_seconds_max = 3600\n"
                "exempt_networks = [\"127.0.0.0/8\"]\n")
    nodes = [beside.Gauntlet(f"gauntlet {n}", args.program, folder, hop.port, settings, port, "share_port = true")
             for n in range(args.nodes)]
    time.sleep(1)
    before = [beside.resident_kb(n.pid) for n in nodes]
    each = args.sessions // args.nodes
    start = time.monotonic()
    holders = []
    for holder in range(args.nodes):
        (ready, tell), (wait, end) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            idle, slowest = [], 0.0
            for n in range(each):
                began = time.monotonic()
                idle.append(connect(port, f"127.{10 + holder}.{n // 5000}.1")[0])
                slowest = max(slowest, time.monotonic() - began)
            os.write(tell, f"{slowest * 1000:.0f}\n".encode())
            os.close(end)
            os.read(wait, 1)
            os._exit(0)
        os.close(wait)
        holders.append((pid, ready, end))
    slowest = [int(os.read(ready, 64)) for _, ready, _ in holders]
    took = time.monotonic() - start
    times = []
    for _ in range(500):
        began = time.monotonic()
        connect(port)[0].close()
        times.append(time.monotonic() - began)
    times.sort()
    after = [beside.resident_kb(n.pid) for n in nodes]
    held = [n.metric("gauntlet_sessions") for n in nodes]
    print(f"{sum(held)} idle sessions over {len(nodes)} nodes on one port ({held}) in {took:.1f} s, slowest connect to EHLO "
          f"{max(slowest)} ms; {sum(before)} KB resident before, {sum(after)} KB with them, "
          f"{1024 * (sum(after) - sum(before)) / sum(held):.0f} bytes a session")
    print(f"500 new sessions meanwhile: {times[250] * 1000:.2f} ms (median), {times[494] * 1000:.2f} ms (99th), "
          f"{times[-1] * 1000:.2f} ms (slowest)")
    for pid, _, end in holders:
        os.close(end)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    [n.stop() for n in nodes]
    hop.stop()


def pump(port, mail, threads, seconds, pause):
    """Closed loop without a pause, else so many messages a second and thread. Seconds from the end of each
    message to its answer."""
    times, lock, end = [], threading.Lock(), time.monotonic() + seconds

    def work(first):
        s, file = connect(port)
        own, n, due = [], first, time.monotonic() + pause * first / threads
        while time.monotonic() < end:
            if pause:
                time.sleep(max(0, due - time.monotonic()))
                due += pause
            for line in (b"MAIL FROM:<ann@example.org>\r\n", b"RCPT TO:<bob@example.net>\r\n", b"DATA\r\n"):
                s.sendall(line)
                reply(file)
            body = mail[n % len(mail)]
            n += threads
            s.sendall(body[:-3])
            began = time.monotonic()
            s.sendall(body[-3:])
            if reply(file)[:3] == b"250":
                own.append(time.monotonic() - began)
        with lock:
            times.extend(own)
    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    return sorted(times)


def latency(args, folder):
    mail = [beside.wire(p) for p in sorted(pathlib.Path(args.mail).rglob("*")) if p.is_file()][:2000]
    hop = beside.Sink()
    server = beside.Gauntlet("gauntlet", args.program, folder, hop.port)
    full = len(pump(server.port, mail, 8, 8, 0)) / 8
    rate = full / 2
    pause = 8 / rate
    print(f"capacity as this generator sees it: {full:.0f} messages/s over 8 connections; now {rate:.0f}/s")
    for name, port in (("smtp-sink alone", hop.port), ("through the gateway, cut-through, scanning", server.port)):
        times = pump(port, mail, 8, 12, pause)
        at = lambda share: times[min(len(times) - 1, int(len(times) * share))] * 1000
        print(f"{name}: {len(times)} messages, end of message to 250: {at(.5):.2f} ms (median), "
              f"{at(.95):.2f} ms (95th), {at(.99):.2f} ms (99th), {times[-1] * 1000:.2f} ms (slowest)")
    print("handed on in the session:", server.metric("gauntlet_cut_through_total"))
    server.stop()
    hop.stop()


def large_messages(mail, bytes_each=10_000_000):
    """Messages of 10 MB as the wire has them: a file that cannot be compressed, an archive of text, plain text."""
    random = secrets.SystemRandom()
    text = b"\r\n".join(m.split(b"\r\n\r\n", 1)[-1][:-5] for m in mail)
    while len(text) < bytes_each:
        text += text
    text = b"\r\n".join(line[:900] for line in text[:bytes_each].split(b"\r\n") if not line.startswith(b"."))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as z:
        for n in range(7):
            z.writestr(f"page-{n}.txt", text[n * 1_000_000:(n + 1) * 1_000_000])
    head = b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: scans\r\nMIME-Version: 1.0\r\n"
    head += b"Date: " + email.utils.formatdate().encode() + b"\r\nMessage-ID: <%d@example.org>\r\n" % random.getrandbits(64)

    def with_file(name, content):
        parts = (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nHere it is.\r\n"
                 b"--b\r\nContent-Type: application/octet-stream; name=" + name + b"\r\nContent-Transfer-Encoding: base64\r\n"
                 b"Content-Disposition: attachment; filename=" + name + b"\r\n\r\n")
        return head + parts + base64.encodebytes(content).replace(b"\n", b"\r\n") + b"--b--\r\n.\r\n"
    return [with_file(b"disk.img", secrets.token_bytes(bytes_each * 3 // 4)), with_file(b"pages.zip", archive.getvalue()),
            head + b"Content-Type: text/plain\r\n\r\n" + text + b"\r\n.\r\n"]


def large(args, folder):
    """99 % of small messages at half of the capacity for the mix of both, without and with the large ones, in turn."""
    mail = [beside.wire(p) for p in sorted(pathlib.Path(args.mail).rglob("*")) if p.is_file()][:2000]
    big = large_messages(mail)
    hop = beside.Sink()
    server = beside.Gauntlet("gauntlet", args.program, folder, hop.port)
    mixed = [big[n // 100 % len(big)] if n % 100 == 99 else m for n, m in enumerate((mail * 2)[:1999])]
    full = len(pump(server.port, mixed, 8, 15, 0)) / 15
    rate = full / 2
    print(f"capacity for the mix as this generator sees it: {full:.0f} messages/s; now {rate * .99:.0f} small ones/s")
    at = lambda times, share: times[min(len(times) - 1, int(len(times) * share))] * 1000
    for _ in range(args.rounds):
        # Beside the next hop alone: what of it is this generator's and the hop's.
        for to, port in (("the next hop alone", hop.port), ("the gateway", server.port)):
            for name in ("alone", "beside 1 % of 10 MB"):
                others = multiprocessing.Pool(1)
                slow = None
                if name != "alone":
                    slow = others.apply_async(pump, (port, big, 2, 20, 2 / (rate * .01)))
                times = pump(port, mail, 8, 20, 8 / (rate * .99))
                slow = sorted(slow.get()) if slow else []
                others.close()
                print(f"{to}, small {name}: {len(times)} messages, end of message to 250: {at(times, .5):.2f} ms (median), "
                      f"{at(times, .95):.2f} ms (95th), {at(times, .99):.2f} ms (99th), {times[-1] * 1000:.2f} ms (slowest)"
                      + (f"; {len(slow)} large, {at(slow, .5):.0f} ms (median)" if slow else ""), flush=True)
    server.stop()
    hop.stop()


def queue(args, folder):
    away = beside.free_port()
    server = beside.Gauntlet("gauntlet", args.program, folder, away,
                             "cut_through = false\n" + beside.BARE +
                             "[sender]\nretry_seconds = [36000]\n[spool]\nfree_bytes_min = 1000000\n")
    body = b"From: <a@example.org>\r\nSubject: queue\r\n\r\n" + b"hello\r\n" * 100 + b".\r\n"
    place = iter(range(args.messages))
    lock = threading.Lock()

    def work():
        s, file = connect(server.port)
        sent = 0
        while True:
            with lock:
                n = next(place, None)
            if n is None:
                return
            # A session may have a thousand messages.
            sent += 1
            if sent % 900 == 0:
                s.close()
                s, file = connect(server.port)
            rcpt = b"".join(b"RCPT TO:<u%d.%d@example.net>\r\n" % (n, r) for r in range(args.recipients))
            s.sendall(b"MAIL FROM:<>\r\n" + rcpt + b"DATA\r\n")
            for _ in range(args.recipients + 2):
                reply(file)
            s.sendall(body)
            answer = reply(file)
            if answer[:3] != b"250":
                print(f"message {n}: {answer}", flush=True)
                os._exit(1)
    start = time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(8)]
    [w.start() for w in workers]
    [w.join() for w in workers]
    taken = time.monotonic() - start
    while server.metric("gauntlet_messages_active") or server.metric("gauntlet_deferred_total") < args.messages * args.recipients:
        time.sleep(0.2)
    print(f"{args.messages} messages, {args.messages * args.recipients} recipients: taken in {taken:.0f} s, all deferred "
          f"after {time.monotonic() - start:.0f} s; {beside.resident_kb(server.pid) / 1024:.0f} MB resident, "
          f"spool {server.metric('gauntlet_spool_bytes') / 1e6:.0f} MB")
    server.process.kill()
    server.process.wait()
    start = time.monotonic()
    server.process = subprocess.Popen([args.program, "serve", "--config", str(server.folder / "gauntlet.toml")],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server.pid = server.process.pid
    beside.wait_for(server.port, "gauntlet")
    connect(server.port)[0].close()
    ready = time.monotonic() - start
    time.sleep(1)
    print(f"killed and started again: answers EHLO after {ready:.2f} s, {server.metric('gauntlet_queue_messages')} messages in "
          f"the queue, {beside.resident_kb(server.pid) / 1024:.0f} MB resident")
    server.stop()


def soak(args, folder):
    """One kind of mail as fast as it is taken, for a long time: does what is to be held pile up?"""
    for label in args.labels.split(","):
        hop = beside.Sink()
        server = beside.Gauntlet(label, args.program, folder, hop.port)
        samples, done = [], threading.Event()

        def watch():
            while not done.wait(10):
                samples.append((server.metric("gauntlet_hold_backlog_messages"), beside.resident_kb(server.pid) // 1024))
        watching = threading.Thread(target=watch)
        watching.start()
        command = [args.program, "bench", "send", f"127.0.0.1:{server.port}", args.mail, "--mix", f"{label}=100",
                   "--seconds", str(args.seconds), "-c", "16"]
        said = subprocess.run(command, capture_output=True, text=True)
        done.set()
        watching.join()
        backlog, memory = [s[0] for s in samples], [s[1] for s in samples]
        print(f"== {label}, {args.seconds} s, sampled every 10 s: waiting for the quarantine {max(backlog)} at most, "
              f"{backlog[-1]} at the end; {memory[0]} MB resident after 10 s, {max(memory)} at most, {memory[-1]} at the end")
        print(said.stdout, said.stderr, flush=True)
        server.stop()
        hop.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("what", choices=["sessions", "many", "latency", "large", "queue", "soak"])
    parser.add_argument("--sessions", type=int, default=19_000)
    parser.add_argument("--nodes", type=int, default=6)
    parser.add_argument("--mail")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--recipients", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--labels", default="spam,ham")
    args = parser.parse_args()
    args.program = str(pathlib.Path(args.program).resolve())
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = tempfile.mkdtemp(prefix="limits-")
    try:
        {"sessions": sessions, "many": many, "latency": latency, "large": large, "queue": queue, "soak": soak}[args.what](args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
