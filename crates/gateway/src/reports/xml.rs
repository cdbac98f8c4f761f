//! A DMARC aggregate report as XML (RFC 7489 appendix C).

use super::Reporter;
use super::destinations::Published;
use super::dmarc::{Row, Tally};
use crate::clock::Day;

/// Writes the report of a domain for a day.
pub fn document(reporter: &Reporter, published: &Published, day: Day, tally: &Tally) -> String {
    let mut xml = String::with_capacity(1_000 + 900 * tally.rows.len());
    let mut out = Writer { xml: &mut xml, depth: 0 };
    out.line("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    out.group("feedback", |out| {
        out.leaf("version", "1.0");
        out.group("report_metadata", |out| {
            out.leaf("org_name", &reporter.organisation);
            out.leaf("email", &reporter.from);
            out.leaf("report_id", &id(reporter, published, day));
            out.group("date_range", |out| {
                out.leaf("begin", &(day.begin_ms() / 1_000).to_string());
                out.leaf("end", &(day.end_ms() / 1_000 - 1).to_string());
            });
            if tally.left_out > 0 {
                out.leaf("error", &format!("{} messages found no place", tally.left_out));
            }
        });
        out.group("policy_published", |out| {
            out.leaf("domain", &published.domain);
            out.leaf("adkim", &published.dkim_alignment.to_string());
            out.leaf("aspf", &published.spf_alignment.to_string());
            out.leaf("p", &published.policy);
            out.leaf("sp", &published.below);
            out.leaf("pct", &published.percent.to_string());
        });
        for (row, count) in &tally.rows {
            out.group("record", |out| record(out, published, row, *count));
        }
    });
    xml
}

/// The report's name, the same however often it is made.
pub fn id(reporter: &Reporter, published: &Published, day: Day) -> String {
    format!("{}-{}@{}", published.domain, day.name(), reporter.host)
}

fn record(out: &mut Writer<'_>, published: &Published, row: &Row, count: u64) {
    let (spf_domain, helo, spf) = &row.spf;
    let aligned = |domain: &str, alignment| {
        is_aligned(domain, &row.header_from, &published.domain, alignment)
    };
    let dkim = row
        .dkim
        .iter()
        .any(|(domain, _, result)| *result == "pass" && aligned(domain, published.dkim_alignment));
    let spf_passes = *spf == "pass" && aligned(spf_domain, published.spf_alignment);
    let word = |passes: bool| if passes { "pass" } else { "fail" };
    out.group("row", |out| {
        out.leaf("source_ip", &row.client.to_string());
        out.leaf("count", &count.to_string());
        out.group("policy_evaluated", |out| {
            out.leaf("disposition", row.disposition);
            out.leaf("dkim", word(dkim));
            out.leaf("spf", word(spf_passes));
            if !row.as_asked {
                out.group("reason", |out| out.leaf("type", "local_policy"));
            }
        });
    });
    out.group("identifiers", |out| {
        out.leaf("envelope_from", &row.envelope_from);
        out.leaf("header_from", &row.header_from);
    });
    out.group("auth_results", |out| {
        for (domain, selector, result) in &row.dkim {
            out.group("dkim", |out| {
                out.leaf("domain", domain);
                out.leaf("selector", selector);
                out.leaf("result", result);
            });
        }
        out.group("spf", |out| {
            out.leaf("domain", spf_domain);
            out.leaf("scope", if *helo { "helo" } else { "mfrom" });
            out.leaf("result", spf);
        });
    });
}

/// Whether a domain that is proven vouches for the From domain: as an equal, or within the
/// organisation whose policy applies.
fn is_aligned(domain: &str, header_from: &str, policy_domain: &str, alignment: char) -> bool {
    if domain == header_from || alignment == 's' {
        return domain == header_from;
    }
    let organisation = super::destinations::organisation(policy_domain);
    let of = |name: &str| super::destinations::organisation(name) == organisation;
    of(domain) && of(header_from)
}

struct Writer<'x> {
    xml: &'x mut String,
    depth: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        self.xml.extend(std::iter::repeat_n("  ", self.depth));
        self.xml.push_str(text);
        self.xml.push('\n');
    }

    fn group(&mut self, name: &str, inner: impl FnOnce(&mut Self)) {
        self.line(&format!("<{name}>"));
        self.depth += 1;
        inner(self);
        self.depth -= 1;
        self.line(&format!("</{name}>"));
    }

    fn leaf(&mut self, name: &str, text: &str) {
        self.line(&format!("<{name}>{}</{name}>", escaped(text)));
    }
}

/// The text without what XML reads as its own, or does not allow at all.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out() {
        assert_eq!(escaped("a<b>&\"\u{0}\r\n"), "a&lt;b&gt;&amp;&quot;???");
    }

    #[test]
    fn alignment() {
        for (domain, from, alignment, aligned) in [
            ("a.example", "a.example", 's', true),
            ("b.a.example", "a.example", 's', false),
            ("b.a.example", "a.example", 'r', true),
            ("c.example", "a.example", 'r', false),
            ("a.co.uk", "b.co.uk", 'r', false),
        ] {
            assert_eq!(is_aligned(domain, from, from, alignment), aligned, "{domain} {from}");
        }
    }
}
