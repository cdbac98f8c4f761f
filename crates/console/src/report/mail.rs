//! A report as a mail: a few lines to read, the whole as PDF and CSV beside them.

use super::{Report, csv::csv, pdf::pdf, percent};
use crate::digest::{base64_lines, part, rfc5322};
use crate::format;

/// The message, lines ending in CRLF, ASCII only.
pub fn mail(report: &Report, node: &str, from: &str, to: &str, now_ms: i64) -> String {
    let text = summary(report);
    let name = format!("gauntlet-{}-{}", report.since, report.until);
    let mark: String = blake3::hash(format!("{node} {to} {now_ms}").as_bytes())
        .to_hex()
        .chars()
        .take(32)
        .collect();
    let domain = from.rsplit_once('@').map_or("localhost", |(_, d)| d);
    let attach = |kind: &str, ending: &str, bytes: &[u8]| {
        format!(
            "Content-Type: {kind}\r\nContent-Disposition: attachment; filename=\"{name}.{ending}\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}",
            base64_lines(bytes)
        )
    };
    format!(
        "From: {from}\r\nTo: {to}\r\nSubject: Mail of {node}, {} to {}\r\nDate: {}\r\n\
         Message-ID: <report-{mark}@{domain}>\r\nAuto-Submitted: auto-generated\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{mark}\"\r\n\r\n\
         --{mark}\r\n{}\r\n--{mark}\r\n{}\r\n--{mark}\r\n{}\r\n--{mark}--\r\n",
        report.since,
        report.until,
        rfc5322(now_ms),
        part("plain", &text),
        attach("application/pdf", "pdf", &pdf(report, node)),
        attach("text/csv; charset=utf-8", "csv", csv(report).as_bytes()),
    )
}

/// The report in a few lines.
pub fn summary(report: &Report) -> String {
    let mut out = format!(
        "{} to {} (UTC): {} messages, {}.\r\n\r\n",
        report.since,
        report.until,
        format::count(report.messages()),
        format::bytes(report.bytes)
    );
    for (class, n) in &report.classes {
        out.push_str(&format!("  {:<12} {:>12}\r\n", class.name(), format::count(*n)));
    }
    let a = &report.accuracy;
    out.push_str(&format!(
        "\r\nOf {} judged unwanted, people wanted {} ({}).\r\n\
         Of {} judged wanted, people did not want {} ({}).\r\n",
        format::count(a.unwanted),
        format::count(a.wrongly_unwanted),
        percent(a.false_positives()),
        format::count(a.wanted),
        format::count(a.wrongly_wanted),
        percent(a.false_negatives()),
    ));
    for (title, names) in [("sent most", &report.senders), ("hit most", &report.rules)] {
        out.push_str(&format!("\r\nWhat {title}:\r\n"));
        for name in names.iter().take(10) {
            let (n, name) = (format::count(name.messages), format::plain(&name.name));
            out.push_str(&format!("  {n:>10}  {name}\r\n"));
        }
    }
    out
}
