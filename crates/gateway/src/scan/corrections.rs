//! What people, services and policies say about messages, written to the journal that the site's
//! model learns from.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_engine::corrections::{Correction, MessageId, message_id, reporter_id};
use gauntlet_engine::learning::Said;
use gauntlet_engine::{Scratch, Snapshot};
use gauntlet_learning::Corrections;
use gauntlet_learning::corrections::CorrectionsError;
use gauntlet_learning::probes::add_good_domains;
use gauntlet_mail::{Envelope, Facts, Message, trace};

use crate::scan::judge::Judge;
use crate::scan::probes::domains_of;

const DAY_SECONDS: i64 = 86_400;

/// What is known of how a message came, for who says something about it later.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    /// Client, HELO, MAIL FROM and RCPT TO of the session that brought it.
    pub envelope: Envelope,
    /// What the network said of it.
    pub facts: Facts,
}

/// Writes down that `who` says what a message is; on disk when it returns. Blocks, and waits for
/// another process that writes (`gauntlet learn`). The node applies it with its next poll. Without
/// circumstances its own trace fields say how it came. Result: whether it was news.
///
/// A person of the console is a reporter like any other, administrators too: what one of them says
/// counts 20 messages at most ([`gauntlet_engine::site_model::REPORTER_SHARE`]).
///
/// # Errors
/// If the journal in the data folder cannot be read or written.
pub fn correct(
    data: &Path,
    snapshot: &Snapshot,
    (raw, came): (&[u8], Option<&Circumstances>),
    (spam, who, now_seconds): (bool, &str, i64),
) -> Result<bool, CorrectionsError> {
    // An empty name would be the administrator, whose word is not bounded.
    let who = if who.is_empty() { "console" } else { who };
    let by = (spam, reporter_id(who), now_seconds);
    let said = correction((raw, came), by, snapshot, &mut Scratch::default());
    let news = Corrections::open(data)?.say([said])?;
    if !spam {
        let facts = came.map(|came| &came.facts);
        note_good(data, &domains_of(&Message::parse(raw), facts), now_seconds);
    }
    Ok(news > 0)
}

fn correction(
    (raw, came): (&[u8], Option<&Circumstances>),
    (spam, reporter, at): (bool, u64, i64),
    snapshot: &Snapshot,
    scratch: &mut Scratch,
) -> (MessageId, Correction) {
    let message = Message::parse(raw);
    let read;
    let Circumstances { envelope, facts } = match came {
        Some(came) => came,
        None => {
            let envelope = trace::of_trace(&message, at);
            read = Circumstances { envelope, ..Circumstances::default() };
            &read
        }
    };
    let said = Said { message: &message, envelope, facts, spam, reporter, at };
    (message_id(raw), said.correction(snapshot, scratch))
}

/// What somebody or something other than a person says of a message.
#[derive(Debug)]
pub struct Opinion {
    /// The message as it was received.
    pub raw: Bytes,
    /// Its envelope and facts at the time of receipt.
    pub came: Circumstances,
    /// The snapshot, policy and bounds that judged it.
    pub judge: Arc<Judge>,
    /// Spam, or else good mail.
    pub spam: bool,
    /// Hash of who says so: of one reporter each message counts once.
    pub reporter: u64,
    /// Unix time in seconds.
    pub at_s: i64,
    /// Their name, for the log.
    pub who: String,
}

/// As [`correct`], for several messages at once. What a person says of a message stands before what
/// a policy says. Result: how many were news.
///
/// # Errors
/// If the journal in the data folder cannot be read or written.
pub fn correct_many(data: &Path, opinions: &[Opinion]) -> Result<usize, CorrectionsError> {
    let mut scratch = Scratch::default();
    let of = |one: &Opinion| {
        let by = (one.spam, one.reporter, one.at_s);
        correction((&one.raw, Some(&one.came)), by, &one.judge.snapshot, &mut scratch)
    };
    let all: Vec<_> = opinions.iter().map(of).collect();
    let news = Corrections::open(data)?.say(all)?;
    let good = opinions.iter().filter(|one| !one.spam);
    let domains = good.clone().flat_map(|one| {
        let message = Message::parse(&one.raw);
        domains_of(&message, Some(&one.came.facts))
    });
    let domains: Vec<u64> = domains.collect();
    note_good(data, &domains, good.map(|one| one.at_s).max().unwrap_or_default());
    Ok(news)
}

/// Notes what good mail names, so that it becomes no entry of a list. The correction counts without
/// it.
fn note_good(data: &Path, domains: &[u64], at_s: i64) {
    let today = u16::try_from(at_s.max(0) / DAY_SECONDS).unwrap_or(u16::MAX);
    if domains.is_empty() {
        return;
    }
    if let Err(error) = add_good_domains(data, domains, today) {
        tracing::error!(%error, "domains of good mail could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_stands_once_and_the_last_word_counts() {
        let folder = tempfile::tempdir().unwrap();
        let raw = b"From: a@example.org\nSubject: minutes\n\nThe minutes.\n";
        let snapshot = Snapshot::default_rules();
        let say = |raw: &[u8], spam, who, at| {
            correct(folder.path(), &snapshot, (raw, None), (spam, who, at)).unwrap()
        };
        assert!(say(raw, false, "ada", 1));
        assert!(!say(raw, false, "ada", 2), "no news");
        assert!(say(raw, true, "bob", 3));
        assert!(say(b"other", false, "", 3));
        let in_effect = Corrections::read(folder.path()).unwrap();
        let said = &in_effect[&message_id(raw)];
        assert!(in_effect.len() == 2 && said.spam && said.reporter == reporter_id("bob"));
        assert_ne!(in_effect[&message_id(b"other")].reporter, 0, "never without bounds");
    }
}
