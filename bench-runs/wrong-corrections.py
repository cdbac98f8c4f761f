#!/usr/bin/env python3
"""What a few corrections, right and wrong, do to other mail.

    GAUNTLET_CORPUS=/corpus bench-runs/wrong-corrections.py [GAUNTLET]

400 good and 400 unwanted messages of `dev` and `modern` are judged after other messages were taught to
an empty data folder; which ones is drawn with a fixed seed. GAUNTLET is the program, `gauntlet` by
default. Prints a Markdown table. Takes less than a minute.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

GAUNTLET = sys.argv[1] if len(sys.argv) > 1 else "gauntlet"
CORPUS = Path(os.environ["GAUNTLET_CORPUS"]).resolve()
SAMPLES = Path(__file__).resolve().parent.parent / "samples"
# Messages of each kind that are judged: of the older sources, and of those since 2014.
OLDER, MODERN = 280, 120
SPAM = {"spam", "phishing", "malware"}


def listed(part, label):
    rows = (CORPUS / part / "labels.tsv").read_text().splitlines()[1:]
    fields = (row.split("\t") for row in rows)
    return [CORPUS / part / row[1] for row in fields if row[0] == label]


def classes(data, folder):
    command = [GAUNTLET, "scan", "--data", data, "--json", folder]
    out = subprocess.run(command, capture_output=True, text=True).stdout
    found = [json.loads(line)["class"] for line in out.splitlines() if line.startswith('{"file"')]
    assert found, f"{command} judged nothing"
    return sum(c in SPAM for c in found), found.count("suspect")


def main():
    random.seed(5)
    ham, spam, ham_modern, spam_modern = (
        listed("dev", "ham"), listed("dev", "spam"), listed("modern", "ham"), listed("modern", "spam"))
    judged = {"good": random.sample(ham, OLDER) + random.sample(ham_modern, MODERN),
              "unwanted": random.sample(spam, OLDER) + random.sample(spam_modern, MODERN)}
    used = {path for paths in judged.values() for path in paths}

    def draw(paths, count):
        return random.sample([path for path in paths if path not in used], count)

    wrong = draw(spam, 10)
    bad = draw(spam, 28) + draw(spam_modern, 12)
    good = draw(ham, 28) + draw(ham_modern, 12)
    modern = draw(ham_modern, 10)
    right = [(good[:20], "ham", ""), (bad[:20], "spam", "")]
    # Name, and what is taught: messages, what is said of them, who says so.
    cases = [
        ("none", []),
        ("one unwanted message called good", [(wrong[:1], "ham", "")]),
        ("three", [(wrong[:3], "ham", "")]),
        ("ten", [(wrong, "ham", "")]),
        ("one newsletter called unwanted", [([SAMPLES / "bulk-newsletter.eml"], "spam", "")]),
        ("ten good messages called unwanted", [(modern, "spam", "")]),
        ("ten good messages, rightly", [(modern, "ham", "")]),
        ("20 of each kind, rightly", right),
        ("the same, and one unwanted message called good", [*right, (wrong[:1], "ham", "bob")]),
        ("40 of each kind, rightly", [(good, "ham", ""), (bad, "spam", "")]),
    ]
    print("| Corrections | Good called spam | suspect | Unwanted caught | suspect |")
    print("|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for kind, paths in judged.items():
            (root / kind).mkdir()
            for number, path in enumerate(paths):
                (root / kind / f"{number:03}.eml").symlink_to(path)
        for number, (name, taught) in enumerate(cases):
            data = root / f"data{number}"
            data.mkdir()
            for paths, label, reporter in taught:
                named = [word for path in paths for word in (f"--{label}", path)]
                command = [GAUNTLET, "learn", "--data", data, "--reporter", reporter, *named]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            figures = classes(data, root / "good") + classes(data, root / "unwanted")
            print(f"| {name} | {' | '.join(map(str, figures))} |", flush=True)


if __name__ == "__main__":
    main()
