//! One command line each: rule definitions into drafts, the rest into settings.

use super::condition::modern_package;
use super::draft::{Drafts, is_rule_name};
use super::{Reader, delimiters, files, plugins, split_word};
use crate::problem::Severity;
use crate::record_type::RecordType;
use crate::rule::{EvalCall, EvalKind, HeaderSelector, Source, Test, UriCondition};

/// Longest name of a rule in SpamAssassin's files, in bytes.
const NAME_BYTES_MAX: usize = 100;
/// Modifiers of a header selector.
const MODIFIERS: [&str; 9] =
    ["raw", "addr", "name", "host", "domain", "ip", "revip", "first", "last"];

impl Reader {
    /// Carries out one command.
    pub(super) fn command(&mut self, key: &str, value: &str, at: &Source) {
        let result = match key {
            "header" | "body" | "rawbody" | "full" | "uri" | "meta" => self.define(key, value, at),
            "mimeheader" | "uri_detail" | "askdns" => self.define_by_plugin(key, value, at),
            "reuse" => self.drafts.declare(split_word(value).0, at),
            "score" => self.drafts.score(value),
            "tflags" | "describe" | "priority" => self.drafts.attribute(key, value, at),
            "replace_tag" | "replace_pre" | "replace_inter" | "replace_post" => {
                self.by_plugin(key).and_then(|()| self.drafts.replace.define(key, value))
            }
            "replace_rules" | "replace_start" | "replace_end" => {
                self.by_plugin(key).and_then(|()| self.drafts.replace.set(key, value, at))
            }
            "loadplugin" | "tryplugin" => self.load_plugin(value, at),
            "enable_compat" => {
                self.environment.compat.insert(value.to_owned());
                Ok(())
            }
            // Regression texts of the rules' authors; only their own test suite reads them.
            "test" => Ok(()),
            _ => self.setting(key, value, at),
        };
        if let Err(message) = result {
            let rule = split_word(value).0;
            let rule = (is_rule_name(rule) && self.drafts.knows(rule)).then_some(rule);
            self.problem(Severity::Error, at, rule, message);
        }
    }

    fn setting(&mut self, key: &str, value: &str, at: &Source) -> Result<(), String> {
        let name = modern_command(key);
        let core = |c: &str| plugins::CORE_COMMANDS.split_ascii_whitespace().any(|k| k == c);
        if !core(key) {
            self.by_plugin(key)?;
        }
        self.settings.add(&name, &files::to_text(value), at.clone());
        Ok(())
    }

    /// Whether a loaded plugin adds this command.
    fn by_plugin(&self, key: &str) -> Result<(), String> {
        let Some(plugin) = plugins::of_command(key) else {
            return Err(format!("unknown command {key:?}"));
        };
        let loaded = |p: &&plugins::Plugin| {
            let ours =
                p.name == plugin.name || p.commands.split_ascii_whitespace().any(|c| c == key);
            ours && self.environment.has_plugin(&format!("{}{}", plugins::PACKAGE, p.name))
        };
        if plugins::PLUGINS.iter().any(|p| loaded(&p)) {
            return Ok(());
        }
        Err(format!("{key} belongs to the plugin {}, which no loadplugin line loads", plugin.name))
    }

    fn load_plugin(&mut self, value: &str, at: &Source) -> Result<(), String> {
        let package = modern_package(split_word(value).0);
        if package.is_empty() {
            return Err("loadplugin needs a package name".to_owned());
        }
        if plugins::find(package).is_none() {
            let message = format!(
                "{package} is not a plugin of SpamAssassin 4.0.1: its commands and eval functions \
                 are unknown here, and ifplugin says no to it"
            );
            self.problem(Severity::Warning, at, None, message);
            return Ok(());
        }
        self.environment.plugins.insert(package.to_owned());
        Ok(())
    }

