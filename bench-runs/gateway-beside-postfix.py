#!/usr/bin/env python3
"""Relays the same mail through Gauntlet and Postfix, side by side, and prints what each cost.

    bench-runs/gateway-beside-postfix.py GAUNTLET [--rounds N] [--messages N] [--mail FOLDER]

Needs root (Postfix starts as root), postfix, smtp-source and smtp-sink. Everything runs on loopback
addresses and free ports, in a temporary folder that is removed; only processes started here are ended.
Rounds are interleaved: in each, every server gets the same load after the other, so that drift of the
machine hits all alike. CPU is that of the server's processes, all of them, from /proc.
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, what):
    for _ in range(400):
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{what} does not listen on {port}")


def cpu_seconds(root):
    """CPU of a process and all below it, also of those that ended and were waited for."""
    children = {}
    stats = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            fields = text[text.rindex(")") + 2 :].split()
            stats[int(entry)] = [int(x) for x in fields[11:15]]
            children.setdefault(int(fields[1]), []).append(int(entry))
    total, todo = 0.0, [root]
    while todo:
        pid = todo.pop()
        own, reaped = stats.get(pid, [0, 0, 0, 0])[:2], stats.get(pid, [0, 0, 0, 0])[2:]
        # Ticks are cut to hundredths, which counts with Postfix's many processes; the scheduler counts in
        # nanoseconds, but only for threads that live.
        exact = 0
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                exact += int(task.read_text().split()[0])
            except OSError:
                pass
        total += max(sum(own) / TICK, exact / 1e9) + sum(reaped) / TICK
        todo += children.get(pid, [])
    return total


def resident_kb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


class Sink:
    def __init__(self):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["smtp-sink", "-u", "root", f"127.0.0.1:{self.port}", "1000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port, "smtp-sink")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Gauntlet:
    def __init__(self, name, program, folder, hop, settings="", port=None, listener=""):
        self.name, self.folder = name, pathlib.Path(folder) / name.replace(" ", "-")
        self.folder.mkdir()
        self.port, self.console = port or free_port(), free_port()
        config = self.folder / "gauntlet.toml"
        config.write_text(
            f'[node]\nname = "gw.test"\ndata = "{self.folder}/data"\n'
            f'[[listener]]\naddress = "127.0.0.1:{self.port}"\n{listener}\n[console]\naddress = "127.0.0.1:{self.console}"\n'
            f'[log]\nlevel = "warn"\n[route]\nnext_hop = "127.0.0.1:{hop}"\n{settings}')
        self.process = subprocess.Popen([program, "serve", "--config", str(config)],
                                        stdout=subprocess.DEVNULL, stderr=open(self.folder / "log", "w"))
        self.pid = self.process.pid
        wait_for(self.port, name)

    def metric(self, name):
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.console}/metrics").read().decode()
        for line in text.splitlines():
            if line.startswith(name + " "):
                return int(float(line.split()[1]))
        raise KeyError(name)

    def is_empty(self):
        return self.metric("gauntlet_queue_messages") == 0

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Postfix:
    name = "postfix"

    def __init__(self, folder, hop):
        folder = pathlib.Path(folder) / "postfix"
        self.etc, self.queue = folder / "etc", folder / "queue"
        self.etc.mkdir(parents=True)
        self.queue.mkdir()
        (folder / "lib").mkdir()
        shutil.chown(folder / "lib", "postfix")
        os.chmod(folder.parent, 0o755)
        os.chmod(folder, 0o755)
        self.port = free_port()
        (self.etc / "main.cf").write_text(
            f"compatibility_level = 3.6\nqueue_directory = {self.queue}\ndata_directory = {folder}/lib\n"
            "command_directory = /usr/sbin\ndaemon_directory = /usr/lib/postfix/sbin\n"
            "mail_owner = postfix\nsetgid_group = postdrop\nmyhostname = pf.test\nmydestination =\n"
            "inet_interfaces = 127.0.0.1\nmynetworks = 127.0.0.0/8\nsmtpd_relay_restrictions = permit_mynetworks, reject\n"
            f"relayhost = [127.0.0.1]:{hop}\nmaillog_file = {folder}/lib/log\nmaillog_file_prefixes = {folder}\n"
            "alias_maps =\nalias_database =\nsmtp_tls_security_level = none\nsmtpd_tls_security_level = none\n"
            "disable_dns_lookups = yes\nbiff = no\n"
            "smtpd_client_connection_rate_limit = 0\nin_flow_delay = 0\nmultiinstance_name =\n"
            "import_environment = MAIL_CONFIG\n")
        master = pathlib.Path("/etc/postfix/master.cf").read_text().splitlines()
        keep = []
        for line in master:
            words = line.split()
            if line.startswith(("#", " ", "\t")) or len(words) < 8:
                continue
            if words[1] == "inet":
                if words[0] != "smtp":
                    continue
                words[0] = f"127.0.0.1:{self.port}"
            # No chroot: the queue folder is a fresh one.
            words[4] = "n"
            # Options of commands for other transports are on lines of their own, which are left out.
            if words[7] != "pipe":
                keep.append(" ".join(words))
        (self.etc / "master.cf").write_text("\n".join(keep) + "\n")
        self.command("start")
        wait_for(self.port, "postfix")
        self.pid = int((self.queue / "pid/master.pid").read_text())

    def command(self, what):
        result = subprocess.run(["postfix", "-c", str(self.etc), what], capture_output=True, text=True)
        if result.returncode and what != "stop":
            sys.exit(f"postfix {what}: {result.stderr}")

    def is_empty(self):
        for part in ("maildrop", "incoming", "active", "deferred"):
            for _, _, files in os.walk(self.queue / part):
                if files:
                    return False
        return True

    def stop(self):
        self.command("stop")


def by_smtp_source(server, messages, size, sessions):
    subprocess.run(["smtp-source", "-s", str(sessions), "-l", str(size), "-m", str(messages), "-d",
                    "-f", "ann@example.org", "-t", "bob@example.net", f"127.0.0.1:{server.port}"],
                   check=True, stdout=subprocess.DEVNULL)


def by_real_mail(mail, sessions):
    """Sends each of these messages once, over so many connections at a time."""

    def send(server, *_):
        place = iter(mail)
        lock = threading.Lock()
        answers = {}

        def work():
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                file = s.makefile("rb")

                def reply():
                    while True:
                        line = file.readline()
                        if line[3:4] != b"-":
                            return line
                reply()
                s.sendall(b"EHLO load.test\r\n")
                reply()
                while True:
                    with lock:
                        body = next(place, None)
                    if body is None:
                        break
                    s.sendall(b"MAIL FROM:<ann@example.org>\r\n")
                    reply()
                    s.sendall(b"RCPT TO:<bob@example.net>\r\n")
                    reply()
                    s.sendall(b"DATA\r\n")
                    reply()
                    s.sendall(body)
                    code = reply()[:3]
                    with lock:
                        answers[code] = answers.get(code, 0) + 1
        threads = [threading.Thread(target=work) for _ in range(sessions)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        if set(answers) != {b"250"}:
            print(f"  {server.name} answered {answers}", file=sys.stderr)
    return send


def wire(path):
    """A file as SMTP carries it: CR LF, dots doubled, the final dot."""
    lines = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b" ").replace(b"\0", b" ").split(b"\n")
    if lines and lines[-1] == b"":
        lines.pop()
    if lines and lines[0].startswith(b"From "):
        lines.pop(0)
    return b"\r\n".join(b"." + l if l.startswith(b".") else l for l in lines) + b"\r\n.\r\n"


def measure(server, load, messages, *args):
    before = cpu_seconds(server.pid)
    start = time.monotonic()
    load(server, messages, *args)
    accepted = time.monotonic() - start
    while not server.is_empty():
        time.sleep(0.02)
    through = time.monotonic() - start
    cpu = cpu_seconds(server.pid) - before
    return {"cpu_ms": 1000 * cpu / messages, "accepted": messages / accepted, "through": messages / through}


def table(title, results):
    print(f"\n{title}\n")
    print("| Server | CPU ms a message: median (all) | messages/s taken | messages/s through | CPU beside Postfix |")
    print("|---|---|---|---|---|")
    postfix = statistics.median(r["cpu_ms"] for r in results["postfix"]) if "postfix" in results else None
    for name, rounds in results.items():
        cpu = [r["cpu_ms"] for r in rounds]
        middle = statistics.median(cpu)
        ratio = f"1/{postfix / middle:.1f}" if postfix and middle else ""
        every = ", ".join(f"{c:.2f}" for c in cpu)
        taken, through = (statistics.median(r[k] for r in rounds) for k in ("accepted", "through"))
        print(f"| {name} | {middle:.2f} ({every}) | {taken:.0f} | {through:.0f} | {ratio} |", flush=True)


BARE = '[facts]\nenabled = false\n[scan]\nenabled = false\n'


def relay(args, folder):
    sink = Sink()
    bare = BARE
    servers = [
        Postfix(folder, sink.port),
        Gauntlet("gauntlet bare", args.program, folder, sink.port, "cut_through = false\n" + bare),
        Gauntlet("gauntlet bare cut-through", args.program, folder, sink.port, bare),
        Gauntlet("gauntlet scanning", args.program, folder, sink.port, "cut_through = false\n"),
        Gauntlet("gauntlet scanning cut-through", args.program, folder, sink.port),
    ]
    sink_only = type("Direct", (), {"name": "smtp-sink alone", "port": sink.port, "pid": sink.process.pid,
                                    "is_empty": lambda self: True})()
    results = {}
    for _ in range(args.rounds):
        for server in servers + [sink_only]:
            results.setdefault(server.name, []).append(
                measure(server, by_smtp_source, args.messages, 30_000, args.sessions))
    table(f"smtp-source, {args.messages} messages of 30,000 bytes, {args.sessions} sessions, {args.rounds} rounds", results)
    if args.mail:
        paths = sorted(p for p in pathlib.Path(args.mail).rglob("*") if p.is_file())[: args.messages]
        mail = [wire(p) for p in paths]
        size = sum(map(len, mail)) / len(mail)
        results = {}
        for _ in range(args.rounds):
            for server in servers:
                load = by_real_mail(mail, args.sessions)
                results.setdefault(server.name, []).append(measure(server, load, len(mail)))
        table(f"real mail, {len(mail)} messages of {size:.0f} bytes on average (the generator is a script)", results)
    for server in servers[1:]:
        print(f"\nresident after it, {server.name}: {resident_kb(server.pid) / 1024:.0f} MB")
    [server.stop() for server in servers]
    sink.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1500)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--mail")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="beside-")
    try:
        relay(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
