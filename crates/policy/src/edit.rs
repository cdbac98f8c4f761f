//! Changing a policy's text rule by rule: what a form needs. Everything else in the text, comments
//! between the rules included, stays as its author wrote it.

use std::ops::Range;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use crate::check;
use crate::file::{PolicyError, line_of};

/// A rule in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Its name.
    pub name: String,
    /// Line of its head, from 1.
    pub line: usize,
    /// Bytes of the text that belong to it, the comment right above included.
    range: Range<usize>,
    /// Where its head begins.
    head: usize,
    /// The rule as data.
    table: Table,
}

#[derive(Deserialize)]
struct Shape {
    #[serde(default)]
    group: Vec<Spanned<Table>>,
    #[serde(default)]
    rule: Vec<Spanned<Table>>,
}

/// The rules of a text, in order; those that are switched off, too.
///
/// # Errors
/// If the text is no TOML.
pub fn blocks(text: &str) -> Result<Vec<Block>, PolicyError> {
    let shape: Shape = toml::from_str(text).map_err(|e| PolicyError::Syntax {
        line: e.span().map_or(1, |s| line_of(text, s.start)),
        message: check::with_nearest(e.message()),
    })?;
    let start_of_line = |at: usize| text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |n| n + 1);
    let starts = |all: &[Spanned<Table>]| -> Vec<usize> {
        all.iter().map(|t| start_of_line(t.span().start)).collect()
    };
    let (rules, groups) = (starts(&shape.rule), starts(&shape.group));
    let mut bounds: Vec<usize> =
        rules.iter().chain(&groups).map(|head| with_comment(text, *head)).collect();
    bounds.push(text.len());
    bounds.sort_unstable();
    let block = |(head, table): (&usize, Spanned<Table>)| {
        let start = with_comment(text, *head);
        let next = bounds.iter().copied().find(|b| *b > start).unwrap_or(text.len());
        let end = without_remarks(text, *head, next);
        let table = table.into_inner();
        let name = table.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Block { name, line: line_of(text, *head), range: start..end, head: *head, table }
    };
    Ok(rules.iter().zip(shape.rule).map(block).collect())
}

/// Where the lines of comment that stand right above this line begin.
fn with_comment(text: &str, head: usize) -> usize {
    let mut start = head;
    for line in text.get(..head).unwrap_or_default().split_inclusive('\n').rev() {
        if !line.trim_start().starts_with('#') {
            break;
        }
        start -= line.len();
    }
    start
}

/// Where the last line between these places ends that is neither empty nor a comment.
fn without_remarks(text: &str, from: usize, mut end: usize) -> usize {
    for line in text.get(from..end).unwrap_or_default().split_inclusive('\n').rev() {
        let code = line.trim();
        if !code.is_empty() && !code.starts_with('#') {
            break;
        }
        end -= line.len();
    }
    end
}

impl Block {
    /// The rule is in force.
    pub fn enabled(&self) -> bool {
        self.table.get("enabled").and_then(Value::as_bool).unwrap_or(true)
    }

    /// Its direction: `inbound`, `outbound`, `both`.
    pub fn direction(&self) -> &str {
        self.table.get("direction").and_then(Value::as_str).unwrap_or("both")
    }

    /// Its conditions, on one line; empty if it matches always.
    pub fn when(&self) -> String {
        self.table.get("when").map(ToString::to_string).unwrap_or_default()
    }

    /// What it does, on one line.
    pub fn actions(&self) -> String {
        self.table.get("do").map(ToString::to_string).unwrap_or_default()
    }
}

/// The text without one of its rules, and without the empty lines after it.
pub fn without(text: &str, block: &Block) -> String {
    let after = text.get(block.range.end..).unwrap_or_default();
    let gap = after.len() - after.trim_start_matches(['\n', '\r']).len();
    spliced(text, block.range.start..block.range.end + gap, "")
}

/// The text with a rule put in before the block, or at the end.
pub fn with_rule_before(text: &str, before: Option<&Block>, rule: &str) -> String {
    match before {
        Some(block) => {
            let at = block.range.start;
            spliced(text, at..at, &format!("{}\n\n", rule.trim_end()))
        }
        None => {
            let gap = if text.is_empty() { "" } else { "\n" };
            format!("{}\n{gap}{}\n", text.trim_end(), rule.trim_end()).trim_start().to_owned()
        }
    }
}

/// The text with a rule in another's place; comments above and below stay.
pub fn with_rule_instead(text: &str, block: &Block, rule: &str) -> String {
    spliced(text, block.head..block.range.end, &format!("{}\n", rule.trim_end()))
}

