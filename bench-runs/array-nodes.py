#!/usr/bin/env python3
"""Source system B's experiment on one, two and four nodes of an array, each held to a share of a CPU.

usage: array-nodes.py GAUNTLET CORPUS [--share 25] [--messages 1000 | --seconds 30] [--rounds 3] [--nodes 1,2,4]

Each node is a process group in a CPU cgroup of its own (version 1 or 2) with `share` hundredths of a
CPU; PostgreSQL (Debian's), the sink and the load generators have the rest. With --messages each node
gets the same mail: the first so many of the corpus. Printed for each number of nodes: messages/s
taken by all nodes together, how many times that of one node in the same round, CPU time of the nodes
for a message, bytes/s between all nodes and the database both ways (counted by a proxy in between),
bytes a message, those of the database's write-ahead log and of its tables, and how long the log was
behind after the load ended. Run it on an idle machine: the shares must fit beside the generators.

With --beside there are always as many nodes as the most of --nodes, all under the same load; those
beyond the number stand alone, in no array, and are not counted. A node that has a machine for itself
pays up to twice as much CPU time for a message as one beside others (cold caches at 20 hundredths of
a CPU), which is no matter of the array.

With --pages somebody opens pages of the first node's console meanwhile, and their times are printed;
with --manager SHARE those of one more node, which takes no mail and has this share of a CPU, as a
site would have it whose nodes are all busy.
with --database URI that is done with a database that is there, such as one that the example
shared_log_rate of crates/array has filled (the role must be its owner; rows are added to it).

With --away FROM-TO the way to the database is cut for all nodes from this second of the load to that
one; printed are messages/s before, meanwhile, and after it (the log of the time without a database is
shipped then, beside new mail), how far behind the log came and how fast it caught up. With --kill
SECOND the last node is killed in the middle of the load; printed are messages/s of the others before
and after. Both want --seconds.

With --tls connections to the database are encrypted. With --facts nodes ask local-zone.py for SPF, DKIM
and DMARC of every message, whose clients count as strangers. With --objects PROGRAM (rclone 1.65 or
later) spam is held, and its bodies go to the S3 server of that program; printed are messages held and
bytes to and from it.
"""
import argparse, importlib.util, json, os, pathlib, re, shutil, signal, socket, statistics, subprocess, sys, tempfile
import threading, time


class Counter:
    """A TCP proxy that counts what passes."""

    def __init__(self, to):
        self.to, self.bytes = to, [0, 0]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.is_cut, self.open = False, set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if self.is_cut:
                client.close()
                continue
            server = socket.create_connection(self.to)
            self.open |= {client, server}
            for a, b, way in ((client, server, 0), (server, client, 1)):
                threading.Thread(target=self.copy, args=(a, b, way), daemon=True).start()

    def cut(self, is_cut):
        """Ends what is open and refuses what comes, or no longer."""
        self.is_cut = is_cut
        for end in list(self.open) if is_cut else ():
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

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
        self.used = pathlib.Path("/sys/fs/cgroup/cpuacct", name) if not two else None
        if self.used:
            self.used.mkdir(exist_ok=True)
        self.folder = pathlib.Path("/sys/fs/cgroup", *(() if two else ("cpu",)), name)
        self.folder.mkdir(exist_ok=True)
        if two:
            (self.folder / "cpu.max").write_text(f"{share * 1000} 100000")
        else:
            (self.folder / "cpu.cfs_period_us").write_text("100000")
            (self.folder / "cpu.cfs_quota_us").write_text(str(share * 1000))

    def enter(self):
        for folder in filter(None, (self.folder, self.used)):
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_seconds(self):
        if self.used:
            return int((self.used / "cpuacct.usage").read_text()) / 1e9
        return int(re.search(r"usage_usec (\d+)", (self.folder / "cpu.stat").read_text())[1]) / 1e6

    def remove(self):
        for _ in range(50):
            try:
                if self.used and self.used.exists():
                    self.used.rmdir()
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def await_port(port, what):
    for _ in range(100):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
    sys.exit(what + " does not start")


