//! A scan with the text views that the questions computed finds the same as one without, also if
//! header fields were added or removed in between.

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{LoadOptions, Profile};
use gauntlet_spamassassin::{RulesScratch, Ruleset};

const RULES: &str = r"
util_rb_tld example
header __BL eval:check_rbl('bl', 'bl.example.')
askdns __ASK _URIDOMAINS_.fresh.example A
body BODY_WORD /\bbuy now\b/i
body SUBJECT_WORD /winner/i
rawbody RAW /<b>/
uri LINK /shop\.example/
full FULL /buy=20now/
header FORGED exists:Authentication-Results
meta ALL BODY_WORD && LINK
";

fn mails() -> Vec<String> {
    let head = "Authentication-Results: gw.example; spf=pass\r\nReceived: from a (b [192.0.2.1]) by c; x\r\n\
        From: a@b.example\r\nSubject: a winner\r\n";
    let html = "Content-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\n\r\nbuy now\r\n--x\r\n\
        Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        <b>buy=20now</b> <a href=3D\"http://www.shop.example/\">x</a>\r\n--x--\r\n";
    vec![
        format!("{head}\r\nplease buy  now at http://shop.example/ \r\n\r\nbye\r\n"),
        format!("{head}{html}"),
        format!("{head}\r\n"),
        String::new(),
    ]
}

#[test]
fn scans_agree() {
    let options = LoadOptions { profile: Profile::Full, ..LoadOptions::default() };
    let (rules, _) = Ruleset::from_bytes(RULES.as_bytes(), &options).unwrap();
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let (mut fresh, mut given) = (RulesScratch::default(), RulesScratch::default());
    let mut all = mails();
    let corpus =
        std::env::var_os("GAUNTLET_CORPUS").map(|c| std::path::Path::new(&c).join("bench-small"));
    for entry in corpus.iter().flat_map(std::fs::read_dir).flatten().flatten().take(400) {
        all.extend(
            std::fs::read(entry.path()).map(|raw| String::from_utf8_lossy(&raw).into_owned()),
        );
    }
    let mut previous = None;
    for mail in &all {
        let (_, text) =
            rules.questions_and_text(&Message::parse(mail.as_bytes()), &envelope, &facts);
        let stamped = format!(
            "Authentication-Results: gw.example; spf=fail\r\n{}",
            mail.replacen("Authentication-Results: gw.example; spf=pass\r\n", "", 1)
        );
        for (mail, text) in [(stamped.as_str(), text), (mail.as_str(), previous.take())] {
            let message = Message::parse(mail.as_bytes());
            let alone = rules.scan(&message, &envelope, &facts, 0, &mut fresh);
            // Text views of another message: with a body of another length, or cleared.
            given.give(text);
            let after = rules.scan(&message, &envelope, &facts, 0, &mut given);
            assert_eq!(format!("{alone:?}"), format!("{after:?}"), "{mail}");
            given.give(None);
        }
        let other = Message::parse(b"Subject: other\n\nof another length: buy now\n\n\n");
        previous = rules.questions_and_text(&other, &envelope, &facts).1;
    }
}
