#!/usr/bin/env python3
"""A resolver of its own for measuring: every domain has the records of a well-kept one.

usage: local-zone.py ADDRESS:PORT

TXT of a name: SPF that lets 127.0.0.0/8 pass; of `_dmarc.`: a DMARC policy of none; below `_domainkey.`
an RSA key of 2,048 bits, made at the start, which no signature of recorded mail fits. A: 127.0.0.1; MX:
the name itself; PTR: host.example. Everything else is answered by "no such data". UDP only; no cache,
no delay: what a filter then spends on a message is its own work and the size of what it found.
"""
import base64, os, socket, struct, subprocess, sys

A, SOA, PTR, MX, TXT = 1, 6, 12, 15, 16


def encoded(name):
    return b"".join(bytes([len(label)]) + label for label in name.split(b".") if label) + b"\0"


def text(value):
    pieces = [value[at:at + 255] for at in range(0, len(value), 255)]
    return b"".join(bytes([len(piece)]) + piece for piece in pieces)


def new_key():
    private = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True).stdout
    public = subprocess.run(["openssl", "rsa", "-pubout", "-outform", "DER"], input=private, capture_output=True,
                            check=True).stdout
    return b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)


def record(name, kind, key):
    """The data of the one record of a name, or none."""
    if kind == TXT:
        if name.startswith(b"_dmarc."):
            return text(b"v=DMARC1; p=none")
        return text(key if b"._domainkey." in name else b"v=spf1 ip4:127.0.0.0/8 ~all")
    if kind == MX:
        return struct.pack("!H", 10) + encoded(name)
    return {A: bytes([127, 0, 0, 1]), PTR: encoded(b"host.example")}.get(kind)


def answer(query, key):
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1:at + 1 + length].lower())
        at += 1 + length
    kind, = struct.unpack("!H", query[at + 1:at + 3])
    data = record(b".".join(labels), kind, key)
    section = b"" if data is None else b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 3600, len(data)) + data
    if data is None:
        soa = encoded(b"ns.example") + encoded(b"keeper.example") + struct.pack("!IIIII", 1, 3600, 600, 86400, 600)
        section = b"\0" + struct.pack("!HHIH", SOA, 1, 600, len(soa)) + soa
    counts = (1, 1, 0, 0) if data is not None else (1, 0, 1, 0)
    return query[:2] + b"\x81\x80" + struct.pack("!HHHH", *counts) + query[12:at + 5] + section


def main():
    host, _, port = sys.argv[1].rpartition(":")
    server, key = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), new_key()
    server.bind((host, int(port)))
    print("ready", flush=True)
    parent = os.getppid()
    server.settimeout(5)
    while os.getppid() == parent:
        try:
            query, client = server.recvfrom(4096)
            server.sendto(answer(query, key), client)
        except (TimeoutError, IndexError, struct.error):
            continue


main()
