//! Fits the weights of `fusion.rs` on labelled mail, and prints the probabilities that good mail
//! reaches as seldom as the classes promise.
//!
//! ```text
//! cargo run --release -p gauntlet-engine --example fit_fusion -- --train EARLY.tsv ... LATE.tsv
//! ...
//! ```
//!
//! `--signals FILE` takes what `gauntlet evaluate --verdicts --hold-out 30 --signals FILE` wrote
//! instead of mail: the weights are fitted on the older half of each source and label, and what
//! they come to is shown on the newer half, which had no say.
//!
//! `--model FILE` takes a model of `gauntlet train` instead. The model must be one that has not
//! seen the late mail; the weights are then right for one that is made in the same way of all mail.
//! A list names a message a line, `label<TAB>path` or `label path`, relative to the list's folder.
//! The fit is logistic regression by Newton's method on rule points (bounded) and the classifier's
//! and the signatures' log odds; a signal that no filter gives keeps the weight 0. Each label
//! weighs the same, so that the intercept is that of a stream of half good mail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_engine::classifier::training::{self, Example, Recipe};
use gauntlet_engine::classifier::{ClassifierScratch, Model};
use gauntlet_engine::fusion::{Signals, Weights, classify};
use gauntlet_engine::scan::weigh;
use gauntlet_engine::{Scratch, Settings, Snapshot};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_verdict::Class;

/// Intercept, points, points of phishing rules, classifier, signatures.
const TERMS: usize = 5;
const ROUNDS: usize = 30;
/// Keeps weights finite where a signal separates the labels completely.
const RIDGE: f64 = 1.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from).peekable();
    if args.next_if(|a| a.as_os_str() == "--signals").is_some() {
        let (older, newer) = halves(&args.next().ok_or("--signals needs a file")?)?;
        let weights = fit(&older);
        show(&older, &weights);
        eprintln!("the newer half, {} messages:", newer.len());
        report(&newer, &weights);
        return Ok(());
    }
    let mut settings = Settings::default();
    if args.next_if(|a| a.as_os_str() == "--model").is_some() {
        let path = args.next().ok_or("--model needs a file")?;
        settings.model = Some(Arc::new(Model::from_bytes(&std::fs::read(path)?)?));
    }
    let mut early = Vec::new();
    while args.next_if(|a| a.as_os_str() == "--train").is_some() {
        early.push(args.next().ok_or("--train needs a list")?);
    }
    if !early.is_empty() {
        settings.model = Some(Arc::new(train(&early)?));
    }
    let snapshot = Snapshot::build(&settings)?;
    let mut rows = Vec::new();
    for list in args {
        let classes = read(&list, &snapshot, &mut rows)?;
        eprintln!("{} with the weights and thresholds that ship:", list.display());
        for ((label, class), count) in classes {
            eprintln!("  {label:4} {class:11} {count:6}");
        }
    }
    if !rows.iter().any(|r| r.1) || !rows.iter().any(|r| !r.1) {
        return Err("usage: fit_fusion LIST... with messages of both labels".into());
    }
    let weights = fit(&rows);
    show(&rows, &weights);
    report(&rows, &weights);
    Ok(())
}

fn show(rows: &[Row], weights: &[f64; TERMS]) {
    eprintln!("{} messages", rows.len());
    for (name, weight) in
        ["intercept", "rule_points", "phishing_points", "classifier", "signatures"]
            .iter()
            .zip(weights)
    {
        eprintln!("{name:12} {weight:8.4}");
    }
}

/// Rows of a file of signals, the older and the newer half of each source and label.
fn halves(path: &Path) -> Result<(Vec<Row>, Vec<Row>), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut by_class: BTreeMap<(&str, &str), Vec<(i64, Row)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [label, source, date, points, classifier, signatures, _, phishing, forced, ..] =
            columns[..]
        else {
            return Err(format!("not a line of signals: {line}").into());
        };
        // Mail that is certain is not weighed, and says nothing about the weights.
        if !forced.is_empty() {
            continue;
        }
        let signals = Signals {
            rule_points: points.parse()?,
            phishing_points: phishing.parse()?,
            classifier: Some(classifier.parse()?),
            signatures: Some(signatures.parse()?),
            ..Signals::default()
        };
        let row = (terms(&signals), label == "spam");
        by_class.entry((source, label)).or_default().push((date.parse()?, row));
    }
    let (mut older, mut newer) = (Vec::new(), Vec::new());
    for mut rows in by_class.into_values() {
        rows.sort_by_key(|r| r.0);
        let late = rows.split_off(rows.len().div_ceil(2));
        older.extend(rows.into_iter().map(|r| r.1));
        newer.extend(late.into_iter().map(|r| r.1));
    }
    Ok((older, newer))
}

/// A model of these lists, each a source, calibrated on every seventh message by one that has not
/// seen those.
fn train(lists: &[PathBuf]) -> Result<Model, Box<dyn std::error::Error>> {
    let recipe = Recipe::default();
    let mut scratch = ClassifierScratch::default();
    let mut examples = Vec::new();
    for (list, source) in lists.iter().zip(0u16..) {
        let folder = list.parent().unwrap_or(Path::new("."));
        for line in std::fs::read_to_string(list)?.lines() {
            let Some((label, path)) = line.split_once(['\t', ' ']) else { continue };
            scratch.read(&Message::parse(&std::fs::read(folder.join(path))?));
            examples.push(Example::new(&scratch, label == "spam", source));
        }
    }
    let (unseen, mut seen): (Vec<_>, Vec<_>) =
        examples.iter().cloned().enumerate().partition(|(i, _)| i % 7 == 0);
    let mut seen: Vec<Example> = seen.drain(..).map(|e| e.1).collect();
    let trial = training::train(&mut seen, &recipe, String::new());
    let scores =
        unseen.iter().map(|(_, e)| (trial.raw_logit_of(e.features(), e.ends()), e.spam, e.weight));
    let (slope, offset) = training::calibrate(&scores.collect::<Vec<_>>());
    Ok(training::train(&mut examples, &recipe, String::new()).calibrated(slope, offset))
}

