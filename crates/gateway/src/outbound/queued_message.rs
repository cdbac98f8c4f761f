//! A message on its way: what was decided about it and where it has to go. This is what the spool
//! keeps beside the body.

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Direction, Envelope};
use gauntlet_smtp::{MailCommand, Notify, RcptCommand, Ret};
use gauntlet_store::record::MADE_HERE;
use gauntlet_store::{Delivery, LogRecord, Outcome, QuarantineItem, Stage};
use gauntlet_verdict::{Change, Disposition, Final, ReleasedBy};
use serde::{Deserialize, Serialize};

/// What happens with a message for one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is sent on, or delivered into the Maildir.
    Send,
    /// It goes to the quarantine.
    Quarantine {
        /// Folder of the quarantine.
        folder: String,
    },
    /// It is neither delivered nor kept.
    Discard,
    /// It is refused although other recipients of the message were accepted.
    Refuse {
        /// Text of the 5xx reply, which the report to the sender quotes.
        text: String,
    },
}

/// An address that a message goes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Envelope recipient as RCPT named it.
    pub address: String,
    /// What the policy has decided for this recipient.
    pub action: Action,
    /// Changes on the way, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// In our own Maildir it goes into the spam folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spam_folder: bool,
    /// `NOTIFY=` of the client: success, failure, delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<(bool, bool, bool)>,
    /// `ORCPT=` of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orcpt: Option<String>,
}

/// What a report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The message was given up.
    Failed,
    /// It is late, and tried further.
    Delayed,
    /// It was delivered, or handed to a server that does not report (RFC 3461 section 6.2.7).
    Delivered,
}

/// Why a sender gets no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReport {
    /// There is nobody to report to (RFC 5321 section 4.5.5).
    NullSender,
    /// It asked for none (`NOTIFY=NEVER`, RFC 3461 section 4.1), or the address is one that the
    /// policy added.
    NotWanted,
    /// The message was released from quarantine.
    Released,
    /// The message is spam or worse: its sender is rarely who it seems.
    Unwanted,
    /// SPF says that somebody else sent it.
    Forged,
    /// `sender.bounces` is off.
    SwitchedOff,
}

impl NoReport {
    /// The reason, for the log.
    pub fn text(self) -> &'static str {
        match self {
            NoReport::NullSender => "the sender is empty",
            NoReport::NotWanted => "the sender asked for none (NOTIFY)",
            NoReport::Released => "the message was released from quarantine",
            NoReport::Unwanted => "the message is unwanted",
            NoReport::Forged => "SPF says that the sender is forged",
            NoReport::SwitchedOff => "sender.bounces is off",
        }
    }
}

/// A message on its way, without its body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedMessage {
    /// Its line of the log; `deliveries` has one entry for each target, in their order.
    pub record: LogRecord,
    /// Recipients, each with its action.
    pub targets: Vec<Target>,
    /// The body holds bytes over 127.
    #[serde(default)]
    pub eight_bit: bool,
    /// The client gave `SMTPUTF8` (RFC 6531), and the next hop has to offer it.
    #[serde(default)]
    pub utf8: bool,
    /// `RET=`: true for `FULL`.
    #[serde(default)]
    pub ret_full: Option<bool>,
    /// `ENVID=` of the client (RFC 3461 section 4.4), for reports.
    #[serde(default)]
    pub envid: Option<String>,
    /// Token of the release from quarantine that brought it here.
    #[serde(default)]
    pub release: Option<String>,
    /// The move from another node's queue that brought it here; none if it was accepted here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

/// Where a message comes from that another node accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Token of the move, 32 hexadecimal digits.
    pub token: String,
    /// Name of the other node; empty if that is not known.
    pub from: String,
    /// Its id there.
    pub id: String,
}

impl QueuedMessage {
    /// A message that just came in and was judged.
    pub fn new(mut record: LogRecord, mail: &MailCommand, recipients: &[RcptCommand]) -> Self {
        let mut targets = Vec::new();
        for (i, disposition) in record.dispositions.iter().enumerate() {
            targets.extend(targets_of(disposition, recipients.get(i)));
        }
        let at_ms = record.received_ms;
        record.deliveries = targets.iter().map(|target| start(target, at_ms)).collect();
        QueuedMessage {
            record,
            targets,
            eight_bit: mail.eight_bit,
            utf8: mail.utf8,
            ret_full: mail.ret.map(|ret| ret == Ret::Full),
            envid: mail.envid.clone(),
            release: None,
            moved: None,
        }
    }

    /// A message of the node itself, or one that was released: goes to these addresses as it
    /// is.
    pub fn straight(mut record: LogRecord, addresses: &[String]) -> Self {
        let disposition = |address: &String| Disposition {
            recipient: address.clone(),
            end: Final::Deliver,
            changes: Vec::new(),
            rules: Vec::new(),
            release: None,
        };
        record.dispositions = addresses.iter().map(disposition).collect();
        QueuedMessage::new(record, &MailCommand::default(), &[])
    }

