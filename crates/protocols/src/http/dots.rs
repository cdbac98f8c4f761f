//! `.` and `..` in paths (RFC 3986 section 5.2.4), as servers resolve them.

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    StartDot,
    StartDots,
    Slash,
    /// A slash behind dots that were resolved: it is dropped at the end.
    Resolved,
    SlashDot,
    SlashDots,
    Text,
}

/// Without segments that are dots.
pub(super) fn remove(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let mut at = At::Start;
    for &byte in path {
        at = match (at, byte) {
            (At::Start, b'.') => At::StartDot,
            (At::Start | At::Text, b'/') => At::Slash,
            (At::StartDot, b'.') => At::StartDots,
            (At::StartDot | At::StartDots, b'/') => At::Start,
            (At::Slash | At::Resolved, b'.') => At::SlashDot,
            (At::SlashDot, b'/') => At::Resolved,
            (At::SlashDot, b'.') => At::SlashDots,
            (At::SlashDots, b'/') => {
                drop_segment(&mut out);
                At::Resolved
            }
            (at, byte) => {
                out.extend_from_slice(held(at));
                out.push(byte);
                At::Text
            }
        };
    }
    match at {
        At::Slash => out.push(b'/'),
        At::SlashDots => drop_segment(&mut out),
        _ => {}
    }
    out
}

/// What was held back in this state.
fn held(at: At) -> &'static [u8] {
    match at {
        At::Start | At::Text => b"",
        At::StartDot => b".",
        At::StartDots => b"..",
        At::Slash | At::Resolved => b"/",
        At::SlashDot => b"/.",
        At::SlashDots => b"/..",
    }
}

fn drop_segment(out: &mut Vec<u8>) {
    let len = out.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    out.truncate(len);
}
