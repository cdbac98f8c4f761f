//! `gauntlet rules fit`: points for our own rules from labelled mail.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_engine::{Scratch, Settings, Snapshot, own_rules, scan};
use gauntlet_inputs::bodies::Bodies;
use gauntlet_mail::{Facts, Message, trace};
use gauntlet_rules::{LoadOptions, NoFunctions, Ruleset};

use crate::train::corpus::{self, CorpusArgs};
use crate::train::training;

const AFTER_HELP: &str = "\
The points in rules/*.cf are what their writer expects of each rule. This moves them towards what the
older part of the labelled mail says, and writes those that moved as `score` lines (rules/scores.cf).

Points are fitted together by logistic regression: a message's odds of being spam grow with its points
beyond --middle, the points of the filters being given. Every class of every source weighs as the root
of its size. Points stay near what was expected (--trust), never change their sign, and are bounded by
how much more often the rule hits spam than ham in the source where that is least (its log odds). So a
rule that hits good mail gets little, and one that hits nothing keeps what was expected.

The table shows, for the newest part, how often each rule hits ham and spam.

Examples:
  gauntlet rules fit --list dev/labels.tsv --list trec07p/full/index --out rules/scores.cf";

/// Points at most, either way.
const POINTS_MAX: f64 = 3.0;
/// Points of a rule that hits as much ham as spam.
const POINTS_MIN: f64 = 0.1;
/// Points that rules may subtract at most: every sign of ham can be forged.
const GOOD_POINTS_MAX: f64 = 0.8;
/// Steps of the fit.
const ROUNDS: usize = 400;
/// Step of a weight against its gradient.
const RATE: f64 = 0.02;
/// Points that change by less than this are not written.
const CHANGE_MIN: f64 = 0.05;

/// Arguments of `gauntlet rules fit`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    corpus: CorpusArgs,
    /// Fit on the older mail of each source; the newest PERCENT is only counted
    #[arg(long, value_name = "PERCENT", default_value_t = 30,
          value_parser = clap::value_parser!(u8).range(0..=99))]
    hold_out: u8,
    /// Points at which a message is as likely good as unwanted
    #[arg(long, value_name = "POINTS", default_value_t = 4.0)]
    middle: f64,
    /// How much the expected points count, in messages
    #[arg(long, value_name = "MESSAGES", default_value_t = 4.0)]
    trust: f64,
    /// Write the points that moved to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What a message says about the rules.
#[derive(Debug)]
struct Row {
    /// Rules of ours that hit, by position.
    hits: Vec<usize>,
    /// Points of the filters.
    given: f64,
    spam: bool,
    /// Position among the groups: messages of one source and one class.
    group: usize,
    weight: f64,
}

/// A rule on its way to its points.
#[derive(Debug)]
struct Fitted {
    name: String,
    expected: f64,
    points: f64,
    least: f64,
    most: f64,
}

