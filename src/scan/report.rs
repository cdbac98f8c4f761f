//! How a verdict is printed: a line of a table, a JSON line, or an explanation.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{self, IsTerminal};

use gauntlet_engine::unscannable;
use gauntlet_mail::{Defect, DefectKind, Evidence, Hit, Message, View};
use gauntlet_verdict::{Class, Counterfactual, DataLoss, FilterCost, ListedUrl, Verdict};
use serde::Serialize;

/// Bytes of text shown before and after a piece of evidence.
const CONTEXT_BYTES: usize = 40;
/// Rules named in a line of the table.
const RULES_IN_LINE_MAX: usize = 6;

/// One input, ready to be printed.
#[derive(Debug)]
pub(crate) struct Judged {
    /// What standard output gets.
    pub(crate) text: String,
    /// For standard error: why it could not be read.
    pub(crate) error: Option<String>,
    /// None if it could not be read.
    pub(crate) class: Option<Class>,
    /// Size of the message.
    pub(crate) bytes: u64,
}

/// Which of the forms.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// One JSON object a line.
    Json {
        /// With the time of each filter.
        costs: bool,
    },
    /// One line a message, for users.
    Table {
        /// Whether standard output is a terminal that shows colours.
        colour: bool,
    },
    /// The line form of SpamAssassin's oracle: score, hits with their scores, counts of all rules.
    Subtests,
    /// A paragraph a message.
    Explain {
        /// Whether standard output is a terminal that shows colours.
        colour: bool,
    },
}

/// The JSON line. `cost_us` is wall time of parse and scan in microseconds.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    class: Class,
    score: f64,
    hits: &'a [Hit],
    defects: &'a [Defect],
    cost_us: f64,
    probability: Option<f64>,
    counterfactuals: &'a [Counterfactual],
    bytes: usize,
    ruleset: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    sub: BTreeMap<&'a str, Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_loss: Option<&'a DataLoss>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    url_lists: &'a [ListedUrl],
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<&'a [FilterCost]>,
}

/// One message as the oracle prints it. A hit's score is the rule's, shown once however often it
/// hit.
#[derive(Serialize)]
pub(crate) struct SubtestsLine<'a> {
    file: &'a str,
    hits: BTreeMap<&'a str, Number>,
    score: Number,
    sub: BTreeMap<&'a str, Number>,
}

impl<'a> SubtestsLine<'a> {
    /// The line of this verdict.
    pub(crate) fn of(file: &'a str, verdict: &'a Verdict) -> Self {
        let once = |h: &'a Hit| (&*h.rule, Number(h.score / f64::from(h.count.max(1))));
        SubtestsLine {
            file,
            hits: verdict.hits.iter().map(once).collect(),
            score: Number(verdict.score),
            sub: verdict.sub.iter().map(|(rule, count)| (&**rule, Number(*count))).collect(),
        }
    }
}

/// A number to a thousandth, whole ones without a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rounded = (self.0 * 1e3).round() / 1e3 + 0.0;
        if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
            serializer.serialize_i64(rounded as i64)
        } else {
            serializer.serialize_f64(rounded)
        }
    }
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    file: &'a str,
    error: &'a str,
}

impl Style {
    /// Colours are for terminals, unless `NO_COLOR` is set.
    pub(crate) fn new(json: bool, costs: bool, explain: bool, subtests: bool) -> Self {
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        match (json, explain) {
            (true, _) => Style::Json { costs },
            (_, true) => Style::Explain { colour },
            _ if subtests => Style::Subtests,
            _ => Style::Table { colour },
        }
    }

    /// An input that could not be read.
    pub(crate) fn unreadable(self, name: &str, why: &str) -> Judged {
        let text = match self {
            Style::Json { .. } | Style::Subtests => json(&ErrorLine { file: name, error: why }),
            _ => String::new(),
        };
        Judged { text, error: Some(format!("{name}: {why}")), class: None, bytes: 0 }
    }

