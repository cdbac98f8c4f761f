//! Reads rules.
//!
//! ```text
//! file -> lines -> text::cut -> header -> Draft <- table::read <- options
//!                                           |
//!                                  check, choice, build -> Rule -> order
//! ```

mod build;
mod bytes;
mod certificate;
mod check;
mod choice;
mod classes;
mod content;
mod country;
mod dataset;
mod draft;
mod events;
mod files;
mod floor;
mod head;
mod ip_names;
mod keyword;
pub(crate) mod limits;
mod meta;
mod packet;
mod pattern;
mod protocol;
mod requires;
mod shared;
mod state;
pub(crate) mod table;
mod text;
mod transforms;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use draft::{Draft, Refusal};
use shared::Shared;

use super::order::{ActionOrder, sort};
use super::{Class, Place, Problem, Rule, RuleSet};
use crate::config::Settings;

/// Largest file of rules, in bytes.
pub const FILE_BYTES_MAX: u64 = 512 << 20;
/// Longest text that a problem repeats.
const REASON_CHARS_MAX: usize = 500;

/// Reads rule files into one [`RuleSet`].
#[derive(Debug)]
pub struct Reader {
    shared: Shared,
    rules: Vec<Rule>,
    /// Place in `rules` by group id and id.
    known: HashMap<(u32, u32), usize>,
    problems: Vec<Problem>,
    read_count: usize,
    action_order: ActionOrder,
}

impl Reader {
    /// A reader with the variables, protocols and limits of these settings.
    pub fn new(settings: &Settings) -> Self {
        let words = settings.list("action-order");
        let order = ActionOrder::new(words.iter().copied()).unwrap_or_default();
        Self {
            shared: Shared::new(settings),
            rules: Vec::new(),
            known: HashMap::new(),
            problems: Vec::new(),
            read_count: 0,
            action_order: order,
        }
    }

    /// Reads classification.config: `config classification: NAME,DESCRIPTION,PRIORITY`.
    pub fn classes(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            let Some(rest) = line.strip_prefix("config classification:") else { continue };
            let mut parts = rest.split(',').map(str::trim);
            let (Some(name), Some(description), Some(priority)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Ok(priority) = priority.parse() else { continue };
            let class =
                Class { name: name.to_owned(), description: description.to_owned(), priority };
            self.class(class);
        }
    }

    /// Defines the classes that Suricata's own classification.config has, but those that are known.
    pub fn stock_classes(&mut self) {
        for &(name, description, priority) in classes::CLASSES {
            let (name, description) = (name.to_owned(), description.to_owned());
            self.class(Class { name, description, priority });
        }
    }

    fn class(&mut self, class: Class) {
        let key = class.name.to_ascii_lowercase();
        self.shared.classes.entry(key).or_insert_with(|| Arc::new(class));
    }

    /// Reads reference.config: `config reference: NAME PREFIX`.
    pub fn references(&mut self, text: &str) {
        for line in text.lines().map(str::trim) {
            let Some(rest) = line.strip_prefix("config reference:") else { continue };
            if let Some((name, prefix)) = rest.trim().split_once(char::is_whitespace) {
                let prefix = prefix.trim().to_owned();
                self.shared.references.entry(name.to_ascii_lowercase()).or_insert(prefix);
            }
        }
    }

    /// The addresses of references that Suricata ships, for those that are not known yet.
    pub fn stock_references(&mut self) {
        for (name, prefix) in classes::REFERENCES {
            let prefixes = &mut self.shared.references;
            prefixes.entry((*name).to_owned()).or_insert_with(|| (*prefix).to_owned());
        }
    }

    /// Reads a rule file. Lists that it names are looked for beside it.
    pub fn read_file(&mut self, path: &Path) -> std::io::Result<()> {
        if std::fs::metadata(path)?.len() > FILE_BYTES_MAX {
            let limit = format!("longer than {FILE_BYTES_MAX} bytes");
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, limit));
        }
        let bytes = std::fs::read(path)?;
        let directory = path.parent().unwrap_or(Path::new("."));
        self.read(&path.display().to_string(), &bytes, directory);
        Ok(())
    }

    /// Reads the text of a rule file; `directory` is where the lists that it names are.
    pub fn read(&mut self, file: &str, bytes: &[u8], directory: &Path) {
        let file: Arc<str> = file.into();
        for (line, rule) in lines(bytes) {
            let place = Place { file: Arc::clone(&file), line };
            self.read_count += 1;
            match std::str::from_utf8(&rule) {
                Ok(rule) => self.read_rule(rule, &place, directory),
                Err(_) => self.refuse(&place, None, None, "it is not UTF-8".into()),
            }
        }
    }

    fn read_rule(&mut self, rule: &str, place: &Place, directory: &Path) {
        let mut reading = Reading { sid: None, keyword: None };
        let made = reading.rules(&mut self.shared, rule, place, directory);
        match made {
            Ok(rules) => self.add(rules, place),
            Err(refusal) => self.refuse(place, reading.sid, reading.keyword, refusal),
        }
    }

    /// Adds a rule, which is two for `<>`; the same id again counts if its revision is higher.
    fn add(&mut self, rules: Vec<Rule>, place: &Place) {
        let Some(first) = rules.first() else { return };
        let id = (first.gid, first.sid);
        if let Some(&at) = self.known.get(&id) {
            let old = self.rules.get(at);
            if old.is_some_and(|old| first.rev <= old.rev) {
                let reason = "the id is there already, with the same revision or a higher one";
                return self.refuse(place, Some(id.1), Some("sid".into()), reason.into());
            }
            self.rules.retain(|rule| (rule.gid, rule.sid) != id);
            self.known.clear();
            for (at, rule) in self.rules.iter().enumerate() {
                self.known.entry((rule.gid, rule.sid)).or_insert(at);
            }
        }
        self.known.insert(id, self.rules.len());
        self.rules.extend(rules);
    }

    fn refuse(
        &mut self,
        place: &Place,
        sid: Option<u32>,
        keyword: Option<String>,
        refusal: Refusal,
    ) {
        let (reason, is_skip) = match refusal {
            Refusal::Error(reason) => (reason, false),
            Refusal::Skip(reason) => (reason, true),
        };
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        self.problems.push(Problem { place: place.clone(), sid, keyword, reason, is_skip });
    }

    /// Bits and variables get the numbers that they have in an earlier set of rules, so that what
    /// is kept by them holds for this one. To be called before anything is read.
    pub fn keep_numbers(&mut self, earlier: &RuleSet) {
        self.shared.flowbits.begin_with(&earlier.flowbits);
        self.shared.xbits.begin_with(&earlier.xbits);
        self.shared.variables.begin_with(&earlier.variables);
    }

    /// What was left out until now.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// All rules, put in order.
    pub fn finish(mut self) -> RuleSet {
        let datasets = std::mem::take(&mut self.shared.datasets);
        let (buffers, flowbits, xbits, variables) = self.shared.into_parts();
        RuleSet {
            rules: sort(self.rules, &self.action_order),
            buffers,
            problems: self.problems,
            datasets,
            read_count: self.read_count,
            flowbits: flowbits.into_names(),
            xbits: xbits.into_names(),
            variables: variables.into_names(),
        }
    }
}

