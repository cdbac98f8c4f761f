//! Preparation of a body's lines before it is parsed.

use std::borrow::Cow;
use std::ops::Range;

use super::super::encoding;
use super::super::perl::{self, is_space};
use super::{BLANK_LINES_MAX, LINE_MAX};

/// Cuts lines that are too long.
pub(super) fn cut_lines(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / LINE_MAX + 1);
    for line in perl::lines(text) {
        let mut rest = line;
        while rest.len() > LINE_MAX {
            out.extend_from_slice(&rest[..LINE_MAX]);
            out.push(b'\n');
            rest = &rest[LINE_MAX..];
        }
        out.extend_from_slice(rest);
    }
    out
}

/// Whether one of these whole lines is too long.
pub(super) fn has_long_line(lines: &[u8]) -> bool {
    let mut rest = lines;
    while rest.len() > LINE_MAX {
        let Some(end) = memchr::memrchr(b'\n', &rest[..LINE_MAX]) else { return true };
        rest = &rest[end + 1..];
    }
    false
}

/// Whether a multipart's body begins with text that is no boundary: then a blank line is inserted
/// before.
pub(super) fn lacks_boundary(body: &[u8], boundary: Option<&[u8]>) -> bool {
    let mut lines = perl::lines(body);
    let (Some(first), Some(_)) = (lines.next(), lines.next()) else { return false };
    let begins =
        boundary.is_some_and(|b| first.strip_prefix(b"--").is_some_and(|r| r.starts_with(b)));
    first.iter().any(|&b| !is_space(b)) && !begins
}

/// The body with LF line ends (if the message has CR LF), and long runs of blank lines shortened.
pub(super) fn tidy_body(body: Cow<'_, [u8]>, crlf: bool) -> Cow<'_, [u8]> {
    let body = if crlf && encoding::crlf_at(&body, 0).is_some() {
        let mut lines = Vec::new();
        encoding::push_unix_lines(&body, &mut lines);
        Cow::Owned(lines)
    } else {
        body
    };
    let cuts = if may_have_blank_run(&body) { blank_runs(&body) } else { Vec::new() };
    if cuts.is_empty() {
        return body;
    }
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for cut in cuts {
        out.extend_from_slice(&body[at..cut.start]);
        at = cut.end;
    }
    out.extend_from_slice(&body[at..]);
    Cow::Owned(out)
}

/// Whether there is white space with as many line ends as a run of blank lines that is shortened.
fn may_have_blank_run(body: &[u8]) -> bool {
    // All but the last line of a run end with a line feed.
    let mut done = 0;
    let mut at = BLANK_LINES_MAX;
    while at < body.len() {
        if is_space(body[at]) {
            let before = &body[done..at];
            let start = before.iter().rposition(|&b| !is_space(b)).map_or(done, |i| done + i + 1);
            let after = &body[at..];
            done = at + after.iter().position(|&b| !is_space(b)).unwrap_or(after.len());
            if memchr::memchr_iter(b'\n', &body[start..done]).count() >= BLANK_LINES_MAX {
                return true;
            }
            at = done;
        }
        at += BLANK_LINES_MAX;
    }
    false
}

/// Ranges to leave out of runs of blank lines.
fn blank_runs(body: &[u8]) -> Vec<Range<usize>> {
    let mut cuts = Vec::new();
    // Where the lines of the run begin; the first line of the body does not count.
    let mut run: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut end_run = |run: &mut Vec<usize>| {
        let first = usize::from(run.first() == Some(&0));
        let count = run.len() - first.min(run.len());
        if count > BLANK_LINES_MAX
            && let (Some(&from), Some(&to)) =
                (run.get(first + 1), run.get(first + 1 + count - BLANK_LINES_MAX))
        {
            cuts.push(from..to);
        }
        run.clear();
    };
    for line in perl::lines(body) {
        let blank = is_space(line[0]) && line.iter().all(|&b| is_space(b));
        if blank {
            run.push(at);
        } else if !run.is_empty() {
            end_run(&mut run);
        }
        at += line.len();
    }
    end_run(&mut run);
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_blank_run_is_missed() {
        let mut seed = 3u32;
        let mut next = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        let mut shortened = 0;
        for _ in 0..3_000 {
            let mut body = Vec::new();
            for _ in 0..next(6) {
                body.extend(std::iter::repeat_n(b'x', next(50) as usize));
                for _ in 0..next(30) {
                    body.extend_from_slice([&b"\n"[..], b" \n", b"\r\n", b"\t"][next(4) as usize]);
                }
            }
            let has_run = !blank_runs(&body).is_empty();
            shortened += usize::from(has_run);
            assert!(!has_run || may_have_blank_run(&body), "{body:?}");
        }
        assert!(shortened > 50);
        assert!(!may_have_blank_run(&[&[b'\n'; 19][..], b"x", &[b'\n'; 19]].concat()));
    }

    #[test]
    fn long_lines_are_distinguished_from_short_ones() {
        for (lengths, is_long) in [
            (&[LINE_MAX, 1, LINE_MAX][..], false),
            (&[1, LINE_MAX + 1], true),
            (&[LINE_MAX + 1, 1], true),
            (&[1; 5000], false),
            (&[], false),
        ] {
            let mut text = Vec::new();
            for length in lengths {
                text.extend(std::iter::repeat_n(b'x', length - 1));
                text.push(b'\n');
            }
            assert_eq!(has_long_line(&text), is_long, "{lengths:?}");
        }
    }
}
