#!/usr/bin/env python3
"""A node that gets nothing but spam for long: does the quarantine keep pace with what is accepted?

    spam-soak.py GAUNTLET FOLDER [--seconds 600] [--ham-seconds 120] [--connections 20] [--data FOLDER]

FOLDER has messages and `labels.tsv` (as for `gauntlet bench send --mix`). A node with default settings,
but without facts of the network, and a sink behind it gets the good messages alone, then the spam alone,
then the good ones again, as fast as they go. Each second the node says how many messages wait to be held,
how many are queued, and what its memory is. Afterwards the queue has to run empty, and what was accepted
has to be held or passed on.

Exit status: 0 all is accounted for and the backlog stayed flat; 1 it is not so.
"""
import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("beside", HERE / "gateway-beside-postfix.py")
beside = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(beside)

# The last third's backlog may be so many messages above the second's.
GROWTH_MAX = 500
PATIENCE = 120


def anonymous(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon:")).split()[1]) << 10


def sample(node):
    return {
        "backlog": node.metric("gauntlet_hold_backlog_messages"),
        "queue": node.metric("gauntlet_queue_messages"),
        "memory": anonymous(node.pid),
    }


def run(args, node, kind, seconds):
    """Samples of each second, seconds that it took, CPU seconds of the node."""
    words = [args.gauntlet, "bench", "send", f"127.0.0.1:{node.port}", args.folder, "--mix", f"{kind}=1",
             "--connections", str(args.connections), "--seconds", str(seconds), "--no-calibration"]
    begun, samples = time.monotonic(), []
    cpu = beside.cpu_seconds(node.pid)
    with tempfile.TemporaryFile() as said:
        sending = subprocess.Popen(words, stdout=said, stderr=said)
        while sending.poll() is None:
            samples.append(sample(node))
            time.sleep(1)
        # 3: the client, on the same CPUs, may have been the limit. The node's counters are read here.
        if sending.returncode not in (0, 3):
            said.seek(0)
            raise SystemExit(f"bench send: {said.read().decode()}")
    return samples, time.monotonic() - begun, beside.cpu_seconds(node.pid) - cpu


def thirds(samples, key):
    third = max(len(samples) // 3, 1)
    return [sum(s[key] for s in part) / max(len(part), 1)
            for part in (samples[:third], samples[third:2 * third], samples[2 * third:])]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gauntlet")
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--ham-seconds", type=int, default=120)
    parser.add_argument("--connections", type=int, default=20)
    parser.add_argument("--data", help="a folder on the disk to be measured")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spam-soak", dir=args.data) as folder:
        port = beside.free_port()
        sink = subprocess.Popen([args.gauntlet, "bench", "sink", "--listen", f"127.0.0.1:{port}"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        beside.wait_for(port, "bench sink")
        # Without the network, as in `gauntlet bench compare`: good mail is signed more often, and would
        # wait for a DNS that may not be there.
        node = beside.Gauntlet("node", args.gauntlet, folder, port, "[facts]\nenabled = false\n")
        try:
            sys.exit(soak(args, node))
        finally:
            node.stop()
            sink.terminate()
            sink.wait()


def soak(args, node):
    is_good = True
    for kind, seconds in (("ham", args.ham_seconds), ("spam", args.seconds), ("ham", args.ham_seconds)):
        before = {name: node.metric(name) for name in COUNTERS}
        samples, took, cpu = run(args, node, kind, seconds)
        end = time.monotonic() + PATIENCE
        while node.metric("gauntlet_queue_messages") and time.monotonic() < end:
            time.sleep(0.2)
        counts = {name: node.metric(name) - before[name] for name in COUNTERS}
        accepted, held, passed = (counts[name] for name in COUNTERS[:3])
        print(f"{kind} alone, {took:.0f} s: {accepted} accepted ({accepted / took:.0f}/s, "
              f"{cpu / max(accepted, 1) * 1e6:.0f} us of CPU each), held {held}, passed on {passed}, "
              f"deferred {counts[COUNTERS[3]]}")
        for key, unit in (("backlog", 1), ("queue", 1), ("memory", 2**20)):
            parts = ", ".join(f"{part / unit:.0f}" for part in thirds(samples, key))
            most = max(s[key] for s in samples) / unit
            print(f"    {key}{' (MiB)' if key == 'memory' else ''}: means of the thirds {parts}; most {most:.0f}")
        _, second, last = thirds(samples, "backlog")
        if node.metric("gauntlet_queue_messages"):
            print(f"    NOT good: the queue did not run empty in {PATIENCE} s")
            is_good = False
        if held + passed != accepted:
            print(f"    NOT good: {accepted - held - passed} are not accounted for")
            is_good = False
        if last > second + GROWTH_MAX:
            print("    NOT good: the backlog grows")
            is_good = False
    print("good" if is_good else "NOT good")
    return 0 if is_good else 1


COUNTERS = ("gauntlet_messages_accepted_total", "gauntlet_quarantined_total", "gauntlet_delivered_total",
            "gauntlet_deferred_total")

if __name__ == "__main__":
    main()
