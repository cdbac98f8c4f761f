#!/usr/bin/env python3
"""Console and mail path beside each other: how fast pages come while a node takes mail as fast as it can,
and what the pages cost the mail.

    console-under-load.py GAUNTLET FOLDER [--seconds 4] [--rounds 5] [--sessions 20] [--pages-a-second 4]

Starts a node (no network facts) in a temporary folder, loads it over loopback with the messages of
FOLDER, and takes turns: a window with nobody at the console, one with somebody who opens a page of it so
many times a second. Printed: messages a second and CPU a message of both kinds of window (medians, and
their ratio by pairs), the share of the node's CPU time that its threads for the console took (those that
search and have ended counted as theirs; the machine's speed does not matter to it), and the time of pages
(median, 95 of 100, most).
"""
import argparse
import http.client
import os
import pathlib
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

PAGES = ["/", "/messages", "/messages?subject=invoice", "/messages?class=spam&action=quarantine", "/quarantine",
         "/reports?days=7", "/rules", "/queue", "/api/v1/counts", "/metrics"]
PASSWORD = "correct horse battery"


def cpu(pid):
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_console(pid):
    """CPU seconds of threads that mail has no use for: the console's, and those that have ended."""
    whole, others = cpu(pid), 0.0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            head, stat = (task / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if not head.split("(", 1)[1].startswith(("console", "log-search")):
            stat = stat.split()
            others += (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return max(0.0, whole - others)


class Console:
    def __init__(self, address):
        self.address, self.cookie = address, ""

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {"Cookie": self.cookie}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urllib.parse.urlencode(body)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        cookie = answer.getheader("Set-Cookie")
        if cookie:
            self.cookie = cookie.split(";")[0]
        return answer.status, text

    def sign_in(self, password):
        assert self.ask("POST", "/sign-in", {"login": "admin", "password": password})[0] == 303
        csrf = re.search(r'name="csrf" value="([^"]+)"', self.ask("GET", "/account")[1]).group(1)
        form = {"csrf": csrf, "old": password, "new": PASSWORD, "again": PASSWORD}
        assert self.ask("POST", "/account/password", form)[0] == 303


# The node ends a session after receiver.messages_per_session_max.
MESSAGES_A_SESSION = 500


def session(where, mail, counts, index, stop):
    number = index
    while not stop.is_set():
        number = messages(where, mail, counts, index, number, stop)


def messages(where, mail, counts, index, number, stop):
    stream = socket.create_connection(where)
    replies = stream.makefile("rb")

    def talk(data):
        stream.sendall(data)
        while True:
            line = replies.readline()
            if line[3:4] != b"-":
                return line

    talk(b"")
    talk(b"EHLO load.example\r\n")
    for _ in range(MESSAGES_A_SESSION):
        if stop.is_set():
            break
        raw = mail[number % len(mail)]
        talk(b"MAIL FROM:<a%d@example.org>\r\n" % (number % 500))
        talk(b"RCPT TO:<b%d@example.net>\r\n" % (number % 2000))
        talk(b"DATA\r\n")
        if talk(raw)[:1] == b"2":
            counts[index] += 1
        number += 37
    stream.close()
    return number


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("gauntlet")
    arguments.add_argument("folder")
    for name, default in [("seconds", 4.0), ("rounds", 5), ("sessions", 20), ("pages-a-second", 4.0)]:
        arguments.add_argument(f"--{name}", type=type(default), default=default)
    args = arguments.parse_args()
    files = sorted(p for p in pathlib.Path(args.folder).rglob("*") if p.is_file())[:2000]
    mail = []
    for path in files:
        lines = path.read_bytes().replace(b"\0", b"").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        mail.append(b"\r\n".join(b"." + l if l.startswith(b".") else l for l in lines) + b"\r\n.\r\n")
    folder = tempfile.mkdtemp()
    config = pathlib.Path(folder, "gauntlet.toml")
    config.write_text(f"""[node]\ndata = "{folder}/data"\n[[listener]]\naddress = "127.0.0.1:0"\n
[console]\naddress = "127.0.0.1:0"\n[facts]\nenabled = false\n[rates]\nclient_connections_per_minute = 0
network_connections_per_minute = 0\nclient_messages_per_hour = 0\nnetwork_messages_per_hour = 0\n""")
    node = subprocess.Popen([args.gauntlet, "serve", "--config", config], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    smtp = console = password = None
    for line in node.stdout:
        words = line.split()
        if words[:1] == ["smtp,"]:
            smtp = tuple(words[2].rsplit(":", 1))
        elif words[:1] == ["console"]:
            console = words[1].removeprefix("http://").rstrip("/")
        elif words[:2] == ["first", "start"]:
            password = words[-1]
        elif words[:2] == ["to", "stop"]:
            break
    person = Console(console)
    person.sign_in(password)
    stop, counts = threading.Event(), [0] * args.sessions
    where = (smtp[0], int(smtp[1]))
    for index in range(args.sessions):
        threading.Thread(target=session, args=(where, mail, counts, index, stop), daemon=True).start()
    time.sleep(2)
    times, windows = [], {"alone": [], "watched": []}
    shares = {"alone": [0.0, 0.0], "watched": [0.0, 0.0]}
    for number in range(args.rounds):
        # Every other round turns about: log and quarantine grow, so that a later window is slower by itself.
        for kind in sorted(windows, reverse=number % 2 == 1):
            before, used, start = sum(counts), cpu(node.pid), time.monotonic()
            used_by_console = cpu_of_console(node.pid)
            page = 0
            while time.monotonic() - start < args.seconds:
                if kind == "watched":
                    asked = time.monotonic()
                    status, _ = person.ask("GET", PAGES[page % len(PAGES)])
                    assert status == 200, PAGES[page % len(PAGES)]
                    times.append(time.monotonic() - asked)
                    page += 1
                    time.sleep(max(0, 1 / args.pages_a_second - times[-1]))
                else:
                    time.sleep(0.1)
            took, done = time.monotonic() - start, sum(counts) - before
            shares[kind][0] += cpu_of_console(node.pid) - used_by_console
            shares[kind][1] += cpu(node.pid) - used
            windows[kind].append((done / took, (cpu(node.pid) - used) / max(done, 1) * 1e3))
    stop.set()
    times.sort()
    for kind, all_of in windows.items():
        print(f"{kind:<8} {statistics.median(w[0] for w in all_of):8.1f} messages/s "
              f"{statistics.median(w[1] for w in all_of):7.3f} ms CPU a message")
    pairs = list(zip(windows["alone"], windows["watched"]))
    print(f"watched / alone, median of {len(pairs)} pairs: messages/s "
          f"{statistics.median(b[0] / a[0] for a, b in pairs):.3f}, CPU a message "
          f"{statistics.median(b[1] / a[1] for a, b in pairs):.3f}")
    percent = {kind: 100 * part / max(whole, 1e-9) for kind, (part, whole) in shares.items()}
    print(f"threads for the console and ended ones: {percent['alone']:.2f} % of the node's CPU time alone, "
          f"{percent['watched']:.2f} % watched")
    at = lambda share: times[min(len(times) - 1, int(share * len(times)))] * 1e3
    print(f"{len(times)} pages: median {at(.5):.1f} ms, p95 {at(.95):.1f} ms, most {times[-1] * 1e3:.1f} ms; "
          f"{sum(counts)} messages in the log")
    node.terminate()
    node.wait()


if __name__ == "__main__":
    main()
