//! What is done to the lines of a body before it is taken apart.

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

/// Whether a multipart's body begins with text that is no boundary: a blank line then goes before.
pub(super) fn lacks_boundary(body: &[u8], boundary: Option<&[u8]>) -> bool {
    let mut lines = perl::lines(body);
    let (Some(first), Some(_)) = (lines.next(), lines.next()) else { return false };
    let begins =
        boundary.is_some_and(|b| first.strip_prefix(b"--").is_some_and(|r| r.starts_with(b)));
    first.iter().any(|&b| !is_space(b)) && !begins
}

/// The body with LF line ends (if the message has CR LF), and long runs of blank lines shortened.
pub(super) fn tidy_body(body: Cow<'_, [u8]>, crlf: bool) -> Cow<'_, [u8]> {
    let body = if crlf && memchr::memmem::find(&body, b"\r\n").is_some() {
        Cow::Owned(encoding::unix_lines(body.into_owned()))
    } else {
        body
    };
    let cuts = blank_runs(&body);
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

/// What to leave out of runs of blank lines.
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
