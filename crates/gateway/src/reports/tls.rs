//! A report on TLS to a domain (RFC 8460): JSON, and where it goes.

use serde_json::{Value, json};

use super::Reporter;
use super::destinations::{self, Destination};
use crate::clock::Day;
use crate::facts::tags;
use crate::net::resolver::{Kind, Resolver};
use crate::outbound::tls_outcomes::Counted;

/// Addresses of one domain that get reports.
const ADDRESSES_MAX: usize = 5;

/// Where a report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsDestination {
    /// By mail to an address of a `mailto:`.
    Mail(Destination),
    /// By POST to this URL.
    Web(String),
}

/// Where a domain wants its reports; none if it wants none.
pub async fn destinations_of(resolver: &Resolver, domain: &str) -> Vec<TlsDestination> {
    let answer = resolver.ask(&format!("_smtp._tls.{domain}"), Kind::Txt).await.answer;
    let mut records = answer.texts().filter_map(|text| read(std::str::from_utf8(text).ok()?));
    match (records.next(), records.next()) {
        (Some(destinations), None) => destinations,
        // Section 3: several records are none.
        _ => Vec::new(),
    }
}

/// Reads a record; none if it is no such record.
fn read(text: &str) -> Option<Vec<TlsDestination>> {
    let (tag, version) = tags::read(text).next()?;
    if tag != "v" || version != "TLSRPTv1" {
        return None;
    }
    let uris = tags::get(text, "rua").unwrap_or_default().split(',').map(str::trim);
    let destination = |uri: &str| match uri.get(..8).filter(|s| s.eq_ignore_ascii_case("https://"))
    {
        Some(_) => Some(TlsDestination::Web(gauntlet_smtp::text::excerpt(uri, 400))),
        None => destinations::destination(uri).map(TlsDestination::Mail),
    };
    Some(uris.filter_map(destination).take(ADDRESSES_MAX).collect())
}

/// The report's name, the same however often it is made.
pub fn id(reporter: &Reporter, domain: &str, day: Day) -> String {
    format!("{}-{domain}-tls@{}", day.name(), reporter.host)
}

/// The document (section 4.4).
pub fn document(reporter: &Reporter, domain: &str, day: Day, all: &[Counted]) -> Value {
    let policies = all.iter().map(|counted| {
        let failures: Vec<Value> = counted.failed.iter().map(failure).collect();
        let mut policy = json!({
            "policy-type": counted.policy.kind,
            "policy-string": counted.policy.lines,
            "policy-domain": domain,
        });
        if counted.policy.kind == "sts"
            && let Some(object) = policy.as_object_mut()
        {
            object.insert("mx-host".to_owned(), json!(counted.policy.hosts));
        }
        json!({
            "policy": policy,
            "summary": {
                "total-successful-session-count": counted.good,
                "total-failure-session-count": counted.bad,
            },
            "failure-details": failures,
        })
    });
    json!({
        "organization-name": reporter.organisation,
        "date-range": {
            "start-datetime": format!("{}T00:00:00Z", day.name()),
            "end-datetime": format!("{}T23:59:59Z", day.name()),
        },
        "contact-info": reporter.from,
        "report-id": id(reporter, domain, day),
        "policies": policies.collect::<Vec<Value>>(),
    })
}

fn failure(failed: &crate::outbound::tls_outcomes::Failed) -> Value {
    let mut details = json!({
        "result-type": failed.kind,
        "receiving-mx-hostname": failed.host,
        "failed-session-count": failed.count,
        "failure-reason-code": failed.reason,
    });
    if let (Some(address), Some(object)) = (failed.address, details.as_object_mut()) {
        object.insert("receiving-ip".to_owned(), json!(address.to_string()));
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let read = |text: &str| read(text).map(|destinations| destinations.len());
        assert_eq!(read("v=TLSRPTv1; rua=mailto:a@b.example,https://b.example/v1"), Some(2));
        assert_eq!(read("v=TLSRPTv1"), Some(0));
        assert_eq!(read("v=DMARC1; rua=mailto:a@b.example"), None);
        let many = format!("v=TLSRPTv1; rua={}", "https://b.example/,".repeat(90));
        assert_eq!(read(&many), Some(ADDRESSES_MAX));
    }
}
