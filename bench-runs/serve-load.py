#!/usr/bin/env python3
"""Sends every message of a folder to a node over loopback, many sessions at once, and accounts for it.

    serve-load.py FOLDER [--to 127.0.0.1:2525] [--sessions 950] [--times 1] [--pid PID]

Each message carries its number in a header field of its own. Printed: how the messages were answered,
messages a second, and of process PID the most resident memory, the memory at the end and the CPU used
(Linux). Uses 127.0.0.2, 127.0.0.3 ... as client addresses, 100 sessions each.
"""
import argparse
import asyncio
import collections
import os
import pathlib
import time


def resident(pid):
    """Resident bytes of the process by kind, most bytes since its start, and CPU seconds."""
    fields = dict(
        line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    kinds = {k: int(fields[k].split()[0]) << 10 for k in ("VmHWM", "VmRSS", "RssAnon", "RssFile")}
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    kinds["cpu"] = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return kinds


def wire(number, raw):
    """The message as DATA carries it."""
    lines = raw.replace(b"\0", b"").replace(b"\r\n", b"\n").replace(b"\r", b"").split(b"\n")
    lines.insert(0, b"X-Load: %d" % number)
    if lines[-1] == b"":
        lines.pop()
    return b"\r\n".join(b"." + l if l.startswith(b".") else l for l in lines) + b"\r\n.\r\n"


async def reply(reader):
    while True:
        line = await reader.readline()
        if not line:
            raise ConnectionError("closed")
        if line[3:4] != b"-":
            return line


async def session(index, where, jobs, answers):
    local = (f"127.0.0.{2 + index // 100}", 0)
    reader, writer = await asyncio.open_connection(*where, local_addr=local)
    await reply(reader)
    writer.write(b"EHLO load.example\r\n")
    await reply(reader)
    while jobs:
        number, raw = jobs.popleft()
        # Many recipients: the default policy puts off what comes too often for one of them.
        to = b"RCPT TO:<b%d@example.net>" % (number % 1000)
        for command in (b"MAIL FROM:<a@example.org>", to, b"DATA"):
            writer.write(command + b"\r\n")
            answer = await reply(reader)
        writer.write(wire(number, raw))
        answer = await reply(reader)
        answers[answer[:3].decode()] += 1
    writer.write(b"QUIT\r\n")
    await reply(reader)
    writer.close()


async def sample(pid, most):
    while True:
        for kind, value in resident(pid).items():
            most[kind] = max(most.get(kind, 0), value)
        await asyncio.sleep(0.1)


async def run(args):
    files = sorted(p for p in pathlib.Path(args.folder).rglob("*") if p.is_file() and p.suffix != ".tsv")
    mail = [p.read_bytes() for p in files if p.name not in ("index", "labels")]
    jobs = collections.deque(enumerate(mail * args.times))
    total, answers, most = len(jobs), collections.Counter(), {}
    host, port = args.to.rsplit(":", 1)
    if args.pid:
        before = resident(args.pid)
        watch = asyncio.create_task(sample(args.pid, most))
    start = time.monotonic()
    sessions = [session(i, (host, int(port)), jobs, answers) for i in range(args.sessions)]
    broken = [r for r in await asyncio.gather(*sessions, return_exceptions=True) if r]
    seconds = time.monotonic() - start
    print(f"{total} messages, {sum(map(len, mail)) * args.times / total:.0f} bytes on average, "
          f"{args.sessions} sessions, {seconds:.1f} s, {total / seconds:.0f}/s")
    print("answers:", dict(answers), "broken sessions:", len(broken), set(map(repr, broken)) or "")
    if args.pid:
        watch.cancel()
        await asyncio.sleep(3)
        after = resident(args.pid)
        show = lambda k: {n: f"{v / (1 << 20):.0f} MB" for n, v in k.items() if n != "cpu"}
        print("before:", show(before), "most:", show(most), "3 s later:", show(after), sep="\n  ")
        print(f"CPU: {after['cpu'] - before['cpu']:.1f} s")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
parser.add_argument("folder")
parser.add_argument("--to", default="127.0.0.1:2525")
parser.add_argument("--sessions", type=int, default=950)
parser.add_argument("--times", type=int, default=1)
parser.add_argument("--pid", type=int)
asyncio.run(run(parser.parse_args()))
