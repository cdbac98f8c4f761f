//! How fast messages are read here and by the `mail-parser` crate, side by side, and where the two
//! find different things.
//!
//! `cargo run --release -p gauntlet-mail --example parse_rate -- FOLDER [ROUNDS]`
//!
//! `ONLY=everything` does one kind of work alone, for a profiler; `SHOW=1` names the files in which
//! the two find different numbers of text parts.
//!
//! Each round reads every file once per kind of work, kinds interleaved, on one thread; what counts
//! is the ratio within a round. The median round is printed.

use std::hint::black_box;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use gauntlet_mail::Message;
use mail_parser::{MessageParser, MimeHeaders};

/// One kind of work on one message.
type Work = fn(&[u8]) -> usize;

const KINDS: [(&str, Work); 7] = [
    ("parse", |raw| Message::parse(raw).parts().len()),
    ("parse + text", parse_and_text),
    ("parse + all bodies and text", parse_and_bodies),
    ("parse + text + render + URLs", parse_and_views),
    ("everything (+ relays, defects)", everything),
    ("mail-parser: parse (decodes)", peer_parse),
    ("mail-parser: parse + text of HTML", peer_text),
];

fn parse_and_text(raw: &[u8]) -> usize {
    let message = Message::parse(raw);
    message.parts().iter().filter_map(|p| p.text()).map(str::len).sum()
}

fn parse_and_bodies(raw: &[u8]) -> usize {
    let message = Message::parse(raw);
    message.parts().iter().map(|p| p.body().len() + p.text().map_or(0, str::len)).sum()
}

fn parse_and_views(raw: &[u8]) -> usize {
    let message = Message::parse(raw);
    message.texts().map(|t| t.text.len()).sum::<usize>() + message.urls().len()
}

fn everything(raw: &[u8]) -> usize {
    let message = Message::parse(raw);
    let views = message.texts().map(|t| t.text.len()).sum::<usize>() + message.urls().len();
    views + message.relays().len() + message.defects().len()
}

fn peer_parse(raw: &[u8]) -> usize {
    MessageParser::default().parse(raw).map_or(0, |m| m.parts.len())
}

fn peer_text(raw: &[u8]) -> usize {
    let Some(message) = MessageParser::default().parse(raw) else { return 0 };
    (0..message.text_body_count()).filter_map(|i| message.body_text(i)).map(|t| t.len()).sum()
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let rounds: usize = arguments.next().and_then(|r| r.parse().ok()).unwrap_or(5);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)?.flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_none_or(|e| e != "tsv"));
    paths.sort();
    let messages: Vec<Vec<u8>> = paths.iter().filter_map(|p| std::fs::read(p).ok()).collect();
    let megabytes = messages.iter().map(Vec::len).sum::<usize>() as f64 / 1e6;
    let mut out = std::io::stdout();
    writeln!(out, "{} messages, {megabytes:.1} MB, {rounds} rounds", messages.len())?;
    if let Some(name) = std::env::var_os("ONLY") {
        return profiled(&name.to_string_lossy(), &messages, rounds);
    }
    let mut seconds = vec![Vec::new(); KINDS.len()];
    for _ in 0..rounds {
        for (kind, (_, work)) in KINDS.iter().enumerate() {
            let start = Instant::now();
            for message in &messages {
                black_box(work(black_box(message)));
            }
            seconds[kind].push(start.elapsed().as_secs_f64());
        }
    }
    let medians: Vec<f64> = seconds
        .into_iter()
        .map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    for ((name, _), time) in KINDS.iter().zip(&medians) {
        let rate = messages.len() as f64 / time;
        let ratio = medians[5] / time;
        writeln!(
            out,
            "{name:34} {rate:9.0} messages/s {:7.0} MB/s  {ratio:5.2} x mail-parser's parse",
            megabytes / time
        )?;
    }
    differences(&messages, &paths, &mut out)
}

/// One kind of work alone, for a profiler.
fn profiled(name: &str, messages: &[Vec<u8>], rounds: usize) -> std::io::Result<()> {
    for (_, work) in KINDS.iter().filter(|(kind, _)| kind.starts_with(name)) {
        for message in std::iter::repeat_n(messages, rounds).flatten() {
            black_box(work(black_box(message)));
        }
    }
    Ok(())
}

/// Text parts, attachments and text bytes that the two find.
fn differences(
    messages: &[Vec<u8>],
    paths: &[PathBuf],
    out: &mut impl Write,
) -> std::io::Result<()> {
    let (mut refused, mut texts, mut attached, mut same) = (0, [0, 0], [0, 0], 0);
    for (raw, path) in messages.iter().zip(paths) {
        let ours = Message::parse(raw);
        let our_texts = ours.parts().iter().filter(|p| p.text().is_some()).count();
        let our_attached = ours.parts().iter().filter(|p| p.is_attachment()).count();
        let Some(peer) = MessageParser::default().parse(raw) else {
            refused += 1;
            continue;
        };
        // What mail-parser reads inside attached messages counts as well.
        let (peer_texts, peer_attached) = count(&peer);
        texts[0] += our_texts;
        texts[1] += peer_texts;
        attached[0] += our_attached;
        attached[1] += peer_attached;
        if our_texts == peer_texts {
            same += 1;
        } else if std::env::var_os("SHOW").is_some() {
            writeln!(out, "{}: {our_texts} text parts, mail-parser {peer_texts}", path.display())?;
        }
    }
    writeln!(
        out,
        "text parts: {} ours, {} mail-parser's; equal in {same} of {} messages; attachments: {} \
         ours, {} mail-parser's; mail-parser reads nothing in {refused}",
        texts[0],
        texts[1],
        messages.len(),
        attached[0],
        attached[1]
    )
}

fn count(message: &mail_parser::Message<'_>) -> (usize, usize) {
    let (mut texts, mut attached) = (0, 0);
    for part in &message.parts {
        match &part.body {
            mail_parser::PartType::Text(_) | mail_parser::PartType::Html(_) => texts += 1,
            mail_parser::PartType::Message(inner) => {
                let (inner_texts, inner_attached) = count(inner);
                texts += inner_texts;
                attached += 1 + inner_attached;
                continue;
            }
            mail_parser::PartType::Multipart(_) => continue,
            _ => {
                attached += 1;
                continue;
            }
        }
        attached += usize::from(part.attachment_name().is_some());
    }
    (texts, attached)
}
