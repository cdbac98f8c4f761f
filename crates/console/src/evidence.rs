//! Evidence shown where it stands: text with marks.

use gauntlet_mail::{Evidence, Hit, View};
use maud::{Markup, html};

/// Most marks in one text; further evidence is still listed with its hit.
const MARKS_MAX: usize = 200;
/// Most rules named by one mark.
const RULES_PER_MARK_MAX: usize = 8;
/// Most bytes of a text shown.
const TEXT_BYTES_MAX: usize = 200_000;

/// A stretch of a text that made rules fire.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    start: usize,
    end: usize,
    rules: Vec<String>,
}

/// The text with every piece of evidence that is of this view and part marked. `name` is the
/// header field for [`View::Header`], else empty.
pub fn marked(text: &str, hits: &[Hit], views: &[View], part: u16, name: &str) -> Markup {
    let shown = &text[..floor(text, TEXT_BYTES_MAX)];
    let marks = marks(shown, hits, views, part, name);
    let mut at = 0;
    html! {
        @for mark in &marks {
            (&shown[at..mark.start])
            mark title=(mark.rules.join(", ")) { (&shown[mark.start..mark.end]) }
            ({ at = mark.end; "" })
        }
        (&shown[at..])
        @if shown.len() < text.len() {
            span.more { " … " (text.len() - shown.len()) " bytes more" }
        }
    }
}

/// How many pieces of evidence stand in this text.
pub(crate) fn count(text: &str, hits: &[Hit], views: &[View], part: u16, name: &str) -> usize {
    marks(text, hits, views, part, name).len()
}

fn marks(text: &str, hits: &[Hit], views: &[View], part: u16, name: &str) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    for hit in hits {
        for evidence in &hit.evidence {
            let here = views.contains(&evidence.view)
                && evidence.part == part
                && (name.is_empty()
                    || evidence.name.as_deref().is_some_and(|n| n.eq_ignore_ascii_case(name)));
            if let Some((start, end)) = here.then(|| place(text, evidence)).flatten() {
                marks.push(Mark { start, end, rules: vec![hit.rule.to_string()] });
            }
        }
    }
    marks.sort_by(|a, b| (a.start, a.end, &a.rules).cmp(&(b.start, b.end, &b.rules)));
    let mut joined: Vec<Mark> = Vec::new();
    for mark in marks {
        match joined.last_mut().filter(|last| mark.start < last.end) {
            Some(last) => {
                last.end = last.end.max(mark.end);
                let new = mark.rules.into_iter().filter(|r| !last.rules.contains(r));
                let new: Vec<String> = new.take(RULES_PER_MARK_MAX - last.rules.len()).collect();
                last.rules.extend(new);
            }
            None => joined.push(mark),
        }
    }
    joined.truncate(MARKS_MAX);
    joined
}

/// Where the evidence stands in this text. Its offset is believed if its quotation is there; else
/// the quotation is looked for, since a rule may have seen another rendering of the text.
fn place(text: &str, evidence: &Evidence) -> Option<(usize, usize)> {
    let quoted = evidence.text.as_str();
    if quoted.is_empty() {
        return None;
    }
    let start = evidence.offset as usize;
    let stands = text.get(start..).is_some_and(|rest| rest.starts_with(quoted));
    let (start, length) = if stands {
        (start, (evidence.length as usize).max(quoted.len()))
    } else {
        (text.find(quoted)?, quoted.len())
    };
    let end = floor(text, start.saturating_add(length));
    (start < end).then_some((start, end))
}

/// The last character's start at or before this byte.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(rule: &str, offset: usize, text: &str) -> Hit {
        Hit {
            rule: rule.into(),
            score: 1.0,
            count: 1,
            description: "".into(),
            evidence: vec![Evidence::new(View::Text, 1, offset, text.as_bytes())],
        }
    }

    #[test]
    fn marks_stand_where_the_evidence_is() {
        let hits =
            [hit("A", 4, "free"), hit("B", 0, "money"), hit("C", 6, "ee m"), hit("D", 0, "?")];
        let html = marked("Get free money <b>", &hits, &[View::Text], 1, "").0;
        assert_eq!(html, "Get <mark title=\"A, C, B\">free money</mark> &lt;b&gt;");
        assert_eq!(count("Get free money", &hits, &[View::Text], 2, ""), 0);
    }

    #[test]
    fn offsets_that_are_off_do_no_harm() {
        let mut wrong = hit("A", 1, "ß");
        wrong.evidence[0].length = u32::MAX;
        let html = marked("xßy", &[wrong.clone()], &[View::Text], 1, "").0;
        assert_eq!(html, "x<mark title=\"A\">ßy</mark>");
        wrong.evidence[0].offset = 2;
        assert_eq!(marked("xßy", &[wrong], &[View::Text], 1, "").0, "x<mark title=\"A\">ß</mark>y");
    }
}
