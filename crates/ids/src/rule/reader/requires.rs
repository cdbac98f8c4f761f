//! `requires`: rules for other versions or features are left out.

use super::draft::{Outcome, Refusal};
use super::shared::Shared;
use super::table;

/// The version of Suricata whose rules are read.
const VERSION: (u8, u8, u8) = (8, 0, 6);

/// Whether rules may ask for a feature.
fn is_here(feature: &str, shared: &Shared) -> bool {
    match feature {
        "ja3" | "ja4" => shared.has_fingerprints(feature),
        _ => feature == "output::file-store",
    }
}

/// Skips the rule if it asks for what is not here.
pub(super) fn requires(value: &str, shared: &Shared) -> Outcome {
    let mut has_version = false;
    for part in value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let end = part.find(|c: char| !is_word(c)).unwrap_or(part.len());
        let (name, argument) = part.split_at(end);
        let argument = argument.trim();
        match name {
            "feature" if is_here(argument, shared) => {}
            "feature" => return skip(format!("the feature {argument:?} is not here")),
            "keyword" if table::is_known(argument) => {}
            "keyword" => return skip(format!("the keyword {argument:?} is not here")),
            "version" if has_version => return Err("one version only".into()),
            "version" => {
                has_version = true;
                if !version(argument)? {
                    return skip(format!("it is for version {argument}"));
                }
            }
            _ => return skip(format!("the requirement {part:?} is not known")),
        }
    }
    Ok(())
}

fn skip(reason: String) -> Outcome {
    Err(Refusal::Skip(reason))
}

/// Whether one of the alternatives `>= 7.0.3 < 8 | >= 8.0.1` holds.
fn version(text: &str) -> Outcome<bool> {
    let mut holds = false;
    for alternative in text.split('|') {
        let mut rest = alternative.trim();
        let mut all = true;
        if rest.is_empty() {
            return Err(format!("{text:?} is no version").into());
        }
        while !rest.is_empty() {
            let operators = [">=", "<=", ">", "<"];
            let operator = operators.into_iter().find(|sign| rest.starts_with(sign));
            let operator = operator.ok_or_else(|| format!("{text:?} is no version"))?;
            let after = rest.get(operator.len()..).unwrap_or_default().trim_start();
            let end = after.find([' ', '>', '<']).unwrap_or(after.len());
            let (number, tail) = after.split_at(end);
            let wanted = number_of(number).ok_or_else(|| format!("{number:?} is no version"))?;
            all &= match operator {
                ">=" => VERSION >= wanted,
                "<=" => VERSION <= wanted,
                ">" => VERSION > wanted,
                _ => VERSION < wanted,
            };
            rest = tail.trim_start();
        }
        holds |= all;
    }
    Ok(holds)
}

fn number_of(text: &str) -> Option<(u8, u8, u8)> {
    let text = text.split('-').next()?;
    let mut parts = text.split('.');
    let major = parts.next()?.parse().ok()?;
    let mut next = || parts.next().map_or(Some(0), |part| part.parse().ok());
    Some((major, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(value: &str) -> Outcome {
        requires(value, &Shared::default())
    }

    #[test]
    fn versions_are_compared() {
        for yes in [">= 8", ">=8.0.6", "< 9.0.0", ">= 7.0.3 < 7.1 | >= 8.0.0", ">= 7 < 9"] {
            assert_eq!(asked(&format!("version {yes}")), Ok(()), "{yes}");
        }
        for no in ["> 8.0.6", "< 8", ">= 7.0.3 < 8", ">= 9 | < 7"] {
            let outcome = asked(&format!("version {no}"));
            assert!(matches!(outcome, Err(Refusal::Skip(_))), "{no}");
        }
        assert!(matches!(asked("version 8"), Err(Refusal::Error(_))));
        assert!(matches!(asked("feature geoip"), Err(Refusal::Skip(_))));
        assert!(matches!(asked("foo bar"), Err(Refusal::Skip(_))));
        assert_eq!(asked("keyword content, version >= 8"), Ok(()));
    }
}
