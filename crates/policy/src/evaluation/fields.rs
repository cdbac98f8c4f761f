//! The fields of a condition, by what they look at: verdict, envelope, message, attachments,
//! network.

use std::borrow::Cow;

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::file_kind::object::{Object, PropertyKind};
use gauntlet_mail::names::{extension, interpretations};
use gauntlet_mail::{Facts, NameKind, Part, fields, file_kind};
use gauntlet_verdict::ListedUrl;

use super::{All, Answer, Evaluation};
use crate::condition::{
    AttachmentCondition, AuthCondition, Condition, HeaderCondition, ListedUrlCondition,
    RateCondition, RateKey,
};
use crate::language;
use crate::pattern::{OneOrMany, Pattern};
use crate::people::RecipientClass;

impl Evaluation<'_> {
    pub(super) fn verdict_fields(&self, when: &Condition) -> Option<Answer> {
        let verdict = self.input.verdict;
        let mut all = self.all();
        if let Some(classes) = &when.class {
            let RecipientClass { class, because } = self.own;
            let is = classes.as_slice().contains(&class);
            all.and(is, || match because {
                "" => format!("class {class}"),
                because => format!("class {class}: {because}"),
            });
        }
        if let Some(min) = when.score_min {
            all.and(verdict.score >= min, || format!("score {:.1} of {min}", verdict.score));
        }
        if let Some(below) = when.score_below {
            all.and(verdict.score < below, || format!("score {:.1} below {below}", verdict.score));
        }
        if let Some(min) = when.probability_min {
            let p = verdict.probability;
            all.and(p.is_some_and(|p| p >= min), || match p {
                Some(p) => format!("probability {p} of {min}"),
                None => format!("no probability of {min}"),
            });
        }
        if let Some(wanted) = when.explicit {
            let explicit =
                self.own.class == verdict.class && self.input.thresholds.is_explicit(verdict);
            all.and(explicit == wanted, || format!("explicit {explicit}"));
        }
        if let Some(patterns) = &when.hit {
            let hit = verdict.hits.iter().find(|h| patterns.matching(&h.rule).is_some());
            all.and(hit.is_some(), || {
                hit.map_or("no such hit".into(), |h| format!("hit {}", h.rule))
            });
        }
        if let Some(patterns) = &when.defect {
            let names = verdict.defects.iter().map(|d| d.kind.name());
            let found = names.into_iter().find(|n| patterns.matching(n).is_some());
            all.and(found.is_some(), || {
                found.map_or("no such defect".into(), |name| format!("defect {name}"))
            });
        }
        all.answer()
    }

    pub(super) fn envelope_fields(&self, when: &Condition) -> Option<Answer> {
        let envelope = self.input.envelope;
        let groups = &self.policy.groups;
        let in_group = |list: &OneOrMany<String>, address: &str| {
            list.as_slice().iter().any(|g| groups.contains(g, address))
        };
        let sender = if envelope.mail_from.is_empty() { "<>" } else { &envelope.mail_from };
        let mut all = self.all();
        if let Some(patterns) = &when.sender {
            all.and(patterns.matching(sender).is_some(), || format!("sender {sender}"));
        }
        if let Some(list) = &when.sender_group {
            all.and(in_group(list, sender), || format!("group of sender {sender}"));
        }
        if let Some(patterns) = &when.recipient {
            let fits = patterns.matching(self.recipient).is_some();
            all.and(fits, || format!("recipient {}", self.recipient));
        }
        if let Some(list) = &when.recipient_group {
            let fits = in_group(list, self.recipient);
            all.and(fits, || format!("group of recipient {}", self.recipient));
        }
        if let Some(min) = when.recipients_min {
            let count = envelope.rcpt_to.len();
            all.and(count >= min, || format!("{count} recipients of {min}"));
        }
        if let Some(wanted) = when.authenticated {
            let is = envelope.auth_user.is_some();
            all.and(is == wanted, || format!("authenticated {is}"));
        }
        if let Some(wanted) = when.tls {
            let is = envelope.tls.is_some();
            all.and(is == wanted, || format!("tls {is}"));
        }
        if let Some(time) = &when.time {
            all.and(time.contains(envelope.received_at), || "time of day".into());
        }
        if let Some(rate) = &when.rate {
            let count = self.rate(rate);
            all.and(count >= rate.per_hour_min, || format!("{count} in the last hour"));
        }
        all.answer()
    }

    fn rate(&self, rate: &RateCondition) -> u32 {
        let envelope = self.input.envelope;
        let value = match rate.by {
            RateKey::Sender => envelope.mail_from.to_lowercase(),
            RateKey::Recipient => self.recipient.to_lowercase(),
            RateKey::Client => envelope.client_ip.map_or_else(String::new, |ip| ip.to_string()),
        };
        self.input.rates.per_hour.get(&(rate.by, value)).copied().unwrap_or(0)
    }

    pub(super) fn message_fields(&self, when: &Condition) -> Option<Answer> {
        let message = self.input.message;
        let size = self.size;
        let mut all = self.all();
        if let Some(min) = when.size_min {
            all.and(size >= min.0, || format!("size {size} of {}", min.0));
        }
        if let Some(below) = when.size_below {
            all.and(size < below.0, || format!("size {size} below {}", below.0));
        }
        if let Some(patterns) = &when.from {
            let from = message.from().map(|m| m.address).unwrap_or_default();
            all.and(patterns.matching(&from).is_some(), || format!("From {from}"));
        }
        if let Some(patterns) = &when.subject {
            let fits = patterns.matching(&message.subject()).is_some();
            all.and(fits, || "subject".into());
        }
        if let Some(header) = &when.header {
            all.and(self.header(header), || format!("header {}", header.name.as_str()));
        }
        if let Some(patterns) = &when.url_host {
            let hosts = message.all_urls().map(|u| u.canonical.host());
            let found = hosts.into_iter().find(|h| patterns.matching(h).is_some());
            all.and(found.is_some(), || format!("URL host {}", found.unwrap_or("not found")));
        }
        if let Some(wanted) = &when.url {
            let found = self.input.verdict.url_lists.iter().find(|l| is_listed_as(l, wanted));
            all.and(found.is_some(), || match found {
                Some(l) => format!("URL on list {} ({}: {})", l.list, l.category, l.pattern),
                None => "no such URL on a list".into(),
            });
        }
        if let Some(patterns) = &when.language {
            let languages = self.languages.get_or_init(|| language::of(message));
            let fits = languages.iter().any(|l| patterns.matching(l).is_some());
            all.and(fits, || match languages.is_empty() {
                true => "language unknown".into(),
                false => format!("language {}", languages.join(", ")),
            });
        }
        all.answer()
    }

    /// Fields up to the empty line count, as for `remove_header`: other programs read on where the
    /// parser ends the header.
    fn header(&self, wanted: &HeaderCondition) -> bool {
        let fits = |field: &[u8]| {
            let Some(patterns) = &wanted.value else { return true };
            patterns.matching(&fields::decoded(field)).is_some()
        };
        let is_named = |field: &&[u8]| {
            let name = fields::name(field);
            !name.is_empty() && wanted.name.matches(&String::from_utf8_lossy(name))
        };
        fields::fields(self.input.message.raw()).filter(is_named).any(fits)
    }

    pub(super) fn attachment_fields(&self, when: &Condition) -> Option<Answer> {
        let mut all = self.all();
        let parts = || self.input.message.parts().iter().filter(|p| has_file(p));
        if let Some(wanted) = &when.attachment {
            let read_otherwise = |o: &&Object| o.has(PropertyKind::OtherReading);
            let others = self.input.facts.content.objects.iter().filter(read_otherwise);
            let mut others = others.filter_map(|object| fits_object(object, wanted));
            let found = parts().find_map(|part| fits_attachment(part, wanted));
            let found = found.or_else(|| others.next());
            all.and(found.is_some(), || match found {
                Some(name) if name.is_empty() => "attachment without name".into(),
                Some(name) => format!("attachment {name}"),
                None => "no such attachment".into(),
            });
        }
        if let Some(min) = when.attachments_min {
            let count = parts().count();
            all.and(count >= min, || format!("{count} attachments of {min}"));
        }
        all.answer()
    }

    pub(super) fn network_fields(&self, when: &Condition) -> Option<Answer> {
        let facts = self.input.facts;
        let mut all = self.all();
        if let Some(auth) = &when.auth {
            let (fits, because) = authentication(self.all(), auth, facts);
            all.and(fits, || because);
        }
        if let Some(patterns) = &when.country {
            let fits = facts.country.as_deref().is_some_and(|c| patterns.matching(c).is_some());
            all.and(fits, || format!("country {:?}", facts.country));
        }
        if let Some(patterns) = &when.listed {
            let found = facts.listings.iter().find(|l| patterns.matching(&l.zone).is_some());
            all.and(found.is_some(), || {
                found.map_or("not listed".into(), |l| format!("listed in {}", l.zone))
            });
        }
        all.answer()
    }
}

