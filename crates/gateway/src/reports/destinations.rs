//! Where a domain wants its reports: the `rua` addresses of its record, and whether the addresses'
//! owners agreed (RFC 7489 section 7.1).

use gauntlet_mail::public_suffix;

use crate::facts::tags;
use crate::net::resolver::{Kind, Resolver};

/// Addresses of one domain that get reports (RFC 7489 section 6.2 asks for two at least).
const ADDRESSES_MAX: usize = 5;

/// What a domain publishes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Published {
    /// Where the record is.
    pub domain: String,
    /// `adkim=`: `r` or `s`.
    pub dkim_alignment: char,
    /// `aspf=`: `r` or `s`.
    pub spf_alignment: char,
    /// `p=`: `none`, `quarantine` or `reject`.
    pub policy: String,
    /// `sp=`, else what `p=` says.
    pub below: String,
    /// `pct=`: 0 to 100.
    pub percent: u8,
    /// Addresses of `rua=` that want reports.
    pub destinations: Vec<Destination>,
}

/// An address for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The mail address; of what is none, the whole URI.
    pub address: String,
    /// Bytes of a report that it takes; 0 is no bound of its own.
    pub bytes_max: u64,
    /// Why it gets none; none if it does.
    pub refused: Option<String>,
}

impl Published {
    /// Reads a record; none if it is no DMARC record. Where reports may go is not asked yet.
    pub fn parse(domain: &str, text: &str) -> Option<Self> {
        let version = tags::read(text).next()?;
        if !version.0.eq_ignore_ascii_case("v") || version.1 != "DMARC1" {
            return None;
        }
        let get = |name| tags::get(text, name).map(str::to_ascii_lowercase);
        let alignment = |name| match get(name).as_deref() {
            Some("s") => 's',
            _ => 'r',
        };
        let known = |word: &String| matches!(word.as_str(), "none" | "quarantine" | "reject");
        let policy = get("p").filter(known).unwrap_or_else(|| "none".to_owned());
        let uris = tags::get(text, "rua").unwrap_or_default().split(',');
        Some(Published {
            domain: domain.to_owned(),
            dkim_alignment: alignment("adkim"),
            spf_alignment: alignment("aspf"),
            below: get("sp").filter(known).unwrap_or_else(|| policy.clone()),
            policy,
            percent: get("pct").and_then(|p| p.parse().ok()).filter(|p| *p <= 100).unwrap_or(100),
            destinations: uris.filter_map(destination).take(ADDRESSES_MAX).collect(),
        })
    }
}

/// An address with a bound: `mailto:reports@example.org!10m`; none if there is nothing.
pub fn destination(uri: &str) -> Option<Destination> {
    let uri = uri.trim();
    if uri.is_empty() {
        return None;
    }
    let cut = |text: &str| gauntlet_smtp::text::excerpt(text, 320);
    let refused = |why: &str| {
        Some(Destination { address: cut(uri), bytes_max: 0, refused: Some(why.to_owned()) })
    };
    let scheme = uri.get(..7).filter(|s| s.eq_ignore_ascii_case("mailto:"));
    if scheme.is_none() {
        return refused("reports go by mail only");
    }
    let rest = uri.get(7..).unwrap_or_default();
    let rest = rest.split('?').next().unwrap_or_default();
    let (address, size) = match rest.rsplit_once('!') {
        Some((address, size)) => (address, Some(size)),
        None => (rest, None),
    };
    let Some(bytes_max) = size.map_or(Some(0), bytes) else {
        return refused("the bound behind ! is no size");
    };
    let address = percent_decoded(address);
    let plain = |b: u8| b.is_ascii_graphic() && !b"<>()[],;:\\\"".contains(&b);
    let fits = address.bytes().all(plain)
        && address.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty() && domain.contains('.') && !domain.contains('@')
        });
    if !fits || address.len() > 320 {
        return refused("no mail address");
    }
    Some(Destination { address, bytes_max, refused: None })
}

/// `10m`: a number with k, m, g or t behind it.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(at) {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.filter(|_| byte == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                at += 3;
            }
            None => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What a domain publishes, and which of its addresses may get reports; none if it publishes
/// nothing now.
pub async fn ask(resolver: &Resolver, domain: &str) -> Option<Published> {
    let asked = resolver.ask(&format!("_dmarc.{domain}"), Kind::Txt).await;
    let mut records = asked.answer.texts().filter_map(|text| {
        std::str::from_utf8(text).ok().and_then(|text| Published::parse(domain, text))
    });
    let (Some(mut published), None) = (records.next(), records.next()) else { return None };
    for destination in &mut published.destinations {
        if destination.refused.is_none() {
            destination.refused = refusal(resolver, domain, &destination.address).await;
        }
    }
    Some(published)
}

/// Why an address gets no reports about this domain; none if it does. Another organisation's must
/// say that it wants them.
async fn refusal(resolver: &Resolver, domain: &str, address: &str) -> Option<String> {
    let host = address.rsplit_once('@').map_or("", |(_, host)| host).to_ascii_lowercase();
    if organisation(&host) == organisation(domain) {
        return None;
    }
    let name = format!("{domain}._report._dmarc.{host}");
    let answer = resolver.ask(&name, Kind::Txt).await.answer;
    let agrees = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let version = tags::read(text).next();
        version.is_some_and(|(tag, value)| tag.eq_ignore_ascii_case("v") && value == "DMARC1")
    };
    if answer.texts().any(agrees) {
        return None;
    }
    Some(match answer.outcome.is_certain() {
        true => format!("{host} does not say that it takes reports about {domain} ({name})"),
        false => format!("{name} could not be asked ({})", answer.outcome.name()),
    })
}

/// The registered domain by the public suffix list.
pub(crate) fn organisation(host: &str) -> String {
    let domain = public_suffix::domain(host.as_bytes());
    let text = domain.and_then(|domain| std::str::from_utf8(domain).ok());
    text.unwrap_or(host).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let read = |uri: &str| {
            let d = destination(uri).unwrap();
            (d.address, d.bytes_max, d.refused)
        };
        let fine = |address: &str, bytes: u64| (address.to_owned(), bytes, None);
        assert_eq!(read(" mailto:a@b.example"), fine("a@b.example", 0));
        assert_eq!(read("MAILTO:a@b.example!10m"), fine("a@b.example", 10 << 20));
        assert_eq!(read("mailto:a%21x@b.example!5?subject=x"), fine("a!x@b.example", 5));
        for bad in [
            "https://b.example/",
            "mailto:",
            "mailto:a",
            "mailto:a@b",
            "mailto:a@b.example!x",
            "mailto:a@b.example!99999999999t",
            "mailto:a%0d%0aBcc:x@b.example",
            "mailto:<a@b.example>",
        ] {
            assert!(read(bad).2.is_some(), "{bad}");
        }
        assert_eq!(destination("  "), None);
    }

    #[test]
    fn records() {
        let text =
            "v=DMARC1; p=reject; adkim=s; pct=20; rua=mailto:a@b.example,,mailto:c@d.example";
        let read = Published::parse("b.example", text).unwrap();
        assert_eq!(
            (read.policy.as_str(), read.below.as_str(), read.percent),
            ("reject", "reject", 20)
        );
        assert_eq!((read.dkim_alignment, read.spf_alignment), ('s', 'r'));
        assert_eq!(read.destinations.len(), 2);
        let many = format!("v=DMARC1; rua={}", "mailto:a@b.example,".repeat(100));
        assert_eq!(Published::parse("b.example", &many).unwrap().destinations.len(), ADDRESSES_MAX);
        assert_eq!(Published::parse("b.example", "v=spf1"), None);
    }
}
