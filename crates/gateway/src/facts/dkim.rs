//! DKIM signatures and ARC chains (RFC 6376, RFC 8463, RFC 8617).
//!
//! `mail-auth` reads fields and does the arithmetic; the keys are requested here, all at once and
//! through the message's [`LookupContext`], and handed to it as its cache.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use gauntlet_mail::facts::{AuthResult, DkimSignature};
use hickory_resolver::config::{ResolverConfig, ResolverOpts};
use hickory_resolver::proto::op::ResponseCode;
use mail_auth::common::crypto::Algorithm;
use mail_auth::common::parse::TxtRecordParser;
use mail_auth::common::verify::{DomainKey, VerifySignature};
use mail_auth::dkim::Canonicalization;
use mail_auth::{
    AuthenticatedMessage, DkimResult, DnsError, Error, MX, MessageAuthenticator, Parameters,
    RecordSet, ResolverCache, Txt,
};

use super::lookup_context::{Effect, LookupContext};
use super::sealers::Chain;
use crate::facts::key_record::key_bits;
use crate::net::resolver::{Answer, Kind, Outcome};

/// Bytes of bodies hashed for one message, over all its signatures.
const HASHED_BYTES_MAX: usize = 256 << 20;
/// Sets of one ARC chain; RFC 8617 section 4.2.1 allows 50.
const ARC_SETS_MAX: usize = 20;
/// Smallest RSA key that proves anything, in bits (RFC 8301 section 3.2).
const KEY_BITS_MIN: u16 = 1_024;

/// Verifies DKIM signatures and ARC seals (RFC 6376, RFC 8617).
pub struct Verifier {
    /// Only its arithmetic is used: its resolver has no servers.
    authenticator: MessageAuthenticator,
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

/// The results of all DKIM signatures and of the ARC chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signed {
    /// Every signature, in the order of the fields.
    pub dkim: Vec<DkimSignature>,
    /// Result of the ARC chain.
    pub arc: AuthResult,
    /// Domain that sealed last.
    pub arc_domain: Option<String>,
    /// What the chain says, whatever its result.
    pub chain: Chain,
}

impl Verifier {
    /// A verifier.
    ///
    /// # Errors
    /// If the cryptography cannot be set up.
    pub fn new() -> anyhow::Result<Self> {
        let nobody = ResolverConfig::from_name_servers(Vec::new());
        let authenticator = MessageAuthenticator::new(nobody, ResolverOpts::default())
            .map_err(|e| anyhow::anyhow!("DKIM: {e}"))?;
        Ok(Verifier { authenticator })
    }

