//! Translates a [`Node`] to PCRE2's syntax.

use std::fmt::Write as _;

use super::syntax::{Anchor, ByteSet, Greed, Node};

/// The pattern in PCRE2's syntax (no flags, byte mode). Groups keep their numbers; `tags` gives the
/// alternatives for `%{TAG}`.
pub(crate) fn text(node: &Node, tags: &dyn Fn(&str) -> Vec<Vec<u8>>) -> String {
    let mut out = String::new();
    write(node, tags, &mut out);
    out
}

fn write(node: &Node, tags: &dyn Fn(&str) -> Vec<Vec<u8>>, out: &mut String) {
    match node {
        Node::Set(set) => write_set(set, out),
        Node::Anchor(anchor) => out.push_str(match anchor {
            Anchor::Start => "\\A",
            Anchor::End => "\\Z",
            Anchor::AbsoluteEnd => "\\z",
            Anchor::LineStart => "(?m:^)",
            Anchor::LineEnd => "(?m:$)",
            Anchor::Word => "\\b",
            Anchor::NotWord => "\\B",
        }),
        Node::Concat(nodes) => nodes.iter().for_each(|n| write_inner(n, tags, out)),
        Node::Alternate(nodes) => {
            for (i, node) in nodes.iter().enumerate() {
                if i > 0 {
                    out.push('|');
                }
                write(node, tags, out);
            }
        }
        Node::Repeat { node, min, max, greed } => {
            enclose("(?:", node, tags, out);
            match (min, max) {
                (0, None) => out.push('*'),
                (1, None) => out.push('+'),
                (0, Some(1)) => out.push('?'),
                (min, None) => drop(write!(out, "{{{min},}}")),
                (min, Some(max)) if min == max => drop(write!(out, "{{{min}}}")),
                (min, Some(max)) => drop(write!(out, "{{{min},{max}}}")),
            }
            match greed {
                Greed::Greedy => {}
                Greed::Lazy => out.push('?'),
                Greed::Possessive => out.push('+'),
            }
        }
        Node::Group { node, .. } => enclose("(", node, tags, out),
        Node::Atomic(node) => enclose("(?>", node, tags, out),
        Node::Around { ahead, negated, node } => {
            let opening = match (ahead, negated) {
                (true, false) => "(?=",
                (true, true) => "(?!",
                (false, false) => "(?<=",
                (false, true) => "(?<!",
            };
            enclose(opening, node, tags, out);
        }
        Node::Backreference { index, caseless } => {
            let _ = match caseless {
                true => write!(out, "(?i:\\g{{{index}}})"),
                false => write!(out, "\\g{{{index}}}"),
            };
        }
        Node::Template { tag, caseless } => {
            out.push_str(if *caseless { "(?i:" } else { "(?:" });
            for (i, value) in tags(tag).iter().enumerate() {
                if i > 0 {
                    out.push('|');
                }
                for b in value {
                    // Writing to a String cannot fail.
                    let _ = write!(out, "\\x{b:02x}");
                }
            }
            out.push(')');
        }
    }
}

/// A child of a concatenation: alternatives need their own group.
fn write_inner(node: &Node, tags: &dyn Fn(&str) -> Vec<Vec<u8>>, out: &mut String) {
    match node {
        Node::Alternate(_) => enclose("(?:", node, tags, out),
        _ => write(node, tags, out),
    }
}

fn enclose(opening: &str, node: &Node, tags: &dyn Fn(&str) -> Vec<Vec<u8>>, out: &mut String) {
    // A set needs no group to be repeated.
    if let (Node::Set(_), "(?:") = (node, opening) {
        return write(node, tags, out);
    }
    out.push_str(opening);
    write(node, tags, out);
    out.push(')');
}

fn write_set(set: &ByteSet, out: &mut String) {
    if let Some(byte) = set.single() {
        return write_byte(byte, out);
    }
    if set.len() == 0 {
        return out.push_str("(?!)");
    }
    if set.len() == 256 {
        return out.push_str("[\\x00-\\xff]");
    }
    let negated = set.len() > 128;
    out.push_str(if negated { "[^" } else { "[" });
    for (low, high) in (if negated { set.negate() } else { *set }).ranges() {
        write_byte(low, out);
        if low < high {
            out.push('-');
            write_byte(high, out);
        }
    }
    out.push(']');
}

fn write_byte(byte: u8, out: &mut String) {
    if byte.is_ascii_alphanumeric() {
        out.push(char::from(byte));
    } else {
        let _ = write!(out, "\\x{byte:02x}");
    }
}