    /// A message that was judged.
    pub(crate) fn judged(
        self,
        name: &str,
        message: &Message<'_>,
        bytes: usize,
        verdict: &Verdict,
        cost_us: f64,
    ) -> Judged {
        let text = match self {
            Style::Json { costs } => json(&Line {
                file: name,
                class: verdict.class,
                score: verdict.score,
                hits: &verdict.hits,
                defects: &verdict.defects,
                cost_us: (cost_us * 10.0).round() / 10.0,
                probability: verdict.probability,
                counterfactuals: &verdict.counterfactuals,
                bytes,
                ruleset: &verdict.ruleset,
                sub: verdict.sub.iter().map(|(rule, count)| (&**rule, Number(*count))).collect(),
                data_loss: verdict.data_loss.as_ref(),
                url_lists: &verdict.url_lists,
                costs: costs.then_some(&verdict.costs),
            }),
            Style::Subtests => json(&SubtestsLine::of(name, verdict)),
            Style::Table { colour } => table_line(name, verdict, colour),
            Style::Explain { colour } => explanation(name, message, verdict, colour),
        };
        Judged { text, error: None, class: Some(verdict.class), bytes: bytes as u64 }
    }
}

fn json(line: &impl Serialize) -> String {
    // Our own types have no maps with keys that JSON could not hold.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

/// Control characters of the message must not reach the terminal.
fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

fn painted_class(class: Class, width: usize, colour: bool) -> String {
    let name = format!("{:width$}", class.name());
    if !colour {
        return name;
    }
    let code = match class {
        Class::Ham => "32",
        Class::Bulk => "36",
        Class::Suspect => "33",
        Class::Spam => "31",
        Class::Phishing | Class::Malware => "1;31",
        Class::Unscannable => "35",
    };
    format!("\x1b[{code}m{name}\x1b[0m")
}

/// `class  score  probability  file  rules`, the rules with most points first.
fn table_line(name: &str, verdict: &Verdict, colour: bool) -> String {
    let class = painted_class(verdict.class, 11, colour);
    let probability = verdict.probability.map_or_else(|| "-".into(), |p| format!("{p:.3}"));
    let mut line = format!("{class} {:7.2} {probability:>5}  {}", verdict.score, printable(name));
    let hits = by_points(&verdict.hits);
    for (i, hit) in hits.iter().take(RULES_IN_LINE_MAX).enumerate() {
        let _ = write!(line, "{}{}", if i == 0 { "  " } else { " " }, hit.rule);
    }
    if hits.len() > RULES_IN_LINE_MAX {
        let _ = write!(line, " +{}", hits.len() - RULES_IN_LINE_MAX);
    }
    line.push('\n');
    line
}

fn by_points(hits: &[Hit]) -> Vec<&Hit> {
    let mut hits: Vec<&Hit> = hits.iter().collect();
    hits.sort_by(|a, b| b.score.abs().total_cmp(&a.score.abs()).then(a.rule.cmp(&b.rule)));
    hits
}

fn explanation(name: &str, message: &Message<'_>, verdict: &Verdict, colour: bool) -> String {
    let mut out = format!(
        "{}: {}, score {:.2}",
        printable(name),
        painted_class(verdict.class, 0, colour),
        verdict.score
    );
    if let Some(probability) = verdict.probability {
        let _ = write!(out, ", probability {probability:.4}");
    }
    out.push('\n');
    for hit in by_points(&verdict.hits) {
        // What a model found is many reasons for one thing, not one thing many times.
        let is_repeated = hit.count > 1 && !hit.evidence.iter().any(|e| e.view == View::Feature);
        let count = if is_repeated { format!(" ({} times)", hit.count) } else { String::new() };
        let _ = writeln!(out, "  {:+6.2}  {}{count}: {}", hit.score, hit.rule, hit.description);
        for evidence in &hit.evidence {
            let _ = writeln!(out, "          {}", in_context(message, evidence, colour));
        }
    }
    for defect in &verdict.defects {
        let _ = write!(out, "  defect  {} in part {}", defect.kind.name(), defect.part);
        let detail = printable(&defect.detail);
        let _ = write!(out, "{}{detail}", if detail.is_empty() { "" } else { ": " });
        let _ = writeln!(out, "{}", effect(verdict, defect.kind));
    }
    for change in &verdict.counterfactuals {
        let rules = change.without.join(" and ");
        let _ = write!(out, "  would be {} without {rules}", change.class);
        let points = if change.points == 0.0 {
            String::new()
        } else {
            format!(" ({:+.2} points)", -change.points)
        };
        let _ = writeln!(out, "{points}");
    }
    let mut costs: Vec<_> = verdict.costs.iter().filter(|c| c.micros >= 1.0).collect();
    costs.sort_by(|a, b| b.micros.total_cmp(&a.micros));
    let costs: Vec<_> =
        costs.iter().take(5).map(|c| format!("{} {:.0} us", c.filter, c.micros)).collect();
    if !costs.is_empty() {
        let _ = writeln!(out, "  time    {}", costs.join(", "));
    }
    let _ = writeln!(out, "  ruleset {}", verdict.ruleset);
    out
}

/// What a defect did to the class: those that made a message unscannable are named by what would
/// have changed it.
fn effect(verdict: &Verdict, kind: DefectKind) -> String {
    let name = kind.name();
    let is_cause = verdict.class == Class::Unscannable
        && verdict.counterfactuals.iter().any(|change| change.without.iter().any(|w| **w == *name));
    match unscannable::reason(kind) {
        _ if !is_cause => String::new(),
        Some(reason) => format!("; makes it unscannable: {reason}"),
        None => "; makes it unscannable".to_owned(),
    }
}

/// Where the evidence is, and its text between what stands before and after it. A feature is a
/// sentence of ours and stands nowhere.
fn in_context(message: &Message<'_>, evidence: &Evidence, colour: bool) -> String {
    if evidence.view == View::Feature && !evidence.text.is_empty() {
        return printable(&evidence.text).into_owned();
    }
    let place = match (&evidence.name, evidence.part) {
        (Some(name), part) if evidence.view == View::Html => {
            format!("HTML of part {part} ({})", printable(name))
        }
        (Some(name), 0) => format!("{} {name}", view_name(evidence.view)),
        (Some(name), part) => format!("{} {name} of part {part}", view_name(evidence.view)),
        (None, part) => format!("{} of part {part}", view_name(evidence.view)),
    };
    // Some evidence is a place, or a count: there is nothing to quote.
    if evidence.length == 0 {
        return place;
    }
    let (open, close) = if colour { ("\x1b[1;33m", "\x1b[0m") } else { ("\u{ab}", "\u{bb}") };
    let matched = printable(&evidence.text);
    let (before, after) = view_text(message, evidence)
        .and_then(|text| surroundings(&text, evidence))
        .unwrap_or_default();
    let (before, after) = (printable(&before), printable(&after));
    format!("{place}, byte {}: {before}{open}{matched}{close}{after}", evidence.offset)
}

fn view_name(view: View) -> &'static str {
    match view {
        View::Envelope => "envelope",
        View::Header => "field",
        View::Text => "text",
        View::Html => "HTML",
        View::Url => "URL",
        View::Attachment => "attachment",
        View::Body => "bytes",
        View::Raw => "raw message",
        View::Object => "file",
        View::Facts => "fact",
        View::SaBody => "body view",
        View::SaRawbody => "rawbody view",
        View::Meta => "operand",
        View::Feature => "feature",
    }
}

