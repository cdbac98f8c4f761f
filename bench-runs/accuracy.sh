#!/bin/sh
# Every table of docs/accuracy.md, by one command, as Markdown on standard output:
#
#     GAUNTLET_CORPUS=/corpus bench-runs/accuracy.sh [GAUNTLET] > tables.md
#
# The corpus holds dev/labels.tsv, modern/labels.tsv and trec07p-30k/index (or another TREC index, named by
# TREC_INDEX). GAUNTLET is the program, `gauntlet` by default. Takes ten minutes; the figures repeat exactly.
set -eu
gauntlet=${1:-gauntlet}
corpus=${GAUNTLET_CORPUS:?set it to the folder that holds dev and trec07p-30k}
trec=${TREC_INDEX:-$corpus/trec07p-30k/index}
lists="--list $corpus/dev/labels.tsv --list $trec"
modern="--list $corpus/modern/labels.tsv"
# Sources that were looked at once, behind all other work (decision 213); each an option for those of `modern`.
final=$(sed 's/^/--exclude-source /' "$(dirname "$0")/accuracy-final-sources.txt" | tr '\n' ' ')

echo "## On line"
echo
for feedback in immediate delayed partial; do
    echo "### $feedback feedback"
    echo
    echo '```'
    "$gauntlet" evaluate --trec "$trec" --learner all --feedback "$feedback"
    echo '```'
    echo
done
echo "## Classifier alone: a model of the oldest 70 % of each source on the newest 30 %"
echo
# shellcheck disable=SC2086  # two options and two paths
"$gauntlet" evaluate $lists --hold-out 30
echo
for percent in 30 15; do
    echo "## Rules and classifier together, the newest $percent %"
    echo
    # shellcheck disable=SC2086
    "$gauntlet" evaluate --verdicts $lists --hold-out "$percent"
    echo
done

# Mail of a source of which the model has seen nothing, as a new user's is.
trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
for source in foff-milter lists phishing_pot spamassassin; do
    echo "## Rules and classifier together, $source by a model without it"
    echo
    # shellcheck disable=SC2086
    "$gauntlet" train $lists $modern --exclude-source "$source" -o "$trial/without.model" > "$trial/trained"
    "$gauntlet" evaluate --verdicts --list "$corpus/dev/labels.tsv" --model "$trial/without.model"
    echo
done

echo "## Rules and classifier together, each source by a model that has seen nothing of it"
echo
# shellcheck disable=SC2086
"$gauntlet" evaluate --verdicts $lists $modern --leave-sources-out 8
echo
echo "## Rules and classifier together, the final sources of modern"
echo
# shellcheck disable=SC2086
"$gauntlet" train $lists $modern $final -o "$trial/final.model" > "$trial/trained"
mkdir "$trial/modern"
ln -s "$corpus"/modern/*/ "$trial/modern/"
grep -F -f "$(dirname "$0")/accuracy-final-sources.txt" "$corpus/modern/labels.tsv" > "$trial/modern/final.tsv"
"$gauntlet" evaluate --verdicts --list "$trial/modern/final.tsv" --model "$trial/final.model"

# A mailbox as it comes, told all or a tenth of the truth; then 100 messages of it taught beforehand.
"$gauntlet" train $lists $modern --exclude-source foff-milter -o "$trial/stream.model" >/dev/null
stream="evaluate --stream $corpus/dev/labels.tsv --only foff-milter/ --model $trial/stream.model"
echo "## A mailbox as it comes"
echo
# shellcheck disable=SC2086
"$gauntlet" $stream --peers spamassassin,spamassassin-early,rspamd,rspamd-neural,bogofilter
echo
# shellcheck disable=SC2086
"$gauntlet" $stream --beforehand 100 --told 0
