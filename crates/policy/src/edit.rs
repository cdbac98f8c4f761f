//! Changing a policy's text rule by rule: what a form needs. Everything else in the text, comments
//! between the rules included, stays as its author wrote it.

mod form;

use std::ops::Range;

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use crate::file::line_of;
use crate::finding::PolicyError;
use crate::suggestion::with_nearest;

pub use self::form::{ENDS, FormError, LIST_FIELDS, RuleForm};

/// A rule in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Name of the rule.
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
    /// Not edited here, but they end what stands before them.
    #[serde(default)]
    web_rule: Vec<Spanned<Table>>,
    #[serde(default)]
    web_quota: Vec<Spanned<Table>>,
}

/// The rules of a text, in order; those that are switched off, too.
///
/// # Errors
/// If the text is no TOML.
pub fn blocks(text: &str) -> Result<Vec<Block>, PolicyError> {
    let shape: Shape = toml::from_str(text).map_err(|e| PolicyError::Syntax {
        line: e.span().map_or(1, |s| line_of(text, s.start)),
        message: with_nearest(e.message()),
    })?;
    let start_of_line = |at: usize| text.get(..at).and_then(|t| t.rfind('\n')).map_or(0, |n| n + 1);
    let starts = |all: &[Spanned<Table>]| -> Vec<usize> {
        all.iter().map(|t| start_of_line(t.span().start)).collect()
    };
    let rules = starts(&shape.rule);
    let others = [starts(&shape.group), starts(&shape.web_rule), starts(&shape.web_quota)].concat();
    let mut bounds: Vec<usize> =
        rules.iter().chain(&others).map(|head| with_comment(text, *head)).collect();
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
            policy.web.iter_mut().for_each(|r| r.line = 0);
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
    fn quotas_and_web_rules_between_rules_stay() {
        let web = "# Not all day.\n[[web_quota]]\nname = \"Q\"\nminutes = 5\n\n\
                   [[web_rule]]\nname = \"W\"\nwhen.quota = \"Q\"\ndo = { block = \"x\" }\n\n";
        let text =
            TEXT.replace("[[rule]]\nname = \"Rest\"", &format!("{web}[[rule]]\nname = \"Rest\""));
        for n in 0..2 {
            let block = &blocks(&text).unwrap()[n];
            let toml = RuleForm::of(block).to_toml().unwrap();
            for changed in [
                with_rule_instead(&text, block, &toml),
                without(&text, block),
                with_switched(&text, block),
                with_rule_before(&text, Some(block), "[[rule]]\nname = \"N\"\ndo = \"discard\""),
            ] {
                assert!(changed.contains(web), "{changed}");
                let policy = Policy::parse(&changed, &Groups::default()).unwrap();
                assert_eq!((policy.web.len(), policy.web_quotas.len()), (1, 1));
            }
        }
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
            let error = wrong.to_toml().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(blocks("[[rule]\n").is_err());
    }
}
