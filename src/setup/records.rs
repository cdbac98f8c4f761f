//! The DNS records that a set-up asks for: where mail comes in, who may send, how it is signed, and
//! where reports go.

use std::net::IpAddr;

use gauntlet_gateway::facts::key_record;
use gauntlet_mail::address::ascii_domain;

use super::answers::Answers;
use super::given::Purpose;

/// Seconds that senders keep the policy of MTA-STS (RFC 8461 section 3.2): a week, while it is
/// tried.
const STS_SECONDS: u32 = 604_800;

/// A record to publish.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Record {
    /// Full name, without the dot at the end.
    pub(super) name: String,
    /// `A`, `MX`, `TXT` ...
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// As zone files write it, but for the quotes of TXT.
    pub(super) value: String,
    /// What it is for.
    pub(super) why: String,
}

impl Record {
    /// The line of a zone file.
    pub(super) fn line(&self) -> String {
        let Record { name, kind, value, .. } = self;
        match *kind {
            "TXT" => key_record::zone_line(name, value),
            _ => format!("{name}. 3600 IN {kind} {value}"),
        }
    }
}

/// A DKIM key, or the place of one that a dry run does not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyText {
    /// Domain that signs.
    pub(super) domain: String,
    /// Name of its record.
    pub(super) name: String,
    /// Text of its record.
    pub(super) record: String,
}

/// All records, in the order in which to publish them. `id` is of the MTA-STS policy: digits that
/// grow (RFC 8461 section 3.1).
pub(super) fn records(answers: &Answers, keys: &[KeyText], id: &str) -> Vec<Record> {
    let mut list = List(Vec::new());
    let is_exchanger = matches!(answers.purpose, Purpose::Front | Purpose::Array);
    if is_exchanger {
        own(answers, &mut list);
    }
    for domain in &answers.domains {
        if is_exchanger {
            list.add(domain, "MX", format!("10 {}.", answers.name), "where its mail comes in");
        }
        let why = "who may send for it: add others who do, keep one such record, and end it with \
                   -all when the list is complete";
        list.add(domain, "TXT", spf(answers), why);
        for key in keys.iter().filter(|key| key.domain == *domain) {
            list.add(&key.name, "TXT", key.record.clone(), "the key that signs its mail (DKIM)");
        }
        reports(answers, domain, &mut list);
        if is_exchanger && answers.has_certificate() {
            let (sts, policy_host) = (format!("_mta-sts.{domain}"), format!("mta-sts.{domain}"));
            let why = format!(
                "senders shall insist on TLS (MTA-STS): once https://{policy_host}/.well-known/\
                 mta-sts.txt has the policy below; a new id with each change of it"
            );
            list.add(&sts, "TXT", format!("v=STSv1; id={id}"), &why);
        }
    }
    list.0
}

/// The policy of MTA-STS (RFC 8461 section 3.2), if one can be published: only a node with a
/// certificate that strangers believe.
pub(super) fn sts_policy(answers: &Answers) -> Option<String> {
    let is_exchanger = matches!(answers.purpose, Purpose::Front | Purpose::Array);
    (is_exchanger && answers.has_certificate()).then(|| {
        format!("version: STSv1\nmode: testing\nmx: {}\nmax_age: {STS_SECONDS}\n", answers.name)
    })
}

/// The node's own name, there and back.
fn own(answers: &Answers, list: &mut List) {
    for address in &answers.addresses {
        let kind = if address.is_ipv4() { "A" } else { "AAAA" };
        list.add(&answers.name, kind, address.to_string(), "the node's address");
    }
    for address in &answers.addresses {
        let why = "its name, for the way back: whoever gave you the address publishes it";
        list.add(&reverse(*address), "PTR", format!("{}.", answers.name), why);
    }
    let why = "who may greet with its name, as bounces do";
    list.add(&answers.name, "TXT", "v=spf1 a -all".to_owned(), why);
}

fn spf(answers: &Answers) -> String {
    let mut text = "v=spf1 mx".to_owned();
    for address in &answers.addresses {
        let kind = if address.is_ipv4() { "ip4" } else { "ip6" };
        text.push_str(&format!(" {kind}:{address}"));
    }
    text + " ~all"
}

