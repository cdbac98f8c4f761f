//! RTF 1.9.1: the text without embedded objects, templates that are fetched, and fields that start
//! programs. Whole groups are left out.

use std::collections::BTreeSet;

use super::Made;

/// Control words whose group is left out, and what they are.
const WORDS: [(&str, &str); 12] = [
    ("object", "embedded_object"),
    ("objdata", "embedded_object"),
    ("objclass", "embedded_object"),
    ("objocx", "active_x"),
    ("objautlink", "embedded_object"),
    ("objhtml", "embedded_object"),
    ("objlink", "embedded_object"),
    ("objemb", "embedded_object"),
    ("objupdate", "embedded_object"),
    ("template", "external_template"),
    ("ddeauto", "dde"),
    ("datastore", "embedded_object"),
];
/// Words of a field's instruction that start or fetch something.
const INSTRUCTIONS: [&str; 5] = ["DDE", "INCLUDE", "LINK ", "EMBED", "IMPORT"];
/// Groups in each other.
const DEPTH_MAX: usize = 1_000;

/// A group that is open.
struct Group {
    /// Where its brace stands in what was written.
    start: usize,
    /// It is left out.
    what: Option<&'static str>,
    /// It is the instruction of a field, with its text so far.
    instruction: Option<String>,
}

pub(super) fn disarm(bytes: &[u8]) -> Result<Made, String> {
    let (mut out, mut removed) = (Vec::with_capacity(bytes.len()), BTreeSet::new());
    let (mut groups, mut at): (Vec<Group>, usize) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' => {
                if groups.len() >= DEPTH_MAX {
                    return Err("its groups are nested too deep".to_owned());
                }
                let instruction = groups.last().and_then(|g| g.instruction.clone());
                groups.push(Group { start: out.len(), what: None, instruction });
                out.push(byte);
                at += 1;
            }
            b'}' => {
                out.push(byte);
                at += 1;
                close(&mut groups, &mut out, &mut removed);
            }
            b'\\' => at = control(bytes, at, &mut groups, &mut out)?,
            _ => {
                if let Some(text) = groups.last_mut().and_then(|g| g.instruction.as_mut()) {
                    text.push(char::from(byte));
                }
                out.push(byte);
                at += 1;
            }
        }
    }
    Ok((out, removed, None))
}

fn close(groups: &mut Vec<Group>, out: &mut Vec<u8>, removed: &mut BTreeSet<&'static str>) {
    let Some(group) = groups.pop() else { return };
    let text = group.instruction.map(|text| text.to_uppercase()).unwrap_or_default();
    let starts = INSTRUCTIONS.iter().any(|word| text.contains(word));
    if let Some(what) = group.what.or(starts.then_some("dde")) {
        removed.insert(what);
        out.truncate(group.start);
    } else if let Some(outer) = groups.last_mut().filter(|g| g.instruction.is_some()) {
        outer.instruction = Some(text);
    }
}

/// Reads a control word or symbol; says where it ends.
fn control(
    bytes: &[u8],
    at: usize,
    groups: &mut [Group],
    out: &mut Vec<u8>,
) -> Result<usize, String> {
    let letters = bytes[at + 1..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
    if letters == 0 {
        let end = (at + 2).min(bytes.len());
        out.extend_from_slice(&bytes[at..end]);
        return Ok(end);
    }
    let word = String::from_utf8_lossy(&bytes[at + 1..at + 1 + letters]).to_ascii_lowercase();
    let mut end = at + 1 + letters;
    let digits = bytes[end..].iter().take_while(|b| **b == b'-' || b.is_ascii_digit()).count();
    let number = String::from_utf8_lossy(&bytes[end..end + digits]).parse::<i64>().unwrap_or(0);
    end += digits;
    if word == "bin" {
        if number > 0 {
            return Err("it holds binary data".to_owned());
        }
        return Ok(end);
    }
    if let Some(group) = groups.last_mut() {
        if let Some((_, what)) = WORDS.iter().find(|(name, _)| *name == word) {
            group.what = Some(what);
        }
        if word == "fldinst" {
            group.instruction = Some(String::new());
        }
    }
    out.extend_from_slice(&bytes[at..end]);
    Ok(end)
}
