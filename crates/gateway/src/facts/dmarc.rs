//! What the From domain says about mail in its name: DMARC (RFC 9989; RFC 7489 before it), and
//! BIMI.
//!
//! The policy is found by walking up the DNS tree (RFC 9989 section 4.10); all names of the walk
//! are asked at once.

use futures_util::future::join_all;
use gauntlet_mail::facts::{AuthResult, DkimSignature, DmarcPolicy};

use super::lookup_context::{Effect, LookupContext};
use super::tags;
use crate::net::resolver::{Kind, Outcome};

/// Names that a walk asks at most (RFC 9989 section 4.10).
const WALK_MAX: usize = 8;
/// Identities of one message that are compared with the From domain.
const IDENTITIES_MAX: usize = 16;

/// How far two domains must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alignment {
    /// They belong to one organisation.
    #[default]
    Relaxed,
    /// They are the same name (RFC 7489 section 3.1).
    Strict,
}

/// Whether a domain is a public suffix, by its own word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Suffix {
    #[default]
    Unknown,
    Yes,
    No,
}

/// A DMARC record as its domain publishes it (RFC 7489 section 6.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// `p=`; none if it is absent or malformed.
    own: Option<DmarcPolicy>,
    /// `sp=`, for subdomains; none if it is absent or malformed.
    below: Option<DmarcPolicy>,
    /// `np=`: for subdomains that do not exist.
    absent: Option<DmarcPolicy>,
    dkim: Alignment,
    spf: Alignment,
    suffix: Suffix,
    test: bool,
    /// Reports are requested.
    reports: bool,
}

impl Policy {
    /// Reads a record. None if it is no DMARC record at all.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut pairs = tags::read(text);
        pairs.next().filter(|(tag, value)| tag.eq_ignore_ascii_case("v") && *value == "DMARC1")?;
        let mut policy = Policy {
            own: None,
            below: None,
            absent: None,
            dkim: Alignment::Relaxed,
            spf: Alignment::Relaxed,
            suffix: Suffix::Unknown,
            test: false,
            reports: false,
        };
        for (tag, value) in pairs {
            let strict = || match value.eq_ignore_ascii_case("s") {
                true => Alignment::Strict,
                false => Alignment::Relaxed,
            };
            match tag.to_ascii_lowercase().as_str() {
                "p" => policy.own = word(value),
                "sp" => policy.below = word(value),
                "np" => policy.absent = word(value),
                "adkim" => policy.dkim = strict(),
                "aspf" => policy.spf = strict(),
                "t" => policy.test = value.eq_ignore_ascii_case("y"),
                "rua" => policy.reports = !value.is_empty(),
                "psd" => {
                    policy.suffix = match value.to_ascii_lowercase().as_str() {
                        "y" => Suffix::Yes,
                        "n" => Suffix::No,
                        _ => Suffix::Unknown,
                    }
                }
                _ => {}
            }
        }
        Some(policy)
    }
}

fn word(value: &str) -> Option<DmarcPolicy> {
    match value.to_ascii_lowercase().as_str() {
        "none" => Some(DmarcPolicy::None),
        "quarantine" => Some(DmarcPolicy::Quarantine),
        "reject" => Some(DmarcPolicy::Reject),
        _ => None,
    }
}

/// What is compared with the From domain.
#[derive(Debug, Clone, Copy)]
pub struct Identities<'a> {
    /// Domain of the From field, in ASCII and lower case.
    pub from: &'a str,
    /// Domain that SPF checked.
    pub spf_domain: &'a str,
    /// Result of SPF for MAIL FROM.
    pub spf: AuthResult,
    /// Signatures and what they said.
    pub dkim: &'a [DkimSignature],
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judged {
    /// The result, as `Authentication-Results` has it.
    pub result: AuthResult,
    /// The policy that applies.
    pub policy: DmarcPolicy,
    /// Where it was found.
    pub domain: Option<String>,
}

impl Judged {
    /// How severe the result is, 0 to 6: of several From domains the worst counts.
    fn severity(&self) -> u8 {
        match (self.result, self.policy) {
            (AuthResult::Fail, DmarcPolicy::Reject) => 6,
            (AuthResult::Fail, DmarcPolicy::Quarantine) => 5,
            (AuthResult::PermError, _) => 4,
            (AuthResult::TempError | AuthResult::Unknown, _) => 3,
            (AuthResult::Fail, _) => 2,
            (AuthResult::Pass, _) => 0,
            _ => 1,
        }
    }
}