fn reports(answers: &Answers, domain: &str, list: &mut List) {
    let to = answers.report_to.clone().unwrap_or_else(|| format!("postmaster@{domain}"));
    let why = "what others do with mail that fails SPF and DKIM (DMARC): p=none only reports; \
               quarantine or reject once the reports show that all your mail passes";
    let value = format!("v=DMARC1; p=none; rua=mailto:{to}");
    list.add(&format!("_dmarc.{domain}"), "TXT", value, why);
    let at = to.rsplit_once('@').and_then(|(_, at)| ascii_domain(at));
    if let Some(at) = at.filter(|at| at != domain) {
        let name = format!("{domain}._report._dmarc.{at}");
        let why = format!("{at} takes the reports of {domain} (RFC 7489 section 7.1)");
        list.add(&name, "TXT", "v=DMARC1".to_owned(), &why);
    }
    if answers.purpose != Purpose::Milter {
        let value = format!("v=TLSRPTv1; rua=mailto:{to}");
        list.add(&format!("_smtp._tls.{domain}"), "TXT", value, "reports of failed TLS (TLS-RPT)");
    }
}

/// The name of an address in the reverse tree (RFC 1035 section 3.5, RFC 3596 section 2.5).
fn reverse(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits: String = ip.octets().iter().map(|octet| format!("{octet:02x}")).collect();
            let labels: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", labels.join("."))
        }
    }
}

struct List(Vec<Record>);

impl List {
    fn add(&mut self, name: &str, kind: &'static str, value: String, why: &str) {
        self.0.push(Record { name: name.to_owned(), kind, value, why: why.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::answers::tests::answers;

    fn lines(line: &str) -> Vec<String> {
        let key = KeyText {
            domain: "example.org".into(),
            name: "g1._domainkey.example.org".into(),
            record: "v=DKIM1; k=ed25519; p=AAAA".into(),
        };
        let records = records(&answers(line).unwrap(), &[key], "20261128163300");
        records.iter().map(Record::line).collect()
    }

    #[test]
    fn a_node_in_front_needs_all_of_them() {
        let flags = "front --domain example.org --next-hop a --address 192.0.2.10,2001:db8::10 \
                     --acme postmaster@example.org";
        let ptr6 =
            format!("0.1.{}8.b.d.0.1.0.0.2.ip6.arpa. 3600 IN PTR mx.example.org.", "0.".repeat(22));
        assert_eq!(
            lines(flags),
            [
                "mx.example.org. 3600 IN A 192.0.2.10",
                "mx.example.org. 3600 IN AAAA 2001:db8::10",
                "10.2.0.192.in-addr.arpa. 3600 IN PTR mx.example.org.",
                &ptr6,
                "mx.example.org. 3600 IN TXT ( \"v=spf1 a -all\" )",
                "example.org. 3600 IN MX 10 mx.example.org.",
                "example.org. 3600 IN TXT ( \"v=spf1 mx ip4:192.0.2.10 ip6:2001:db8::10 ~all\" )",
                "g1._domainkey.example.org. 3600 IN TXT ( \"v=DKIM1; k=ed25519; p=AAAA\" )",
                "_dmarc.example.org. 3600 IN TXT ( \"v=DMARC1; p=none; rua=mailto:postmaster@example.org\" )",
                "_smtp._tls.example.org. 3600 IN TXT ( \"v=TLSRPTv1; rua=mailto:postmaster@example.org\" )",
                "_mta-sts.example.org. 3600 IN TXT ( \"v=STSv1; id=20261128163300\" )",
            ]
        );
    }

    #[test]
    fn mta_sts_waits_for_a_certificate_and_a_milter_has_no_exchanger() {
        let front = "front --domain example.org --next-hop a";
        assert!(sts_policy(&answers(front).unwrap()).is_none());
        assert!(!lines(front).iter().any(|l| l.starts_with("_mta-sts")));
        let own = answers(&format!("{front} --certificate c.pem --key k.pem")).unwrap();
        assert_eq!(
            sts_policy(&own).unwrap(),
            "version: STSv1\nmode: testing\nmx: mx.example.org\nmax_age: 604800\n"
        );
        let milter = lines("milter --domain example.org");
        assert_eq!(milter.len(), 3, "SPF, DKIM and DMARC: {milter:?}");
        assert!(lines("milter").is_empty());
    }

    #[test]
    fn reports_to_another_domain_are_allowed_there() {
        let made = lines("milter --domain example.org --report-to dmarc@reports.example");
        let allowed = "example.org._report._dmarc.reports.example. 3600 IN TXT ( \"v=DMARC1\" )";
        assert!(made.iter().any(|line| line == allowed), "{made:#?}");
    }
}