fn is_listed_as(listed: &ListedUrl, wanted: &ListedUrlCondition) -> bool {
    let fits = |patterns: &Option<OneOrMany<Pattern>>, value: &str| {
        patterns.as_ref().is_none_or(|p| p.matching(value).is_some())
    };
    fits(&wanted.list, &listed.list) && fits(&wanted.category, &listed.category)
}

/// Whether the part is a file, or files are encoded in it.
pub(super) fn has_file(part: &Part<'_>) -> bool {
    part.is_attachment() || !part.files().is_empty()
}

/// Whether a part fits every field that is given: the name by which it does, empty if it has none.
pub(super) fn fits_attachment<'p>(
    part: &'p Part<'_>,
    wanted: &AttachmentCondition,
) -> Option<Cow<'p, str>> {
    let mut names = part.name_interpretations();
    if names.is_empty() {
        names.push(Cow::Borrowed(""));
    }
    let name = names.into_iter().find(|name| fits_name(name, wanted))?;
    let typed = wanted.kind.as_ref().is_none_or(|p| {
        p.matching(&part.content_type.essence()).is_some()
            || p.matching(file_kind::sniff(part.body()).media_type()).is_some()
            || part.files().iter().any(|file| {
                p.matching(file_kind::sniff(file.bytes(part.body())).media_type()).is_some()
            })
    });
    // The body of a container is that of its parts.
    let body = if part.is_container { part.raw_body() } else { part.body() };
    let large = wanted.size_min.is_none_or(|min| body.len() as u64 >= min.0);
    let sealed = wanted.encrypted.is_none_or(|is| file_kind::is_encrypted(part.body()) == is);
    (typed && large && sealed).then_some(name)
}

