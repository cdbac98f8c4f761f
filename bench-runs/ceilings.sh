#!/usr/bin/env bash
# What the load generator does at most by each protocol, against servers that do nothing.
#
#   bench-runs/ceilings.sh target/release/gauntlet DIR [seconds]
set -euo pipefail
gauntlet=$1 mail=$2 seconds=${3:-3}
for protocol in smtp lmtp milter spamd rspamd clamd; do
  coproc sink { exec "$gauntlet" bench sink --listen 127.0.0.1:0 --protocol "$protocol" 2>/dev/null; }
  # shellcheck disable=SC2154  # coproc sets it
  read -r _ _ address <&"${sink[0]}"
  # 3: the client is the limit, which is what is measured here.
  { "$gauntlet" bench send --protocol "$protocol" "$address" "$mail" --no-calibration --json \
    --connections 16 --seconds "$seconds" --rounds 3 2>/dev/null || [ $? = 3 ]; } |
    python3 -c '
import json, sys
s = json.load(sys.stdin)["subjects"][0]
rate, rounds = s["messages_per_second"], s["rounds"]
cpu = sum(r["health"]["cpu_seconds"] for r in rounds) / sum(r["answered"] for r in rounds)
print(sys.argv[1], round(rate["mean"]), "(%d to %d)" % (rate["low"], rate["high"]), "messages/s,",
      "client CPU", round(cpu * 1e6, 1), "us a message")' "$protocol"
  # shellcheck disable=SC2154
  kill "$sink_PID"
  wait "$sink_PID" 2>/dev/null || true
done
