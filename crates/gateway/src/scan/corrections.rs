//! What users say about held messages, written to the journal that the classifier learns from.

use std::path::Path;

use bytes::Bytes;
use gauntlet_engine::classifier::{ClassifierScratch, Model};
use gauntlet_engine::corrections::{Correction, message_id, reporter_id};
use gauntlet_learning::Corrections;
use gauntlet_learning::corrections::CorrectionsError;
use gauntlet_mail::Message;

/// Writes down that `who` says what a message is; on disk when it returns. Blocks, and waits for
/// another process that writes (`gauntlet learn`). The node applies it with its next poll. Result:
/// whether it was news.
///
/// A person of the console is a reporter like any other, administrators too: what one of them says
/// counts 20 messages at most ([`gauntlet_engine::site_model::REPORTER_SHARE`]).
///
/// # Errors
/// If the journal in the data folder cannot be read or written.
pub fn correct(
    data: &Path,
    raw: &[u8],
    spam: bool,
    who: &str,
    now_seconds: i64,
) -> Result<bool, CorrectionsError> {
    // An empty name would be the administrator, whose word is not bounded.
    let who = if who.is_empty() { "console" } else { who };
    let by = (reporter_id(who), now_seconds);
    let mut scratch = ClassifierScratch::default();
    let said = Correction::new(&Message::parse(raw), &Model::shipped(), &mut scratch, spam, by);
    let news = Corrections::open(data)?.say([(message_id(raw), said)])?;
    Ok(news > 0)
}

/// What somebody or something other than a person says of a message.
#[derive(Debug)]
pub struct Opinion {
    /// The message as it was received.
    pub raw: Bytes,
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
    let mut scratch = ClassifierScratch::default();
    let model = Model::shipped();
    let mut of = |one: &Opinion| {
        let by = (one.reporter, one.at_s);
        let message = Message::parse(&one.raw);
        let correction = Correction::new(&message, &model, &mut scratch, one.spam, by);
        (message_id(&one.raw), correction)
    };
    let all: Vec<_> = opinions.iter().map(&mut of).collect();
    Corrections::open(data)?.say(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_stands_once_and_the_last_word_counts() {
        let folder = tempfile::tempdir().unwrap();
        let raw = b"From: a@example.org\nSubject: minutes\n\nThe minutes.\n";
        assert!(correct(folder.path(), raw, false, "ada", 1).unwrap());
        assert!(!correct(folder.path(), raw, false, "ada", 2).unwrap(), "no news");
        assert!(correct(folder.path(), raw, true, "bob", 3).unwrap());
        assert!(correct(folder.path(), b"other", false, "", 3).unwrap());
        let standing = Corrections::read(folder.path()).unwrap();
        let said = &standing[&message_id(raw)];
        assert!(standing.len() == 2 && said.spam && said.reporter == reporter_id("bob"));
        assert_ne!(standing[&message_id(b"other")].reporter, 0, "never without bounds");
    }
}
