//! Codes of replies.

/// Codes that servers may answer with.
const CODES: &[&[u8; 3]] = &[
    b"211", b"214", b"220", b"221", b"235", b"250", b"251", b"252", b"334", b"354", b"401", b"402",
    b"421", b"435", b"450", b"451", b"452", b"454", b"455", b"500", b"501", b"502", b"503", b"504",
    b"511", b"521", b"522", b"525", b"530", b"534", b"535", b"541", b"543", b"550", b"551", b"552",
    b"553", b"554", b"555",
];

/// The known code that a line begins with.
pub(super) fn code(line: &[u8]) -> Option<u16> {
    let code = line.get(..3)?;
    if !CODES.iter().any(|known| known.as_slice() == code) {
        return None;
    }
    std::str::from_utf8(code).ok()?.parse().ok()
}