/// Fits and prints.
///
/// # Errors
/// If mail cannot be read, or the points cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let rules = expected()?;
    let mut fitted: Vec<Fitted> = rules
        .rules()
        .iter()
        .filter(|r| !r.is_sub())
        .map(|r| Fitted {
            name: r.name.to_string(),
            expected: r.scores[0],
            points: r.scores[0],
            least: 0.0,
            most: 0.0,
        })
        .collect();
    let (mut rows, earlier, groups) = read_rows(args, rules, &fitted)?;
    let chosen = |of: bool, rows: &[Row]| -> Vec<usize> {
        (0..rows.len()).filter(|i| earlier.contains(i) == of).collect()
    };
    let (older, newer) = (chosen(true, &rows), chosen(false, &rows));
    set_weights(&mut rows, &older, groups.len());
    set_bounds(&mut fitted, &rows, &older, groups.len());
    descend(&mut fitted, &rows, &older, args);
    print(&mut io::stdout().lock(), &fitted, &rows, &newer, &groups)?;
    if let Some(path) = &args.out {
        gauntlet_store::files::write_durably_as(path, scores(&fitted).as_bytes(), 0o644)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Our rules with the points that were expected, without those that a fit has set.
fn expected() -> anyhow::Result<Ruleset> {
    let mut texts = own_rules::texts(&[]);
    texts.retain(|(name, _)| name != own_rules::SCORES);
    let options = LoadOptions { texts, texts_alone: true, ..LoadOptions::default() };
    Ok(Ruleset::load(&[], &options, &mut NoFunctions)?.0)
}

type Seen = (Vec<Row>, HashSet<usize>, Vec<(String, bool)>);

/// Judges all mail by filters and rules: a row for each message, which of them are the older part,
/// and the names of the groups.
fn read_rows(args: &Args, rules: Ruleset, fitted: &[Fitted]) -> anyhow::Result<Seen> {
    let places: HashMap<&str, usize> =
        fitted.iter().enumerate().map(|(i, f)| (&*f.name, i)).collect();
    let settings = Settings {
        own_rules: Some(rules.into()),
        filters_off: vec!["classifier".into()],
        ..Settings::default()
    };
    let snapshot = Snapshot::build(&settings)?;
    let mut scratch = Scratch::default();
    let mut found: Vec<(Vec<usize>, f64)> = Vec::new();
    let corpus = corpus::read_with(&args.corpus, &Bodies::default(), &mut |_, raw| {
        let message = Message::parse(raw);
        let envelope = trace::of_trace(&message, 0);
        let verdict = scan(&message, &envelope, &Facts::default(), &snapshot, &mut scratch);
        let (mut hits, mut given) = (Vec::new(), 0.0);
        for hit in &verdict.hits {
            match places.get(&*hit.rule) {
                Some(place) => hits.push(*place),
                None => given += hit.score,
            }
        }
        found.push((hits, given));
    })?;
    let mut names = BTreeMap::<(String, bool), usize>::new();
    let mut rows = Vec::new();
    for (mail, (hits, given)) in corpus.mail.iter().zip(found) {
        let source = corpus.sources.get(usize::from(mail.example.source)).cloned();
        let key = (source.unwrap_or_default(), mail.example.spam);
        let next = names.len();
        let group = *names.entry(key).or_insert(next);
        rows.push(Row { hits, given, spam: mail.example.spam, group, weight: 0.0 });
    }
    let all = training::all(&corpus);
    let (older, _) = training::split(&corpus, &all, usize::from(args.hold_out));
    let mut groups = vec![(String::new(), false); names.len()];
    for (name, place) in names {
        groups[place] = name;
    }
    Ok((rows, older.into_iter().collect(), groups))
}

/// Every group weighs as the root of its size, so that a large source does not drown the others.
fn set_weights(rows: &mut [Row], of: &[usize], groups: usize) {
    let mut sizes = vec![0usize; groups];
    of.iter().for_each(|&i| sizes[rows[i].group] += 1);
    for row in rows {
        row.weight = 10.0 / (sizes[row.group].max(1) as f64).sqrt();
    }
}

/// Sets the bounds of each rule's points from how often it hits ham and spam.
fn set_bounds(fitted: &mut [Fitted], rows: &[Row], of: &[usize], groups: usize) {
    let mut sizes = vec![(0.0f64, false); groups];
    let mut counts = vec![vec![0.0f64; groups]; fitted.len()];
    for row in of.iter().map(|&i| &rows[i]) {
        sizes[row.group] = (sizes[row.group].0 + 1.0, row.spam);
        row.hits.iter().for_each(|&h| counts[h][row.group] += 1.0);
    }
    for (rule, counts) in fitted.iter_mut().zip(counts) {
        // Small sources are drawn towards nothing, so that one message does not decide; that no
        // message of a whole class was hit is worth what the size of the class makes it.
        let rate = |spam: bool| {
            let all: f64 = sizes.iter().filter(|s| s.1 == spam).map(|s| s.0).sum();
            let rates = counts.iter().zip(&sizes).filter(|(n, s)| s.1 == spam && **n > 0.0);
            rates.map(|(n, s)| (n + 0.25) / (s.0 + 60.0)).fold(0.1 / all.max(1.0), f64::max)
        };
        let hits: f64 = counts.iter().sum();
        let odds = (rate(true) / rate(false)).ln();
        if rule.expected < 0.0 {
            rule.least = -GOOD_POINTS_MAX;
            rule.most = -0.05;
        } else if hits == 0.0 {
            (rule.least, rule.most) = (rule.expected, rule.expected);
        } else {
            let most = odds.clamp(POINTS_MIN, POINTS_MAX);
            // Far above what its writer saw in it, a rule would fit this corpus only.
            (rule.least, rule.most) = (POINTS_MIN.min(most), most.min(rule.expected * 1.5));
        }
    }
}

/// Gradient descent within the bounds.
fn descend(fitted: &mut [Fitted], rows: &[Row], of: &[usize], args: &Args) {
    let clamp = |f: &mut Fitted| f.points = f.points.clamp(f.least, f.most.max(f.least));
    fitted.iter_mut().for_each(clamp);
    let mut squares = vec![1e-8f64; fitted.len()];
    for _ in 0..ROUNDS {
        let mut gradient: Vec<f64> =
            fitted.iter().map(|f| args.trust * (f.points - f.expected)).collect();
        for row in of.iter().map(|&i| &rows[i]) {
            let points: f64 = row.given + row.hits.iter().map(|&h| fitted[h].points).sum::<f64>();
            let probability = 1.0 / (1.0 + (args.middle - points).exp());
            let error = probability - f64::from(u8::from(row.spam));
            row.hits.iter().for_each(|&h| gradient[h] += row.weight * error);
        }
        for ((rule, gradient), square) in fitted.iter_mut().zip(gradient).zip(&mut squares) {
            *square += gradient * gradient;
            rule.points -= 10.0 * RATE * gradient / square.sqrt();
            clamp(rule);
        }
    }
}

/// The `score` lines of the rules whose points moved.
fn scores(fitted: &[Fitted]) -> String {
    let mut out = String::from(
        "# Points as `gauntlet rules fit` set them on labelled mail, for rules whose points moved from what\n\
         # their own file says. Do not edit; change the file of the rule and fit again.\n",
    );
    for rule in fitted.iter().filter(|f| (f.points - f.expected).abs() >= CHANGE_MIN) {
        out += &format!("score {} {:.2}\n", rule.name, rule.points);
    }
    out
}

/// A line for each rule: points before and after, hits in each group of the newest part.
fn print(
    out: &mut impl Write,
    fitted: &[Fitted],
    rows: &[Row],
    of: &[usize],
    groups: &[(String, bool)],
) -> io::Result<()> {
    let mut counts = vec![vec![0usize; groups.len()]; fitted.len()];
    let mut sizes = vec![0usize; groups.len()];
    for row in of.iter().map(|&i| &rows[i]) {
        sizes[row.group] += 1;
        row.hits.iter().for_each(|&h| counts[h][row.group] += 1);
    }
    let class = |spam: &bool| if *spam { "spam" } else { "ham" };
    for ((source, spam), size) in groups.iter().zip(&sizes) {
        writeln!(out, "{size:>6} newer {} of {source}", class(spam))?;
    }
    for (rule, counts) in fitted.iter().zip(&counts) {
        write!(out, "{:<28} {:>6.2} {:>6.2}", rule.name, rule.expected, rule.points)?;
        for ((source, spam), n) in groups.iter().zip(counts).filter(|c| *c.1 > 0) {
            write!(out, "  {source} {} {n}", class(spam))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(expected: f64) -> Fitted {
        Fitted { name: "R".into(), expected, points: expected, least: 0.0, most: 0.0 }
    }

    #[test]
    fn a_rule_that_hits_good_mail_gets_little_and_one_without_hits_keeps_its_points() {
        let row = |hits: &[usize], spam| Row {
            hits: hits.to_vec(),
            given: 0.0,
            spam,
            group: usize::from(spam),
            weight: 0.0,
        };
        let mut rows: Vec<Row> = (0..1000).map(|_| row(&[0, 1], true)).collect();
        rows.extend((0..1000).map(|_| row(&[1], false)));
        let of: Vec<usize> = (0..rows.len()).collect();
        let mut fitted = vec![rule(2.0), rule(2.0), rule(1.3)];
        set_weights(&mut rows, &of, 2);
        set_bounds(&mut fitted, &rows, &of, 2);
        let args = Args {
            corpus: CorpusArgs {
                lists: vec![],
                ham: vec![],
                spam: vec![],
                exclude_sources: vec![],
                exclude_bodies_of: vec![],
            },
            hold_out: 0,
            middle: 4.0,
            trust: 4.0,
            out: None,
        };
        descend(&mut fitted, &rows, &of, &args);
        assert!(fitted[0].points > 2.0, "{fitted:?}");
        assert!(fitted[1].points <= 0.11, "{fitted:?}");
        assert_eq!(fitted[2].points, 1.3);
        assert_eq!(scores(&fitted).lines().count(), 4, "two lines of words, two of points");
    }
}