/// The text with two rules, that follow each other, changed in their places.
pub fn with_swapped(text: &str, first: &Block, second: &Block) -> String {
    let piece = |block: &Block| text.get(block.range.clone()).unwrap_or_default().trim_end();
    let between = text.get(first.range.end..second.range.start).unwrap_or_default();
    let swapped = format!("{}\n{between}{}\n", piece(second), piece(first));
    spliced(text, first.range.start..second.range.end, &swapped)
}

/// The text with a rule switched on or off.
pub fn with_switched(text: &str, block: &Block) -> String {
    let body = text.get(block.head..block.range.end).unwrap_or_default();
    // Only the line that says so is changed.
    let mut lines: Vec<&str> = body.split_inclusive('\n').collect();
    let is_it = |l: &str| l.trim_start().starts_with("enabled") && l.contains('=');
    match lines.iter().position(|l| is_it(l)) {
        Some(at) => {
            lines.remove(at);
        }
        None => lines.insert(1.min(lines.len()), "enabled = false\n"),
    }
    spliced(text, block.head..block.range.end, &lines.concat())
}

fn spliced(text: &str, range: Range<usize>, piece: &str) -> String {
    let (before, after) = (text.get(..range.start), text.get(range.end..));
    format!("{}{piece}{}", before.unwrap_or_default(), after.unwrap_or_default())
}

/// Conditions that a form has fields for, lists of words all of them.
pub const LIST_FIELDS: [(&str, &str); 10] = [
    ("class", "Class"),
    ("sender", "Envelope sender"),
    ("from", "From address"),
    ("recipient", "Recipient"),
    ("subject", "Subject"),
    ("url_host", "Host of a link"),
    ("hit", "Rule that hit"),
    ("country", "Country of the client"),
    ("sender_group", "Group of the sender"),
    ("recipient_group", "Group of the recipient"),
];

/// Ends of a rule, and whether they take a word or a text.
pub const ENDS: [(&str, bool); 8] = [
    ("deliver", false),
    ("spam_folder", false),
    ("quarantine", true),
    ("hold", true),
    ("redirect", true),
    ("reject", true),
    ("defer", true),
    ("discard", false),
];

/// A rule as a form shows it. What a form has no field for stays TOML.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleForm {
    /// Its name.
    pub name: String,
    /// `inbound`, `outbound` or `both`.
    pub direction: String,
    /// It is in force.
    pub enabled: bool,
    /// Words of the [`LIST_FIELDS`], in their order, separated by commas.
    pub lists: [String; LIST_FIELDS.len()],
    /// Points, at least.
    pub score_min: String,
    /// Size, at least: `10 MB`.
    pub size_min: String,
    /// Names of attachments, separated by commas: `*.exe`.
    pub attachment: String,
    /// Further conditions, TOML: `time = { ... }`.
    pub more_when: String,
    /// One of [`ENDS`]; empty if the rule decides nothing.
    pub end: String,
    /// Folder, addresses or text of the end.
    pub end_text: String,
    /// Tag before the subject.
    pub tag_subject: String,
    /// Further actions, a TOML list: `["dkim_sign", { copy = "a@example.org" }]`.
    pub more_do: String,
    /// `true`, `false`, or empty for what follows from the end.
    pub stop: String,
    /// Who may release what is held: `user`, `admin`, or empty to leave it to the folder.
    pub release: String,
}

impl RuleForm {
    /// An empty form of a rule that would be in force.
    pub fn new() -> Self {
        RuleForm { enabled: true, direction: "inbound".to_owned(), ..RuleForm::default() }
    }

    /// A rule that is there.
    pub fn of(block: &Block) -> Self {
        let table = &block.table;
        let mut form = RuleForm {
            name: block.name.clone(),
            direction: block.direction().to_owned(),
            enabled: block.enabled(),
            stop: table.get("stop").map(ToString::to_string).unwrap_or_default(),
            release: table.get("release").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ..RuleForm::default()
        };
        if let Some(Value::Table(when)) = table.get("when") {
            form.read_when(when.clone());
        }
        let actions = match table.get("do") {
            Some(Value::Array(actions)) => actions.clone(),
            Some(one) => vec![one.clone()],
            None => Vec::new(),
        };
        form.read_actions(actions);
        form
    }

    fn read_when(&mut self, mut when: Table) {
        for (place, (name, _)) in self.lists.iter_mut().zip(LIST_FIELDS) {
            if let Some(words) = when.get(name).and_then(words) {
                *place = words;
                when.remove(name);
            }
        }
        for (place, name) in [(&mut self.score_min, "score_min"), (&mut self.size_min, "size_min")]
        {
            match when.get(name) {
                Some(Value::String(text)) => *place = text.clone(),
                Some(number @ (Value::Integer(_) | Value::Float(_))) => *place = number.to_string(),
                _ => continue,
            }
            when.remove(name);
        }
        if let Some(Value::Table(attachment)) = when.get("attachment")
            && attachment.len() == 1
            && let Some(words) = attachment.get("name").and_then(words)
        {
            self.attachment = words;
            when.remove("attachment");
        }
        let line = |(key, value): (&String, &Value)| format!("{key} = {value}\n");
        self.more_when = when.iter().map(line).collect();
    }

