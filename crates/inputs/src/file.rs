//! One message named on the command line.

use std::path::Path;

use anyhow::Context;

use crate::source;

/// Largest message, in bytes.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// The bytes of the file, or of standard input for `-`.
///
/// # Errors
/// If it is a folder, cannot be read, or is larger than 64 MiB; the error names the path.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    anyhow::ensure!(!path.is_dir(), "{shown}: a folder; name one message, or - for standard input");
    let read = match path.as_os_str() == "-" {
        true => source::read_bounded(std::io::stdin(), MESSAGE_BYTES_MAX),
        false => source::read_file(path, MESSAGE_BYTES_MAX),
    };
    read.with_context(|| shown.to_string())
}

/// The message with CRLF line ends, which signatures are computed over; files mostly have LF. An
/// mbox `From ` line is left out.
pub fn with_crlf(raw: &[u8]) -> Vec<u8> {
    let start = match raw.starts_with(b"From ") {
        true => raw.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1),
        false => 0,
    };
    gauntlet_mail::encoding::with_crlf(raw.get(start..).unwrap_or_default())
}