    fn define(&mut self, kind: &str, value: &str, at: &Source) -> Result<(), String> {
        let (name, text) = split_word(value);
        if name.is_empty() || text.is_empty() {
            return Err(format!("{kind} needs a rule name and a test"));
        }
        check_name(name)?;
        let test = match kind {
            "meta" => Test::Meta { expression: meta_text(text)? },
            "header" => header_test(text)?,
            _ => match text.strip_prefix("eval:").filter(|_| kind != "uri") {
                Some(call) => Test::Eval { kind: eval_kind(kind), call: eval_call(call)? },
                None => pattern_test(kind, text)?,
            },
        };
        self.drafts.define(name, test, at)
    }

    fn define_by_plugin(&mut self, key: &str, value: &str, at: &Source) -> Result<(), String> {
        self.by_plugin(key)?;
        let (name, text) = split_word(value);
        check_name(name)?;
        if text.is_empty() {
            return Err(format!("{key} needs a rule name and a test"));
        }
        match key {
            "askdns" => self.drafts.define(name, ask_dns_test(&files::to_text(text))?, at),
            "mimeheader" => self.drafts.define(name, mime_header_test(text)?, at),
            _ => {
                let conditions = uri_conditions(text)?;
                self.drafts.define(name, Test::UriDetail { conditions }, at)
            }
        }
    }
}

/// The present name of a setting: 4.0 renamed white and black lists.
fn modern_command(key: &str) -> String {
    match key {
        "required_hits" => "required_score".to_owned(),
        _ => key.replace("whitelist", "welcomelist").replace("blacklist", "blocklist"),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if !is_rule_name(name) {
        return Err(format!(
            "{name:?} is not a valid rule name: letters, digits and _ only, not beginning with a digit"
        ));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("rule name over {NAME_BYTES_MAX} characters"));
    }
    Ok(())
}

fn meta_text(text: &str) -> Result<String, String> {
    if text.contains("::") || text.contains("->") {
        return Err("a meta cannot call code".to_owned());
    }
    if let Some(unexpected) = text.chars().find(|c| "$@%;{}".contains(*c) || !c.is_ascii()) {
        return Err(format!("{unexpected:?} is not allowed in a meta"));
    }
    let squeezed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    if squeezed.contains("**") {
        return Err("a meta has no operator **".to_owned());
    }
    Ok(text.to_owned())
}

fn stripped(pattern: &str) -> Result<String, String> {
    delimiters::strip(pattern).map_err(|error| error.to_string())
}

fn pattern_test(kind: &str, text: &str) -> Result<Test, String> {
    let pattern = stripped(text)?;
    Ok(match kind {
        "body" => Test::Body { pattern },
        "rawbody" => Test::Rawbody { pattern },
        "full" => Test::Full { pattern },
        _ => Test::Uri { pattern },
    })
}

fn eval_kind(kind: &str) -> EvalKind {
    match kind {
        "body" => EvalKind::Body,
        "rawbody" => EvalKind::Rawbody,
        "full" => EvalKind::Full,
        _ => EvalKind::Header,
    }
}

fn header_test(text: &str) -> Result<Test, String> {
    let call = text.strip_prefix("rbleval:").or_else(|| text.strip_prefix("eval:"));
    if let Some(call) = call {
        let call = eval_call(call)?;
        let dns = call.function.starts_with("check_rbl") || call.function.starts_with("check_dns");
        let kind = if dns { EvalKind::Rbl } else { EvalKind::Header };
        return Ok(Test::Eval { kind, call });
    }
    if let Some(field) = text.strip_prefix("exists:") {
        let field = field.strip_suffix(':').unwrap_or(field);
        if field.is_empty() || !field.bytes().all(is_field_byte) {
            return Err(format!("{field:?} is no header name"));
        }
        return Ok(Test::Exists { selector: HeaderSelector::parse(field) });
    }
    let (selector, negated, pattern) = selector_and_pattern(text)?;
    if let Some((_, modifiers)) = selector.split_once(':')
        && modifiers.bytes().any(|b| b.is_ascii_uppercase())
    {
        return Err(format!("{selector:?}: modifiers are written in lower case"));
    }
    let parsed = HeaderSelector::parse(selector);
    if !parsed.name.bytes().all(is_field_byte) || parsed.name.is_empty() {
        return Err(format!("{selector:?} is no header name"));
    }
    if parsed.modifiers.len() > 2 {
        return Err(format!("{selector:?} has more than two modifiers"));
    }
    if let Some(unexpected) = parsed.modifiers.iter().find(|m| !MODIFIERS.contains(&m.as_str())) {
        let known = MODIFIERS.join(", ");
        return Err(format!("{unexpected:?} is no modifier of a header; there are {known}"));
    }
    let (pattern, if_unset) = without_if_unset(pattern);
    let if_unset = if_unset.map(files::to_text);
    let pattern = stripped(pattern)?;
    Ok(Test::Header { selector: parsed, pattern, negated, if_unset })
}

