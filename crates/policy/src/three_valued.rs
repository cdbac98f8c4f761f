//! Answers of which some are not known (Kleene's logic), for replays: what was not kept is never
//! guessed, and does not matter where the rest decides.

/// Whether all hold: one that does not decides, whatever the others are.
pub(crate) fn all(answers: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for answer in answers {
        match answer {
            Some(false) => return Some(false),
            None => all = None,
            Some(true) => {}
        }
    }
    all
}

/// Whether any holds: one that does decides, whatever the others are.
pub(crate) fn any(answers: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    not(all(answers.into_iter().map(not)))
}

/// The opposite.
pub(crate) fn not(answer: Option<bool>) -> Option<bool> {
    answer.map(|holds| !holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_counts_only_where_it_decides() {
        const UNKNOWN: Option<bool> = None;
        assert_eq!(all([Some(true), UNKNOWN, Some(false)]), Some(false));
        assert_eq!(all([Some(true), UNKNOWN]), UNKNOWN);
        assert_eq!(any([Some(false), UNKNOWN, Some(true)]), Some(true));
        assert_eq!(any([Some(false), UNKNOWN]), UNKNOWN);
        assert_eq!((all([]), any([])), (Some(true), Some(false)));
    }
}
