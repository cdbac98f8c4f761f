//! The rules of `rules/*.cf`, which are part of the program.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gauntlet_rules::{LoadError, LoadOptions, LoadReport, NoFunctions, Ruleset};

/// The file with the points that `gauntlet rules fit` has set.
pub const SCORES: &str = "rules/scores.cf";

/// Names and contents of the files, in the order they are read: points last, since the fit sets
/// them anew for rules of the other files.
pub const FILES: [(&str, &str); 21] = [
    ("rules/advance_fee.cf", include_str!("../../../rules/advance_fee.cf")),
    ("rules/attachments.cf", include_str!("../../../rules/attachments.cf")),
    ("rules/bulk.cf", include_str!("../../../rules/bulk.cf")),
    ("rules/crypto.cf", include_str!("../../../rules/crypto.cf")),
    ("rules/extortion.cf", include_str!("../../../rules/extortion.cf")),
    ("rules/gift_cards_bec.cf", include_str!("../../../rules/gift_cards_bec.cf")),
    ("rules/good_signs.cf", include_str!("../../../rules/good_signs.cf")),
    ("rules/header_forgery.cf", include_str!("../../../rules/header_forgery.cf")),
    ("rules/html_tricks.cf", include_str!("../../../rules/html_tricks.cf")),
    ("rules/invoice_fraud.cf", include_str!("../../../rules/invoice_fraud.cf")),
    ("rules/malware_lures.cf", include_str!("../../../rules/malware_lures.cf")),
    ("rules/marketing.cf", include_str!("../../../rules/marketing.cf")),
    ("rules/money.cf", include_str!("../../../rules/money.cf")),
    ("rules/other_scripts.cf", include_str!("../../../rules/other_scripts.cf")),
    ("rules/pharma.cf", include_str!("../../../rules/pharma.cf")),
    ("rules/phishing_account.cf", include_str!("../../../rules/phishing_account.cf")),
    ("rules/phishing_languages.cf", include_str!("../../../rules/phishing_languages.cf")),
    ("rules/phishing_mailbox.cf", include_str!("../../../rules/phishing_mailbox.cf")),
    ("rules/phishing_parcel.cf", include_str!("../../../rules/phishing_parcel.cf")),
    ("rules/url_tricks.cf", include_str!("../../../rules/url_tricks.cf")),
    (SCORES, include_str!("../../../rules/scores.cf")),
];

/// A rule file that is not on disk: name and content.
pub type Text = (Cow<'static, str>, Cow<'static, str>);

/// The files of our own rules with these instead of those of the same name, or beside them. Points
/// stay last, then what is new.
pub fn texts(others: &[Text]) -> Vec<Text> {
    let mut all: Vec<Text> = FILES.iter().map(|(n, t)| (Cow::from(*n), Cow::from(*t))).collect();
    for other in others {
        match all.iter_mut().find(|(name, _)| *name == other.0) {
            Some(same) => same.1 = other.1.clone(),
            None => all.push(other.clone()),
        }
    }
    all
}

/// Our own rules. Files of the sources may set other points and flags for them, and replace them by
/// rules of the same name, which are then theirs. `others` as for [`texts`].
///
/// # Errors
/// If a source cannot be read, or with a strict option if anything is wrong.
pub fn with(
    sources: &[PathBuf],
    others: &[Text],
    options: &LoadOptions,
) -> Result<(Ruleset, LoadReport), LoadError> {
    let options = LoadOptions { texts: texts(others), texts_alone: true, ..options.clone() };
    Ruleset::load(sources, &options, &mut NoFunctions)
}

/// Our own rules alone. They never change while the program runs, so they are compiled once.
pub fn shipped() -> Option<Arc<Ruleset>> {
    static SHIPPED: OnceLock<Option<Arc<Ruleset>>> = OnceLock::new();
    // Nothing is read from disk, so nothing fails here; a test finds problems in the rules.
    let load = || with(&[], &[], &LoadOptions::default()).ok().map(|(rules, _)| Arc::new(rules));
    SHIPPED.get_or_init(load).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_that_ship_have_no_problems() {
        let options = LoadOptions { strict: true, ..LoadOptions::default() };
        let (rules, report) = with(&[], &[], &options).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        for rule in rules.rules().iter().filter(|r| !r.is_sub()) {
            assert!(!rule.description.is_empty(), "{} has no description", rule.name);
        }
    }
}
