//! A report as a mail: a few lines to read, the whole as PDF and CSV beside them.

use super::web::{WebReport, name};
use super::{Report, csv::csv, pdf::pdf, percent};
use crate::digest::{base64_lines, encoded_words, part, rfc5322};
use crate::format;
use crate::text::{Texts, translatable};

/// The message, lines ending in CRLF, ASCII only.
pub fn mail(
    report: &Report,
    node: &str,
    (from, to): (&str, &str),
    now_ms: i64,
    texts: &Texts,
) -> String {
    let text = summary(report, texts);
    let subject = texts.say("Mail of {}, {} to {}", &[&node, &report.since, &report.until]);
    let subject = encoded_words(&subject);
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
        "From: {from}\r\nTo: {to}\r\nSubject: {subject}\r\nDate: {}\r\n\
         Message-ID: <report-{mark}@{domain}>\r\nAuto-Submitted: auto-generated\r\n\
         MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{mark}\"\r\n\r\n\
         --{mark}\r\n{}\r\n--{mark}\r\n{}\r\n--{mark}\r\n{}\r\n--{mark}--\r\n",
        rfc5322(now_ms),
        part("plain", &text),
        attach("application/pdf", "pdf", &pdf(report, node, texts)),
        attach("text/csv; charset=utf-8", "csv", csv(report).as_bytes()),
    )
}

/// The report in a few lines.
pub fn summary(report: &Report, texts: &Texts) -> String {
    let all = format::count(report.messages());
    let bytes = format::bytes(report.bytes);
    let mut out = texts
        .say("{} to {} (UTC): {} messages, {}.", &[&report.since, &report.until, &all, &bytes]);
    out.push_str("\r\n\r\n");
    for (class, n) in &report.classes {
        let class = texts.say(class.name(), &[]);
        out.push_str(&format!("  {class:<12} {:>12}\r\n", format::count(*n)));
    }
    let a = &report.accuracy;
    let shares = [
        (
            translatable("Of {} judged unwanted, users wanted {} ({})."),
            a.unwanted,
            a.wrongly_unwanted,
            a.false_positives(),
        ),
        (
            translatable("Of {} judged wanted, users did not want {} ({})."),
            a.wanted,
            a.wrongly_wanted,
            a.false_negatives(),
        ),
    ];
    for (sentence, of, wrong, share) in shares {
        let (of, wrong) = (format::count(of), format::count(wrong));
        let share = percent(share).unwrap_or_else(|| texts.say("unknown", &[]));
        out.push_str("\r\n");
        out.push_str(&texts.say(sentence, &[&of, &wrong, &share]));
    }
    out.push_str("\r\n");
    for (title, names) in report.tops() {
        let title = texts.say(title, &[]);
        out.push_str(&format!("\r\n{title}:\r\n"));
        for name in names.iter().take(10) {
            let (n, name) = (format::count(name.messages), format::plain(&name.name));
            out.push_str(&format!("  {n:>10}  {name}\r\n"));
        }
    }
    if let Some(report) = &report.web {
        web(report, texts, &mut out);
    }
    out
}

/// The web part.
fn web(report: &WebReport, texts: &Texts, out: &mut String) {
    let [all, blocked] = [report.requests, report.blocked].map(format::count);
    let bytes = format::bytes(report.bytes_out);
    out.push_str("\r\n");
    let sentence = translatable("Web: {} requests, {} blocked, {} to clients.");
    out.push_str(&texts.say(sentence, &[&all, &blocked, &bytes]));
    out.push_str("\r\n");
    for (title, counts, number) in report.tops() {
        if counts.is_empty() {
            continue;
        }
        out.push_str(&format!("\r\n{}:\r\n", texts.say(title, &[])));
        for count in counts.iter().take(10) {
            let (n, name) = (format::count(number(count)), format::plain(name(count)));
            out.push_str(&format!("  {n:>10}  {name}\r\n"));
        }
    }
}
