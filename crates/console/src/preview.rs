//! A message's own HTML, made harmless: what is left of it has no script, no form, no link and
//! nothing to load. It is then shown in a frame without rights, under a policy that forbids the
//! same things again (`headers::PREVIEW_POLICY`): two fences, either of which would do.
//!
//! The document is not filtered but rebuilt: only elements, attributes and style properties that
//! are listed here are written, with every value checked; all text is decoded and escaped anew.

use gauntlet_mail::html::{Attribute, Tag, Token, Tokenizer, entity};

/// Most bytes of mark-up that are written, but for the end of one tag; the rest of the document is
/// left out. Escaping makes up to six bytes of one, so that the length of the source bounds
/// nothing.
const BYTES_MAX: usize = 2_000_000;
/// Longest address shown beside a link, in characters.
const LINK_CHARS_MAX: usize = 200;
/// Longest attribute value written, in bytes.
const VALUE_BYTES_MAX: usize = 500;

const ELEMENTS: [&str; 42] = [
    "b",
    "strong",
    "i",
    "em",
    "u",
    "s",
    "strike",
    "p",
    "br",
    "hr",
    "div",
    "span",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "td",
    "th",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "blockquote",
    "pre",
    "code",
    "center",
    "font",
    "small",
    "big",
    "sub",
    "sup",
    "caption",
    "body",
];
const ATTRIBUTES: [&str; 13] = [
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
];
const PROPERTIES: [&str; 31] = [
    "color",
    "background",
    "background-color",
    "font",
    "font-family",
    "font-size",
    "font-style",
    "font-weight",
    "text-align",
    "text-decoration",
    "text-transform",
    "line-height",
    "letter-spacing",
    "vertical-align",
    "width",
    "max-width",
    "min-width",
    "height",
    "padding",
    "padding-top",
    "padding-right",
    "padding-bottom",
    "padding-left",
    "margin",
    "margin-top",
    "margin-right",
    "margin-bottom",
    "margin-left",
    "border",
    "border-radius",
    "display",
];

/// Functions that compute colours and load nothing.
const COLOUR_FUNCTIONS: [&str; 4] = ["rgb", "rgba", "hsl", "hsla"];

const HEAD: &str = "<!DOCTYPE html><html lang=\"und\"><head><meta charset=\"utf-8\">\
     <title>Preview</title><style>body{margin:16px;background:#fff;color:#1b1f24;\
     font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}table{max-width:100%}\
     .gone{color:#59636e;font-size:.85em;background:#eef0f3;border-radius:4px;padding:0 4px}\
     </style></head><body>";

/// A whole HTML document that shows `source`.
pub fn document(source: &str) -> String {
    let mut out = String::with_capacity(source.len() / 2 + HEAD.len());
    out.push_str(HEAD);
    let mut link: Option<String> = None;
    for (token, _) in Tokenizer::new(source.as_bytes()) {
        if out.len() > BYTES_MAX {
            break;
        }
        match token {
            Token::Text(text) => push_text(&mut out, text),
            Token::Start(tag) if tag.is("img") => push_image(&mut out, &tag),
            Token::Start(tag) if tag.is("a") || tag.is("area") => {
                close_link(&mut out, &mut link);
                if let Some(href) = tag.attribute("href") {
                    link = Some(value(&href));
                    out.push_str("<u>");
                }
            }
            Token::End(tag) if tag.is("a") => close_link(&mut out, &mut link),
            Token::Start(tag) => push_tag(&mut out, &tag),
            Token::End(tag) => {
                if let Some(name) = known(&tag).filter(|n| *n != "body") {
                    out.push_str("</");
                    out.push_str(name);
                    out.push('>');
                }
            }
            Token::RawText(_)
            | Token::Comment { .. }
            | Token::Declaration(_)
            | Token::Instruction(_) => {}
        }
    }
    let is_cut = out.len() > BYTES_MAX;
    close_link(&mut out, &mut link);
    if is_cut {
        out.push_str("<p class=\"gone\">The rest is left out.</p>");
    }
    out.push_str("</body></html>");
    out
}