    /// The quarantine's line for these targets.
    pub(crate) fn item(&self, folder: &str, targets: &[usize]) -> QuarantineItem {
        let record = &self.record;
        let addresses = targets.iter().filter_map(|t| self.targets.get(*t));
        // The first folder has the message's own name, the reference that users know.
        let first = self.targets.iter().find_map(|t| match &t.action {
            Action::Quarantine { folder } => Some(folder.as_str()),
            _ => None,
        });
        let id = match first {
            Some(first) if first != folder => format!("{}-{folder}", record.id),
            _ => record.id.clone(),
        };
        // Who may release it: the strictest of what the rules say that hold it in this folder.
        let held_here = record.dispositions.iter().filter(|d| match &d.end {
            Final::Hold { folder: at } | Final::Quarantine { folder: at } => at == folder,
            _ => false,
        });
        let said = held_here.map(Disposition::released_by);
        let release = match said.clone().all(|one| one.is_some()) {
            true => said.flatten().max(),
            // Of those left to the folder no recipient may widen it for the others.
            false => said.flatten().max().filter(|most| *most == ReleasedBy::Admin),
        };
        let recipients = addresses.map(|t| t.address.clone()).collect();
        QuarantineItem { id, folder: folder.to_owned(), recipients, release, ..self.held() }
    }

    /// What every quarantine's line of this message says; whose it is and where is to be added.
    pub(crate) fn held(&self) -> QuarantineItem {
        let record = &self.record;
        QuarantineItem {
            id: String::new(),
            message: record.id.clone(),
            folder: String::new(),
            recipients: Vec::new(),
            envelope: record.envelope.clone(),
            received_ms: record.received_ms,
            class: record.verdict.class,
            score: record.verdict.score,
            subject: record.subject.clone(),
            from: record.from.clone(),
            release: None,
        }
    }

    /// For spool and log: nothing more will happen.
    pub fn is_done(&self) -> bool {
        self.record.deliveries.iter().all(|d| d.outcome.is_final())
    }

    /// The sender wants such a report about this target, and may get it.
    pub fn may_report(&self, target: &Target, news: News) -> bool {
        self.why_no_report(target, news).is_none()
    }

    /// Why the sender gets no such report about this target: unless it is one of ours, nothing may
    /// say that it is forged, and the message was not released from quarantine, whatever class it
    /// is. Without a wish only failures are reported, and delays to those who send through us.
    pub fn why_no_report(&self, target: &Target, news: News) -> Option<NoReport> {
        let LogRecord { envelope, facts, verdict, .. } = &self.record;
        let ours = envelope.direction == Direction::Outbound || envelope.auth_user.is_some();
        let wanted = match (news, target.notify) {
            (News::Failed, wish) => wish.is_none_or(|(_, failure, _)| failure),
            (News::Delayed, wish) => wish.map_or(ours, |(_, _, delay)| delay),
            (News::Delivered, wish) => wish.is_some_and(|(success, _, _)| success),
        };
        match () {
            () if envelope.mail_from.is_empty() => Some(NoReport::NullSender),
            () if !wanted => Some(NoReport::NotWanted),
            () if ours => None,
            () if self.release.is_some() => Some(NoReport::Released),
            () if verdict.class > gauntlet_verdict::Class::Bulk => Some(NoReport::Unwanted),
            () => matches!(facts.spf, AuthResult::Fail | AuthResult::SoftFail)
                .then_some(NoReport::Forged),
        }
    }
}

/// The line of the log of a message of the node itself for one address, from the empty sender.
pub fn own_record(id: &str, now_ms: i64, host: &str, to: &str) -> LogRecord {
    LogRecord {
        id: id.to_owned(),
        received_ms: now_ms,
        envelope: Envelope {
            direction: Direction::Outbound,
            helo: host.to_owned(),
            rcpt_to: vec![to.to_owned()],
            received_at: now_ms / 1_000,
            ..Envelope::default()
        },
        stages: vec![Stage { name: MADE_HERE.to_owned(), at_us: 0, detail: String::new() }],
        ..LogRecord::default()
    }
}

fn start(target: &Target, at_ms: i64) -> Delivery {
    Delivery {
        address: target.address.clone(),
        outcome: Outcome::Queued,
        at_ms,
        ..Delivery::default()
    }
}

/// Where a message goes for one recipient: usually one target, more for redirects and copies.
fn targets_of(disposition: &Disposition, rcpt: Option<&RcptCommand>) -> Vec<Target> {
    let changes: Vec<Change> = disposition
        .changes
        .iter()
        .filter(|change| {
            // Not about the bytes that a target gets.
            !matches!(change, Change::Copy { .. } | Change::Notify { .. } | Change::Learn { .. })
        })
        .cloned()
        .collect();
    let target = |address: &str, action: Action| Target {
        address: address.to_owned(),
        action,
        changes: changes.clone(),
        spam_folder: disposition.end == Final::SpamFolder,
        notify: rcpt
            .and_then(|r| r.notify)
            .map(|Notify { success, failure, delay }| (success, failure, delay)),
        orcpt: rcpt.and_then(|r| r.orcpt.clone()),
    };
    let to = disposition.recipient.as_str();
    let mut targets = match &disposition.end {
        Final::Deliver | Final::SpamFolder => vec![target(to, Action::Send)],
        Final::Redirect { to } => to.iter().map(|a| target(a, Action::Send)).collect(),
        Final::Hold { folder } | Final::Quarantine { folder } => {
            vec![target(to, Action::Quarantine { folder: folder.clone() })]
        }
        Final::Reject { text } | Final::Defer { text } => {
            vec![target(to, Action::Refuse { text: text.clone() })]
        }
        Final::Discard => vec![target(to, Action::Discard)],
    };
    for change in &disposition.changes {
        if let Change::Copy { to } = change {
            targets.extend(to.iter().map(|a| Target {
                changes: Vec::new(),
                spam_folder: false,
                notify: Some((false, false, false)),
                orcpt: None,
                ..target(a, Action::Send)
            }));
        }
    }
    targets
}

