//! Accuracy of the whole engine source by source: rules, classifier and thresholds as they ship.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_engine::classifier::Model;
use gauntlet_engine::classifier::metrics::upper_bound_percent;
use gauntlet_engine::fusion::Signals;
use gauntlet_engine::scan::weigh;
use gauntlet_engine::{Scratch, Settings, Snapshot, scan};
use gauntlet_inputs::bodies::Bodies;
use gauntlet_mail::{Facts, Message, trace};
use gauntlet_verdict::{Class, Verdict};
use serde::Serialize;

use crate::train::corpus::{self, CorpusArgs};

/// What became of one source.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Verdicts {
    pub(crate) source: String,
    pub(crate) ham: u64,
    /// Good messages called spam or worse.
    pub(crate) false_positives: u64,
    pub(crate) false_positive_percent: f64,
    /// 95 % upper bound of that.
    pub(crate) false_positive_bound_percent: f64,
    /// Good messages called suspect.
    pub(crate) ham_suspect: u64,
    pub(crate) spam: u64,
    /// Unwanted messages called spam or worse.
    pub(crate) caught: u64,
    pub(crate) caught_percent: f64,
    /// 95 % upper bound of what is not caught, in per cent.
    pub(crate) missed_bound_percent: f64,
    /// Unwanted messages called suspect.
    pub(crate) spam_suspect: u64,
}

impl Verdicts {
    fn add(&mut self, spam: bool, class: Class) {
        let bad = u64::from(class >= Class::Spam && class != Class::Unscannable);
        let suspect = u64::from(class == Class::Suspect);
        if spam {
            self.spam += 1;
            self.caught += bad;
            self.spam_suspect += suspect;
        } else {
            self.ham += 1;
            self.false_positives += bad;
            self.ham_suspect += suspect;
        }
    }

    fn finish(&mut self) {
        let percent = |n: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * n as f64 / of as f64 };
        self.false_positive_percent = percent(self.false_positives, self.ham);
        self.false_positive_bound_percent = upper_bound_percent(self.false_positives, self.ham);
        self.caught_percent = percent(self.caught, self.spam);
        self.missed_bound_percent = upper_bound_percent(self.spam - self.caught, self.spam);
    }
}

/// Some messages, by position in the corpus, and the model that judges them.
pub(crate) struct Part {
    pub(crate) of: Vec<usize>,
    pub(crate) model: Model,
}

/// Judges each part with what ships, but for the model. Writes what was weighed for each message,
/// for fitting the weights, to `signals`.
pub(crate) fn measure(
    args: &CorpusArgs,
    without: &Bodies,
    parts: Vec<Part>,
    signals: Option<&Path>,
) -> anyhow::Result<Vec<Verdicts>> {
    let mut part_of = HashMap::new();
    let mut snapshots = Vec::new();
    for part in parts {
        part_of.extend(part.of.iter().map(|&at| (at, snapshots.len())));
        let model = Arc::new(part.model);
        let settings = Settings { model: Some(Arc::clone(&model)), ..Settings::default() };
        snapshots.push((Snapshot::build(&settings)?, model));
    }
    let mut scratch = Scratch::default();
    let mut judged = BTreeMap::new();
    let corpus = corpus::read_with(args, without, &mut |at, raw| {
        let Some((snapshot, _)) = part_of.get(&at).and_then(|&part| snapshots.get(part)) else {
            return;
        };
        let message = Message::parse(raw);
        let (envelope, facts) = (trace::of_trace(&message, 0), Facts::default());
        let verdict = scan(&message, &envelope, &facts, snapshot, &mut scratch);
        // A second scan only where weights are fitted.
        let line = signals.map(|_| {
            let weighed = weigh(&message, &envelope, &facts, snapshot, &mut scratch);
            signals_of(&weighed, &verdict)
        });
        judged.insert(at, (verdict.class, line));
    })?;
    let mut by_source = BTreeMap::<String, Verdicts>::new();
    let mut all = Verdicts { source: "all".to_owned(), ..Verdicts::default() };
    let mut lines = String::from(SIGNALS_HEAD);
    for (at, (class, line)) in judged {
        let Some(mail) = corpus.mail.get(at) else { continue };
        let name = corpus.sources.get(usize::from(mail.example.source)).cloned();
        let name = name.unwrap_or_default();
        if let Some(line) = line {
            let label = if mail.example.spam { "spam" } else { "ham" };
            let shares = part_of
                .get(&at)
                .and_then(|&part| snapshots.get(part))
                .map(|(_, model)| model.group_scores(mail.example.features(), mail.example.ends()));
            let shares: Vec<String> =
                shares.iter().flatten().map(|share| format!("{share:.3}")).collect();
            lines += &format!(
                "{label}\t{name}\t{}\t{line}\t{}\t{}\t{}\n",
                mail.date,
                shares.join(","),
                mail.language,
                mail.file
            );
        }
        all.add(mail.example.spam, class);
        by_source.entry(name).or_default().add(mail.example.spam, class);
    }
    if let Some(path) = signals {
        std::fs::write(path, lines).with_context(|| path.display().to_string())?;
    }
    let named = by_source.into_iter().map(|(source, v)| Verdicts { source, ..v });
    let mut rows: Vec<Verdicts> = named.chain([all]).collect();
    rows.iter_mut().for_each(Verdicts::finish);
    Ok(rows)
}