    fn read_actions(&mut self, actions: Vec<Value>) {
        let mut rest = Vec::new();
        for action in actions {
            let (name, argument) = match &action {
                Value::String(name) => (name.clone(), None),
                Value::Table(table) if table.len() == 1 => match table.iter().next() {
                    Some((name, value)) => (name.clone(), words(value)),
                    None => (String::new(), None),
                },
                _ => (String::new(), None),
            };
            let end = ENDS.iter().find(|(end, _)| *end == name);
            match (end, argument) {
                (Some((end, takes)), argument) if *takes == argument.is_some() => {
                    self.end = (*end).to_owned();
                    self.end_text = argument.unwrap_or_default();
                }
                (_, Some(tag)) if name == "tag_subject" && self.tag_subject.is_empty() => {
                    self.tag_subject = tag;
                }
                _ => rest.push(action),
            }
        }
        if !rest.is_empty() {
            self.more_do = Value::Array(rest).to_string();
        }
    }

    /// The rule as TOML.
    ///
    /// # Errors
    /// What is wrong with a field that is TOML, or a number.
    pub fn to_toml(&self) -> Result<String, String> {
        let mut out = format!("[[rule]]\nname = {}\n", quoted(&self.name));
        if !self.enabled {
            out.push_str("enabled = false\n");
        }
        if ["inbound", "outbound"].contains(&self.direction.as_str()) {
            out.push_str(&format!("direction = {}\n", quoted(&self.direction)));
        }
        for (value, (name, _)) in self.lists.iter().zip(LIST_FIELDS) {
            push_words(&mut out, &format!("when.{name}"), value);
        }
        if !self.score_min.trim().is_empty() {
            let score: f64 = self
                .score_min
                .trim()
                .parse()
                .map_err(|_| format!("points: {:?} is no number", self.score_min))?;
            out.push_str(&format!("when.score_min = {score:?}\n"));
        }
        if !self.size_min.trim().is_empty() {
            out.push_str(&format!("when.size_min = {}\n", quoted(self.size_min.trim())));
        }
        push_words(&mut out, "when.attachment.name", &self.attachment);
        let more: Table = toml::from_str(&self.more_when)
            .map_err(|e| format!("further conditions: {}", e.message()))?;
        for (key, value) in &more {
            out.push_str(&format!("when.{key} = {value}\n"));
        }
        out.push_str(&format!("do = {}\n", self.actions()?));
        if !self.release.is_empty() {
            out.push_str(&format!("release = {}\n", quoted(&self.release)));
        }
        if ["true", "false"].contains(&self.stop.as_str()) {
            out.push_str(&format!("stop = {}\n", self.stop));
        }
        Ok(out)
    }

    fn actions(&self) -> Result<Value, String> {
        let mut actions = Vec::new();
        let with =
            |name: &str, value: Value| Value::Table(Table::from_iter([(name.to_owned(), value)]));
        if !self.tag_subject.is_empty() {
            actions.push(with("tag_subject", Value::String(self.tag_subject.clone())));
        }
        if !self.more_do.trim().is_empty() {
            let holder: Table = toml::from_str(&format!("do = {}", self.more_do.trim()))
                .map_err(|e| format!("further actions: {}", e.message()))?;
            match holder.get("do") {
                Some(Value::Array(more)) if holder.len() == 1 => actions.extend(more.clone()),
                _ => return Err("further actions: a list in brackets is expected".to_owned()),
            }
        }
        match ENDS.iter().find(|(name, _)| *name == self.end) {
            Some((name, false)) => actions.push(Value::String((*name).to_owned())),
            Some((name, true)) => {
                let text = self.end_text.trim();
                if text.is_empty() {
                    return Err(format!("{name}: a folder, address or text is missing"));
                }
                let value = match *name {
                    "redirect" => {
                        Value::Array(split(text).map(|w| Value::String(w.to_owned())).collect())
                    }
                    _ => Value::String(text.to_owned()),
                };
                actions.push(with(name, value));
            }
            None => {}
        }
        match actions.len() {
            0 => Err("the rule does nothing: choose an end or an action".to_owned()),
            1 => Ok(actions.remove(0)),
            _ => Ok(Value::Array(actions)),
        }
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|w| !w.is_empty())
}

/// A word or a list of words, separated by commas; none if it is something else, or commas would not
/// tell the words apart.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(word) => Some(word.clone()),
        Value::Array(all) => {
            let all: Option<Vec<&str>> =
                all.iter().map(|w| w.as_str().filter(|w| !w.contains(','))).collect();
            Some(all?.join(", "))
        }
        _ => None,
    }
}

