//! Any bytes as a message that is shown: its HTML is rebuilt from listed elements, attributes and
//! properties alone, and text with marks has no mark-up but the marks.

use gauntlet_console::{evidence, preview};
use gauntlet_mail::{Evidence, Hit, Message, View};

/// A document is at most this long: the limit of what is written, one tag more, and its frame.
const DOCUMENT_BYTES_MAX: usize = 2_000_000 + 50_000;

const ATTRIBUTES: [&str; 15] = [
    "align",
    "valign",
    "width",
    "height",
    "border",
    "cellpadding",
    "cellspacing",
    "colspan",
    "rowspan",
    "bgcolor",
    "color",
    "size",
    "dir",
    "style",
    "class",
];
/// Elements that load, run, send or change how the rest is read.
const HARMFUL: [&str; 32] = [
    "script",
    "style",
    "link",
    "meta",
    "base",
    "img",
    "svg",
    "math",
    "iframe",
    "frame",
    "object",
    "embed",
    "applet",
    "video",
    "audio",
    "source",
    "track",
    "form",
    "input",
    "button",
    "textarea",
    "select",
    "a",
    "area",
    "template",
    "noscript",
    "title",
    "xmp",
    "plaintext",
    "marquee",
    "picture",
    "body",
];

/// Shows the input as HTML and as a message, and checks what is shown.
pub(crate) fn ask(raw: &[u8]) {
    check_document(&preview::document(&String::from_utf8_lossy(raw)));
    let message = Message::parse(raw);
    for (part, index) in message.parts().iter().zip(0u16..) {
        let Some(text) = part.text() else { continue };
        if part.content_type.is("text", "html") {
            check_document(&preview::document(text));
        }
        for shown in [Some(text), part.shown_text()].into_iter().flatten() {
            check_marked(shown, index, raw);
        }
    }
}

/// A document's own frame is constant; all between comes from the sender.
fn check_document(document: &str) {
    assert!(document.len() <= DOCUMENT_BYTES_MAX, "{} bytes", document.len());
    let head = preview::document("");
    let head = head.strip_suffix("</body></html>").expect("a frame");
    let inner = document.strip_prefix(head).expect("the frame's start");
    let inner = inner.strip_suffix("</body></html>").expect("the frame's end");
    let mut pieces = inner.split('<');
    check_text(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        check_tag(tag);
        check_text(text);
    }
}

/// Text has no character that begins or ends mark-up, and only the references that we write.
fn check_text(text: &str) {
    assert!(!text.contains(['<', '>', '"', '\'', '\0']), "{text:?}");
    for after in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|name| after.starts_with(name)), "{after:?}");
    }
}

fn check_tag(tag: &str) {
    let (closing, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
    let (name, mut rest) = tag.split_at(tag.find(' ').unwrap_or(tag.len()));
    assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()), "<{tag}>");
    assert!(!HARMFUL.contains(&name), "<{tag}>");
    assert!(!closing || rest.is_empty(), "</{tag}>");
    while let Some(attribute) = rest.strip_prefix(' ') {
        let (name, value) = attribute.split_once("=\"").expect("an attribute has a value");
        let (value, after) = value.split_once('"').expect("a value ends");
        assert!(ATTRIBUTES.contains(&name), "<{tag}>");
        check_text(value);
        match name {
            "style" => check_style(value),
            "class" => assert_eq!(value, "gone"),
            _ => assert!(!value.contains(['&', ':', ';', '(', '\\']), "<{tag}>"),
        }
        rest = after;
    }
    assert!(rest.is_empty(), "<{tag}>");
}

/// No declaration can load anything, or run: no function but colours, no escape, no comment, no
/// at-rule.
fn check_style(style: &str) {
    let style = style.replace("&#39;", "'");
    assert!(!style.contains(['\\', '/', '@', '"', '&', '<', '{', '}', '*']), "{style}");
    for before in style.split('(').rev().skip(1) {
        let colour = ["rgb", "rgba", "hsl", "hsla"].iter().any(|name| {
            let head = before.strip_suffix(name);
            head.is_some_and(|head| !head.ends_with(|c: char| c.is_alphanumeric() || c == '-'))
        });
        assert!(colour, "{style}");
    }
    for word in ["expression", "javascript", "behavior", "-moz-binding", "url", "position"] {
        let at = style.split(|c: char| !c.is_alphanumeric() && c != '-').find(|w| *w == word);
        assert!(at.is_none() || !style.contains(&format!("{word}(")), "{style}");
        assert!(!style.contains(&format!("{word}:")), "{style}");
    }
}

/// Evidence wherever the input's bytes say: the marks are well-formed, and without them the text is
/// whole.
fn check_marked(text: &str, part: u16, raw: &[u8]) {
    let hits: Vec<Hit> = raw
        .chunks(16)
        .take(20)
        .map(|chunk| {
            let number = |at: usize| usize::from(chunk.get(at).copied().unwrap_or(0));
            let quoted = text.as_bytes().get(number(1)..).unwrap_or_default();
            let quoted = quoted.get(..number(2) % 40).unwrap_or(quoted);
            let quoted = if number(3) % 3 == 0 { chunk } else { quoted };
            let mut evidence = Evidence::new(View::Text, part, number(4), quoted);
            evidence.length = u32::try_from(number(5) * number(6)).unwrap_or(0);
            Hit {
                rule: "A\"<b>".into(),
                score: 1.0,
                count: 1,
                description: "".into(),
                evidence: vec![evidence],
            }
        })
        .collect();
    let shown = evidence::marked(text, &hits, &[View::Text], part, "").0;
    assert!(shown.len() <= 6 * 200_000 + 200 * 1_000, "{} bytes", shown.len());
    let (mut plain, mut open) = (String::new(), false);
    for (i, piece) in shown.split('<').enumerate() {
        let text = if i == 0 {
            piece
        } else {
            let (tag, text) = piece.split_once('>').expect("a tag ends");
            match tag {
                "mark title=\"A&quot;&lt;b&gt;\"" if !open => open = true,
                "/mark" if open => open = false,
                "span class=\"more\"" | "/span" if !open => {}
                _ => panic!("<{tag}>"),
            }
            text
        };
        plain.push_str(text);
    }
    assert!(!open, "a mark ends");
    if text.len() <= 200_000 {
        let references = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
        let whole = references.iter().fold(plain, |text, (from, to)| text.replace(from, to));
        assert_eq!(whole, text, "nothing is lost or added");
    }
}
