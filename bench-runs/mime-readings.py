#!/usr/bin/env python3
"""Which programs show the file that samples/ambiguous-*.eml hide: a row of Markdown a sample.

Needs Debian's packages mpack, ripmime and libmime-tools-perl, and a built gauntlet as argument.
"""

import email
import email.policy
import glob
import json
import os
import subprocess
import sys
import tempfile

PERL = (
    "use MIME::Parser; my $p = MIME::Parser->new; $p->output_under('.'); $p->extract_uuencode(1);"
    "open my $f, '<', $ARGV[0]; $p->parse($f);"
)


def is_shown(contents):
    """The hidden file begins as a Windows program does."""
    return any(content.lstrip(b"\r\n").startswith(b"MZ") for content in contents)


def python(path, policy):
    with open(path, "rb") as file:
        message = email.message_from_binary_file(file, policy=policy)
    contents = []
    for part in message.walk():
        try:
            contents.append(part.get_payload(decode=True) or b"")
        except (LookupError, ValueError):
            pass
    return is_shown(contents)


def extractor(*command):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, cwd=folder, timeout=30, capture_output=True, check=False)
        contents = []
        for above, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(above, name), "rb") as file:
                    contents.append(file.read())
    return is_shown(contents)


def gauntlet(program, path):
    run = subprocess.run([program, "scan", "--json", path], capture_output=True, check=False)
    verdict = json.loads(run.stdout)
    rules = {hit["rule"] for hit in verdict["hits"]}
    return bool(rules & {"ATTACH_EXECUTABLE", "OBJECT_EXECUTABLE"})


def main():
    program = os.path.abspath(sys.argv[1])
    for path in sorted(glob.glob("samples/ambiguous-*.eml")):
        path = os.path.abspath(path)
        shown = [
            python(path, email.policy.compat32),
            extractor("perl", "-e", PERL, path),
            extractor("munpack", "-q", "-t", path),
            extractor("ripmime", "-i", path, "-d", "."),
            gauntlet(program, path),
        ]
        kind = os.path.basename(path)[len("ambiguous-") : -len(".eml")].replace("-", "_")
        print(f"| `{kind}` |", " | ".join("yes" if is_yes else "no" for is_yes in shown), "|")


main()
