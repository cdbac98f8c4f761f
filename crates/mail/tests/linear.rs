//! Reading a message costs time in proportion to its length, whatever stands in it: a text eight
//! times as long takes about eight times as long, not sixty-four times.

use std::time::{Duration, Instant};

use gauntlet_mail::Message;

/// Bytes of the shorter text.
const SHORT_BYTES: usize = 2_000;
const TIMES: usize = 8;
/// What times of more than eightfold are laid to a busy machine.
const RATIO_MAX: f64 = 28.0;
const NOISE: Duration = Duration::from_millis(4);

/// What repeats. Each alone, before and behind a link, in text and in HTML.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "(", ")", "[", "]", "<", ">", "{", "}", "\"", "'", ".", "/", ":", "@", "#", "%", "&", "=", ";",
    "-", "_", "0", "a", "?", "\\", "*", "~", "|", ",", "\u{200b}", "\u{ad}", "\u{ff0e}",
    "()", ")(", "[]", "<>", "<a ", "a.", ".a", "a:", ":/", "//", "a@", "@a.", "&a=", "=a.b", "%2", "%25",
    "&#", "&#x41;", "&am", "=?", "?=", "=?utf-8?q?a?= ", "http:", "http://", "http://a@", "https:\\\\",
    "www.", "mailto:", "mailto:a@", "a.com ", "a.com/", "/s/", "/amp/s/", ".translate.goog", "-3A_",
    "aHR0c", "YUhSMG", "68747470", "aHR0cDovL2EuY29t", "%2568%2574", "/v3/__", "__;", "*http://",
    "<!--", "<!--[if ", "-->", "<b>", "</b>", "<p style='", "<p style='a:b;", "<style>", "</style>",
    "<script>", "url(", "\\68 ", "<div hidden>", "<td><table>", "<a href=", "<a href='http://a.b/'>",
    "<img srcset='", "a.b/c 1x, ", "<iframe srcdoc='", "data:text/html,", "<base href=x>", "</", "<![CDATA[",
];

fn least_time(raw: &str) -> Duration {
    let once = || {
        let start = Instant::now();
        let message = Message::parse(raw.as_bytes());
        std::hint::black_box(message.defects());
        std::hint::black_box(message.all_urls().count());
        std::hint::black_box(message.named_host(|host| host == "listed.example"));
        start.elapsed()
    };
    (0..2).map(|_| once()).min().unwrap_or_default()
}

type Shape = fn(&str) -> String;

const SHAPES: &[(&str, Shape)] = &[
    ("text", |p| {
        format!(
            "Subject: x\nContent-Type: text/plain; charset=utf-8\n\n{p} http://a.example.com/{p}\n"
        )
    }),
    ("plain form", |p| {
        format!(
            "Content-Type: text/plain; charset=utf-8\n\na\u{200b}b http://a.example.com/?u={p}\n"
        )
    }),
    ("page", |p| {
        format!(
            "Content-Type: text/html; charset=utf-8\n\n{p}<a href=\"http://a.example.com/{p}\">{p}"
        )
    }),
    ("words in brackets", |p| {
        format!(
            "List-Unsubscribe: <http://a.example.com/{p}>\n\n<http://a.b\n.example.com {p} bye\n"
        )
    }),
    ("attached page", |p| {
        format!("Content-Type: application/octet-stream; name=a.html\n\n<a href='//a.b/{p}'>{p}")
    }),
    ("calendar", |p| format!("Content-Type: text/calendar\n\nURL:http://a.b/{p}\nX:{p}\n")),
    ("subject", |p| format!("Subject: a\u{200b}b http://a.example.com/{p}\n\nhello\n")),
];

fn too_steep(shape: Shape, piece: &str) -> Option<f64> {
    let times = SHORT_BYTES / piece.len();
    let ratio = || {
        let short = least_time(&shape(&piece.repeat(times)));
        let long = least_time(&shape(&piece.repeat(times * TIMES)));
        long.saturating_sub(NOISE).as_secs_f64() / short.as_secs_f64().max(1e-6)
    };
    // Measured again before it counts: another process may have had the processor.
    let steep = || Some(ratio()).filter(|ratio| *ratio > RATIO_MAX);
    steep().and_then(|_| steep()).and_then(|_| steep())
}

#[test]
fn time_grows_with_length_only() {
    let mut found = Vec::new();
    for (name, shape) in SHAPES {
        for piece in PIECES {
            if let Some(ratio) = too_steep(*shape, piece) {
                found.push(format!("{name}: {piece:?} {ratio:.0} times"));
            }
        }
    }
    assert!(found.is_empty(), "{TIMES} times the length takes: {found:#?}");
}

#[test]
fn many_parts_have_one_bound_for_nested_urls() {
    let part = format!("--b\nContent-Type: text/plain\n\n{}\n", "http:".repeat(1_000));
    let mail = |parts: usize| {
        let parts = part.repeat(parts);
        format!("Content-Type: multipart/mixed; boundary=b\n\n{parts}--b--\n")
    };
    assert!(!Message::parse(mail(1).as_bytes()).has_unread_urls(), "within the bound");
    assert!(Message::parse(mail(16).as_bytes()).has_unread_urls(), "beyond it, and said so");
}