/// The text that the evidence's offset counts in, where this can be shown.
fn view_text<'m>(message: &'m Message<'_>, evidence: &Evidence) -> Option<Cow<'m, str>> {
    let part = message.parts().get(usize::from(evidence.part))?;
    match evidence.view {
        View::Header => {
            part.header(evidence.name.as_deref()?).map(|h| Cow::Owned(h.decoded().into_owned()))
        }
        View::Html => part.text().map(Cow::Borrowed),
        View::Text => part.shown_text().map(Cow::Borrowed),
        View::Raw => Some(String::from_utf8_lossy(message.raw())),
        _ => None,
    }
}

/// What stands before and after the evidence, if the text really holds it there.
fn surroundings(text: &str, evidence: &Evidence) -> Option<(String, String)> {
    let start = usize::try_from(evidence.offset).ok()?;
    let end = start.checked_add(evidence.text.len())?;
    if text.get(start..end)? != evidence.text {
        return None;
    }
    let from = (start.saturating_sub(CONTEXT_BYTES)..=start).find(|&i| text.is_char_boundary(i))?;
    let to =
        (end..=text.len().min(end + CONTEXT_BYTES)).rev().find(|&i| text.is_char_boundary(i))?;
    Some((text[from..start].to_owned(), text[end..to].to_owned()))
}
