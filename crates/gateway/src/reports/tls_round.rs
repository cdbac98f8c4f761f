//! A day's TLS reports: made, posted where a domain asks for that, else ready to be mailed.

use std::collections::BTreeMap;

use super::round::{Ready, Reported};
use super::tls::{TlsDestination, destinations_of, document, id};
use super::{Reporter, mail, post};
use crate::clock::Day;
use crate::config::ReportSettings;
use crate::net::resolver::Resolver;
use crate::net::tls::HopTls;
use crate::outbound::tls_outcomes::Counted;

/// What a report is, by mail and by HTTPS (RFC 8460 section 6.4).
const KIND: &str = "application/tlsrpt+gzip";

/// Makes the reports of a day, in the order of domains, and posts those that go by HTTPS.
///
/// # Errors
/// If a report cannot be compressed.
pub async fn tls_reports(
    resolver: &Resolver,
    tls: &HopTls,
    reporter: &Reporter,
    settings: &ReportSettings,
    day: Day,
    counted: &BTreeMap<String, Vec<Counted>>,
) -> anyhow::Result<Vec<Ready>> {
    let mut ready = Vec::new();
    for (number, (domain, all)) in counted.iter().enumerate() {
        if number >= settings.reports_max {
            let left = counted.len() - number;
            tracing::warn!(
                left,
                "more domains than reports a day (reports_max): no reports for them"
            );
            break;
        }
        let sessions = all.iter().map(|c| c.good + c.bad).sum();
        let rows = all.iter().map(|c| c.failed.len() as u64).sum();
        let mut reported =
            Reported { domain: domain.clone(), messages: sessions, rows, ..Reported::default() };
        let json = document(reporter, domain, day, all).to_string();
        let destinations = destinations_of(resolver, domain).await;
        if destinations.is_empty() {
            reported.none = Some("the domain asks for no reports (_smtp._tls)".to_owned());
            ready.push(Ready { reported, xml: json, mails: Vec::new() });
            continue;
        }
        let attachment = mail::compressed(json.as_bytes())?;
        reported.bytes = attachment.len() as u64;
        let mut mails = Vec::new();
        for destination in destinations {
            match destination {
                TlsDestination::Web(url) if reported.bytes <= settings.bytes_max => {
                    match post::post(resolver, tls, &url, KIND, &attachment).await {
                        Ok(()) => reported.to.push(url),
                        Err(why) => reported.refused.push((url, why.to_string())),
                    }
                }
                TlsDestination::Web(url) => {
                    reported.refused.push((url, too_large(&reported, settings)));
                }
                TlsDestination::Mail(address) if address.refused.is_some() => {
                    reported.refused.push((address.address, address.refused.unwrap_or_default()));
                }
                TlsDestination::Mail(address) if reported.bytes > settings.bytes_max => {
                    reported.refused.push((address.address, too_large(&reported, settings)));
                }
                TlsDestination::Mail(address) => {
                    let to = address.address;
                    let on = (day, resolver.clock().unix_ms());
                    mails.push((to.clone(), message(reporter, domain, on, &to, &attachment)));
                    reported.to.push(to);
                }
            }
        }
        ready.push(Ready { reported, xml: json, mails });
    }
    Ok(ready)
}

fn too_large(reported: &Reported, settings: &ReportSettings) -> String {
    format!("the report has {} bytes, {} are allowed", reported.bytes, settings.bytes_max)
}

/// The report by mail (RFC 8460 section 5.3).
fn message(
    reporter: &Reporter,
    domain: &str,
    (day, now_ms): (Day, i64),
    to: &str,
    attachment: &[u8],
) -> String {
    let id = id(reporter, domain, day);
    let (begin, end) = (day.begin_ms() / 1_000, day.end_ms() / 1_000 - 1);
    let name = format!("{}!{domain}!{begin}!{end}!tls.json.gz", reporter.host);
    let parts = mail::Parts {
        to,
        subject: &format!("Report Domain: {domain} Submitter: {} Report-ID: <{id}>", reporter.host),
        id: &id,
        text: &format!(
            "This is the report of {} about TLS to the mail exchangers of\n{domain} on {} (UTC).\n",
            reporter.organisation,
            day.name()
        ),
        multipart: "multipart/report; report-type=\"tlsrpt\"",
        fields: &format!(
            "TLS-Report-Domain: {domain}\r\nTLS-Report-Submitter: {}\r\nTLS-Required: No\r\n",
            reporter.host
        ),
        attached: (KIND, &name),
        now_ms,
    };
    mail::message(reporter, &parts, attachment)
}
