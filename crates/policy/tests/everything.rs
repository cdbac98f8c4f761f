//! Any text as a policy: read, then decide about a message; for the walk of the smoke test and the
//! fuzz target.

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_policy::Rates;
use gauntlet_policy::{Policy, PolicyInput, rewrite};
use gauntlet_verdict::{Change, Class, Thresholds, Verdict};

const MAIL: &[u8] = b"From: Ann <ann@example.org>\r\nTo: bob@example.net\r\nSubject: hi\r\n\
    Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nhello\r\n--x\r\n\
    Content-Type: application/x-msdownload; name=a.exe\r\n\r\nMZ\r\n--x--\r\n";

/// # Panics
/// If a promise is broken: an error says something, each recipient gets one disposition, and
/// changes leave a message.
pub(crate) fn ask(text: &str) {
    let policy = match Policy::parse(text, &Default::default()) {
        Ok(policy) => policy,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let message = Message::parse(MAIL);
    let rcpt_to = ["bob@example.net", "eve@example.com", ""].map(str::to_owned).to_vec();
    let envelope = Envelope { rcpt_to, mail_from: "ann@example.org".into(), ..Envelope::default() };
    for class in Class::ALL {
        let verdict = Verdict { class, score: 7.5, ..Verdict::default() };
        let input = PolicyInput {
            id: "1M7YFK6WX0000",
            message: &message,
            envelope: &envelope,
            facts: &Facts::default(),
            verdict: &verdict,
            thresholds: &Thresholds::default(),
            rates: &Rates::default(),
        };
        let dispositions = policy.decide(&input);
        assert_eq!(dispositions.len(), envelope.rcpt_to.len(), "each recipient gets its own");
        for disposition in dispositions {
            let changes: &[Change] = &disposition.changes;
            assert!(!rewrite::apply(&message, changes).is_empty());
        }
    }
}
