//! `replace_tag` and related commands: tags for characters and their look-alikes.

use std::collections::BTreeMap;

use super::delimiters::escape_high;
use super::split_word;
use crate::rule::Source;

/// Most rounds of replacement: expressions of tags may contain tags.
const PASSES_MAX: u32 = 6;
/// Longest pattern that replacement may produce, in bytes.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Tags and the rules that they are replaced in.
#[derive(Debug)]
pub(crate) struct Replace {
    tags: BTreeMap<String, String>,
    pre: BTreeMap<String, String>,
    inter: BTreeMap<String, String>,
    post: BTreeMap<String, String>,
    start: String,
    end: String,
    /// Rules to replace in, each with the line that names it.
    pub(crate) rules: BTreeMap<String, Source>,
}

impl Default for Replace {
    fn default() -> Self {
        Replace {
            tags: BTreeMap::new(),
            pre: BTreeMap::new(),
            inter: BTreeMap::new(),
            post: BTreeMap::new(),
            start: "<".to_owned(),
            end: ">".to_owned(),
            rules: BTreeMap::new(),
        }
    }
}

impl Replace {
    /// Executes `replace_tag`, `replace_pre`, `replace_inter` or `replace_post`.
    pub(crate) fn define(&mut self, key: &str, value: &str) -> Result<(), String> {
        let (name, text) = split_word(value);
        if text.is_empty() {
            return Err(format!("{key} needs a name and an expression"));
        }
        let mut escaped = String::new();
        escape_high(text, &mut escaped);
        let map = match key {
            "replace_tag" => &mut self.tags,
            "replace_pre" => &mut self.pre,
            "replace_inter" => &mut self.inter,
            _ => &mut self.post,
        };
        map.insert(name.to_owned(), escaped);
        Ok(())
    }

    /// Executes `replace_rules`, `replace_start` or `replace_end`.
    pub(crate) fn set(&mut self, key: &str, value: &str, at: &Source) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("{key} needs a value"));
        }
        match key {
            "replace_start" => value.clone_into(&mut self.start),
            "replace_end" => value.clone_into(&mut self.end),
            _ => {
                for rule in value.split_ascii_whitespace() {
                    self.rules.insert(rule.to_owned(), at.clone());
                }
            }
        }
        Ok(())
    }

    /// The pattern with its tags replaced.
    pub(crate) fn apply(&self, pattern: &str) -> String {
        let mut pattern = pattern.to_owned();
        for _ in 0..PASSES_MAX {
            let (next, again) = self.pass(pattern);
            pattern = next;
            if !again || pattern.len() > PATTERN_BYTES_MAX {
                break;
            }
        }
        pattern
    }

    /// One round; the flag says whether an inserted expression contains tags.
    fn pass(&self, mut pattern: String) -> (String, bool) {
        let pre = self.take_modifier(&mut pattern, "pre ").and_then(|n| self.pre.get(&n));
        let post = self.take_modifier(&mut pattern, "post ").and_then(|n| self.post.get(&n));
        let inter = self.take_modifier(&mut pattern, "inter ").and_then(|n| self.inter.get(&n));
        let mut pieces = split_tags(&pattern);
        let mut again = false;
        for piece in &mut pieces {
            if let Some(pre) = pre
                && let Some((at, _)) = self.find(piece, 0)
            {
                piece.insert_str(at, pre);
            }
            if let Some(post) = post {
                self.after_each(piece, post);
            }
            if let Some(inter) = inter
                && piece.is_empty()
            {
                piece.clone_from(inter);
            }
            again |= self.replace_tags(piece);
        }
        (pieces.concat(), again)
    }

    /// Removes `<pre NAME>` and returns the name.
    fn take_modifier(&self, pattern: &mut String, word: &str) -> Option<String> {
        let open = format!("{}{word}", self.start);
        let at = pattern.find(&open)?;
        let name_at = at + open.len();
        // The name has at least one character.
        let first = pattern[name_at..].chars().next()?.len_utf8();
        let end = name_at + first + pattern[name_at + first..].find(&self.end)?;
        let name = pattern[name_at..end].to_owned();
        pattern.replace_range(at..end + self.end.len(), "");
        Some(name)
    }

    /// The next tag: its start and end, delimiters included.
    fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let at = from + text.get(from..)?.find(&self.start)?;
        let name = at + self.start.len();
        let first = text[name..].chars().next()?.len_utf8();
        let end = name + first + text[name + first..].find(&self.end)?;
        Some((at, end + self.end.len()))
    }

    fn after_each(&self, text: &mut String, post: &str) {
        let mut from = 0;
        while let Some((_, end)) = self.find(text, from) {
            text.insert_str(end, post);
            from = end + post.len();
        }
    }

    /// Replaces every occurrence of the first tag's name in the piece.
    fn replace_tags(&self, text: &mut String) -> bool {
        let Some((at, end)) = self.find(text, 0) else { return false };
        let name = text[at + self.start.len()..end - self.end.len()].to_owned();
        let Some(expression) = self.tags.get(&name) else { return false };
        *text = text.replace(&format!("{}{name}{}", self.start, self.end), expression);
        expression.find('<').is_some_and(|i| expression[i..].contains('>'))
    }
}

/// Splits at `<...>`, keeping the tags: text, tag, text, tag, ...; as Perl's split, empty pieces at
/// the end are left out.
fn split_tags(pattern: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    loop {
        let tag = rest.match_indices('<').find_map(|(i, _)| {
            let inner = &rest[i + 1..];
            let end = inner.find(['<', '>'])?;
            (end > 0 && inner.as_bytes().get(end) == Some(&b'>')).then_some((i, i + end + 2))
        });
        let Some((start, end)) = tag else { break };
        pieces.push(rest[..start].to_owned());
        pieces.push(rest[start..end].to_owned());
        rest = &rest[end..];
    }
    if !rest.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_with_inter_and_post() {
        let mut replace = Replace::default();
        for (key, value) in [
            ("replace_tag", "A [a4]"),
            ("replace_tag", "B [b8]"),
            ("replace_inter", "I _?"),
            ("replace_post", "P {1,2}"),
        ] {
            replace.define(key, value).unwrap();
        }
        assert_eq!(replace.apply("<A><B>x"), "[a4][b8]x");
        assert_eq!(replace.apply("<inter I><A><B>"), "_?[a4]_?[b8]");
        assert_eq!(replace.apply("<inter I><post P>x<A><B>"), "x[a4]{1,2}_?[b8]{1,2}");
        assert_eq!(replace.apply("(?<NAME>x)<C>"), "(?<NAME>x)<C>");
    }
}
