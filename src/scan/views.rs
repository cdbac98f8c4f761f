//! `gauntlet scan --views`: what SpamAssassin rules see of a message.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::ControlFlow;

use gauntlet_inputs::source::{self, Content, Source};
use gauntlet_mail::{Facts, Message, trace};
use gauntlet_rules::HeaderSelector;
use gauntlet_spamassassin::{ViewSettings, Views};
use serde::Serialize;

use super::{Args, clock};

/// Header values that --views prints, as rules select them.
const HEADERS: [&str; 24] = [
    "ALL",
    "ALL-TRUSTED",
    "ALL-UNTRUSTED",
    "ALL-INTERNAL",
    "ALL-EXTERNAL",
    "ToCc",
    "EnvelopeFrom",
    "MESSAGEID",
    "From",
    "From:raw",
    "From:addr",
    "From:name",
    "Subject",
    "Subject:raw",
    "To",
    "To:addr",
    "Reply-To:addr",
    "Message-Id",
    "Received",
    "Received:raw",
    "X-Spam-Relays-Trusted",
    "X-Spam-Relays-Untrusted",
    "X-Spam-Relays-Internal",
    "X-Spam-Relays-External",
];

/// The JSON line; each byte of a text is one character U+0000 to U+00FF.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    body: Vec<String>,
    rawbody: Vec<String>,
    full_len: usize,
    uris: Vec<String>,
    headers: BTreeMap<&'static str, String>,
}

/// Prints the views of every input. With `--rules` their settings count.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let loaded = match args.ruleset.rules.as_slice() {
        [] => None,
        rules => Some(args.ruleset.reading.load(rules, false, false)?),
    };
    let defaults = ViewSettings::default();
    let settings = loaded.as_ref().map_or(&defaults, |ruleset| ruleset.view_settings());
    let source = Source::of_messages(args.max_bytes);
    let mut out = io::stdout().lock();
    let mut result = Ok(());
    let mut emit = |input: source::Input| {
        let bytes = match input.content {
            Content::Bytes(bytes) => Ok(bytes),
            Content::Failed(why) => Err(why),
            Content::File(path) => {
                source::read_file(&path, args.max_bytes).map_err(|error| error.to_string())
            }
        };
        result = match bytes {
            Ok(raw) => print(&mut out, args, settings, &input.name, &raw),
            Err(why) => writeln!(io::stderr(), "{}: {why}", input.name),
        };
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    for path in &args.paths {
        if source.walk(path, &mut emit).is_break() {
            break;
        }
    }
    if let Some(list) = &args.files_from {
        source.list(list, &mut emit)?;
    }
    source.say_passed_over();
    Ok(result?)
}

fn print(
    out: &mut impl Write,
    args: &Args,
    settings: &ViewSettings,
    name: &str,
    raw: &[u8],
) -> io::Result<()> {
    let message = Message::parse(raw);
    let envelope = trace::of_trace(&message, args.now.unwrap_or_else(clock));
    let facts = Facts::default();
    let views = Views::new(&message, &envelope, &facts, settings);
    let header = |name: &'static str| {
        let value = views.header(&HeaderSelector::parse(name))?;
        Some((name, value.into_owned()))
    };
    if args.json {
        let bytes = |text: &[u8]| text.iter().map(|b| char::from(*b)).collect::<String>();
        let line = Line {
            file: name,
            body: views.body().iter().map(|s| bytes(s)).collect(),
            rawbody: views.rawbody().iter().map(|s| bytes(s)).collect(),
            full_len: views.full().len(),
            uris: views.uris().iter().map(|u| bytes(&u.text)).collect(),
            headers: HEADERS.into_iter().filter_map(header).map(|(n, v)| (n, bytes(&v))).collect(),
        };
        return writeln!(out, "{}", serde_json::to_string(&line)?);
    }
    // Line ends are shown, and other control characters cannot reach the terminal.
    let shown = |text: &[u8]| format!("{:?}", String::from_utf8_lossy(text));
    writeln!(out, "== {name}")?;
    for (name, value) in HEADERS.into_iter().filter_map(header) {
        writeln!(out, "header {name}: {}", shown(&value))?;
    }
    for text in views.body() {
        writeln!(out, "body {}", shown(text))?;
    }
    for text in views.rawbody() {
        writeln!(out, "rawbody {}", shown(text))?;
    }
    for uri in views.uris() {
        writeln!(out, "uri {}", shown(&uri.text))?;
    }
    writeln!(out, "full {} bytes", views.full().len())
}