/// The answer a client gets: what the dispositions of a message come to together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// 250: the node accepts it.
    Accept,
    /// 5xx: every recipient is refused.
    Reject(String),
    /// 4xx: one recipient is deferred, so none is accepted now.
    Defer(String),
}

/// The text with the reference code that the console finds, once.
pub fn with_reference(text: &str, id: &str) -> String {
    if text.contains(id) { text.to_owned() } else { format!("{text} (reference {id})") }
}

/// Design invariant 3: a 5xx only if every recipient's disposition is reject.
pub fn answer(dispositions: &[Disposition]) -> Answer {
    let defer = dispositions.iter().find_map(|d| match &d.end {
        Final::Defer { text } => Some(text.clone()),
        _ => None,
    });
    if let Some(text) = defer {
        return Answer::Defer(text);
    }
    let mut first = None;
    for disposition in dispositions {
        match &disposition.end {
            Final::Reject { text } => {
                first.get_or_insert_with(|| text.clone());
            }
            _ => return Answer::Accept,
        }
    }
    first.map_or(Answer::Accept, Answer::Reject)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disposition(recipient: &str, end: Final) -> Disposition {
        Disposition {
            recipient: recipient.into(),
            end,
            changes: Vec::new(),
            rules: Vec::new(),
            release: None,
        }
    }

    #[test]
    fn one_answer_for_many_dispositions() {
        let reject = || disposition("a@b", Final::Reject { text: "no".into() });
        let deliver = || disposition("c@d", Final::Deliver);
        let defer = || disposition("e@f", Final::Defer { text: "later".into() });
        assert_eq!(answer(&[deliver(), reject()]), Answer::Accept);
        assert_eq!(answer(&[reject(), reject()]), Answer::Reject("no".into()));
        assert_eq!(answer(&[reject(), defer(), deliver()]), Answer::Defer("later".into()));
        assert_eq!(answer(&[]), Answer::Accept);
    }

    #[test]
    fn each_recipient_gets_its_own_and_copies_are_added() {
        let mut copied = disposition("a@b", Final::Deliver);
        copied.changes = vec![Change::Copy { to: vec!["boss@b".into()] }];
        let record = LogRecord {
            dispositions: vec![
                copied,
                disposition("c@d", Final::Quarantine { folder: "spam".into() }),
                disposition("e@f", Final::Redirect { to: vec!["x@y".into(), "z@y".into()] }),
                disposition("g@h", Final::Reject { text: "no".into() }),
            ],
            ..LogRecord::default()
        };
        let message = QueuedMessage::new(record, &MailCommand::default(), &[]);
        let addresses: Vec<&str> = message.targets.iter().map(|t| t.address.as_str()).collect();
        assert_eq!(addresses, ["a@b", "boss@b", "c@d", "x@y", "z@y", "g@h"]);
        assert_eq!(message.record.deliveries.len(), 6);
        assert!(!message.is_done());
        let text = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<QueuedMessage>(&text).unwrap(), message);
    }

    #[test]
    fn the_reason_for_no_report_is_known() {
        let message = |from: &str, direction| {
            let envelope =
                Envelope { mail_from: from.to_owned(), direction, ..Envelope::default() };
            let record = LogRecord { envelope, ..LogRecord::default() };
            QueuedMessage::straight(record, &["b@example.net".to_owned()])
        };
        let why = |m: &QueuedMessage| m.why_no_report(&m.targets[0], News::Failed);
        for direction in [Direction::Inbound, Direction::Outbound] {
            let mut known = message("a@example.org", direction);
            assert_eq!(why(&known), None);
            known.targets[0].notify = Some((true, false, true));
            assert_eq!(why(&known), Some(NoReport::NotWanted));
            assert_eq!(why(&message("", direction)), Some(NoReport::NullSender));
            // Of our own senders nothing is suspected.
            let not_ours = |why: NoReport| (direction == Direction::Inbound).then_some(why);
            let mut forged = message("a@example.org", direction);
            forged.record.facts.spf = AuthResult::Fail;
            assert_eq!(why(&forged), not_ours(NoReport::Forged));
            forged.record.verdict.class = gauntlet_verdict::Class::Spam;
            assert_eq!(why(&forged), not_ours(NoReport::Unwanted));
            forged.release = Some("token".to_owned());
            assert_eq!(why(&forged), not_ours(NoReport::Released));
        }
    }
}
