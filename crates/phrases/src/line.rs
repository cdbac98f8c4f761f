//! One line of a list.

use crate::limits::{PARTS_MAX, WEIGHT_MAX};
use crate::problem::ProblemKind;

/// What a phrase adds if it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// So many points.
    Points(i32),
    /// So many hundredths of the limit (e2guardian 5.2: `<10%>`).
    Percent(i32),
}

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// DansGuardian's and e2guardian's: `<phrase>,<phrase><weight>`.
    E2guardian,
    /// A word or a phrase, blanks, and a weight.
    Simple,
}

/// A line that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Empty, a comment, or without meaning here (`#noconvert`).
    Nothing,
    /// `#listcategory: "name"`.
    Category(&'a str),
    /// `.Include<file>`.
    Include(&'a str),
    /// Phrases that must all be found.
    Phrases(Phrases<'a>),
}

/// The phrases of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phrases<'a> {
    pub(crate) parts: Vec<&'a str>,
    /// None if the line has none: its list says what the phrase means.
    pub(crate) weight: Option<Weight>,
    /// Only whole words.
    pub(crate) is_word: bool,
    pub(crate) note: Option<ProblemKind>,
}

/// The format by the first line that is neither empty nor a comment.
pub(crate) fn format(text: &str) -> Format {
    let mut lines = text.lines().map(str::trim_start);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    match first.is_none_or(|line| line.starts_with(['<', '.'])) {
        true => Format::E2guardian,
        false => Format::Simple,
    }
}

/// Reads a line.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read(line: &str, format: Format) -> Result<Line<'_>, ProblemKind> {
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    // e2guardian keeps blanks at the edges of a phrase: they are within the brackets.
    if line.is_empty() {
        return Ok(Line::Nothing);
    }
    if let Some(comment) = line.strip_prefix('#') {
        return directive(comment);
    }
    if line.starts_with('.') && format == Format::E2guardian {
        return include(line);
    }
    match format {
        Format::E2guardian => phrases(line).map(Line::Phrases),
        Format::Simple => simple(line).map(Line::Phrases),
    }
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let start = text.get(..word.len())?;
    start.eq_ignore_ascii_case(word).then(|| text.get(word.len()..)).flatten()
}

fn directive(comment: &str) -> Result<Line<'_>, ProblemKind> {
    if let Some(rest) = strip_word(comment, "listcategory:") {
        let name = rest.split('"').nth(1).unwrap_or(rest).trim();
        return Ok(Line::Category(name));
    }
    match strip_word(comment, "time: ") {
        Some(_) => Err(ProblemKind::Time),
        None => Ok(Line::Nothing),
    }
}

fn include(line: &str) -> Result<Line<'_>, ProblemKind> {
    let rest = strip_word(line, ".include<").ok_or(ProblemKind::NotAPhrase)?;
    match rest.split_once('>') {
        Some((file, _)) if !file.trim().is_empty() => Ok(Line::Include(file.trim())),
        _ => Err(ProblemKind::Include),
    }
}

/// A text in brackets, and what stood before it.
struct Group<'a> {
    text: &'a str,
    after_comma: bool,
    after_blank: bool,
}

fn phrases(line: &str) -> Result<Phrases<'_>, ProblemKind> {
    if !line.starts_with('<') {
        return Err(ProblemKind::NotAPhrase);
    }
    let (mut groups, rest) = groups(line)?;
    let mut note = (!rest.is_empty() && !rest.starts_with('#')).then_some(ProblemKind::Trailing);
    let last_is_weight = groups.len() > 1 && groups.last().is_some_and(|g| !g.after_comma);
    let weight = match groups.pop_if(|_| last_is_weight) {
        None => None,
        Some(group) => {
            let (weight, is_whole) = weight(group.text)?;
            if !is_whole {
                note = Some(ProblemKind::Trailing);
            }
            if group.after_blank {
                note = Some(ProblemKind::WeightApart);
            }
            if matches!(weight, Weight::Points(0) | Weight::Percent(0)) {
                note = Some(ProblemKind::WeightZero);
            }
            Some(weight)
        }
    };
    if groups.iter().skip(1).any(|group| !group.after_comma) {
        return Err(ProblemKind::NoComma);
    }
    if groups.len() > PARTS_MAX {
        return Err(ProblemKind::ManyParts);
    }
    let parts = groups.into_iter().map(|group| group.text).collect();
    Ok(Phrases { parts, weight, is_word: false, note })
}

/// The texts in brackets, and what follows the last one.
fn groups(line: &str) -> Result<(Vec<Group<'_>>, &str), ProblemKind> {
    let mut groups = Vec::new();
    let mut rest = line;
    loop {
        let next = rest.trim_start_matches([' ', '\t', ',']);
        let between = rest.get(..rest.len() - next.len()).unwrap_or_default();
        let Some(inner) = next.strip_prefix('<') else { return Ok((groups, next)) };
        let (text, after) = inner.split_once('>').ok_or(ProblemKind::Bracket)?;
        if text.contains('<') {
            return Err(ProblemKind::Bracket);
        }
        let after_comma = between.contains(',');
        groups.push(Group { text, after_comma, after_blank: between.contains([' ', '\t']) });
        rest = after;
    }
}

