//! A report as a message: some words, and the report attached, compressed.

use std::io::Write as _;

use gauntlet_mail::date;
use gauntlet_smtp::text::breaks_line;

use super::Reporter;

/// The parts of a report by mail.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'p> {
    /// Address of the recipient.
    pub to: &'p str,
    /// As RFC 7489 section 7.2.1.1 and RFC 8460 section 5.3 form it.
    pub subject: &'p str,
    /// The report's name, for Message-ID.
    pub id: &'p str,
    /// The text that users read.
    pub text: &'p str,
    /// `multipart/mixed`, or `multipart/report` with its kind.
    pub multipart: &'p str,
    /// Fields beside the usual ones, with their line ends.
    pub fields: &'p str,
    /// Type and file name of the attachment.
    pub attached: (&'p str, &'p str),
    /// Unix time in milliseconds.
    pub now_ms: i64,
}

/// Compresses a report (RFC 1952).
///
/// # Errors
/// Never but for lack of memory.
pub fn compressed(report: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(report)?;
    out.finish()
}

/// The message, with CRLF line ends.
pub fn message(reporter: &Reporter, parts: &Parts<'_>, attachment: &[u8]) -> String {
    // An address or name from outside never ends a line.
    let line = |text: &str| -> String { text.chars().filter(|c| !breaks_line(*c)).collect() };
    let Parts { multipart, text, attached: (kind, name), .. } = parts;
    let boundary = "=_gauntlet_aggregate_report";
    let mut raw = format!(
        "From: {}\r\nTo: {}\r\nSubject: {}\r\nDate: {}\r\nMessage-ID: <{}>\r\n\
         Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n{}\
         Content-Type: {multipart}; boundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n\
         --{boundary}\r\nContent-Type: {kind}\r\n\
         Content-Disposition: attachment; filename=\"{}\"\r\nContent-Transfer-Encoding: base64\r\n\r\n",
        line(&reporter.from),
        line(parts.to),
        line(parts.subject),
        date::rfc5322(parts.now_ms),
        line(parts.id),
        parts.fields,
        text.replace("\r\n", "\n").replace('\n', "\r\n"),
        line(name).replace(['"', '\\'], "_"),
    );
    for row in base64_simd::STANDARD.encode_to_string(attachment).as_bytes().chunks(76) {
        raw.push_str(&String::from_utf8_lossy(row));
        raw.push_str("\r\n");
    }
    raw.push_str(&format!("--{boundary}--\r\n"));
    raw
}