    /// Verifies at most `signatures_max` signatures and the chain of a message with CRLF line ends.
    /// `now` is Unix time in seconds.
    pub async fn verify(
        &self,
        lookups: &LookupContext<'_>,
        raw: &[u8],
        signatures_max: usize,
        now: i64,
    ) -> Signed {
        let counted = Counted::of(raw);
        if counted.dkim == 0 && counted.arc == 0 {
            let none = AuthResult::None;
            return Signed { arc: none, ..Signed::default() };
        }
        let keep = counted.bounded(signatures_max);
        let bounded = counted.cut(raw, keep, lookups);
        let Some(mut message) = AuthenticatedMessage::parse_with_opts(&bounded, None, false) else {
            return Signed { arc: AuthResult::None, ..Signed::default() };
        };
        let expired = prepare(&mut message, now.max(0).cast_unsigned());
        let keys = Keys::ask(lookups, &message).await;
        let dkim = self.authenticator.verify_dkim(keys.parameters(&message)).await;
        let arc = self.authenticator.verify_arc(keys.parameters(&message)).await;
        let relaxed = self.verify_relaxed(&bounded, &keys, now).await;
        let arc_found = if relaxed.arc { AuthResult::Pass } else { result_of(arc.result()) };
        let mut signed = Signed { arc: arc_found, ..Signed::default() };
        let last = arc.sets().last();
        signed.arc_domain = last.map(|set| set.seal.header.d.to_ascii_lowercase());
        let sealer = |set: &mail_auth::arc::Set<'_>| set.seal.header.d.to_ascii_lowercase();
        let results = arc.sets().first().map(|set| String::from_utf8_lossy(set.results.value));
        signed.chain = Chain {
            sealers: arc.sets().iter().map(sealer).collect(),
            first_results: results.unwrap_or_default().into_owned(),
        };
        // The results are malformed signatures first, then the others in their order.
        let malformed = dkim.len().saturating_sub(message.dkim_headers.len());
        for output in dkim.iter().take(malformed) {
            let result = result_of(output.result());
            lookups.note(format!("dkim: a malformed signature ({})", reason_of(output.result())));
            let result = if result == AuthResult::Pass { AuthResult::PermError } else { result };
            signed.dkim.push(DkimSignature { result, ..DkimSignature::default() });
        }
        let body_bytes = bounded.len().saturating_sub(message.body_offset as usize);
        let outputs = dkim.iter().skip(malformed).zip(&message.dkim_headers).zip(expired);
        for (i, ((output, header), expired)) in outputs.enumerate() {
            let signature = &header.header;
            let passes = relaxed.dkim.get(i).is_some_and(|passes| *passes);
            let result = if passes { &DkimResult::Pass } else { output.result() };
            let bits = keys.bits(&signature.domain_key());
            let mut one = DkimSignature {
                domain: signature.d.to_ascii_lowercase(),
                selector: signature.s.to_ascii_lowercase(),
                result: result_of(result),
                key_bits: bits,
                partial_body: signature.l > 0 && (signature.l as usize) < body_bytes,
            };
            let reason = judge(&mut one, signature.a, expired, result);
            if let Some(reason) = reason {
                lookups.note(format!("dkim: {} of {}: {reason}", one.selector, one.domain));
            }
            signed.dkim.push(one);
        }
        signed
    }

    /// Which signatures over the relaxed form of the body are good where it ends in lines of white
    /// space alone. The relaxed form has no such lines (RFC 6376 section 3.4.4), but the library
    /// keeps them: here it gets a body without them.
    async fn verify_relaxed(&self, raw: &[u8], keys: &Keys, now: i64) -> Relaxed {
        let Some(end) = end_before_blank_lines(raw) else { return Relaxed::default() };
        let raw = raw.get(..end).unwrap_or_default();
        let Some(mut message) = AuthenticatedMessage::parse_with_opts(raw, None, false) else {
            return Relaxed::default();
        };
        prepare(&mut message, now.max(0).cast_unsigned());
        let dkim = self.authenticator.verify_dkim(keys.parameters(&message)).await;
        let arc = self.authenticator.verify_arc(keys.parameters(&message)).await;
        let malformed = dkim.len().saturating_sub(message.dkim_headers.len());
        let passes = |result: &DkimResult| result_of(result) == AuthResult::Pass;
        let is_relaxed = |cb: Canonicalization| cb == Canonicalization::Relaxed;
        let outputs = dkim.iter().skip(malformed).zip(&message.dkim_headers);
        Relaxed {
            dkim: outputs.map(|(o, h)| is_relaxed(h.header.cb) && passes(o.result())).collect(),
            arc: passes(arc.result())
                && message.ams_headers.iter().all(|h| is_relaxed(h.header.cb)),
        }
    }
}

/// Signatures of relaxed bodies that are good, in the order of the fields, and the chain.
#[derive(Debug, Default)]
struct Relaxed {
    dkim: Vec<bool>,
    arc: bool,
}

/// Where the body's last line with text ends, if lines with white space alone follow it.
fn end_before_blank_lines(raw: &[u8]) -> Option<usize> {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    if raw.rsplit(|b| *b == b'\n').nth(1).is_none_or(|line| !line.iter().all(is_blank)) {
        return None;
    }
    let header: usize = super::fields(raw).map(<[u8]>::len).sum();
    let rest = raw.get(header..)?;
    let empty_line = rest.iter().position(|b| *b == b'\n')? + 1;
    let body = rest.get(empty_line..)?;
    let text = body.iter().rposition(|b| !is_blank(b)).map_or(0, |last| last + 1);
    let line_end = body.get(text..)?.iter().position(|b| *b == b'\n')? + 1;
    // Without any text the first line is blank, too.
    let kept = if text == 0 { 0 } else { text + line_end };
    let blanks = body.get(kept..)?;
    blanks.iter().any(|b| matches!(b, b' ' | b'\t')).then_some(header + empty_line + kept)
}

