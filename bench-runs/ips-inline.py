#!/usr/bin/env python3
"""What the bridge of `gauntlet ips run` costs: nginx and wrk in network namespaces, the kernel's own bridge
and Gauntlet's between them in turn.

    ips-inline.py GAUNTLET [--rules FILE] [--rounds 5] [--seconds 4] [--connections 32] [--threads 1]
        [--set KEY=VALUE]...

Needs root, nginx and wrk. In each round, each bridge is measured with requests of 1 KB and of 100 KB, as
fast as they go; then with 1 KB at half the rate that Gauntlet reached, for the latency. Printed: medians,
the ratio of the rates (medians of the rounds' ratios), and what Gauntlet adds to the median, 90 % and 99 %
of the latency. Then what the kernel dropped, which should be nothing.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import time

SERVER = "10.78.1.3"
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def run(*words):
    subprocess.run(words, check=True)


def ip(text):
    run("ip", *text.split())


class Net:
    def __init__(self, folder):
        self.name = f"ips-{os.getpid()}"
        self.folder = folder
        c, m, s = (self.of(role) for role in ("client", "middle", "server"))
        for namespace in (c, m, s):
            ip(f"netns add {namespace}")
        ip(f"-n {m} link add c0 type veth peer name e0 netns {c}")
        ip(f"-n {m} link add s0 type veth peer name e0 netns {s}")
        ip(f"-n {m} link add br0 type bridge")
        ip(f"-n {c} addr add 10.78.1.2/24 dev e0")
        ip(f"-n {s} addr add {SERVER}/24 dev e0")
        run("ip", "netns", "exec", m, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6")
        for namespace, device in ((c, "e0"), (s, "e0"), (s, "lo"), (m, "c0"), (m, "s0"), (m, "br0")):
            ip(f"-n {namespace} link set {device} up")
        (folder / "small").write_bytes(b"x" * 1024)
        (folder / "large").write_bytes(b"x" * 102400)
        (folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {folder}/pid; error_log stderr; events {{}}\n"
            f"http {{ access_log off; keepalive_requests 100000000;\n"
            f"client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;\n"
            f"uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;\n"
            f"server {{ listen 80; root {folder}; }} }}\n")
        self.nginx = subprocess.Popen(["ip", "netns", "exec", s, "nginx", "-p", folder, "-c", folder / "nginx.conf"],
                                      stderr=subprocess.DEVNULL)
        time.sleep(1)

    def of(self, role):
        return f"{self.name}-{role}"

    def bridge(self, on):
        for device in ("c0", "s0"):
            ip(f"-n {self.of('middle')} link set {device} " + ("master br0" if on else "nomaster"))

    def wrk(self, path, connections, seconds, delay=None):
        """Requests a second, and the latency in seconds: median, 90 %, 99 %."""
        words = ["ip", "netns", "exec", self.of("client"), "wrk", "--latency", "-t1", f"-c{connections}",
                 f"-d{seconds}s", f"http://{SERVER}/{path}"]
        if delay is not None:
            script = self.folder / "delay.lua"
            script.write_text(f"function delay() return math.random(0, {2 * delay}) end\n")
            words[5:5] = ["-s", str(script)]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])
        of = {}
        for share, value, unit in re.findall(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s|m)$", text, re.M):
            of[int(share)] = float(value) * UNITS[unit]
        if 99 not in of:
            raise SystemExit(f"wrk says nothing of latency:\n{text}")
        return rate, [of[50], of[90], of[99]]

    def close(self):
        self.nginx.kill()
        self.nginx.wait()
        for role in ("client", "middle", "server"):
            ip(f"netns del {self.of(role)}")


class Gauntlet:
    def __init__(self, net, program, rules, threads, settings):
        self.eve = net.folder / "eve.json"
        self.log = open(net.folder / "log", "w+")
        words = ["ip", "netns", "exec", net.of("middle"), program, "ips", "run", "--interface", "c0",
                 "--copy-interface", "s0", "--rules", rules, "--eve", self.eve, "--threads", str(threads)]
        words += [f"--set={setting}" for setting in settings]
        self.child = subprocess.Popen(words, stderr=self.log)
        probe = ["ip", "netns", "exec", net.of("client"), "curl", "-s", "--max-time", "1", f"http://{SERVER}/small"]
        while subprocess.run(probe, stdout=subprocess.DEVNULL).returncode:
            time.sleep(0.05)

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait()
        return json.loads(self.eve.read_text().splitlines()[-1])["stats"]


def median(values):
    return statistics.median(values)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gauntlet")
    parser.add_argument("--rules")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        rules = args.rules or folder / "none.rules"
        (folder / "none.rules").touch()
        net = Net(folder)
        try:
            measure(args, net, rules)
        finally:
            net.close()


def measure(args, net, rules):
    rates = {path: {"kernel": [], "gauntlet": []} for path in ("small", "large")}
    latencies = {"kernel": [], "gauntlet": []}
    lost = 0
    half = None
    for _ in range(args.rounds):
        for side in ("gauntlet", "kernel"):
            if side == "kernel":
                net.bridge(True)
                time.sleep(0.5)
            else:
                ours = Gauntlet(net, args.gauntlet, rules, args.threads, args.set)
            for path in rates:
                rates[path][side].append(net.wrk(path, args.connections, args.seconds)[0])
            if half is None:
                half = rates["small"]["gauntlet"][0] / 2
            # As many connections as make half the rate with a pause of 10 ms on the average.
            connections = max(1, round(half * 0.010))
            rate, latency = net.wrk("small", connections, args.seconds, delay=10)
            latencies[side].append((rate, latency))
            if side == "kernel":
                net.bridge(False)
            else:
                stats = ours.stop()
                lost += stats["capture"]["kernel_drops"] + stats["ips"]["send_failures"]
    for path, of in rates.items():
        ratio = median([ours / kernel for ours, kernel in zip(of["gauntlet"], of["kernel"])])
        print(f"{path}: kernel {median(of['kernel']):.0f} requests/s, gauntlet {median(of['gauntlet']):.0f}, "
              f"ratio {ratio:.2f}")
    for place, share in enumerate(("50 %", "90 %", "99 %")):
        kernel, ours = (median([latency[place] for _, latency in latencies[side]]) for side in ("kernel", "gauntlet"))
        print(f"latency {share} at {median([rate for rate, _ in latencies['gauntlet']]):.0f} requests/s: "
              f"kernel {kernel * 1e6:.0f} us, gauntlet {ours * 1e6:.0f} us, added {(ours - kernel) * 1e6:.0f} us")
    print(f"lost: {lost} packets")


if __name__ == "__main__":
    main()