fn mime_header_test(text: &str) -> Result<Test, String> {
    let (selector, negated, pattern) = selector_and_pattern(text)?;
    let selector = HeaderSelector::parse(selector);
    if selector.modifiers.iter().any(|m| m != "raw") {
        return Err("mimeheader knows only the modifier :raw".to_owned());
    }
    let (pattern, if_unset) = without_if_unset(pattern);
    let if_unset = files::to_text(if_unset.unwrap_or_default());
    Ok(Test::MimeHeader { selector, pattern: stripped(pattern)?, negated, if_unset })
}

/// `query [types] [filter]`: types are separated by commas, `A` if there are none.
fn ask_dns_test(text: &str) -> Result<Test, String> {
    let (query, rest) = split_word(text);
    let (first, tail) = split_word(rest);
    let is_types = first.bytes().all(|b| b.is_ascii_alphanumeric() || b == b',')
        && first.starts_with(|c: char| c.is_ascii_alphabetic())
        && first.split(',').any(|t| RecordType::named(t).is_some() || t.len() <= 10);
    let (types, filter) = if is_types { (first, tail) } else { ("A", rest) };
    let kinds: Option<Vec<RecordType>> = types.split(',').map(RecordType::named).collect();
    let kinds = kinds.ok_or_else(|| {
        format!("askdns asks for A, AAAA, MX, NS, PTR, SOA and TXT records, not for {types}")
    })?;
    let filter = filter.trim();
    let filter = (!filter.is_empty()).then(|| filter.to_owned());
    Ok(Test::AskDns { query: query.to_owned(), kinds, filter })
}

/// `Selector =~ /re/` or `Selector !~ /re/`.
fn selector_and_pattern(text: &str) -> Result<(&str, bool, &str), String> {
    let missing = "a header test is written: Name =~ /pattern/, Name !~ /pattern/ or exists:Name";
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '=' || c == '!');
    let (selector, rest) = text.split_at(end.ok_or(missing)?);
    let rest = rest.trim_start();
    let (negated, pattern) = match rest.strip_prefix("=~") {
        Some(pattern) => (false, pattern),
        None => (true, rest.strip_prefix("!~").ok_or(missing)?),
    };
    let pattern = pattern.trim_start();
    if pattern.is_empty() || selector.is_empty() {
        return Err(missing.to_owned());
    }
    Ok((selector, negated, pattern))
}

/// Splits a trailing `[if-unset: text]` off.
fn without_if_unset(pattern: &str) -> (&str, Option<&str>) {
    let split = || {
        let inner = pattern.strip_suffix(']')?;
        let at = inner.find("[if-unset:")?;
        let before = &inner[..at];
        let text = &inner[at + "[if-unset:".len()..];
        let trimmed = text.trim_start();
        let ok = before.ends_with(|c: char| c.is_ascii_whitespace())
            && trimmed.len() < text.len()
            && !trimmed.is_empty();
        ok.then_some((before.trim_end(), trimmed))
    };
    match split() {
        Some((pattern, text)) => (pattern, Some(text)),
        None => (pattern, None),
    }
}

fn is_field_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
}

/// `function(arguments)`: arguments are quoted strings, or bare words of `[0-9.:A-Za-z-]`.
pub(super) fn eval_call(text: &str) -> Result<EvalCall, String> {
    let invalid = || format!("an eval test is written eval:function(arguments), not {text:?}");
    let (function, rest) = text.split_once('(').ok_or_else(invalid)?;
    let inner = rest.strip_suffix(')').ok_or_else(invalid)?;
    let function = function.trim_end();
    if function.is_empty() || !function.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
        return Err(invalid());
    }
    let mut args = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (arg, after) = eval_argument(rest)
            .ok_or_else(|| format!("cannot read the arguments of {function} at {rest:?}"))?;
        args.push(files::to_text(arg));
        rest = after;
    }
    Ok(EvalCall { function: function.to_owned(), args })
}