/// A weight, and whether nothing else stands there: e2guardian reads `<25i>` as 25.
fn weight(text: &str) -> Result<(Weight, bool), ProblemKind> {
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
    let (number, rest) = text.split_at(text.len() - digits.len());
    // Two phrases without a comma look like a phrase and its weight.
    if number.is_empty() {
        return Err(ProblemKind::NoComma);
    }
    let number: i32 = number.parse().map_err(|_| ProblemKind::Weight)?;
    let is_percent = rest.starts_with('%');
    let rest = rest.strip_prefix('%').unwrap_or(rest);
    let is_readable = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_alphabetic());
    match is_readable && (-WEIGHT_MAX..=WEIGHT_MAX).contains(&number) {
        false => Err(ProblemKind::Weight),
        true if is_percent => Ok((Weight::Percent(number), rest.is_empty())),
        true => Ok((Weight::Points(number), rest.is_empty())),
    }
}

fn simple(line: &str) -> Result<Phrases<'_>, ProblemKind> {
    let at = line.rfind(char::is_whitespace).ok_or(ProblemKind::NoWeight)?;
    let (word, number) = line.split_at(at);
    match weight(number) {
        Ok((weight, true)) => {
            let parts = vec![word.trim()];
            Ok(Phrases { parts, weight: Some(weight), is_word: true, note: None })
        }
        _ => Err(ProblemKind::Weight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read<'a> = (Vec<&'a str>, Option<Weight>, Option<ProblemKind>);

    fn e2(line: &str) -> Result<Read<'_>, ProblemKind> {
        match read(line, Format::E2guardian)? {
            Line::Phrases(p) => Ok((p.parts, p.weight, p.note)),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn lines_as_the_lists_have_them() {
        use ProblemKind as P;
        use Weight::{Percent, Points};
        assert_eq!(e2("< bet ><50>"), Ok((vec![" bet "], Some(Points(50)), None)));
        assert_eq!(e2("<a>,<b><-20>\r"), Ok((vec!["a", "b"], Some(Points(-20)), None)));
        assert_eq!(e2("<a>,<b><20>,"), Ok((vec!["a", "b"], Some(Points(20)), None)));
        assert_eq!(e2("<a>, < b ><20>"), Ok((vec!["a", " b "], Some(Points(20)), None)));
        assert_eq!(e2("<a><20> #what"), Ok((vec!["a"], Some(Points(20)), None)));
        assert_eq!(e2("<a><20>3 #x"), Ok((vec!["a"], Some(Points(20)), Some(P::Trailing))));
        assert_eq!(e2("<a><25i>"), Ok((vec!["a"], Some(Points(25)), Some(P::Trailing))));
        assert_eq!(e2("<a><10%>"), Ok((vec!["a"], Some(Percent(10)), None)));
        assert_eq!(e2("<a>"), Ok((vec!["a"], None, None)));
        assert_eq!(e2("<a>,<50>"), Ok((vec!["a", "50"], None, None)));
        assert_eq!(e2("<a, b><5>"), Ok((vec!["a, b"], Some(Points(5)), None)));
        assert_eq!(e2("< a > <40>"), Ok((vec![" a "], Some(Points(40)), Some(P::WeightApart))));
        assert_eq!(e2("<a><0>"), Ok((vec!["a"], Some(Points(0)), Some(P::WeightZero))));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        use ProblemKind as P;
        for (line, kind) in [
            ("<incest rape<50>", P::Bracket),
            ("<ga", P::Bracket),
            ("< a,< b >,< c><50>", P::Bracket),
            ("< a ><50", P::Bracket),
            ("<a><b><70>", P::NoComma),
            ("<a><b>", P::NoComma),
            ("<a><7.5>", P::Weight),
            ("<a><->", P::Weight),
            ("<a><99999999999>", P::Weight),
            ("<a><1000001>", P::Weight),
            ("word 5", P::NotAPhrase),
            (".Exclude<x>", P::NotAPhrase),
            (".Include<x", P::Include),
            ("#time: 8 0 16 0 12345", P::Time),
        ] {
            assert_eq!(read(line, Format::E2guardian), Err(kind), "{line}");
        }
        let many = "<a>,".repeat(PARTS_MAX + 1);
        assert_eq!(read(&many, Format::E2guardian), Err(P::ManyParts));
    }

    #[test]
    fn directives() {
        let read = |line| read(line, Format::E2guardian);
        assert_eq!(read("#listcategory: \"Ga<mb>ling\""), Ok(Line::Category("Ga<mb>ling")));
        assert_eq!(read("#ListCategory: \"open"), Ok(Line::Category("open")));
        assert_eq!(read(".Include</etc/x/y>"), Ok(Line::Include("/etc/x/y")));
        assert_eq!(read(" .include<y> #ALPHA#"), Ok(Line::Include("y")));
        for nothing in ["", "  ", "#", "# <a><5>", "#noconvert", "#.Include<x>"] {
            assert_eq!(read(nothing), Ok(Line::Nothing), "{nothing:?}");
        }
    }

    #[test]
    fn simple_lists() {
        assert_eq!(format("# x\n\n casino\t30\n"), Format::Simple);
        assert_eq!(format("# x\n<a><5>\n"), Format::E2guardian);
        assert_eq!(format(".Include<a>\n"), Format::E2guardian);
        let Ok(Line::Phrases(p)) = read("free  money\t-7", Format::Simple) else { panic!() };
        assert_eq!((p.parts, p.weight), (vec!["free  money"], Some(Weight::Points(-7))));
        assert_eq!(read("word", Format::Simple), Err(ProblemKind::NoWeight));
        assert_eq!(read("word 0.5", Format::Simple), Err(ProblemKind::Weight));
        assert_eq!(read("word five", Format::Simple), Err(ProblemKind::Weight));
    }
}
