//! Which defects make an item [`Class::Unscannable`]: behind each of them a recipient's program may
//! see content that no filter has seen, so the verdict of the filters alone would be a guess.

use gauntlet_mail::{Defect, DefectKind, readings};

use gauntlet_verdict::Class;

/// Why an item with this defect cannot be judged; none where everything was seen all the same.
pub fn reason(kind: DefectKind) -> Option<&'static str> {
    limit(kind).or_else(|| ambiguity(kind))
}

/// Limits that leave something unread.
fn limit(kind: DefectKind) -> Option<&'static str> {
    Some(match kind {
        DefectKind::TooDeep => "parts nested deeper than limits.depth_max were not opened",
        DefectKind::TooManyParts => "parts over limits.parts_max were not read",
        DefectKind::TooManyHeaders => "fields over limits.headers_max were not read",
        DefectKind::HeaderBlockTooLarge => "fields over limits.header_bytes_max were not read",
        DefectKind::DecodedTooLarge => "bytes over limits.decoded_bytes_max were not decoded",
        DefectKind::TextTooLarge => {
            "of a text over limits.text_bytes_max only the beginning and the end were read"
        }
        DefectKind::TooManyUrls => "of URLs over limits.urls_max only the first and last were read",
        DefectKind::TooManyRelays => "Received fields over limits.relays_max were not read",
        DefectKind::UnreadableCharset => "the text is in a charset that cannot be read here",
        DefectKind::UnreadContent => "a file in it could not be read (limits of [content])",
        DefectKind::AmbiguousFrom => {
            "mail programs may show other authors than those that were read (limits.authors_max)"
        }
        _ => return None,
    })
}

/// Content that mail programs read in different ways.
fn ambiguity(kind: DefectKind) -> Option<&'static str> {
    kind.is_ambiguous().then_some("mail programs read its structure in different ways")
}

/// The class of an item that the filters found to be `judged`. Malware and phishing stay what they
/// are: that is known whatever else could not be seen. Everything milder is unscannable, spam too:
/// users may release spam to themselves, and what hides in it may be worse.
///
/// `all_readings`: the files and texts of every reading were looked at, so that ambiguity alone
/// hides nothing ([`gauntlet_mail::readings`]).
pub fn class(judged: Class, filter_failed: bool, all_readings: bool, defects: &[Defect]) -> Class {
    let blind = filter_failed || defects.iter().any(|d| hides(d.kind, all_readings));
    if blind && judged < Class::Phishing { Class::Unscannable } else { judged }
}

/// The kinds of defect for each of which [`class`] says unscannable, each once, in the order of the
/// item.
pub(crate) fn causes(
    filter_failed: bool,
    all_readings: bool,
    defects: &[Defect],
) -> Vec<DefectKind> {
    let mut kinds = Vec::new();
    for kind in defects.iter().map(|d| d.kind) {
        let is_failure = matches!(kind, DefectKind::FilterFailed | DefectKind::RuleBudget);
        let is_cause = hides(kind, all_readings) || (filter_failed && is_failure);
        if is_cause && !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

fn hides(kind: DefectKind, all_readings: bool) -> bool {
    reason(kind).is_some() && !(all_readings && readings::covers(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_never_makes_an_item_milder() {
        let defects = [Defect::new(DefectKind::TooDeep, 0)];
        for judged in Class::ALL {
            let expected = if judged < Class::Phishing { Class::Unscannable } else { judged };
            assert_eq!(class(judged, false, false, &defects), expected);
            assert_eq!(class(judged, true, false, &[]), expected);
            assert_eq!(class(judged, false, true, &defects), expected, "a limit, no ambiguity");
            let ambiguous = [Defect::new(DefectKind::DuplicateMimeHeader, 0)];
            assert_eq!(class(judged, false, false, &ambiguous), expected);
            assert_eq!(class(judged, false, true, &ambiguous), judged);
            assert_eq!(class(judged, false, false, &[]), judged);
            assert_eq!(class(judged, false, false, &[Defect::new(DefectKind::NoDate, 0)]), judged);
        }
    }

    #[test]
    fn the_causes_are_those_without_which_it_is_judged() {
        use DefectKind as K;
        let kinds =
            [K::NoDate, K::TooDeep, K::FilterFailed, K::DuplicateMimeHeader, K::TooDeep, K::NoFrom];
        let defects = kinds.map(|kind| Defect::new(kind, 0));
        for (failed, all_readings, expected) in [
            (false, false, &[K::TooDeep, K::DuplicateMimeHeader][..]),
            (false, true, &[K::TooDeep]),
            (true, true, &[K::TooDeep, K::FilterFailed]),
        ] {
            let found = causes(failed, all_readings, &defects);
            assert_eq!(found, expected);
            let others: Vec<Defect> =
                defects.iter().filter(|d| !found.contains(&d.kind)).cloned().collect();
            assert_eq!(class(Class::Ham, false, all_readings, &others), Class::Ham);
        }
    }
}