/// All keywords that rules may use, sorted.
pub fn keywords() -> Vec<&'static str> {
    table::all()
}

/// What is known of a rule that may yet be refused.
struct Reading {
    sid: Option<u32>,
    keyword: Option<String>,
}

impl Reading {
    /// The rule, and for `<>` the one of the other direction.
    fn rules(
        &mut self,
        shared: &mut Shared,
        rule: &str,
        place: &Place,
        directory: &Path,
    ) -> Result<Vec<Rule>, Refusal> {
        if rule.bytes().any(|b| b == 0x7f || b < 0x20 && !matches!(b, b'\n' | b'\r' | b'\t')) {
            return Err("it has control characters".into());
        }
        let (header, options) = text::cut(rule)?;
        self.first_pass(shared, options)?;
        let one = self.rule(shared, &header, options, false, (place, rule, directory))?;
        let twice = header.direction == "<>" && !head::is_symmetric(&one.header);
        if !twice {
            return Ok(vec![one]);
        }
        let two = self.rule(shared, &header, options, true, (place, rule, directory))?;
        // The order of Suricata's list: the swapped rule is the older one.
        Ok(vec![two, one])
    }

    /// `sid` and `requires` come before all others.
    fn first_pass(&mut self, shared: &Shared, options: &str) -> Result<(), Refusal> {
        for option in text::options(options) {
            let option = option?;
            let name = option.name.to_ascii_lowercase();
            if name != "sid" && name != "requires" {
                continue;
            }
            self.keyword = Some(name.clone());
            let value = option.value.unwrap_or_default();
            let (value, _) = text::unquote(value, text::Quotes::None, false)?;
            if name == "requires" {
                requires::requires(value, shared)?;
                continue;
            }
            let sid = keyword::whole("sid", value)?;
            if sid == 0 || self.sid.is_some() {
                return Err("it is 0 or there twice".into());
            }
            self.sid = Some(sid);
        }
        self.keyword = None;
        if self.sid.is_none() { Err("the rule has no sid".into()) } else { Ok(()) }
    }

    fn rule(
        &mut self,
        shared: &mut Shared,
        header: &text::HeaderText<'_>,
        options: &str,
        is_swapped: bool,
        (place, rule, directory): (&Place, &str, &Path),
    ) -> Result<Rule, Refusal> {
        self.keyword = None;
        let head = head::read(header, shared, is_swapped)?;
        let mut draft = Draft::new(shared, directory, head.header.clone());
        head.apply(&mut draft);
        draft.sid = self.sid.unwrap_or(0);
        for option in text::options(options) {
            let option = option?;
            if option.name.eq_ignore_ascii_case("sid")
                || option.name.eq_ignore_ascii_case("requires")
            {
                continue;
            }
            self.keyword = Some(option.name.to_owned());
            table::read(&mut draft, &option)?;
        }
        self.keyword = None;
        build::build(draft, place, rule)
    }
}

/// Rules with their line numbers: comments and empty lines left out, lines that end with a
/// backslash joined.
fn lines(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    let mut joined: Vec<u8> = Vec::new();
    let mut begin = 0;
    for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if joined.is_empty() {
            begin = number as u32 + 1;
            if line.is_empty() || matches!(line, [b'\r' | b' ' | b'#' | b'\t', ..]) {
                continue;
            }
        }
        let trimmed = line.trim_ascii_end();
        if let [start @ .., b'\\'] = trimmed
            && joined.len() + start.len() < text::RULE_BYTES_MAX
        {
            joined.extend_from_slice(start);
            continue;
        }
        joined.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        joined.truncate(text::RULE_BYTES_MAX);
        out.push((begin, std::mem::take(&mut joined)));
    }
    out
}