/// Takes out of signatures what is judged here, by the time the message came, or not asked for
/// (reports and third parties). Says which have expired.
fn prepare(message: &mut AuthenticatedMessage<'_>, now: u64) -> Vec<bool> {
    let mut expired = Vec::new();
    for header in &mut message.dkim_headers {
        let signature = &mut header.header;
        expired.push(signature.x != 0 && (signature.x <= signature.t || signature.x <= now));
        signature.x = 0;
        signature.r = false;
        signature.atps = None;
    }
    for header in &mut message.ams_headers {
        if header.header.x > header.header.t && header.header.x > now {
            header.header.x = 0;
        }
    }
    expired
}

/// What RFC 8301 adds to the arithmetic, and why a signature is not good.
fn judge(
    one: &mut DkimSignature,
    algorithm: Algorithm,
    expired: bool,
    result: &DkimResult,
) -> Option<String> {
    if one.result != AuthResult::Pass {
        return (one.result != AuthResult::None).then(|| reason_of(result));
    }
    let rsa = algorithm != Algorithm::Ed25519Sha256;
    let (word, reason) = match () {
        () if expired => (AuthResult::Neutral, "expired".to_owned()),
        () if algorithm == Algorithm::RsaSha1 => {
            (AuthResult::Policy, "rsa-sha1 proves nothing".to_owned())
        }
        () if rsa && one.key_bits < KEY_BITS_MIN => {
            (AuthResult::Policy, format!("a key of {} bits proves nothing", one.key_bits))
        }
        () if one.partial_body => {
            return Some("covers a part of the body only (l=)".to_owned());
        }
        () => return None,
    };
    one.result = word;
    Some(reason)
}

fn result_of(result: &DkimResult) -> AuthResult {
    match result {
        DkimResult::Pass => AuthResult::Pass,
        DkimResult::None => AuthResult::None,
        // The library says neutral where RFC 6376 section 6.1 says that verification failed.
        DkimResult::Neutral(error) | DkimResult::Fail(error) => match error {
            Error::Dkim(
                mail_auth::dkim::DkimError::FailedBodyHashMatch
                | mail_auth::dkim::DkimError::FailedAuidMatch,
            )
            | Error::Arc(mail_auth::arc::ArcError::FailedBodyHashMatch)
            | Error::Crypto(_) => AuthResult::Fail,
            Error::Arc(_) => AuthResult::Fail,
            _ => AuthResult::PermError,
        },
        DkimResult::PermError(_) => AuthResult::PermError,
        DkimResult::TempError(Error::Dns(DnsError::Resolver(why)))
            if why == Outcome::Timeout.name() || why == Outcome::NotAsked.name() =>
        {
            AuthResult::Unknown
        }
        DkimResult::TempError(_) => AuthResult::TempError,
    }
}

fn reason_of(result: &DkimResult) -> String {
    match result {
        DkimResult::Pass | DkimResult::None => String::new(),
        DkimResult::Neutral(e)
        | DkimResult::Fail(e)
        | DkimResult::PermError(e)
        | DkimResult::TempError(e) => gauntlet_smtp::text::excerpt(&e.to_string(), 120),
    }
}

/// Fields that carry signatures, and how long the body is.
#[derive(Debug, Default)]
struct Counted {
    dkim: usize,
    arc: usize,
    /// Fields with white space before their colon.
    spaced: usize,
    body_bytes: usize,
}

/// How many of each are kept.
#[derive(Debug, Clone, Copy)]
struct Keep {
    dkim: usize,
    arc: usize,
}