/// Columns of a file of signals; `rules` are those with points, as `NAME:points`;
/// `groups` the uncalibrated log odds of the classifier's groups of features.
const SIGNALS_HEAD: &str = "label\tsource\tdate\tpoints\tclassifier\tsignatures\tstrongest\tphishing\t\
    forced\tclass\tprobability\trules\tgroups\tlanguage\tfile\n";

/// The columns of one message from `points` to `rules`.
fn signals_of(weighed: &Signals, verdict: &Verdict) -> String {
    let rules: Vec<String> = verdict
        .hits
        .iter()
        .filter(|hit| hit.score != 0.0)
        .map(|hit| format!("{}:{}", hit.rule, hit.score))
        .collect();
    format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        weighed.rule_points,
        weighed.classifier.unwrap_or(0.0),
        weighed.signatures.unwrap_or(0.0),
        weighed.strongest,
        weighed.phishing_points,
        weighed.forced_class.map_or("", Class::name),
        verdict.class,
        verdict.probability.unwrap_or(0.0),
        rules.join(","),
    )
}

/// Prints a table, as Markdown so that it can stand in a document.
pub(crate) fn table(out: &mut impl Write, rows: &[Verdicts]) -> io::Result<()> {
    writeln!(
        out,
        "| Source | Ham | Called spam (95 % bound) | Suspect | Spam | Caught (95 % bound of missed) \
         | Suspect |"
    )?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|")?;
    for row in rows {
        let share = |n: u64, of: u64, percent: f64, bound: f64| match of {
            0 => String::new(),
            _ => format!("{n} = {percent:.2} % ({bound:.2} %)"),
        };
        let ham = share(
            row.false_positives,
            row.ham,
            row.false_positive_percent,
            row.false_positive_bound_percent,
        );
        let spam = share(row.caught, row.spam, row.caught_percent, row.missed_bound_percent);
        writeln!(
            out,
            "| {} | {} | {ham} | {} | {} | {spam} | {} |",
            row.source, row.ham, row.ham_suspect, row.spam, row.spam_suspect
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspect_is_neither_caught_nor_a_false_positive() {
        let mut row = Verdicts::default();
        for class in [Class::Ham, Class::Bulk, Class::Suspect, Class::Spam, Class::Phishing] {
            row.add(true, class);
            row.add(false, class);
        }
        row.add(false, Class::Unscannable);
        row.finish();
        assert_eq!((row.caught, row.spam_suspect, row.spam), (2, 1, 5));
        assert_eq!((row.false_positives, row.ham_suspect, row.ham), (2, 1, 6));
        assert_eq!(row.caught_percent, 40.0);
    }
}
