#!/usr/bin/env python3
"""On how many cores a node stops to scale: a simulation from measured stage times.

    gauntlet scan --json --threads 1 --no-unpack mail/ | python3 bench-runs/scaling.py stages.json

`stages.json` names what one message takes, in microseconds (from `gauntlet bench compare`), and what
each thread that is one alone takes for a message and for a batch (`gauntlet bench store`,
`examples/hold_rate`, at two lengths of a batch), how long it gathers messages for one that is not
full (`gather_us`), and how long it waits for the disk (`sync_us`). Standard input is the trace of scans (`cost_us` of each message), which is
replayed. Messages wait for cores in turn; a thread that is one alone takes all that waits for it,
batch after batch, on one core. Locks are threads of that kind without batches. Prints messages/s for
1 to 64 cores, what is busiest, and the Universal Scalability Law fitted to them.
"""

import heapq
import json
import sys
from collections import deque

CORES = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64]
MESSAGES = 40_000
CONNECTIONS_PER_CORE = 16


class Single:
    """A thread that is one alone, or a lock: it serves batches, one at a time."""

    def __init__(self, name, spec):
        self.name, self.message, self.batch = name, spec["message_us"], spec.get("batch_us", 0)
        self.wait, self.sync = spec.get("gather_us", 0), spec.get("sync_us", 0)
        self.batch_max, self.share = spec.get("batch_max", 1), spec.get("share", 1.0)
        self.waiting, self.running, self.busy = deque(), False, 0.0


def simulate(cores, stages, trace):
    """Messages/s, and the share of the time that each single thread worked."""
    now, free, heap, ready, count = 0.0, cores, [], deque(), 0
    singles = {name: Single(name, spec) for name, spec in stages["single"].items()}
    parallel = stages["parallel"]
    done, serial = 0, 0

    def at(time, what):
        nonlocal serial
        serial += 1
        heapq.heappush(heap, (time, serial, what))

    def on_core(us, then):
        ready.append((us, then))

    def next_core(us, then):
        """As the system's scheduler does for a thread that has slept."""
        ready.appendleft((us, then))

    def begin(message):
        scan = trace[message % len(trace)] * stages["scan_factor"]
        held = (message * 0.6180339887) % 1.0 < stages["held_share"]
        on_core(parallel["receiving"] + scan, lambda: enter("locks", message, held))

    def enter(name, message, held):
        single = singles[name]
        single.waiting.append((message, held))
        if not single.running:
            single.running = True
            run(single)

    def run(single):
        # Who has less than a batch waits for more, without a core.
        if single.wait and len(single.waiting) < single.batch_max:
            at(now + single.wait, lambda: take(single))
        else:
            take(single)

    def take(single):
        batch = [single.waiting.popleft() for _ in range(min(len(single.waiting), single.batch_max))]
        us = single.batch + single.message * len(batch)
        single.busy += us

        def ended():
            for message, held in batch:
                leave(single.name, message, held)
            if single.waiting:
                run(single)
            else:
                single.running = False

        # The disk is waited for without a core.
        next_core(us, lambda: at(now + single.sync, ended) if single.sync else ended())

    def leave(name, message, held):
        nonlocal done, count
        if name == "locks":
            enter("spool", message, held)
        elif name == "spool":
            # The client is answered, and sends its next one.
            count += 1
            begin(count)
            if held:
                enter("quarantine", message, held)
            else:
                on_core(parallel["passing_on"], lambda: enter("log", message, held))
        elif name == "quarantine":
            enter("log", message, held)
        else:
            done += 1

    for message in range(cores * CONNECTIONS_PER_CORE):
        count = message
        begin(message)
    while done < MESSAGES:
        while free > 0 and ready:
            us, then = ready.popleft()
            free -= 1

            def over(then=then):
                nonlocal free
                free += 1
                then()

            at(now + us, over)
        now, _, what = heapq.heappop(heap)
        what()
    busy = {name: single.busy / now for name, single in singles.items()}
    return done / now * 1e6, busy, sum(len(s.waiting) for s in singles.values())


def usl(points):
    """Lambda, sigma and kappa of n / X = (1 + sigma (n - 1) + kappa n (n - 1)) / lambda, by least squares."""
    rows = [(1.0, n - 1.0, n * (n - 1.0), n / rate) for n, rate in points]
    size = 3
    a = [[sum(r[i] * r[j] / r[3] ** 2 for r in rows) for j in range(size)] for i in range(size)]
    b = [sum(r[i] / r[3] for r in rows) for i in range(size)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda k: abs(a[k][i]))
        a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
        for k in range(i + 1, size):
            factor = a[k][i] / a[i][i]
            a[k] = [x - factor * y for x, y in zip(a[k], a[i])]
            b[k] -= factor * b[i]
    x = [0.0] * size
    for i in reversed(range(size)):
        x[i] = (b[i] - sum(a[i][j] * x[j] for j in range(i + 1, size))) / a[i][i]
    return 1 / x[0], x[1] / x[0], x[2] / x[0]


def main():
    stages = json.load(open(sys.argv[1], encoding="utf-8"))
    lines = (json.loads(line) for line in sys.stdin if line.startswith("{"))
    trace = [line["cost_us"] for line in lines if "cost_us" in line]
    assert trace, "no scan on standard input: gauntlet scan --json"
    mean = sum(trace) / len(trace)
    # The trace says how scans differ; what a scan takes in a node says how much they take.
    stages["scan_factor"] = stages["parallel"]["scanning"] / mean
    points = []
    print("| cores | messages/s | times one core | waiting | busiest alone |\n|---|---|---|---|---|")
    for cores in CORES:
        rate, busy, waiting = simulate(cores, stages, trace)
        points.append((cores, rate))
        top = sorted(busy.items(), key=lambda pair: -pair[1])[:2]
        told = ", ".join(f"{name} {share:.0%}" for name, share in top)
        print(f"| {cores} | {rate:.0f} | {rate / points[0][1]:.1f} | {waiting} | {told} |")
    lam, sigma, kappa = usl(points)
    print(f"\nUSL: lambda {lam:.0f} messages/s, sigma {sigma:.4f}, kappa {kappa:.6f}")


if __name__ == "__main__":
    main()