impl Counted {
    fn of(raw: &[u8]) -> Self {
        let mut counted = Counted::default();
        let mut at = 0;
        for field in super::fields(raw) {
            at += field.len();
            counted.dkim += usize::from(super::is_named(field, b"dkim-signature"));
            counted.arc += usize::from(super::is_named(field, b"arc-message-signature"));
            counted.spaced += usize::from(space_before_colon(field).is_some());
        }
        counted.body_bytes = raw.len().saturating_sub(at);
        counted
    }

    fn bounded(&self, signatures_max: usize) -> Keep {
        // Each signature may need its own hash over the body.
        let hashes_max = (HASHED_BYTES_MAX / self.body_bytes.max(1)).max(1);
        let dkim = self.dkim.min(signatures_max).min(hashes_max);
        let arc =
            if self.arc > ARC_SETS_MAX || dkim + self.arc > hashes_max { 0 } else { self.arc };
        Keep { dkim, arc }
    }

    /// The message without the fields that are too many, and without white space before colons: the
    /// library would not find such a field by its name. To the relaxed form, which nearly everybody
    /// signs, it makes no difference (RFC 6376 section 3.4.2).
    fn cut<'m>(&self, raw: &'m [u8], keep: Keep, lookups: &LookupContext<'_>) -> Cow<'m, [u8]> {
        if keep.dkim == self.dkim && keep.arc == self.arc && self.spaced == 0 {
            return Cow::Borrowed(raw);
        }
        if keep.dkim < self.dkim {
            lookups.note(format!("dkim: {} of {} signatures tried", keep.dkim, self.dkim));
        }
        if keep.arc < self.arc {
            lookups.note(format!("arc: a chain of {} sets not tried", self.arc));
        }
        let mut out = Vec::with_capacity(raw.len());
        let (mut at, mut dkim) = (0, 0);
        for field in super::fields(raw) {
            at += field.len();
            let is_arc = field.get(..4).is_some_and(|n| n.eq_ignore_ascii_case(b"arc-"));
            let is_dkim = super::is_named(field, b"dkim-signature");
            dkim += usize::from(is_dkim);
            if (is_dkim && dkim > keep.dkim) || (is_arc && keep.arc == 0) {
                continue;
            }
            let space = space_before_colon(field).unwrap_or(0..0);
            out.extend_from_slice(field.get(..space.start).unwrap_or_default());
            out.extend_from_slice(field.get(space.end..).unwrap_or_default());
        }
        out.extend_from_slice(raw.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }
}

/// Where white space stands before the colon of a field (RFC 5322 section 4.5).
fn space_before_colon(field: &[u8]) -> Option<std::ops::Range<usize>> {
    let colon = field.iter().position(|b| *b == b':')?;
    let name = field.get(..colon)?;
    let end = name.iter().rposition(|b| !matches!(b, b' ' | b'\t'))? + 1;
    (end < colon).then_some(end..colon)
}

/// The keys of one message, as the library asks for them.
struct Keys {
    records: HashMap<Box<str>, Txt>,
    bits: HashMap<Box<str>, u16>,
}

impl Keys {
    /// Asks for all keys at once.
    async fn ask(lookups: &LookupContext<'_>, message: &AuthenticatedMessage<'_>) -> Self {
        let dkim = message.dkim_headers.iter().map(|h| (Effect::Dkim, h.header.domain_key()));
        let marks = message.ams_headers.iter().map(|h| (Effect::Arc, h.header.domain_key()));
        let seals = message.as_headers.iter().map(|h| (Effect::Arc, h.header.domain_key()));
        let mut names: Vec<(Effect, String)> = dkim.chain(marks).chain(seals).collect();
        for (_, name) in &mut names {
            name.make_ascii_lowercase();
        }
        names.sort();
        names.dedup_by(|a, b| a.1 == b.1);
        let asked = names.iter().map(|(effect, name)| lookups.ask(*effect, name, Kind::Txt));
        let answers = join_all(asked).await;
        let mut keys = Keys { records: HashMap::new(), bits: HashMap::new() };
        for ((_, name), answer) in names.into_iter().zip(answers) {
            let (txt, bits) = read_key(&answer);
            let name: Box<str> = format!("{}.", name.trim_end_matches('.')).into();
            keys.bits.insert(name.clone(), bits);
            keys.records.insert(name, txt);
        }
        keys
    }