type Row = ([f64; TERMS], bool);

fn read(
    list: &Path,
    snapshot: &Snapshot,
    rows: &mut Vec<Row>,
) -> Result<BTreeMap<(String, Class), usize>, Box<dyn std::error::Error>> {
    let folder = list.parent().unwrap_or(Path::new("."));
    let mut scratch = Scratch::default();
    let mut classes = BTreeMap::new();
    for line in std::fs::read_to_string(list)?.lines() {
        let Some((label, path)) = line.split_once(['\t', ' ']) else { continue };
        let path = path.split('\t').next().unwrap_or_default();
        if label != "spam" && label != "ham" {
            continue;
        }
        let raw = std::fs::read(folder.join(path))?;
        let message = Message::parse(&raw);
        let (envelope, facts) = (Envelope::default(), Facts::default());
        let signals = weigh(&message, &envelope, &facts, snapshot, &mut scratch);
        let class = classify(&signals, snapshot.fusion.as_ref(), &snapshot.thresholds).class;
        *classes.entry((label.to_owned(), class)).or_default() += 1;
        // Mail that is certain is not weighed, and says nothing about the weights.
        if signals.forced_class.is_none() {
            rows.push((terms(&signals), label == "spam"));
        }
    }
    Ok(classes)
}

fn terms(signals: &Signals) -> [f64; TERMS] {
    let max = Weights::default().points_max;
    let (phishing, all) = (signals.phishing_points, signals.rule_points);
    let points = (all - phishing).clamp(-max, max);
    let classifier = signals.classifier.unwrap_or(0.0);
    [1.0, points, phishing.clamp(-max, max), classifier, signals.signatures.unwrap_or(0.0)]
}

fn probability(weights: &[f64; TERMS], terms: &[f64; TERMS]) -> f64 {
    let odds: f64 = weights.iter().zip(terms).map(|(w, t)| w * t).sum();
    1.0 / (1.0 + (-odds).exp())
}

fn fit(rows: &[Row]) -> [f64; TERMS] {
    let spam = rows.iter().filter(|r| r.1).count() as f64;
    let half = rows.len() as f64 / 2.0;
    let (spam_weight, ham_weight) = (half / spam, half / (rows.len() as f64 - spam));
    let mut weights = [0.0; TERMS];
    for _ in 0..ROUNDS {
        let (mut gradient, mut hessian) = ([0.0; TERMS], [[0.0; TERMS]; TERMS]);
        for (terms, spam) in rows {
            let p = probability(&weights, terms);
            let (importance, label) = if *spam { (spam_weight, 1.0) } else { (ham_weight, 0.0) };
            for i in 0..TERMS {
                gradient[i] += importance * (label - p) * terms[i];
                for j in 0..TERMS {
                    hessian[i][j] += importance * p * (1.0 - p) * terms[i] * terms[j];
                }
            }
        }
        for i in 0..TERMS {
            gradient[i] -= RIDGE * weights[i];
            hessian[i][i] += RIDGE;
        }
        let step = solve(hessian, gradient);
        for (weight, step) in weights.iter_mut().zip(step) {
            *weight += step;
        }
    }
    weights
}

/// Gauss elimination; the matrix is positive definite by its ridge, so no pivot is zero.
fn solve(mut a: [[f64; TERMS]; TERMS], mut b: [f64; TERMS]) -> [f64; TERMS] {
    for i in 0..TERMS {
        for j in i + 1..TERMS {
            let factor = a[j][i] / a[i][i];
            let pivot = a[i];
            for (cell, above) in a[j].iter_mut().zip(pivot) {
                *cell -= factor * above;
            }
            b[j] -= factor * b[i];
        }
    }
    let mut x = [0.0; TERMS];
    for i in (0..TERMS).rev() {
        let known: f64 = (i + 1..TERMS).map(|j| a[i][j] * x[j]).sum();
        x[i] = (b[i] - known) / a[i][i];
    }
    x
}

/// The probability and the points that a share of good mail reaches, and what share of spam does.
fn report(rows: &[Row], weights: &[f64; TERMS]) {
    type Measure<'m> = &'m dyn Fn(&[f64; TERMS]) -> f64;
    let values = |spam: bool, of: Measure<'_>| {
        let mut all: Vec<f64> = rows.iter().filter(|r| r.1 == spam).map(|r| of(&r.0)).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let by_probability = |terms: &[f64; TERMS]| probability(weights, terms);
    let by_points = |terms: &[f64; TERMS]| terms[1] + terms[2];
    let measures: [(&str, Measure<'_>); 2] =
        [("probability", &by_probability), ("points", &by_points)];
    for (name, of) in measures {
        let (ham, spam) = (values(false, of), values(true, of));
        for share in [0.01, 0.001, 0.0001] {
            let at = ((1.0 - share) * ham.len() as f64) as usize;
            let value = ham[at.min(ham.len() - 1)];
            let caught = spam.iter().filter(|v| **v > value).count();
            let percent = 100.0 * caught as f64 / spam.len() as f64;
            eprintln!(
                "{share:7} of good mail reaches {name} {value:.6}; {percent:.2} % of spam does"
            );
        }
    }
}
