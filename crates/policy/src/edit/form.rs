//! A rule as a form with fields, and back.

use toml::{Table, Value};

use super::Block;

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

/// Why the fields of a form make no rule; the text names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The points from which the rule applies are no number.
    #[error("points: {0:?} is no number")]
    Points(String),
    /// Further conditions are not TOML, as its parser says.
    #[error("further conditions: {0}")]
    Conditions(String),
    /// Further actions are not TOML, as its parser says.
    #[error("further actions: {0}")]
    Actions(String),
    /// Further actions are TOML, but no list.
    #[error("further actions: a list in brackets is expected")]
    NoList,
    /// This end needs a folder, addresses or a text.
    #[error("{0}: a folder, address or text is missing")]
    NoText(&'static str),
    /// Neither an end nor an action was chosen.
    #[error("the rule does nothing: choose an end or an action")]
    Nothing,
}

/// A rule as a form shows it. What a form has no field for stays TOML.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleForm {
    /// Name of the rule.
    pub name: String,
    /// `inbound`, `outbound` or `both`.
    pub direction: String,
    /// It is in force.
    pub enabled: bool,
    /// Words of the [`LIST_FIELDS`], in their order, separated by commas.
    pub lists: [String; LIST_FIELDS.len()],
    /// Points from which it applies; empty for any.
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
    pub fn to_toml(&self) -> Result<String, FormError> {
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
                .map_err(|_| FormError::Points(self.score_min.clone()))?;
            out.push_str(&format!("when.score_min = {score:?}\n"));
        }
        if !self.size_min.trim().is_empty() {
            out.push_str(&format!("when.size_min = {}\n", quoted(self.size_min.trim())));
        }
        push_words(&mut out, "when.attachment.name", &self.attachment);
        let more: Table = toml::from_str(&self.more_when)
            .map_err(|e| FormError::Conditions(e.message().to_owned()))?;
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

    fn actions(&self) -> Result<Value, FormError> {
        let mut actions = Vec::new();
        let with =
            |name: &str, value: Value| Value::Table(Table::from_iter([(name.to_owned(), value)]));
        if !self.tag_subject.is_empty() {
            actions.push(with("tag_subject", Value::String(self.tag_subject.clone())));
        }
        if !self.more_do.trim().is_empty() {
            let holder: Table = toml::from_str(&format!("do = {}", self.more_do.trim()))
                .map_err(|e| FormError::Actions(e.message().to_owned()))?;
            match holder.get("do") {
                Some(Value::Array(more)) if holder.len() == 1 => actions.extend(more.clone()),
                _ => return Err(FormError::NoList),
            }
        }
        match ENDS.iter().find(|(name, _)| *name == self.end) {
            Some((name, false)) => actions.push(Value::String((*name).to_owned())),
            Some((name, true)) => {
                let text = self.end_text.trim();
                if text.is_empty() {
                    return Err(FormError::NoText(name));
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
            0 => Err(FormError::Nothing),
            1 => Ok(actions.remove(0)),
            _ => Ok(Value::Array(actions)),
        }
    }
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|w| !w.is_empty())
}

/// A word or a list of words, separated by commas; none if it is something else, or commas would
/// not separate the words.
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
