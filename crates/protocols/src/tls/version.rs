//! Versions of SSL and TLS as numbers on the wire, and their names.

/// Not seen yet.
pub const UNKNOWN: u16 = 0;
/// SSL 2.0; not a number of the wire.
pub const SSL2: u16 = 0x0200;
/// TLS 1.0 (RFC 2246).
pub const TLS10: u16 = 0x0301;
/// TLS 1.1 (RFC 4346).
pub const TLS11: u16 = 0x0302;
/// TLS 1.2 (RFC 5246).
pub const TLS12: u16 = 0x0303;
/// TLS 1.3 (RFC 8446).
pub const TLS13: u16 = 0x0304;
/// A draft of TLS 1.3 before the sixteenth; those are not told apart.
pub const TLS13_EARLY_DRAFT: u16 = 0x7f01;

/// Its name in logs; `None` if there is no such version.
pub fn name(version: u16) -> Option<&'static str> {
    Some(match version {
        UNKNOWN => "UNDETERMINED",
        SSL2 => "SSLv2",
        0x0300 => "SSLv3",
        TLS10 => "TLSv1",
        TLS11 => "TLS 1.1",
        TLS12 => "TLS 1.2",
        TLS13 => "TLS 1.3",
        0x7f1c => "TLS 1.3 draft-28",
        0x7f1b => "TLS 1.3 draft-27",
        0x7f1a => "TLS 1.3 draft-26",
        0x7f19 => "TLS 1.3 draft-25",
        0x7f18 => "TLS 1.3 draft-24",
        0x7f17 => "TLS 1.3 draft-23",
        0x7f16 => "TLS 1.3 draft-22",
        0x7f15 => "TLS 1.3 draft-21",
        0x7f14 => "TLS 1.3 draft-20",
        0x7f13 => "TLS 1.3 draft-19",
        0x7f12 => "TLS 1.3 draft-18",
        0x7f11 => "TLS 1.3 draft-17",
        0x7f10 => "TLS 1.3 draft-16",
        TLS13_EARLY_DRAFT => "TLS 1.3 draft-<16",
        0xfb14 => "TLS 1.3 draft-20-fb",
        0xfb15 => "TLS 1.3 draft-21-fb",
        0xfb16 => "TLS 1.3 draft-22-fb",
        0xfb17 => "TLS 1.3 draft-23-fb",
        0xfb1a => "TLS 1.3 draft-26-fb",
        _ => return None,
    })
}

/// A version that a record may have: a known one, from SSL 3.0.
pub fn is_valid(version: u16) -> bool {
    version != UNKNOWN && version != SSL2 && name(version).is_some()
}

/// A value that means nothing and keeps servers tolerant (RFC 8701).
pub fn is_grease(value: u16) -> bool {
    let [high, low] = value.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}
