//! The detectors by their origin: form, check digits and words of context of each.

mod americas;
mod asia_pacific;
mod central_europe;
mod iban;
mod northern_europe;
mod payment;
mod southern_europe;
mod western_europe;

use crate::detector::Detector;
use crate::secrets;

pub(crate) use iban::Iban;

/// Every detector, group by group.
const ALL: &[&[Detector]] = &[
    payment::DETECTORS,
    western_europe::DETECTORS,
    central_europe::DETECTORS,
    northern_europe::DETECTORS,
    southern_europe::DETECTORS,
    americas::DETECTORS,
    asia_pacific::DETECTORS,
    secrets::DETECTORS,
];

/// Every detector, ordered by family, then as the files list them.
pub fn all() -> impl Iterator<Item = &'static Detector> {
    ALL.iter().flat_map(|group| group.iter())
}

/// The detector of this name.
pub fn by_name(name: &str) -> Option<&'static Detector> {
    all().find(|detector| detector.name == name)
}

/// Letters and digits that evidence of an identity number shows: the last three.
const SHOWN: (usize, usize) = (0, 3);

#[cfg(test)]
mod testing;
