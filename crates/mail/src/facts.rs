//! What is known from the network about an item before the scan.
//!
//! Facts are gathered by the gateway, recorded with the verdict, and given to the engine as a
//! value: a verdict can be replayed later with the same facts and gives the same answer. Every fact
//! may be missing; missing is *unknown*, never a pass and never a listing.

use gauntlet_sniff::object::Tree;
use serde::{Deserialize, Serialize};

/// Result of an authentication method, in the words of RFC 8601 section 2.7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthResult {
    /// Not looked up, or no answer in time.
    #[default]
    Unknown,
    /// Nothing published, or nothing to verify.
    None,
    /// It was verified, and is right.
    Pass,
    /// It was checked and is wrong.
    Fail,
    /// Probably wrong: `~all` of SPF.
    SoftFail,
    /// SPF `?all`, or a signature that could not be judged.
    Neutral,
    /// A temporary error; try again later.
    TempError,
    /// The published record or the signature is broken.
    PermError,
    /// Acceptable by local policy only.
    Policy,
}

impl AuthResult {
    /// No query was made, or it gave no result.
    pub fn is_unknown(&self) -> bool {
        *self == AuthResult::Unknown
    }
}

/// One DKIM signature and what became of it (RFC 6376).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DkimSignature {
    /// Domain that signed (`d=`).
    pub domain: String,
    /// Selector of its key (`s=`).
    pub selector: String,
    /// What came of the check.
    pub result: AuthResult,
    /// Key size in bits; 0 when unknown.
    pub key_bits: u16,
    /// The signature covers only the first `l=` bytes of the body.
    pub partial_body: bool,
}

/// DMARC policy (RFC 7489 section 6.3, `p=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmarcPolicy {
    /// No record, or not looked up.
    #[default]
    Unknown,
    /// `p=none`: the domain asks for reports only.
    None,
    /// `p=quarantine`: mail that fails is suspicious.
    Quarantine,
    /// `p=reject`: mail that fails should be refused.
    Reject,
}

/// An answer of a DNS list to one query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// The list's zone, e.g. `zen.example.org`.
    pub zone: String,
    /// What was queried: an address, a host name or a hash.
    pub subject: String,
    /// The A records of the answer as text, sorted.
    pub answers: Vec<String>,
    /// TXT of the answer, when the rule asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Points that the list's answer gives; below 0 for a welcome list.
    #[serde(default)]
    pub points: f64,
}

/// What the DNS answered to a question that a rule asks by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleAnswer {
    /// The question as the rules write it, e.g. `A 2.0.0.127.zen.example`.
    pub question: String,
    /// Its answers as text, sorted; empty says that there is nothing.
    pub answers: Vec<String>,
}

/// One DNS lookup: query, answer and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// Which fact it is for: `spf`, `dkim`, `arc`, `dmarc`, `bimi`, `reverse`, `list`, `sender`,
    /// `rule`.
    #[serde(default)]
    pub effect: String,
    /// Name of the query.
    pub name: String,
    /// Record type, e.g. `TXT`.
    pub kind: String,
    /// Answer as text; empty for "no such name".
    pub answers: Vec<String>,
    /// `answered`, `no such name`, `no such record`, `timeout`, `refused`, `failed`, `too large`,
    /// `bogus`, `not asked`.
    pub outcome: String,
    /// It was known already.
    #[serde(default)]
    pub cached: bool,
    /// Milliseconds until the answer.
    pub millis: u32,
}

/// An external scanner's answer about the item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AntiVirus {
    /// Which scanner, e.g. `clamav`.
    pub scanner: String,
    /// Name of what was found; none if clean.
    pub found: Option<String>,
    /// The scanner could not answer.
    pub failed: bool,
}

/// Everything that was known before the scan. `Facts::default()` knows nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// SPF of MAIL FROM (RFC 7208).
    pub spf: AuthResult,
    /// SPF of the name in HELO or EHLO.
    pub spf_helo: AuthResult,
    /// Every DKIM signature tried, in header order.
    pub dkim: Vec<DkimSignature>,
    /// DMARC result of the From domain.
    pub dmarc: AuthResult,
    /// The policy that the From domain publishes.
    pub dmarc_policy: DmarcPolicy,
    /// Domain whose record the policy is from.
    pub dmarc_domain: Option<String>,
    /// From domain that DMARC was judged for: of several the one with the worst result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dmarc_from: Option<String>,
    /// ARC chain (RFC 8617).
    pub arc: AuthResult,
    /// Domain that sealed the chain last.
    pub arc_domain: Option<String>,
    /// What the chain says of DMARC where the mail was first passed on, if every sealer is trusted:
    /// a pass for each From domain, else unknown.
    #[serde(skip_serializing_if = "AuthResult::is_unknown")]
    pub arc_dmarc: AuthResult,
    /// Place of the From domain's logo (BIMI), if it is requested and DMARC passes.
    pub bimi: Option<String>,
    /// What the sender's domain says about an SPF failure.
    pub spf_explanation: Option<String>,
    /// Name in the client's PTR record; empty if the DNS says that there is none.
    pub reverse_name: Option<String>,
    /// The PTR's name resolves back to the client.
    pub reverse_confirmed: Option<bool>,
    /// Lists that answered with a listing.
    pub listings: Vec<Listing>,
    /// Answers to what rules ask by themselves, by question: those that say something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rule_answers: Vec<RuleAnswer>,
    /// lookups made, for the record; the engine does not read them.
    pub lookups: Vec<Lookup>,
    /// Anomalies: limits reached, malformed records, why a result is an error.
    pub notes: Vec<String>,
    /// The files of the message and everything in them; empty if nothing was unpacked.
    #[serde(skip_serializing_if = "Tree::is_empty")]
    pub content: Tree,
    /// What virus scanners beside us say.
    pub anti_virus: Vec<AntiVirus>,
    /// ISO 3166 country of the client, when a database is configured.
    pub country: Option<String>,
    /// Messages seen from this client network and sender domain before, with the share that was
    /// spam.
    pub sender_seen: Option<u32>,
    /// Share of spam in `sender_seen`, 0 to 1.
    pub sender_spam_share: Option<f32>,
    /// Days since somebody of this site last wrote to the author of the From field, or released
    /// mail of theirs; none if nobody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correspondent_days: Option<u32>,
}

impl Facts {
    /// Whether the sender of the envelope may be forged: SPF fails, or its domain could
    /// not be asked.
    pub fn doubts_envelope(&self) -> bool {
        matches!(self.spf, AuthResult::Fail | AuthResult::SoftFail | AuthResult::TempError)
    }

    /// The same for the authors of the From field: DMARC fails, has no answer or none that can be
    /// read; or there is no policy to ask for and SPF fails.
    pub fn doubts_authors(&self) -> bool {
        match self.dmarc {
            AuthResult::Pass => false,
            AuthResult::Fail | AuthResult::TempError | AuthResult::PermError => true,
            _ => self.doubts_envelope(),
        }
    }
}