/// Compares what is proven with what each From domain asks for; the worst result counts (RFC 9989
/// leaves mail of several authors to the receiver). `walks` are those of the domains; `None`
/// without a domain.
pub async fn judge_all(
    lookups: &LookupContext<'_>,
    who: &Identities<'_>,
    walks: Vec<Result<Walk, Outcome>>,
    domains: &[String],
) -> Option<(usize, Judged)> {
    let mut worst: Option<(usize, Judged)> = None;
    for (i, (from, walk)) in domains.iter().zip(walks).enumerate() {
        let judged = judge(lookups, &Identities { from, ..*who }, walk).await;
        if worst.as_ref().is_none_or(|(_, w)| judged.severity() > w.severity()) {
            worst = Some((i, judged));
        }
    }
    worst
}

/// Compares what is proven with what the From domain asks for.
async fn judge(
    lookups: &LookupContext<'_>,
    who: &Identities<'_>,
    walk: Result<Walk, Outcome>,
) -> Judged {
    let walk = match walk {
        Ok(walk) => walk,
        Err(outcome) => return Judged { result: missing(outcome), ..Judged::default() },
    };
    let Some(organisation) = walk.organisation() else {
        return Judged { result: AuthResult::None, ..Judged::default() };
    };
    let Some((found_at, record)) = walk.applies(&organisation) else {
        return Judged { result: AuthResult::None, ..Judged::default() };
    };
    let Some(policy) = effective(lookups, who.from, found_at, record).await else {
        lookups.note(format!("dmarc: the record of {found_at} is malformed"));
        return Judged {
            result: AuthResult::PermError,
            domain: Some(found_at.clone()),
            ..Judged::default()
        };
    };
    let mut judged = Judged { result: AuthResult::Fail, policy, domain: Some(found_at.clone()) };
    let spf = (who.spf_domain, who.spf, record.spf);
    // A signature over a part of the body proves nothing about the rest of it.
    let whole = who.dkim.iter().filter(|s| !s.partial_body || s.result != AuthResult::Pass);
    let dkim = whole.map(|s| (s.domain.as_str(), s.result, record.dkim));
    for (domain, result, alignment) in std::iter::once(spf).chain(dkim).take(IDENTITIES_MAX) {
        let open = matches!(result, AuthResult::Unknown | AuthResult::TempError);
        if (result != AuthResult::Pass && !open) || domain.is_empty() {
            continue;
        }
        let aligned = is_aligned(lookups, domain, who.from, &organisation, alignment).await;
        match aligned {
            Ok(false) => {}
            Ok(true) if result == AuthResult::Pass => {
                judged.result = AuthResult::Pass;
                return judged;
            }
            // What is not known might have been a pass.
            Ok(true) => judged.result = AuthResult::TempError,
            Err(outcome) => judged.result = missing(outcome),
        }
    }
    judged
}

fn missing(outcome: Outcome) -> AuthResult {
    match outcome {
        Outcome::TooLarge => AuthResult::PermError,
        _ => AuthResult::TempError,
    }
}

/// The policy that applies to the From domain; none if the record does not say.
async fn effective(
    lookups: &LookupContext<'_>,
    from: &str,
    found_at: &str,
    record: &Policy,
) -> Option<DmarcPolicy> {
    let own = record.own.or(record.reports.then_some(DmarcPolicy::None))?;
    let mut policy = own;
    if found_at != from {
        policy = record.below.unwrap_or(own);
        if let Some(absent) = record.absent.filter(|absent| *absent != policy)
            && lookups.ask(Effect::Dmarc, from, Kind::A).await.outcome == Outcome::NoName
        {
            policy = absent;
        }
    }
    Some(match (record.test, policy) {
        (true, DmarcPolicy::Reject) => DmarcPolicy::Quarantine,
        (true, DmarcPolicy::Quarantine) => DmarcPolicy::None,
        (_, policy) => policy,
    })
}

/// Records found on the way up from a domain, the longest name first.
#[derive(Debug, Default)]
pub struct Walk {
    start: String,
    found: Vec<(String, Policy)>,
}

impl Walk {
    /// The organisation that the domain belongs to (RFC 9989 section 4.10.2); none without a
    /// record.
    fn organisation(&self) -> Option<String> {
        for (name, record) in &self.found {
            match record.suffix {
                Suffix::No => return Some(name.clone()),
                Suffix::Yes if *name != self.start => {
                    let below = self.start.strip_suffix(name.as_str())?.trim_end_matches('.');
                    let label = below.rsplit('.').next().unwrap_or(below);
                    return Some(format!("{label}.{name}"));
                }
                _ => {}
            }
        }
        self.found.last().map(|(name, _)| name.clone())
    }

    /// The record that applies: the domain's own, the organisation's, or the public suffix's.
    fn applies(&self, organisation: &str) -> Option<&(String, Policy)> {
        let named = |wanted: &str| self.found.iter().find(|(name, _)| name == wanted);
        named(&self.start).or_else(|| named(organisation)).or_else(|| self.found.last())
    }
}

