//! The mail to somebody who asked for release of a web page, once an administrator has decided.
//!
//! It says what was asked and what became of it, and nothing that people wrote: neither the reason,
//! which anybody could have given in anybody's name, nor the administrator's note.

use gauntlet_web::release::ReleaseRequest;

use crate::digest::{encoded_words, is_fit, part, rfc5322};
use crate::format;
use crate::text::{Texts, translatable};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It stays blocked.
    Declined,
    /// It passes until this time, in milliseconds since 1970; without one, for good.
    Released(Option<i64>),
}

/// The message, lines ending in CRLF, ASCII only; none if the person left no address that can be
/// written to.
pub fn mail(
    asked: &ReleaseRequest,
    outcome: ReleaseOutcome,
    from: &str,
    now_ms: i64,
    texts: &Texts,
) -> Option<String> {
    let to = Some(asked.mail.as_str()).filter(|to| is_fit(to))?;
    let subject = match outcome {
        ReleaseOutcome::Declined => translatable("Your request {}: it stays blocked"),
        ReleaseOutcome::Released(_) => translatable("Your request {}: it is released"),
    };
    let subject = encoded_words(&texts.say(subject, &[&asked.reference]));
    let domain = from.rsplit_once('@').map_or("localhost", |(_, domain)| domain);
    let mark: String =
        blake3::hash(format!("{} {to} {now_ms}", asked.reference).as_bytes()).to_hex()[..32].into();
    Some(format!(
        "From: {from}\r\nTo: {to}\r\nSubject: {subject}\r\nDate: {}\r\n\
         Message-ID: <release-{mark}@{domain}>\r\nAuto-Submitted: auto-generated\r\n\
         MIME-Version: 1.0\r\n{}",
        rfc5322(now_ms),
        part("plain", &text(asked, outcome, texts))
    ))
}

fn text(asked: &ReleaseRequest, outcome: ReleaseOutcome, texts: &Texts) -> String {
    let when = format::day_and_clock(asked.at_ms);
    let begin = translatable("On {} (UTC) you asked for release of this address:");
    let became = match outcome {
        ReleaseOutcome::Declined => texts.say(translatable("It stays blocked."), &[]),
        ReleaseOutcome::Released(None) => texts.say(translatable("It is released."), &[]),
        ReleaseOutcome::Released(Some(until)) => texts
            .say(translatable("It is released until {} (UTC)."), &[&format::day_and_clock(until)]),
    };
    let reference = texts.say(translatable("Reference: {}"), &[&asked.reference]);
    let (begin, url) = (texts.say(begin, &[&when]), format::plain(&asked.url));
    format!("{begin}\r\n\r\n  {url}\r\n\r\n{became}\r\n\r\n{reference}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(mail: &str) -> ReleaseRequest {
        ReleaseRequest {
            reference: "abc1".to_owned(),
            at_ms: 1_795_651_200_000,
            url: "http://www.example/shop\r\nBcc: all@example.org".to_owned(),
            reason: "Click http://evil.example".to_owned(),
            mail: mail.to_owned(),
            ..ReleaseRequest::default()
        }
    }

    fn body(mail: &str) -> String {
        let (_, body) = mail.split_once("\r\n\r\n").unwrap();
        let base64: String = body.split_whitespace().collect();
        String::from_utf8(base64_simd::STANDARD.decode_to_vec(base64).unwrap()).unwrap()
    }

    #[test]
    fn who_asked_learns_what_became_of_it_and_nothing_that_people_wrote() {
        let (asked, texts) = (asked("ann@example.org"), Texts::default());
        let made = |outcome| mail(&asked, outcome, "gate@example.com", 0, &texts).unwrap();
        let released = made(ReleaseOutcome::Released(Some(1_795_737_600_000)));
        assert!(released.contains("To: ann@example.org\r\n"), "{released}");
        assert!(released.contains("Subject: Your request abc1: it is released\r\n"), "{released}");
        let text = body(&released);
        assert!(text.contains("It is released until 2026-11-2"), "{text}");
        assert!(text.contains("http://www.example/shop"), "{text}");
        assert!(!text.contains("\nBcc") && !text.contains("evil"), "{text}");
        assert!(body(&made(ReleaseOutcome::Released(None))).contains("It is released.\r\n"));
        assert!(body(&made(ReleaseOutcome::Declined)).contains("It stays blocked.\r\n"));
    }

    #[test]
    fn an_address_that_is_none_gets_nothing() {
        for address in ["", "ann", "a@b.example\r\nBcc: c@d.example", "a@b.example, c@d.example"] {
            let outcome = ReleaseOutcome::Declined;
            let made = mail(&asked(address), outcome, "g@x.example", 0, &Texts::default());
            assert_eq!(made, None, "{address:?}");
        }
    }
}
