#!/usr/bin/env python3
"""Source system B's experiment on one, two and four nodes of an array, each held to a share of a CPU.

usage: array-nodes.py GAUNTLET CORPUS [--share 25] [--seconds 30] [--rounds 3] [--nodes 1,2,4]

Each node is a process group in a CPU cgroup of its own (version 1 or 2) with `share` hundredths of a
CPU; PostgreSQL (Debian's), the sink and the load generators have the rest. Printed for each number
of nodes: messages/s taken by all nodes together, how many times that of one node, bytes/s between
all nodes and the database both ways (counted by a proxy in between), bytes a message, those of the
database's write-ahead log and of its tables, and how long the log was behind after the load ended. Run it on an idle machine: the shares must fit beside the
generators.
"""
import argparse, json, os, pathlib, re, shutil, signal, socket, statistics, subprocess, sys, tempfile
import threading, time


class Counter:
    """A TCP proxy that counts what passes."""

    def __init__(self, to):
        self.to, self.bytes = to, [0, 0]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(self.to)
            for a, b, way in ((client, server, 0), (server, client, 1)):
                threading.Thread(target=self.copy, args=(a, b, way), daemon=True).start()

    def copy(self, a, b, way):
        try:
            while data := a.recv(65536):
                self.bytes[way] += len(data)
                b.sendall(data)
        except OSError:
            pass
        for end in (a, b):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Cage:
    """A cgroup with a share of a CPU."""

    def __init__(self, name, share):
        two = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
        self.folder = pathlib.Path("/sys/fs/cgroup", *(() if two else ("cpu",)), name)
        self.folder.mkdir(exist_ok=True)
        if two:
            (self.folder / "cpu.max").write_text(f"{share * 1000} 100000")
        else:
            (self.folder / "cpu.cfs_period_us").write_text("100000")
            (self.folder / "cpu.cfs_quota_us").write_text(str(share * 1000))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(50):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


def postgres(folder):
    bins = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    os.chmod(folder, 0o777)
    data = folder / "pg"
    subprocess.run([*as_user, bins / "initdb", "-U", "keeper", "-A", "trust", "-D", data, "--no-sync"],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([*as_user, bins / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1",
                               "-k", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            time.sleep(1)
            return server, port
        except OSError:
            time.sleep(0.1)
    sys.exit("PostgreSQL does not start")


class Node:
    def __init__(self, gauntlet, folder, n, database, sink, share):
        self.folder = folder / f"mx{n}"
        self.folder.mkdir()
        config = self.folder / "gauntlet.toml"
        config.write_text(f"""
[node]
name = "mx{n}.test"
data = "{self.folder}/data"
[[listener]]
address = "127.0.0.1:0"
[console]
address = "127.0.0.1:0"
[array]
database = "{database}"
[facts]
enabled = false
[route]
next_hop = "127.0.0.1:{sink}"
[rates]
""")
        self.cage = Cage(f"gauntlet-array-{n}", share)
        self.process = subprocess.Popen([gauntlet, "serve", "--config", config], stdout=subprocess.PIPE,
                                        stderr=open(self.folder / "log", "w"), text=True,
                                        preexec_fn=self.cage.enter)
        self.smtp = self.console = None
        for line in self.process.stdout:
            if found := re.search(r"smtp, inbound\s+(\S+)", line, re.I):
                self.smtp = found[1]
            if found := re.search(r"console\s+http://(\S+)/", line):
                self.console = found[1]
            if "to stop" in line:
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def metric(self, name):
        import urllib.request
        text = urllib.request.urlopen(f"http://{self.console}/metrics", timeout=20).read().decode()
        return int(float(re.search(rf"^gauntlet_{name} (\S+)", text, re.M)[1]))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.cage.remove()


def ask(port, sql):
    uri = f"postgres://keeper@127.0.0.1:{port}/postgres"
    done = subprocess.run(["psql", "-At", "-d", uri, "-c", sql], capture_output=True, text=True)
    return int(done.stdout.strip() or 0)


WAL = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
TABLES = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'gauntlet' AND c.relkind = 'r'"""


def run(args, count):
    folder = pathlib.Path(tempfile.mkdtemp())
    server, port = postgres(folder)
    counter = Counter(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", 0)) as free:
        sink_port = free.getsockname()[1]
    sink = subprocess.Popen([args.gauntlet, "bench", "sink", "--listen", f"127.0.0.1:{sink_port}"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    database = f"postgres://keeper@127.0.0.1:{counter.port}/postgres?sslmode=disable"
    nodes = [Node(args.gauntlet, folder, n, database, sink_port, args.share) for n in range(count)]
    time.sleep(3)
    before, start = list(counter.bytes), time.time()
    wal, tables = ask(port, WAL), ask(port, TABLES)
    loads = [subprocess.Popen([args.gauntlet, "bench", "send", node.smtp, args.corpus, "--seconds",
                               str(args.seconds), "--warm-up", "3", "--json", "--connections", "8",
                               "--no-calibration", *(["--rate", str(args.rate / count)] if args.rate else [])],
                              stdout=subprocess.PIPE, text=True) for node in nodes]
    results = [json.loads(load.communicate()[0].strip().splitlines()[-1]) for load in loads]
    ended = time.time()
    while any(node.metric("array_behind_changes") for node in nodes) and time.time() < ended + 120:
        time.sleep(0.2)
    behind = time.time() - ended
    moved = [b - a for a, b in zip(before, counter.bytes)]
    shipped = sum(node.metric("array_shipped_messages_total") for node in nodes)
    logged = ask(port, "SELECT coalesce(sum(messages), 0) FROM gauntlet.log_count")
    wal, tables = ask(port, WAL) - wal, ask(port, TABLES) - tables
    for node in nodes:
        node.stop()
    sink.kill(), server.send_signal(signal.SIGINT)
    sink.wait(), server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return {"results": results, "moved": moved, "shipped": shipped, "logged": logged, "wal": wal, "tables": tables,
            "seconds": ended - start, "behind": behind}


def summary(count, done):
    """One line: nodes, messages/s together, bytes/s and bytes a message of database traffic."""
    rounds = [result["subjects"][0]["rounds"][0] for result in done["results"]]
    rate = sum(one["messages_per_second"] for one in rounds)
    cut = sum(one["failed"] + one["unsent"] for one in rounds)
    moved, logged = sum(done["moved"]), max(done["logged"], 1)
    return (f"{count} nodes: {rate:.1f} messages/s, {cut} failed or unsent; {done['logged']} logged, "
            f"{done['shipped']} shipped; to the database {done['moved'][0]} bytes, from it {done['moved'][1]}: "
            f"{moved / logged:.0f} a message, {moved / done['seconds'] / 1000:.1f} KB/s; "
            f"write-ahead log {done['wal'] / logged:.0f}, tables {done['tables'] / logged:.0f} a message; "
            f"log complete {done['behind']:.1f} s after the load")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gauntlet"), parser.add_argument("corpus")
    parser.add_argument("--share", type=int, default=25), parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, help="open loop: messages/s for all nodes together")
    parser.add_argument("--rounds", type=int, default=3), parser.add_argument("--nodes", default="1,2,4")
    args = parser.parse_args()
    for count in [int(n) for n in args.nodes.split(",")]:
        for _ in range(args.rounds):
            print(summary(count, run(args, count)), flush=True)


main()