/// The names that are asked for a domain: itself, then its parents; of long names the last seven
/// labels on.
fn names(domain: &str) -> Vec<&str> {
    let mut names = vec![domain];
    let mut rest = domain;
    while let Some((_, parent)) = rest.split_once('.') {
        rest = parent;
        if parent.split('.').count() < WALK_MAX {
            names.push(parent);
        }
    }
    names.truncate(WALK_MAX);
    names
}

/// The records of a domain and those above it.
///
/// # Errors
/// Why a name of the walk is not known.
pub async fn walk(lookups: &LookupContext<'_>, domain: &str) -> Result<Walk, Outcome> {
    let mut walk = Walk { start: domain.to_owned(), found: Vec::new() };
    if !domain.contains('.') {
        return Ok(walk);
    }
    let names = names(domain);
    let questions: Vec<String> = names.iter().map(|name| format!("_dmarc.{name}")).collect();
    let asked = questions.iter().map(|q| lookups.ask(Effect::Dmarc, q, Kind::Txt));
    let answers = join_all(asked).await;
    for (name, answer) in names.iter().zip(answers) {
        if !answer.outcome.is_certain() {
            return Err(answer.outcome);
        }
        let mut records = answer.texts().filter_map(Policy::parse);
        let (record, several) = (records.next(), records.next().is_some());
        // RFC 9989 section 4.10: several records are none.
        if several {
            lookups.note(format!("dmarc: {name} has several records, so none counts"));
        } else if record.is_none() && answer.texts().any(means_dmarc) {
            lookups.note(format!("dmarc: the record of {name} is malformed"));
        }
        let Some(record) = record.filter(|_| !several) else { continue };
        let stop = record.suffix != Suffix::Unknown;
        walk.found.push(((*name).to_owned(), record));
        if stop {
            break;
        }
    }
    Ok(walk)
}

/// The text begins as a DMARC record does, whether it is one or not.
fn means_dmarc(text: &[u8]) -> bool {
    text.trim_ascii_start().get(..8).is_some_and(|t| t.eq_ignore_ascii_case(b"v=dmarc1"))
}

async fn is_aligned(
    lookups: &LookupContext<'_>,
    domain: &str,
    from: &str,
    organisation: &str,
    alignment: Alignment,
) -> Result<bool, Outcome> {
    if domain == from {
        return Ok(true);
    }
    let below = domain.strip_suffix(organisation);
    if alignment == Alignment::Strict || !below.is_some_and(|h| h.is_empty() || h.ends_with('.')) {
        return Ok(false);
    }
    Ok(walk(lookups, domain).await?.organisation().as_deref() == Some(organisation))
}

/// Where the From domain's logo is (BIMI): `l=` of `default._bimi`.
pub async fn logo(
    lookups: &LookupContext<'_>,
    from: &str,
    organisation: Option<&str>,
) -> Option<String> {
    for domain in std::iter::once(from).chain(organisation.filter(|o| *o != from)) {
        let name = format!("default._bimi.{domain}");
        let answer = lookups.ask(Effect::Bimi, &name, Kind::Txt).await;
        let found = answer.texts().find_map(|text| {
            let text = std::str::from_utf8(text).ok()?;
            let url = tags::get(text, "l").filter(|_| tags::get(text, "v") == Some("BIMI1"))?;
            url.starts_with("https://").then(|| gauntlet_smtp::text::excerpt(url, 400))
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let policy =
            Policy::parse(b"v=DMARC1; p=reject; sp=none;adkim=s ; rua=mailto:a@b").unwrap();
        assert_eq!(
            (policy.own, policy.below),
            (Some(DmarcPolicy::Reject), Some(DmarcPolicy::None))
        );
        assert_eq!((policy.dkim, policy.spf), (Alignment::Strict, Alignment::Relaxed));
        for none in ["", "v=DMARC2; p=none", "p=none; v=DMARC1", "v=spf1 -all", "DMARC1"] {
            assert_eq!(Policy::parse(none.as_bytes()), None, "{none}");
        }
        // A policy that is no word does not apply.
        assert_eq!(Policy::parse(b"v=DMARC1; p=whatever").unwrap().own, None);
        assert_eq!(Policy::parse(b"v=DMARC1;;;=;p").unwrap().own, None);
    }

    #[test]
    fn names_of_a_walk() {
        assert_eq!(
            names("a.mail.example.com"),
            ["a.mail.example.com", "mail.example.com", "example.com", "com"]
        );
        let long = names("a.b.c.d.e.f.g.h.i.j.mail.example.com");
        assert_eq!(long.len(), 8);
        assert_eq!((long[1], long[7]), ("g.h.i.j.mail.example.com", "com"));
    }
}
