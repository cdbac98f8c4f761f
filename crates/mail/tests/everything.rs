//! Calls every accessor of a message, and checks what must hold for any bytes at all.

use gauntlet_mail::url::URL_BYTES_MAX;
use gauntlet_mail::{Defect, Limits, Message, View};

/// Parses `raw` within `limits`, computes every view, and checks the invariants of each.
pub(crate) fn ask(raw: &[u8], limits: &Limits) {
    let message = Message::parse_with(raw, limits);
    tree(&message, raw, limits);
    headers(&message, raw);
    texts(&message, limits);
    urls(&message, limits);
    attachments(&message);
    relays(&message, limits);
    let defects = message.defects();
    assert!(defects.len() <= usize::from(limits.defects_max), "defects within their limit");
    assert!(defects.is_sorted(), "defects have one order");
    assert_eq!(defects, asked_first(raw, limits), "defects do not depend on what was asked before");
}

/// The defects of a message of which nothing else was read.
fn asked_first(raw: &[u8], limits: &Limits) -> Vec<Defect> {
    Message::parse_with(raw, limits).defects().to_vec()
}

fn tree(message: &Message<'_>, raw: &[u8], limits: &Limits) {
    let parts = message.parts();
    assert!((1..=usize::from(limits.parts_max)).contains(&parts.len()), "parts within their limit");
    for (i, part) in parts.iter().enumerate() {
        assert!(part.depth <= limits.depth_max, "depth within its limit");
        assert_eq!(part.parent.is_none(), i == 0, "only the root has no parent");
        if let Some(parent) = part.parent.map(|p| &parts[usize::from(p)]) {
            assert_eq!(parent.depth + 1, part.depth);
            assert!(parent.is_container);
            assert!(parent.body_range.start <= part.header_range.start, "a part is in its parent");
            assert!(part.body_range.end <= parent.body_range.end, "a part is in its parent");
        }
        assert!(part.headers.len() <= limits.headers_max as usize, "headers within their limit");
        assert_eq!(part.raw_body(), &raw[part.body_range.clone()]);
        if let Some(around) = part.within.map(|p| &parts[usize::from(p)]) {
            assert!(around.within.is_none(), "within means what stands in the raw message");
            assert_eq!(part.body_range, around.body_range);
        }
        assert!(part.body().len() <= raw.len(), "no transfer encoding makes less of more");
        assert!(!part.is_container || part.body().is_empty());
        let _ = (part.file_name(), part.is_attachment(), part.content_type.essence());
        let _ = part.name_interpretations();
        let files = part.files().iter().map(|file| file.bytes(part.body()).len());
        // Lines of uuencode may have lost their blanks, which were zeros: eight for each byte.
        let most = raw.len() * 10 + part.files().len() * 1024;
        assert!(files.sum::<usize>() <= most, "files are little larger than what they come from");
    }
}

fn headers(message: &Message<'_>, raw: &[u8]) {
    for header in message.parts().iter().flat_map(|p| &p.headers) {
        assert!(raw[header.offset..].starts_with(header.name), "the offset is the name's");
        let value = header.value_offset(raw);
        assert!(raw[value..].starts_with(header.raw_value), "the offset is the value's");
        let value = header.unfolded();
        assert!(memchr::memchr2(b'\r', b'\n', &value).is_none(), "unfolded is one line");
        let _ = header.decoded();
        let _ = gauntlet_mail::address::mailboxes(&value, 50);
        let _ = gauntlet_mail::date::parse(&value);
    }
    let _ = (message.subject(), message.from());
    let authors = message.authors();
    assert!(authors.domains().len() <= authors.addresses().count(), "each domain is an author's");
}

fn texts(message: &Message<'_>, limits: &Limits) {
    for text in message.texts() {
        let Some(page) = text.part.rendered() else { continue };
        assert!(page.text.len() <= limits.text_bytes_max as usize, "text within its limit");
        assert!(page.invisible.len() <= limits.text_bytes_max as usize);
        assert!(page.links.len() <= limits.urls_max as usize, "links within their limit");
        for run in &page.hidden {
            let range = run.range.start as usize..run.range.end as usize;
            assert!(page.invisible.get(range).is_some_and(|t| !t.is_empty()), "runs are of text");
            assert!(!run.reasons.is_visible(), "what is hidden has a reason");
        }
        let source = text.part.text().expect("what is rendered has a source");
        for link in &page.links {
            let range = link.value.start as usize..link.value.end as usize;
            assert!(source.get(range).is_some_and(|v| !v.is_empty()), "values are in the source");
        }
    }
}

fn urls(message: &Message<'_>, limits: &Limits) {
    assert!(message.urls().len() <= limits.urls_max as usize, "URLs within their limit");
    let subject = message.subject();
    for url in message.urls() {
        let part = &message.parts()[usize::from(url.part)];
        let view = match url.view {
            View::Header => &*subject,
            View::Text => part.shown_text().expect("a URL in text has a text"),
            View::Html => part.text().expect("a URL in HTML has a source"),
            other => panic!("no URL is found in {other:?}"),
        };
        let range = url.offset as usize..(url.offset + url.length) as usize;
        let found = view.get(range).expect("a URL stands where it says");
        assert!(url.view == View::Html || found.starts_with(&url.raw));
        let canonical = &url.canonical;
        assert!(
            !canonical.host().is_empty() && canonical.as_str().is_ascii() || is_mail(canonical)
        );
        assert!(canonical.host().ends_with(canonical.registrable_domain()));
        // Escapes can make the canonical form longer than what is read of a URL.
        if !is_mail(canonical) && canonical.as_str().len() <= URL_BYTES_MAX {
            let again = gauntlet_mail::url::canonical(canonical.as_str());
            let same = again.is_some_and(|u| u.as_str() == canonical.as_str());
            assert!(same, "canonical is a fixed point: {:.200}", canonical.as_str());
        }
        let _ = message.link_text(url);
    }
}

fn is_mail(url: &gauntlet_mail::CanonicalUrl) -> bool {
    url.scheme() == "mailto"
}

fn attachments(message: &Message<'_>) {
    for attachment in message.attachments() {
        let _ = (attachment.hash(), attachment.is_encrypted(), attachment.has_macros());
        let _ = attachment.extension();
    }
}

fn relays(message: &Message<'_>, limits: &Limits) {
    let relays = message.relays();
    assert!(relays.len() <= usize::from(limits.relays_max), "relays within their limit");
    let path = message.trust_path(&[]);
    assert!(path.trusted <= relays.len());
    assert!(path.entry.is_none_or(|entry| entry + 1 == path.trusted));
}