def postgres(folder, is_encrypted):
    bins = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    os.chmod(folder, 0o777)
    data = folder / "pg"
    subprocess.run([*as_user, bins / "initdb", "-U", "keeper", "-A", "trust", "-D", data, "--no-sync"],
                   check=True, stdout=subprocess.DEVNULL, cwd=folder)
    if is_encrypted:
        subprocess.run([*as_user, "openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-keyout", data / "server.key", "-out", data / "server.crt"],
                       check=True, stderr=subprocess.DEVNULL, cwd=folder)
    port = free_port()
    server = subprocess.Popen([*as_user, bins / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1",
                               "-k", folder, *(["-c", "ssl=on"] if is_encrypted else [])],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    await_port(port, "PostgreSQL")
    time.sleep(1)
    return server, port


class Surroundings:
    """The resolver and the object store of a run, if there are any, and what that adds to a configuration."""

    def __init__(self, folder, args):
        self.processes, self.counter, self.facts, self.objects = [], None, "enabled = false", ""
        if args.facts:
            zone, port = pathlib.Path(__file__).with_name("local-zone.py"), free_port()
            server = subprocess.Popen([sys.executable, zone, f"127.0.0.1:{port}"], stdout=subprocess.PIPE)
            server.stdout.readline()
            self.processes.append(server)
            self.facts = f'our_networks = ["10.0.0.0/8"]\n[dns]\nservers = ["127.0.0.1:{port}"]'
        if args.objects:
            (folder / "objects" / "held").mkdir(parents=True)
            port = free_port()
            self.processes.append(subprocess.Popen(
                [args.objects, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", "ARRAY,secret",
                 "--vfs-cache-mode", "off", "--config", "/dev/null", folder / "objects"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            await_port(port, args.objects)
            self.counter = Counter(("127.0.0.1", port))
            self.objects = f'objects = "s3://ARRAY:secret@127.0.0.1:{self.counter.port}/held?tls=off"'

    def hold_spam(self, node):
        """Publishes a policy for all nodes that holds spam."""
        policy = node.folder / "policy.toml"
        policy.write_text('[[rule]]\nname = "spam"\nwhen.class = "spam"\ndo = { quarantine = "spam" }\n')
        subprocess.run([node.gauntlet, "array", "policy", "publish", policy, "--config", node.folder / "gauntlet.toml"],
                       check=True, stdout=subprocess.DEVNULL)
        time.sleep(5)

    def end(self):
        for process in self.processes:
            process.kill(), process.wait()


class Node:
    def __init__(self, gauntlet, folder, n, database, sink, share, around):
        self.gauntlet, self.folder = gauntlet, folder / f"mx{n}"
        self.folder.mkdir()
        config = self.folder / "gauntlet.toml"
        config.write_text(f"""
[node]
name = "mx{n}-{folder.name.lower()}.test"
data = "{self.folder}/data"
[[listener]]
address = "127.0.0.1:0"
[console]
address = "127.0.0.1:0"
{f'[array]{chr(10)}database = "{database}"{chr(10)}log_days = 3650{chr(10)}{around.objects}' if database else ""}
[facts]
{around.facts}
[route]
next_hop = "127.0.0.1:{sink}"
[rates]
""")
        self.cage = Cage(f"gauntlet-array-{n}", share)
        self.process = subprocess.Popen([gauntlet, "serve", "--config", config], stdout=subprocess.PIPE,
                                        stderr=open(self.folder / "log", "w"), text=True,
                                        preexec_fn=self.cage.enter)
        self.smtp = self.console = self.password = None
        for line in self.process.stdout:
            if found := re.search(r"smtp, inbound\s+(\S+)", line, re.I):
                self.smtp = found[1]
            if found := re.search(r"console\s+http://(\S+)/", line):
                self.console = found[1]
            if line.split()[:2] == ["first", "start"]:
                self.password = line.split()[-1]
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


class Watch:
    """Messages that nodes accepted and changes that the log is behind, by the second of the load."""

    def __init__(self, nodes):
        self.nodes, self.seen, self.has_ended = nodes, [], threading.Event()
        self.start = time.monotonic()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def now(self):
        return time.monotonic() - self.start

    def look(self):
        while not self.has_ended.wait(1 - self.now() % 1):
            at = self.now()
            self.seen.append((at, sum(node.metric("messages_accepted_total") for node in self.nodes),
                              sum(node.metric("array_behind_changes") for node in self.nodes)))

    def rate(self, since, until):
        """Messages/s from one second to another."""
        within = [one for one in self.seen if since <= one[0] <= until]
        if len(within) < 2:
            return 0
        (a, first, _), (b, last, _) = within[0], within[-1]
        return (last - first) / (b - a)

    def away(self, since, until, ended):
        """What a cut from `since` to `until` did; the load ended at `ended`."""
        most = max(behind for at, _, behind in self.seen if at <= until + 2)
        level = [at for at, _, behind in self.seen if at > until and behind < 500]
        caught, usual = (level[0] if level else None), self.rate(5, since)
        text = (f"database away from {since:.0f} to {until:.0f} s: {usual:.1f} messages/s before, "
                f"{self.rate(since, until):.1f} meanwhile; the log was {most} changes behind")
        if caught is None:
            return text + ", and still when the watch ended"
        # What came meanwhile was shipped, too.
        busy = min(caught, ended)
        return (text + f", none {caught - until:.0f} s later; {self.rate(until, busy):.1f} messages/s while it caught up")

    def end(self):
        self.has_ended.set()
        self.thread.join()


class Pages:
    """Somebody at the console of a node, who opens a page, reads for a moment, and opens the next."""

    PAGES = ["/", "/messages", "/messages?subject=w1+w2", "/messages?subject=w1+w4321", "/messages?class=spam",
             "/messages?class=spam&action=quarantine", "/messages?rule=RULE_399&class=ham", "/messages?sender=x%40y.z",
             "/messages?since={day}&until={day}", "/messages?since={day}&until={day}&rule=RULE_5",
             "/messages?sender={sender}", "/messages?recipient={recipient}", "/messages?domain={domain}&class=spam",
             "/messages/{id}", "/reports?days=7", "/reports?days=30&until={day}", "/nodes", "/queue", "/quarantine"]

    def __init__(self, node, day):
        module = importlib.util.spec_from_file_location("console", pathlib.Path(__file__).with_name("console-under-load.py"))
        loaded = importlib.util.module_from_spec(module)
        module.loader.exec_module(loaded)
        self.person, self.times, self.has_ended = loaded.Console(node.console), {}, threading.Event()
        self.person.sign_in(node.password)
        text = self.person.ask("GET", f"/api/v1/messages?since={day}&until={day}&limit=1")[1]
        found = (json.loads(text).get("messages") or [{}])[0]
        sender = found.get("sender") or "x@y.z"
        recipient = (found.get("recipients") or [{"recipient": "x@y.z"}])[0]["recipient"]
        self.filled = {"day": day, "sender": sender, "recipient": recipient, "domain": sender.split("@")[-1],
                       "id": found.get("id", "none")}
        self.thread = threading.Thread(target=self.read, daemon=True)

    def read(self):
        while not self.has_ended.is_set():
            for page in self.PAGES:
                start = time.monotonic()
                status, _ = self.person.ask("GET", page.format(**self.filled))
                self.times.setdefault(page, []).append(time.monotonic() - start)
                if status != 200:
                    print(f"{page}: {status}", flush=True)
                if self.has_ended.wait(0.1):
                    break

    def summary(self):
        self.has_ended.set()
        self.thread.join()
        whole = sorted(time for times in self.times.values() for time in times)
        at = lambda share: 1000 * whole[min(len(whole) - 1, int(share * len(whole)))]
        slowest = sorted(self.times, key=lambda page: -statistics.median(self.times[page]))[:4]
        named = ", ".join(f"{page} {1000 * statistics.median(self.times[page]):.0f}" for page in slowest)
        return (f"{len(whole)} pages: median {at(.5):.0f} ms, 95 % {at(.95):.0f}, most {1000 * whole[-1]:.0f}; "
                f"the slowest by median: {named}")


def ask(port, sql):
    uri = f"postgres://keeper@127.0.0.1:{port}/postgres" if isinstance(port, int) else port
    done = subprocess.run(["psql", "-At", "-d", uri, "-c", sql], capture_output=True, text=True)
    return int(done.stdout.strip() or 0)


WAL = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
TABLES = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'gauntlet' AND c.relkind = 'r'"""


def run(args, count):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="array-"))
    if args.database:
        from urllib.parse import urlsplit
        there, server, port = urlsplit(args.database), None, args.database
        counter = Counter((there.hostname, there.port))
        user, name = there.username, there.path
    else:
        server, port = postgres(folder, args.tls)
        counter = Counter(("127.0.0.1", port))
        user, name = "keeper", "/postgres"
    around, sink_port = Surroundings(folder, args), free_port()
    sink = subprocess.Popen([args.gauntlet, "bench", "sink", "--listen", f"127.0.0.1:{sink_port}"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    database = f"postgres://{user}@127.0.0.1:{counter.port}{name}?sslmode={'require' if args.tls else 'disable'}"
    nodes = [Node(args.gauntlet, folder, n, database, sink_port, args.share, around) for n in range(count)]
    others = max(map(int, args.nodes.split(","))) - count if args.beside else 0
    alone = [Node(args.gauntlet, folder, count + n, None, sink_port, args.share, around) for n in range(others)]
    time.sleep(3)
    if not all(node.metric("array_connected") for node in nodes):
        sys.exit("a node takes no part in the array: see its log in " + str(folder))
    manager = Node(args.gauntlet, folder, 9, database.replace(f":{counter.port}", f":{counter.to[1]}"), sink_port,
                   args.manager, around) if args.pages and args.manager else None
    if args.objects:
        around.hold_spam(nodes[0])
    pages = Pages(manager or nodes[0], args.pages) if args.pages else None
    rows = ask(port, "SELECT coalesce(sum(messages), 0)::bigint FROM gauntlet.log_pack")
    before, start = list(counter.bytes), time.time()
    objects_before = list(around.counter.bytes) if args.objects else None
    wal, tables = ask(port, WAL), ask(port, TABLES)
    base = ask(port, "SELECT coalesce(sum(messages), 0)::bigint FROM gauntlet.log_count")
    cpu = sum(node.cage.cpu_seconds() for node in nodes)
    load = ((str(args.seconds), "--warm-up", "3") if not args.messages else
            ("600", "--warm-up", "0", "--messages", str(args.messages)))
    load = [*load, *(["--rate", str(args.rate / count)] if args.rate else [])]
    loads = [subprocess.Popen([args.gauntlet, "bench", "send", node.smtp, args.corpus, "--seconds", *load, "--json",
                               "--connections", "8", "--no-calibration"], stdout=subprocess.PIPE, text=True)
             for node in [*nodes, *alone]]
    if pages:
        pages.thread.start()
    watch = Watch(nodes[:-1] if args.kill else nodes) if args.away or args.kill else None
    if args.away:
        threading.Timer(args.away[0], counter.cut, [True]).start()
        threading.Timer(args.away[1], counter.cut, [False]).start()
    if args.kill:
        threading.Timer(args.kill, nodes[-1].process.kill).start()
    results = [json.loads(load.communicate()[0].strip().splitlines()[-1]) for load in loads[:count]]
    if pages:
        print(f"{rows} messages in the log; {pages.summary()}", flush=True)
    ended, cpu = time.time(), sum(node.cage.cpu_seconds() for node in nodes) - cpu
    load_ended = watch.now() if watch else 0
    if args.kill:
        watch.end()
        print(f"node {count} killed at {args.kill:.0f} s: the others took {watch.rate(5, args.kill):.1f} messages/s "
              f"before and {watch.rate(args.kill, load_ended):.1f} after", flush=True)
        for node in [*nodes, *alone]:
            node.stop()
        around.end()
        sink.kill(), sink.wait(), server.send_signal(signal.SIGINT), server.wait()
        shutil.rmtree(folder, ignore_errors=True)
        return None
    taken = sum(result["subjects"][0]["rounds"][0]["answered_in_all"] for result in results)
    counted = f"SELECT coalesce(sum(messages), 0) - {base} FROM gauntlet.log_count"
    while time.time() < ended + 120 and (any(node.metric("array_behind_changes") for node in nodes)
                                         or ask(port, counted) < taken):
        time.sleep(0.2)
    behind = time.time() - ended
    if args.away:
        watch.end()
        print(watch.away(*args.away, load_ended), flush=True)
    moved = [b - a for a, b in zip(before, counter.bytes)]
    if args.objects:
        print(held(around, objects_before, nodes, port), flush=True)
    shipped = sum(node.metric("array_shipped_messages_total") for node in nodes)
    logged = ask(port, counted)
    wal, tables = ask(port, WAL) - wal, ask(port, TABLES) - tables
    for load in loads[count:]:
        load.wait()
    for node in [*nodes, *alone, *filter(None, [manager])]:
        node.stop()
    sink.kill(), sink.wait(), around.end()
    if server:
        server.send_signal(signal.SIGINT), server.wait()
    shutil.rmtree(folder, ignore_errors=True)
    return {"results": results, "moved": moved, "shipped": shipped, "logged": logged, "wal": wal, "tables": tables,
            "seconds": ended - start, "behind": behind, "cpu": cpu, "taken": taken}


def held(around, before, nodes, port):
    """Waits until the bodies of what is held are in the object store, and says what that took."""
    until = time.time() + 60
    while time.time() < until and any(node.metric("array_held_behind_changes") for node in nodes):
        time.sleep(0.2)
    to, back = (b - a for a, b in zip(before, around.counter.bytes))
    count = ask(port, "SELECT count(*) FROM gauntlet.held")
    return (f"{count} messages held; to the object store {to} bytes, from it {back}: {to / max(count, 1):.0f} and "
            f"{back / max(count, 1):.0f} a held message")


def rate(done):
    """Messages/s of all nodes together."""
    return sum(result["subjects"][0]["rounds"][0]["messages_per_second"] for result in done["results"])


def summary(count, done, one):
    """One line: nodes, messages/s together, bytes/s and bytes a message of database traffic."""
    rounds = [result["subjects"][0]["rounds"][0] for result in done["results"]]
    cut = sum(one["failed"] + one["unsent"] for one in rounds)
    moved, logged = sum(done["moved"]), max(done["logged"], 1)
    times = f" ({rate(done) / one:.2f} times one)" if one else ""
    return (f"{count} nodes: {rate(done):.1f} messages/s{times}, {1000 * done['cpu'] / done['taken']:.2f} ms of CPU a message, "
            f"{cut} failed or unsent; {done['taken']} taken, {done['logged']} logged, {done['shipped']} shipped; "
            f"to the database {done['moved'][0]} bytes, from it {done['moved'][1]}: "
            f"{moved / logged:.0f} a message, {moved / done['seconds'] / 1000:.1f} KB/s; "
            f"write-ahead log {done['wal'] / logged:.0f}, tables {done['tables'] / logged:.0f} a message; "
            f"log complete {done['behind']:.1f} s after the load")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gauntlet"), parser.add_argument("corpus")
    parser.add_argument("--share", type=int, default=25), parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, help="open loop: messages/s for all nodes together")
    parser.add_argument("--rounds", type=int, default=3), parser.add_argument("--nodes", default="1,2,4")
    parser.add_argument("--messages", type=int, help="so many messages for each node, and not a time")
    parser.add_argument("--database", metavar="URI", help="PostgreSQL that is there")
    parser.add_argument("--pages", metavar="DAY", help="open pages meanwhile; a day of which the log has messages")
    parser.add_argument("--manager", type=int, help="pages of a node without mail, with this share of a CPU")
    parser.add_argument("--away", metavar="FROM-TO", type=lambda text: [float(n) for n in text.split("-")],
                        help="cut all nodes off the database between these seconds of the load")
    parser.add_argument("--kill", metavar="SECOND", type=float, help="kill the last node at this second of the load")
    parser.add_argument("--tls", action="store_true", help="encrypt the way to the database")
    parser.add_argument("--facts", action="store_true", help="ask a resolver for SPF, DKIM and DMARC of each message")
    parser.add_argument("--objects", metavar="RCLONE", help="hold spam, with the S3 server of this program")
    parser.add_argument("--beside", action="store_true", help="as many nodes in each round, the others in no array")
    args = parser.parse_args()
    ratios = {}
    # Rounds outside: what the machine does otherwise meets all numbers of nodes.
    for _ in range(args.rounds):
        one = None
        for count in [int(n) for n in args.nodes.split(",")]:
            done = run(args, count)
            if done is None:
                continue
            one = rate(done) if count == 1 else one
            print(summary(count, done, one), flush=True)
            if one:
                ratios.setdefault(count, []).append(rate(done) / one)
    for count, found in ratios.items():
        print(f"{count} nodes: {statistics.median(found):.2f} times one (median of {len(found)} rounds)")


main()
