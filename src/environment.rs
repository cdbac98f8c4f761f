//! Variables of the process.

/// The process's variables. Those that are no UTF-8 are none of ours (and `std::env::vars` would
/// panic).
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |s: std::ffi::OsString| s.into_string().ok();
    std::env::vars_os().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}
