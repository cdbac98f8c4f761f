#!/usr/bin/env python3
"""A web proxy under steady load while its list is swapped again and again: no request may fail, and
its memory has to stay flat.

    bench-runs/web-soak.py GAUNTLET [--seconds 1800] [--swap-every 10] [--entries 80000]

nginx serves, `gauntlet proxy` stands before it with a list of blocked hosts, and clients ask over
kept connections and through tunnels. Every swap compiles another list beside the one in use,
renames it and sends SIGHUP; from then on the path of the new list is blocked, and that of the old
one is not. What never is on a list passes all the time, what always is never does. Needs nginx.

Exit status: 0 nothing failed and memory is flat; 1 it is not so.
"""
import argparse
import http.client
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SIZES = {"small": 1024, "large": 32 * 1024, "download": 1024 * 1024}
PATIENCE = 30
# Memory of the last third of the samples may be so much above that of the second: what the first
# connections make is in the first third.
GROWTH_MAX = 1.05
GROWTH_BYTES_MAX = 2**20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{process.args[0]} does not listen on port {port}")


def start_nginx(folder, port):
    www = folder / "www"
    www.mkdir()
    for name, size in SIZES.items():
        (www / name).write_bytes(bytes(n % 251 for n in range(size)))
    user = "user root;" if os.geteuid() == 0 else ""
    temp = " ".join(f"{kind}_temp_path {folder}/{kind};"
                    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr crit; {user}\n"
        f"events {{ worker_connections 4096; }}\n"
        f"http {{ access_log off; sendfile on; keepalive_requests 1000000; {temp}\n"
        f"server {{ listen 127.0.0.1:{port}; root {www}; }} }}\n")
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    return subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])


class Lists:
    """Two lists that take turns: each has the same hosts, and a path that the other has not."""

    def __init__(self, program, folder, entries, origin):
        self.program, self.folder, self.turn = program, folder, 0
        self.file = folder / "bad.urls"
        hosts = "".join(f"host{n}.blocked.example\n" for n in range(entries)) + "always.example\n"
        for turn in (0, 1):
            (folder / f"list{turn}").write_text(hosts + f"127.0.0.1:{origin}/turn{turn}\n")
        self.compile()

    def compile(self):
        subprocess.run([self.program, "urls", "compile", "--out", self.file,
                        self.folder / f"list{self.turn}"], check=True, capture_output=True)

    def swap(self, proxy):
        self.turn = 1 - self.turn
        self.compile()
        proxy.send_signal(signal.SIGHUP)


class Client(threading.Thread):
    """Asks over one kept connection, now and then over a new one or through a tunnel."""

    def __init__(self, number, proxy, origin, end):
        super().__init__(daemon=True)
        self.number, self.proxy, self.origin, self.end = number, proxy, origin, end
        self.answered, self.failures = 0, []

    def run(self):
        connection, turn = None, self.number
        while time.monotonic() < self.end:
            turn += 1
            try:
                if connection is None or turn % 1000 == 0:
                    connection = connect(self.proxy)
                if turn % 50 == 0:
                    self.tunnel()
                elif turn % 10 == 0:
                    self.ask(connection, "http://always.example/small", 403, None)
                else:
                    name = "download" if turn % 25 == 0 else "large" if turn % 3 == 0 else "small"
                    url = f"http://127.0.0.1:{self.origin}/{name}"
                    self.ask(connection, url, 200, SIZES[name])
                self.answered += 1
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                connection = None
                if len(self.failures) > 100:
                    return

    def ask(self, connection, url, status, size):
        connection.request("GET", url)
        response = connection.getresponse()
        body = response.read()
        if response.status != status or size not in (None, len(body)):
            raise ValueError(f"{url}: {response.status} with {len(body)} bytes")

    def tunnel(self):
        connection = connect(self.proxy)
        connection.set_tunnel("127.0.0.1", self.origin)
        self.ask(connection, "/download", 200, SIZES["download"])
        connection.close()


def connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)


def status_of(proxy, url):
    connection = connect(proxy)
    connection.request("GET", url)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def check_swap(proxy, origin, lists):
    """Seconds until the new list counted; none if it never did."""
    begun = time.monotonic()
    url = f"http://127.0.0.1:{origin}/turn"
    while time.monotonic() - begun < PATIENCE:
        # nginx has neither of the two.
        now, before = lists.turn, 1 - lists.turn
        if status_of(proxy, f"{url}{now}") == 403 and status_of(proxy, f"{url}{before}") == 404:
            return time.monotonic() - begun
        time.sleep(0.05)
    return None


def memory(process):
    """Resident bytes that are the process's own: lists are mapped, and theirs are the file's."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    anonymous = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(anonymous.split()[1]) * 1024


def mean(values):
    return sum(values) / max(len(values), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--swap-every", type=float, default=10)
    parser.add_argument("--entries", type=int, default=80_000)
    parser.add_argument("--clients", type=int, default=8)
    args = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="web-soak"))
    origin, port = free_port(), free_port()
    lists = Lists(args.program, folder, args.entries, origin)
    processes = [start_nginx(folder, origin)]
    try:
        wait_for(origin, processes[0])
        settings = folder / "proxy.toml"
        settings.write_text(f'connect_ports = ["{origin}"]\nplain_ports = [80, {origin}]\n')
        proxy = subprocess.Popen(
            [args.program, "proxy", "--listen", f"127.0.0.1:{port}", "--block", lists.file,
             "--allow-network", "127.0.0.0/8", "--settings", settings],
            stderr=(folder / "proxy.log").open("wb"))
        processes.append(proxy)
        wait_for(port, proxy)
        sys.exit(soak(args, lists, proxy, port, origin, folder))
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def soak(args, lists, proxy, port, origin, folder):
    begun = time.monotonic()
    clients = [Client(n, port, origin, begun + args.seconds) for n in range(args.clients)]
    for client in clients:
        client.start()
    swaps, late, samples = 0, [], []
    while time.monotonic() < begun + args.seconds:
        next_swap = begun + (swaps + 1) * args.swap_every
        while time.monotonic() < min(next_swap, begun + args.seconds):
            samples.append(memory(proxy))
            time.sleep(0.5)
        lists.swap(proxy)
        swaps += 1
        took = check_swap(port, origin, lists)
        if took is None:
            late.append(swaps)
    for client in clients:
        client.join(2 * PATIENCE)
    failures = [failure for client in clients for failure in client.failures]
    answered = sum(client.answered for client in clients)
    third = len(samples) // 3
    parts = [mean(samples[:third]), mean(samples[third:2 * third]), mean(samples[2 * third:])]
    is_flat = parts[2] <= parts[1] * GROWTH_MAX + GROWTH_BYTES_MAX
    print(f"{args.seconds:.0f} s, {args.clients} clients, {args.entries} hosts on the list")
    print(f"requests answered   {answered:>10}  ({answered / args.seconds:.0f}/s)")
    print(f"requests failed     {len(failures):>10}")
    for failure in failures[:5]:
        print(f"    {failure}")
    print(f"swaps of the list   {swaps:>10}, of which {len(late)} did not count in {PATIENCE} s")
    mib = [f"{part / 2**20:.1f}" for part in parts]
    print(f"memory (MiB), means of the thirds: {', '.join(mib)}; most {max(samples) / 2**20:.1f}")
    said = (folder / "proxy.log").read_text(errors="replace")
    odd = [line for line in said.splitlines() if "new lists" not in line and "proxy on" not in line]
    print(*odd[:5], sep="\n")
    is_good = not failures and not late and is_flat and proxy.poll() is None and answered > 0
    print("good" if is_good else "NOT good" + ("" if is_flat else ": memory grows"))
    return 0 if is_good else 1


if __name__ == "__main__":
    main()