    /// Bits of a key; 0 if unknown.
    fn bits(&self, name: &str) -> u16 {
        let name = format!("{}.", name.trim_end_matches('.').to_ascii_lowercase());
        self.bits.get(name.as_str()).copied().unwrap_or(0)
    }

    fn parameters<'k, 'm>(&'k self, message: &'k AuthenticatedMessage<'m>) -> Given<'k, 'm> {
        Parameters {
            params: message,
            cache_txt: Some(self),
            cache_mx: None,
            cache_ptr: None,
            cache_ipv4: None,
            cache_ipv6: None,
        }
    }
}

type Given<'k, 'm> =
    Parameters<'k, &'k AuthenticatedMessage<'m>, Keys, Nothing, Nothing, Nothing, Nothing>;

impl ResolverCache<Box<str>, Txt> for Keys {
    fn get<Q>(&self, name: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        // Whatever was not foreseen is not there: the library's own resolver must never be asked.
        let unknown =
            || Txt::Error(Error::Dns(DnsError::Resolver(Outcome::NotAsked.name().into())));
        Some(self.records.get(name).cloned().unwrap_or_else(unknown))
    }

    fn remove<Q>(&self, _: &Q) -> Option<Txt>
    where
        Box<str>: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        None
    }

    fn insert(&self, _: Box<str>, _: Txt, _: Instant) {}
}

/// A cache of nothing: signatures need texts alone.
struct Nothing;

macro_rules! holds_nothing {
    ($key:ty, $value:ty) => {
        impl ResolverCache<$key, $value> for Nothing {
            fn get<Q>(&self, _: &Q) -> Option<$value>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn remove<Q>(&self, _: &Q) -> Option<$value>
            where
                $key: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                None
            }

            fn insert(&self, _: $key, _: $value, _: Instant) {}
        }
    };
}

holds_nothing!(Box<str>, RecordSet<MX>);
holds_nothing!(Box<str>, RecordSet<Ipv4Addr>);
holds_nothing!(Box<str>, RecordSet<Ipv6Addr>);
holds_nothing!(IpAddr, RecordSet<Box<str>>);

/// The key in an answer, and its bits.
fn read_key(answer: &Answer) -> (Txt, u16) {
    let error = |error: DnsError| (Txt::Error(Error::Dns(error)), 0);
    match answer.outcome {
        Outcome::Answered => {}
        Outcome::NoName | Outcome::NoData => {
            return error(DnsError::RecordNotFound(ResponseCode::NXDomain));
        }
        Outcome::TooLarge => return error(DnsError::InvalidRecordType),
        uncertain => return error(DnsError::Resolver(uncertain.name().to_owned())),
    }
    let mut last = DnsError::InvalidRecordType;
    let mut other = None;
    for text in answer.texts() {
        match DomainKey::parse(text) {
            Ok(key) => return (Txt::DomainKey(Arc::new(key)), key_bits(text)),
            Err(Error::Dns(why)) => last = why,
            Err(why) => other = Some(why),
        }
    }
    (Txt::Error(other.unwrap_or(Error::Dns(last))), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_end_in_blank_lines() {
        let end = |body: &str| {
            let raw = format!("A: b\r\n\r\n{body}");
            end_before_blank_lines(raw.as_bytes()).map(|end| raw[8..end].to_owned())
        };
        assert_eq!(end("x \r\n \t\r\n\r\n").as_deref(), Some("x \r\n"));
        assert_eq!(end("x\r\n\r\n \r\n").as_deref(), Some("x\r\n"));
        assert_eq!(end(" \r\n").as_deref(), Some(""));
        for same in ["x\r\n", "x \r\n", "x\r\n\r\n", "", "\r\n", "x", " \r\nx\r\n", "x\r\n "] {
            assert_eq!(end(same), None, "{same:?}");
        }
        assert_eq!(end_before_blank_lines(b"A: b\r\n \r\n"), None);
    }
}