/// The element's name as we write it, if it is one that we write.
fn known(tag: &Tag<'_>) -> Option<&'static str> {
    ELEMENTS.into_iter().find(|name| tag.is(name))
}

fn push_tag(out: &mut String, tag: &Tag<'_>) {
    let Some(name) = known(tag) else { return };
    // A second body would be merged into ours; what it looks like is wanted, so it is a div.
    let name = if name == "body" { "div" } else { name };
    out.push('<');
    out.push_str(name);
    let mut seen = Vec::new();
    for attribute in tag.attributes() {
        let listed = ATTRIBUTES.into_iter().find(|n| attribute.is(n));
        if let Some(name) = listed.filter(|n| !seen.contains(n)) {
            let value = value(&attribute);
            if !value.is_empty() && value.bytes().all(is_plain) {
                seen.push(name);
                out.push_str(&format!(" {name}=\"{value}\""));
            }
        } else if attribute.is("style") && !seen.contains(&"style") {
            seen.push("style");
            let style = style(&value(&attribute));
            if !style.is_empty() {
                out.push_str(" style=\"");
                push_escaped(out, &style);
                out.push('"');
            }
        }
    }
    out.push('>');
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"#%.- ".contains(&byte)
}

/// The declarations that are listed and load nothing.
fn style(source: &str) -> String {
    let mut out = String::new();
    for declaration in source.split(';') {
        let Some((name, value)) = declaration.split_once(':') else { continue };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        let plain = value.bytes().all(|b| is_plain(b) || b"(),!'".contains(&b));
        // Anything else with an argument may load something.
        let harmless = value.split('(').rev().skip(1).all(|before| {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            let name = before.rsplit(|c| !is_name(c)).next();
            name.is_some_and(|name| COLOUR_FUNCTIONS.contains(&name))
        });
        if plain && harmless && PROPERTIES.contains(&name.as_str()) {
            out.push_str(&format!("{name}:{value};"));
        }
    }
    out
}

fn push_image(out: &mut String, tag: &Tag<'_>) {
    let alt = tag.attribute("alt").map(|a| value(&a)).unwrap_or_default();
    if !alt.trim().is_empty() {
        out.push_str("<span class=\"gone\">image: ");
        push_escaped(out, &crate::format::plain(&alt));
        out.push_str("</span>");
    }
}

/// Ends a link: its text stays, and where it would have led is written beside it.
fn close_link(out: &mut String, link: &mut Option<String>) {
    let Some(to) = link.take() else { return };
    out.push_str("</u> <span class=\"gone\">");
    let shown: String = crate::format::plain(&to).chars().take(LINK_CHARS_MAX).collect();
    push_escaped(out, &shown);
    out.push_str("</span> ");
}

fn value(attribute: &Attribute<'_>) -> String {
    let mut value = String::from_utf8_lossy(&attribute.decoded()).into_owned();
    let end = (0..=value.len().min(VALUE_BYTES_MAX)).rev().find(|&i| value.is_char_boundary(i));
    value.truncate(end.unwrap_or(0));
    value
}

fn push_text(out: &mut String, text: &[u8]) {
    push_escaped(out, &String::from_utf8_lossy(&entity::decode(text, false)));
}

/// Writes text, up to the limit of the whole document.
fn push_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        if out.len() > BYTES_MAX {
            break;
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\0' => {}
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(source: &str) -> String {
        let document = document(source);
        let body = document.strip_prefix(HEAD).unwrap();
        body.strip_suffix("</body></html>").unwrap().to_owned()
    }

    #[test]
    fn what_is_harmless_stays() {
        let source = "<p align=center style='color:#f00; font-size:12px'>Hi <b>you</b> &lt;3</p>";
        let expected = "<p align=\"center\" style=\"color:#f00;font-size:12px;\">Hi <b>you</b> \
                        &lt;3</p>";
        assert_eq!(inside(source), expected);
    }

    #[test]
    fn links_and_images_become_text() {
        let source = "<a href='https://evil.example/?a=\"b'>Bank</a><img src=x alt='Logo'>";
        let expected = "<u>Bank</u> <span class=\"gone\">https://evil.example/?a=&quot;b</span> \
                        <span class=\"gone\">image: Logo</span>";
        assert_eq!(inside(source), expected);
    }

    #[test]
    fn nothing_runs_loads_or_sends() {
        let nasty = [
            "<script>alert(1)</script>",
            "<scr<script>ipt>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "<svg onload=alert(1)><animate onbegin=alert(1)>",
            "<a href=javascript:alert(1) onclick=alert(1)>x</a>",
            "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
            "<style>@import url(//evil.example/a.css);</style>",
            "<p style='background:url(//evil.example/a.png)'>x",
            "<p style='background:u\\72l(//evil.example/a.png)'>x",
            "<p style='width:expression(alert(1))'>x",
            "<p style='background:image-set(\"//evil.example/a\" 1x)'>x",
            "<p title='\"><script>alert(1)</script>' align='\"><script>'>x",
            "<meta http-equiv=refresh content='0;url=//evil.example'>",
            "<base href=//evil.example><link rel=stylesheet href=//evil.example>",
            "<form action=//evil.example><input name=a><button>go</button></form>",
            "<object data=//evil.example><embed src=//evil.example>",
            "<video src=//evil.example poster=//evil.example><audio src=//evil.example>",
            "<table background=//evil.example><body background=//evil.example onload=alert(1)>",
            "<!--[if IE]><script>alert(1)</script><![endif]-->",
            "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
            "<p/onmouseover=alert(1)>x<p onmouseover='alert(1)'",
            "<textarea></textarea><img src=x onerror=alert(1)>",
            "&lt;script&gt;alert(1)&lt;/script&gt;",
        ];
        for source in nasty {
            let out = inside(source).to_lowercase();
            for tag in [
                "<script", "<svg", "<img", "<iframe", "<a ", "<form", "<meta", "<style", "<link",
                "<base", "<object", "<embed", "<video", "<input", "<!--",
            ] {
                assert!(!out.contains(tag), "{source} gave {out}");
            }
            // Inside a tag that was written, nothing but what is listed.
            for tag in out.split('<').skip(1).filter_map(|t| t.split_once('>')).map(|(t, _)| t) {
                for word in ["on", "url", "href", "src", "expression", "javascript", "image-set"] {
                    let found = tag.split([' ', '"', ';', ':', '=']).any(|w| w.starts_with(word));
                    assert!(!found, "{source} gave {out}");
                }
            }
        }
    }
}
