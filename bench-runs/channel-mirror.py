#!/usr/bin/env python3
"""What a look at a channel without news costs a mirror: bytes, and CPU time of nginx.

    bench-runs/channel-mirror.py [seconds]

Starts nginx with one worker on a free port of this machine, asks for timestamp.json with the tag
that it has, a new connection each time, as nodes do, and reads the worker's CPU time.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0
TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def ask(port, tag=None):
    head = "GET /timestamp.json HTTP/1.1\r\nhost: mirror.example\r\nuser-agent: gauntlet/0.1.0\r\n"
    head += "accept-encoding: identity\r\n"
    head += f"if-none-match: {tag}\r\n\r\n" if tag else "\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head.encode())
        return len(head), connection.recv(65536)


def cpu_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    with open(f"{folder}/timestamp.json", "w", encoding="ascii") as file:
        file.write("x" * 560)
    os.chmod(folder, 0o755)
    with open(f"{folder}/nginx.conf", "w", encoding="ascii") as file:
        file.write(
            f"daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;\n"
            f"events {{ }}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port}; "
            f"root {folder}; }} }}\n"
        )
    nginx = subprocess.Popen(["nginx", "-c", f"{folder}/nginx.conf"])
    try:
        time.sleep(1)
        _, whole = ask(port)
        tag = next(line.split(b": ")[1] for line in whole.split(b"\r\n") if line.startswith(b"ETag"))
        asked, answer = ask(port, tag.decode())
        assert b" 304 " in answer.split(b"\r\n")[0], answer
        children = f"/proc/{nginx.pid}/task/{nginx.pid}/children"
        worker = open(children, encoding="ascii").read().split()[0]
        before, began, requests = cpu_seconds(worker), time.time(), 0
        while time.time() - began < SECONDS:
            ask(port, tag.decode())
            requests += 1
        each = (cpu_seconds(worker) - before) / requests
        print(f"request {asked} bytes, answer {len(answer)} bytes, {each * 1e6:.0f} us of CPU each")
        print(f"10,000 nodes every 300 s: {each * 10_000 / 300 * 100:.2f} % of one core")
    finally:
        nginx.terminate()
        nginx.wait()
