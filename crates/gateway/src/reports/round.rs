//! A day's reports: made, bounded, and handed to the sender.

use serde::{Deserialize, Serialize};

use super::destinations::{Published, ask};
use super::dmarc::{Collected, Tally};
use super::{Reporter, mail, xml};
use crate::clock::Day;
use crate::config::ReportSettings;
use crate::net::resolver::Resolver;

/// What became of a domain's report.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reported {
    /// The domain whose policy applied.
    pub domain: String,
    /// Messages that it counts.
    pub messages: u64,
    /// Lines (`record` elements) that it has.
    pub rows: u64,
    /// Bytes of the report, compressed; 0 if none was made.
    pub bytes: u64,
    /// Addresses that got it, or are to get it.
    pub to: Vec<String>,
    /// Addresses that do not, with the reason.
    pub refused: Vec<(String, String)>,
    /// Why there is none at all; none if there is one.
    pub none: Option<String>,
}

/// A report that is ready.
#[derive(Debug, Clone)]
pub struct Ready {
    /// What is said of it.
    pub reported: Reported,
    /// The report as XML, not compressed.
    pub xml: String,
    /// For each address, the message.
    pub mails: Vec<(String, String)>,
}

/// Makes the reports of a day, in the order of domains; asks each domain for its record as it is
/// now.
///
/// # Errors
/// If a report cannot be compressed.
pub async fn reports(
    resolver: &Resolver,
    reporter: &Reporter,
    settings: &ReportSettings,
    day: Day,
    collected: &Collected,
) -> anyhow::Result<Vec<Ready>> {
    let mut ready = Vec::new();
    for (number, (domain, tally)) in collected.domains.iter().enumerate() {
        if number >= settings.reports_max {
            let left = collected.domains.len() - number;
            tracing::warn!(
                left,
                "more domains than reports a day (reports_max): no reports for them"
            );
            break;
        }
        let published = ask(resolver, domain).await;
        let now_ms = resolver.clock().unix_ms();
        ready.push(report(reporter, settings, (day, now_ms), domain, tally, published)?);
    }
    Ok(ready)
}

fn report(
    reporter: &Reporter,
    settings: &ReportSettings,
    (day, now_ms): (Day, i64),
    domain: &str,
    tally: &Tally,
    published: Option<Published>,
) -> anyhow::Result<Ready> {
    let mut reported = Reported {
        domain: domain.to_owned(),
        messages: tally.messages(),
        rows: tally.rows.len() as u64,
        ..Reported::default()
    };
    let none = |mut reported: Reported, why: &str| {
        reported.none = Some(why.to_owned());
        Ready { reported, xml: String::new(), mails: Vec::new() }
    };
    let Some(published) = published else {
        return Ok(none(reported, "the domain publishes no policy now"));
    };
    if published.destinations.is_empty() {
        return Ok(none(reported, "the domain asks for no reports (rua)"));
    }
    let document = xml::document(reporter, &published, day, tally);
    let attachment = mail::compressed(document.as_bytes())?;
    let bytes = attachment.len() as u64;
    reported.bytes = bytes;
    let id = xml::id(reporter, &published, day);
    let (begin, end) = (day.begin_ms() / 1_000, day.end_ms() / 1_000 - 1);
    let name = format!("{}!{domain}!{begin}!{end}.xml.gz", reporter.host);
    let subject = format!("Report Domain: {domain} Submitter: {} Report-ID: <{id}>", reporter.host);
    let text = format!(
        "This is the DMARC aggregate report of {} about mail in the name of\n{domain} on {} (UTC): {} \
         messages.\n",
        reporter.organisation,
        day.name(),
        tally.messages()
    );
    let mut mails = Vec::new();
    for destination in &published.destinations {
        let most = match destination.bytes_max {
            0 => settings.bytes_max,
            own => own.min(settings.bytes_max),
        };
        let too_large = || format!("the report has {bytes} bytes, {most} are allowed");
        let refused = destination.refused.clone().or_else(|| (bytes > most).then(too_large));
        let to = destination.address.clone();
        if let Some(why) = refused {
            reported.refused.push((to, why));
            continue;
        }
        let parts = mail::Parts {
            to: &to,
            subject: &subject,
            id: &id,
            text: &text,
            multipart: "multipart/mixed",
            fields: "",
            attached: ("application/gzip", &name),
            now_ms,
        };
        mails.push((to.clone(), mail::message(reporter, &parts, &attachment)));
        reported.to.push(to);
    }
    if mails.is_empty() {
        reported.none = Some("no address takes it".to_owned());
    }
    Ok(Ready { reported, xml: document, mails })
}
