#!/bin/sh
# CPU a message of SpamAssassin's stock rules: a private spamd beside `gauntlet scan --rules`, on the
# same messages, taking turns in one run.
#
# usage: rules-beside-spamd.sh GAUNTLET LIST [TURNS]
#   LIST   file with one message path a line
# needs: spamassassin, spamc (Debian: spamassassin, spamc). Listens on loopback only.
set -eu
gauntlet=$1; list=$2; turns=${3:-3}
rules=/usr/share/spamassassin; site=/etc/spamassassin
dir=$(mktemp -d); port=$((20000 + $$ % 20000))
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
printf 'use_bayes 0\nuse_auto_welcomelist 0\n' > "$dir/extra.cf"
spamd -L -m 1 --min-children=1 --max-children=1 --max-conn-per-child=100000 -x -u nobody \
  --syslog="$dir/log" -i 127.0.0.1 -p "$port" --pidfile="$dir/pid" >/dev/null 2>&1 &
pid=$!
for _ in $(seq 1 100); do
  spamc -d 127.0.0.1 -p "$port" -K >/dev/null 2>&1 && break
  sleep 0.2
done
ticks=$(getconf CLK_TCK); count=$(wc -l < "$list")
# user and system ticks of spamd and its children
spamd_ticks() {
  cat /proc/"$pid"/stat $(for c in $(cat /proc/"$pid"/task/*/children); do echo /proc/"$c"/stat; done) |
    sed 's/^.*) //' | awk '{ sum += $12 + $13 } END { print sum }'
}
one_turn() {
  before=$(spamd_ticks)
  while read -r file; do
    spamc -d 127.0.0.1 -p "$port" -c -s 100000000 < "$file" >/dev/null || true
  done < "$list"
  after=$(spamd_ticks)
  theirs=$(awk "BEGIN { print ($after - $before) * 1000 / $ticks / $count }")
  # Ours: twice the list against once, so that loading the rules cancels out.
  cat "$list" "$list" "$list" "$list" "$list" "$list" "$list" "$list" "$list" "$list" "$list" > "$dir/long"
  cpu() {
    sh -c 'file=$1; shift; "$@" --files-from "$file" >/dev/null 2>&1; times' sh "$@" |
      awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } print sum * 1000 }'
  }
  once=$(cpu "$list" "$gauntlet" scan --threads 1 --json --rules "$rules" --site "$site")
  many=$(cpu "$dir/long" "$gauntlet" scan --threads 1 --json --rules "$rules" --site "$site")
  awk "BEGIN { ours = ($many - $once) / 10 / $count;
    printf \"spamd %.2f ms  gauntlet %.3f ms CPU a message  ratio %.0f  (load and first use %.0f ms)\\n\",
      $theirs, ours, $theirs / ours, $once - ours * $count }"
}
# The first messages make spamd compile its rules.
head -20 "$list" | while read -r file; do spamc -d 127.0.0.1 -p "$port" -c < "$file" >/dev/null || true; done
for _ in $(seq 1 "$turns"); do one_turn; done
