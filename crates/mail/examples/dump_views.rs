//! Prints what is made of a message, for inspection: parts, text, invisible text, URLs,
//! relays, attachments and defects.
//!
//! `cargo run -p gauntlet-mail --example dump_views -- FILE...`

use std::io::Write;

use gauntlet_mail::Message;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args().skip(1) {
        let raw = std::fs::read(&path)?;
        writeln!(out, "=== {path}, {} bytes", raw.len())?;
        dump(&Message::parse(&raw), &mut out)?;
    }
    Ok(())
}

fn dump(message: &Message<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let from = message.from().unwrap_or_default();
    writeln!(out, "From: {:?} {:?}\nSubject: {:?}", from.name, from.address, message.subject())?;
    for (i, part) in message.parts().iter().enumerate() {
        let indent = "  ".repeat(usize::from(part.depth));
        writeln!(
            out,
            "{indent}part {i}: {} {:?} {} bytes, name {:?}",
            part.content_type.essence(),
            part.transfer_encoding,
            part.body().len(),
            part.file_name()
        )?;
    }
    for text in message.texts() {
        writeln!(out, "--- text of part {}\n{}", text.index, text.text)?;
        let Some(page) = text.part.rendered() else { continue };
        writeln!(out, "--- title {:?}; {:?}", page.title, page.structure)?;
        for run in &page.hidden {
            let range = run.range.start as usize..run.range.end as usize;
            let text = page.invisible.get(range).unwrap_or_default();
            writeln!(out, "--- invisible ({:?}) {text:?}", run.reasons)?;
        }
    }
    for url in message.urls() {
        let text = message.link_text(url).map(|t| format!(" <- {t:?}")).unwrap_or_default();
        writeln!(out, "--- url {:?} {}{text}", url.source, url.canonical.as_str())?;
    }
    for relay in message.relays() {
        writeln!(out, "--- {relay:?}")?;
    }
    writeln!(out, "--- {:?}", message.trust_path(&[]))?;
    for attachment in message.attachments() {
        let (name, kind) = (attachment.name, attachment.kind);
        writeln!(
            out,
            "--- attachment {name:?} {} {kind:?} {}",
            attachment.declared, attachment.size
        )?;
    }
    for defect in message.defects() {
        writeln!(out, "--- {} part {} {}", defect.kind.name(), defect.part, defect.detail)?;
    }
    Ok(())
}
