//! Whether a version of a channel can judge at all, before it judges mail: messages that are known
//! to be good are not called bad by it, test strings are found, no filter fails, and no rule takes
//! longer than its share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_engine::{Scratch, Settings, Snapshot, own_rules, scan};
use gauntlet_mail::{DefectKind, Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::Ruleset;
use gauntlet_verdict::Class;

use super::content::{Content, Contents};

/// Time for one message of the test: thousands of times what any takes.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Mail that everybody gets, composed for this; none of it may be called spam.
const GOOD: [&str; 3] = [
    "From: Ann Miller <ann@example.org>\r\nTo: bob@example.net\r\nSubject: Minutes of Tuesday\r\n\
     Date: Fri, 27 Nov 2026 09:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n\r\n\
     Hello Bob,\r\n\r\nhere are the minutes of our meeting on Tuesday. Could you check the\r\n\
     second item before we send them round?\r\n\r\nThanks\r\nAnn\r\n",
    "From: Library <desk@library.example>\r\nTo: ann@example.org\r\nSubject: Your loan ends soon\r\n\
     Date: Fri, 27 Nov 2026 09:00:00 +0000\r\nMessage-ID: <2@library.example>\r\n\r\n\
     Dear reader,\r\n\r\nthe book \"Field guide to lichens\" is due on 4 December. You can\r\n\
     bring it back at the desk, which is open until six.\r\n",
    "From: Bob <bob@example.net>\r\nTo: ann@example.org\r\nSubject: Re: Minutes of Tuesday\r\n\
     In-Reply-To: <1@example.org>\r\nDate: Fri, 27 Nov 2026 10:00:00 +0000\r\n\
     Message-ID: <3@example.net>\r\n\r\nLooks right to me, thank you!\r\n\r\n\
     > Could you check the second item before we send them round?\r\n",
];

/// Runs it.
///
/// # Errors
/// What the version does not do.
pub(crate) fn run(content: &Arc<Content>) -> anyhow::Result<()> {
    let snapshot = alone(content)?;
    let mut scratch = Scratch::default();
    let mut judge = |raw: &str| -> anyhow::Result<Class> {
        let message = Message::parse(raw.as_bytes());
        let began = Instant::now();
        let verdict =
            scan(&message, &Envelope::default(), &Facts::default(), &snapshot, &mut scratch);
        if began.elapsed() > TIME_MAX {
            bail!("one message took {:?}", began.elapsed());
        }
        if let Some(failed) = verdict.defects.iter().find(|d| d.kind == DefectKind::FilterFailed) {
            bail!("a filter failed: {failed:?}");
        }
        Ok(verdict.class)
    };
    for raw in GOOD {
        let class = judge(raw).context("self-test")?;
        if is_bad(class) {
            let subject = raw.lines().find(|l| l.starts_with("Subject")).unwrap_or_default();
            bail!("self-test: an ordinary message is {class:?} by it ({subject})");
        }
    }
    // Texts on which expressions go wrong that try every way.
    for piece in ["a", "aA1 ", "<a href=\"http://a.example/\">x</a>", "=20", "\u{e9}!"] {
        let body = piece.repeat(20_000 / piece.len());
        let raw = format!("{}\r\n{body}\r\n", GOOD[0]);
        judge(&raw).context("self-test with a long text")?;
    }
    Ok(())
}

/// The same for a version in which only known mail is another than in the one in force: what a node
/// judges with now, and with this known mail. Rules that did not change need no test.
///
/// # Errors
/// Good mail would be called spam by it.
pub(crate) fn of_known_mail(now: &Snapshot, next: &Snapshot) -> anyhow::Result<()> {
    let mut scratch = Scratch::default();
    for raw in GOOD {
        let message = Message::parse(raw.as_bytes());
        let mut class = |snapshot| {
            let (envelope, facts) = (Envelope::default(), Facts::default());
            scan(&message, &envelope, &facts, snapshot, &mut scratch).class
        };
        let (was, is) = (class(now), class(next));
        // What the site's own rules say of it is the site's to know.
        if is_bad(is) && !is_bad(was) {
            let subject = raw.lines().find(|l| l.starts_with("Subject")).unwrap_or_default();
            bail!("self-test: an ordinary message is {is:?} by it ({subject})");
        }
    }
    Ok(())
}

fn is_bad(class: Class) -> bool {
    class >= Class::Spam && class != Class::Unscannable
}

/// What ships, with this version of a channel and nothing else.
fn alone(content: &Arc<Content>) -> anyhow::Result<Snapshot> {
    let this = Contents { all: vec![content.clone()], ..Contents::default() };
    let mut settings = Settings::default();
    this.add_to(&mut settings);
    let texts = this.own_rules();
    if !texts.is_empty() {
        let (own, _) = own_rules::with(&[], &texts, &LoadOptions::default())?;
        settings.own_rules = Some(Arc::new(own));
    }
    let sources: Vec<_> = this.spamassassin().collect();
    if !sources.is_empty() {
        let (ruleset, _) = Ruleset::load(&sources, &LoadOptions::default())?;
        settings.rules = Some(Arc::new(ruleset));
    }
    Ok(Snapshot::build(&settings)?.with_published(this.signatures()))
}