fn fits_name(name: &str, wanted: &AttachmentCondition) -> bool {
    let kind = || NameKind::of_extension(extension(name));
    wanted.name.as_ref().is_none_or(|p| p.matching(name).is_some())
        && wanted
            .opens_as
            .as_ref()
            .is_none_or(|list| kind().is_some_and(|kind| list.as_slice().contains(&kind)))
}

/// The same of a file that only some mail programs see.
fn fits_object<'o>(object: &'o Object, wanted: &AttachmentCondition) -> Option<Cow<'o, str>> {
    let own = object.name.rsplit('/').next().unwrap_or_default();
    let mut names = interpretations(own).into_iter().chain([Cow::Borrowed(own)]);
    let name = names.find(|name| fits_name(name, wanted))?;
    let types = [object.declared_type.as_str(), object.kind.media_type()];
    let typed = wanted.kind.as_ref().is_none_or(|p| types.iter().any(|t| p.matching(t).is_some()));
    let large = wanted.size_min.is_none_or(|min| object.size >= min.0);
    let is_encrypted = object.has(PropertyKind::Encrypted);
    let sealed = wanted.encrypted.is_none_or(|wanted| is_encrypted == wanted);
    (typed && large && sealed).then_some(name)
}

/// Every method that is named must have one of its wanted results.
fn authentication(mut all: All, wanted: &AuthCondition, facts: &Facts) -> Answer {
    let dkim = facts.dkim.iter().map(|s| s.result);
    let dkim = if facts.dkim.is_empty() {
        AuthResult::None
    } else {
        let pass = dkim.clone().find(|r| *r == AuthResult::Pass);
        pass.or_else(|| dkim.clone().next()).unwrap_or_default()
    };
    let methods = [
        ("spf", &wanted.spf, facts.spf),
        ("dkim", &wanted.dkim, dkim),
        ("dmarc", &wanted.dmarc, facts.dmarc),
        ("arc", &wanted.arc, facts.arc),
    ];
    for (name, wanted, is) in methods {
        if let Some(wanted) = wanted {
            all.and(wanted.as_slice().contains(&is), || format!("{name} {is:?}").to_lowercase());
        }
    }
    if let Some(wanted) = &wanted.dmarc_policy {
        let is = facts.dmarc_policy;
        all.and(wanted.as_slice().contains(&is), || format!("DMARC policy {is:?}").to_lowercase());
    }
    all.answer().unwrap_or((true, "authentication".into()))
}