fn eval_argument(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next()?;
    let (arg, after) = if matches!(quote, '"' | '\'') {
        // The quote that closes is the first one that a comma or the end follows.
        let body = &text[1..];
        let closes = |i: &usize| {
            let after = body[i + 1..].trim_start();
            after.is_empty() || after.starts_with(',')
        };
        let end = body.match_indices(quote).map(|m| m.0).find(closes)?;
        (&body[..end], &body[end + 1..])
    } else {
        let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-');
        let end = text.find(|c| !bare(c)).unwrap_or(text.len());
        (&text[..end], &text[end..])
    };
    let after = after.trim_start();
    if arg.is_empty() && !matches!(quote, '"' | '\'') {
        return None;
    }
    match after.strip_prefix(',') {
        Some(rest) => Some((arg, rest.trim_start())),
        None if after.is_empty() => Some((arg, "")),
        None => None,
    }
}

/// Conditions of a `uri_detail`: `key =~ /re/ key2 !~ m,re,i`.
fn uri_conditions(text: &str) -> Result<Vec<UriCondition>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, negated, pattern) = selector_and_pattern(rest)?;
        if !matches!(key, "raw" | "type" | "cleaned" | "text" | "domain" | "host") {
            return Err(format!("uri_detail knows no key {key:?}"));
        }
        let length = pattern_length(pattern).ok_or("a pattern is not closed")?;
        let pattern_text = stripped(&pattern[..length])?;
        out.push(UriCondition { key: key.to_owned(), negated, pattern: pattern_text });
        rest = pattern[length..].trim_start();
    }
    if out.is_empty() { Err("uri_detail needs a condition".to_owned()) } else { Ok(out) }
}

/// Bytes of the delimited pattern at the start, modifiers included; the shortest that white space
/// or the end follows.
fn pattern_length(text: &str) -> Option<usize> {
    let open = if text.starts_with('m') { 1 } else { 0 };
    let delimiter = text[open..].chars().next()?;
    let body = open + delimiter.len_utf8();
    text[body..].match_indices(delimiter).find_map(|(i, d)| {
        let end = body + i + d.len();
        let modifiers = text[end..].bytes().take_while(|b| b"imsx".contains(b)).count();
        let after = text[end + modifiers..].chars().next();
        after.is_none_or(|c| c.is_ascii_whitespace()).then_some(end + modifiers)
    })
}

impl Drafts {
    /// Whether a test of this name was defined.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.tests.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_tests() {
        let Ok(Test::Header { selector, pattern, negated, if_unset }) =
            header_test("From:addr !~ /x$/i [if-unset: none at all]")
        else {
            panic!("no header test");
        };
        assert_eq!((selector.name.as_str(), negated), ("From", true));
        assert_eq!(selector.modifiers, ["addr"]);
        assert_eq!((pattern.as_str(), if_unset.as_deref()), ("(?i)x$", Some("none at all")));
        assert!(header_test("From:adr =~ /x/").is_err());
        assert!(header_test("From ~ /x/").is_err());
        assert!(matches!(header_test("exists:X-Foo"), Ok(Test::Exists { .. })));
    }

    #[test]
    fn eval_arguments() {
        let call = |text| eval_call(text).map(|c| (c.function, c.args));
        let args = |a: &[&str]| a.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(call("f()"), Ok(("f".into(), args(&[]))));
        assert_eq!(call("f('a, b', \"c\", 0.5)"), Ok(("f".into(), args(&["a, b", "c", "0.5"]))));
        assert_eq!(call("f('')"), Ok(("f".into(), args(&[""]))));
        assert!(call("f(a b)").is_err());
        assert!(call("f").is_err());
    }

    #[test]
    fn uri_detail_conditions() {
        let found = uri_conditions("type =~ /^a$/ text !~ m,x/y,i").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].pattern, "(?i)x/y");
        assert!(found[1].negated);
    }
}