fn push_words(out: &mut String, key: &str, text: &str) {
    let all: Vec<String> = split(text).map(quoted).collect();
    match all.as_slice() {
        [] => {}
        [one] => out.push_str(&format!("{key} = {one}\n")),
        many => out.push_str(&format!("{key} = [{}]\n", many.join(", "))),
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Groups, Policy};

    const TEXT: &str = "\
# The whole company.

[[group]]
name = \"board\"
members = [\"ann@example.org\"]

# Nobody opens these.
# Ever.
[[rule]]
name = \"Programs\"
direction = \"inbound\"
when = { attachment = { name = [\"*.exe\", \"*.scr\"] }, not = { sender_group = \"board\" } }
do = [{ tag_subject = \"[PROGRAM]\" }, { add_header = { name = \"X-A\", value = \"b\" } }, { hold = \"programs\" }]

[[rule]]
name = \"Rest\"
do = \"deliver\" # all else
";

    #[test]
    fn every_rule_of_the_default_policy_survives_the_form() {
        let meaning = |text: &str| {
            let mut policy = Policy::parse(text, &Groups::default()).unwrap();
            policy.warnings.clear();
            policy.rules.iter_mut().for_each(|r| r.line = 0);
            policy
        };
        let text = Policy::DEFAULT;
        let mut now = text.to_owned();
        for n in 0..blocks(text).unwrap().len() {
            let block = &blocks(&now).unwrap()[n];
            let toml = RuleForm::of(block).to_toml().unwrap();
            now = with_rule_instead(&now, block, &toml);
        }
        assert_eq!(meaning(&now), meaning(text));
        let comments = |t: &str| t.lines().filter(|l| l.starts_with('#')).count();
        assert_eq!(comments(&now), comments(text), "comments above rules stay");
    }

    #[test]
    fn rules_move_and_go_with_their_comments() {
        let all = blocks(TEXT).unwrap();
        let names: Vec<&str> = all.iter().map(|b| b.name.as_str()).collect();
        assert_eq!((names, all[0].line), (vec!["Programs", "Rest"], 9));
        let swapped = with_swapped(TEXT, &all[0], &all[1]);
        assert!(
            swapped.find("Rest").unwrap() < swapped.find("# Nobody opens").unwrap(),
            "{swapped}"
        );
        assert!(swapped.ends_with("{ hold = \"programs\" }]\n"), "{swapped:?}");
        let again = blocks(&swapped).unwrap();
        assert_eq!(with_swapped(&swapped, &again[0], &again[1]), TEXT);
        let gone = without(TEXT, &all[0]);
        assert!(!gone.contains("Ever.") && gone.contains("[[group]]"), "{gone}");
        let off = with_switched(TEXT, &all[1]);
        assert!(!blocks(&off).unwrap()[1].enabled() && off.contains("# all else"));
        assert_eq!(with_switched(&off, &blocks(&off).unwrap()[1]), TEXT);
        let first =
            with_rule_before(TEXT, Some(&all[0]), "[[rule]]\nname = \"New\"\ndo = \"discard\"\n");
        assert_eq!(blocks(&first).unwrap()[0].name, "New");
        assert!(
            first.contains("\n\n# Nobody opens these.\n# Ever.\n[[rule]]\nname = \"Programs\"")
        );
        let last = with_rule_before(TEXT, None, "[[rule]]\nname = \"New\"\ndo = \"discard\"\n");
        assert_eq!(blocks(&last).unwrap()[2].name, "New");
    }

    #[test]
    fn a_form_holds_what_it_can_and_leaves_the_rest() {
        let form = RuleForm::of(&blocks(TEXT).unwrap()[0]);
        assert_eq!((form.attachment.as_str(), form.end.as_str()), ("*.exe, *.scr", "hold"));
        assert_eq!((form.end_text.as_str(), form.tag_subject.as_str()), ("programs", "[PROGRAM]"));
        assert!(
            form.more_when.contains("not = ") && form.more_do.contains("add_header"),
            "{form:?}"
        );
        for (wrong, why) in [
            (RuleForm { score_min: "many".into(), ..form.clone() }, "points"),
            (RuleForm { more_when: "x".into(), ..form.clone() }, "further conditions"),
            (RuleForm { more_do: "\"x\"".into(), ..form.clone() }, "brackets"),
            (RuleForm { more_do: "[]\nstop = true".into(), ..form.clone() }, "brackets"),
            (RuleForm { end_text: " ".into(), ..form.clone() }, "hold"),
            (RuleForm::default(), "does nothing"),
        ] {
            let error = wrong.to_toml().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(blocks("[[rule]\n").is_err());
    }
}
