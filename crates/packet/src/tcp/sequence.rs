//! Comparison of sequence numbers, which wrap (RFC 9293, 3.4).

/// `a < b`.
pub(crate) fn lt(a: u32, b: u32) -> bool {
    distance(a, b) < 0
}

/// `a <= b`.
pub(crate) fn leq(a: u32, b: u32) -> bool {
    distance(a, b) <= 0
}

/// `a > b`.
pub(crate) fn gt(a: u32, b: u32) -> bool {
    distance(a, b) > 0
}

/// `a >= b`.
pub(crate) fn geq(a: u32, b: u32) -> bool {
    distance(a, b) >= 0
}

/// `a - b`, the shorter way round.
pub(crate) fn distance(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b).cast_signed()
}
