//! What the HTML of a message is made of.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `HTML_PASSWORD` | 2.5 phishing | asks for a password in the message itself |
//! | `HTML_FORM` | 0.2 | a form to fill in |
//! | `HTML_HIDDEN_TEXT` | 1.2 | much invisible text |
//! | `HTML_IMAGE_ONLY` | 2.2 | images and hardly any text |
//! | `HTML_ONLY` | 0.6 | HTML without a plain form of the text |
//! | `HTML_FRAMES` | 0.2 | frames or embedded objects |
//!
//! Limits: those of the parser. The short invisible line that newsletters put first for previews
//! does not count as hidden.

use gauntlet_mail::{Evidence, Part, Rendered, View};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Invisible letters and digits from which text counts as hidden; preview lines are shorter.
const HIDDEN_MIN: usize = 400;
/// Letters and digits below which a page has hardly any text.
const TEXT_MIN: usize = 40;

/// Looks at HTML parts.
#[derive(Debug)]
pub struct Pages {
    password: Rule,
    form: Rule,
    hidden_text: Rule,
    image_only: Rule,
    only: Rule,
    frames: Rule,
}

impl Pages {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let password = registry.phishing("HTML_PASSWORD", 2.5, "HTML has a password field");
        let mut rule = |name, score, description| registry.points(name, score, description);
        Pages {
            password,
            form: rule("HTML_FORM", 0.2, "HTML has a form"),
            hidden_text: rule("HTML_HIDDEN_TEXT", 1.2, "HTML has much hidden text"),
            image_only: rule("HTML_IMAGE_ONLY", 2.2, "HTML has images and hardly any text"),
            only: rule("HTML_ONLY", 0.6, "HTML without a plain text alternative"),
            frames: rule("HTML_FRAMES", 0.2, "HTML has frames or embedded objects"),
        }
    }

    fn page(&self, i: u16, page: &Rendered, alone: bool, findings: &mut Findings) {
        let structure = &page.structure;
        let count =
            |what: &str, n: u32| Evidence::new(View::Html, i, 0, b"").named(&format!("{n} {what}"));
        if structure.passwords > 0 {
            findings.add(&self.password, count("password fields", structure.passwords));
        }
        if structure.forms > 0 && structure.inputs > 0 {
            findings.add(&self.form, count("forms", structure.forms));
        }
        if structure.frames > 0 {
            findings.add(&self.frames, count("frames", structure.frames));
        }
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).count();
        // The bytes bound the letters, so that most pages need no count.
        if page.invisible.len() >= HIDDEN_MIN && letters(&page.invisible) >= HIDDEN_MIN {
            let run = page.hidden.iter().max_by_key(|r| (r.range.end - r.range.start, r.offset));
            let Some(run) = run else { return };
            let range = run.range.start as usize..run.range.end as usize;
            let text = page.invisible.get(range).unwrap_or_default();
            let at = Evidence::new(View::Html, i, run.offset as usize, text.as_bytes());
            findings.add(&self.hidden_text, at);
        }
        let short = page.text.len() < TEXT_MIN * 8 && letters(&page.text) < TEXT_MIN;
        if alone && short && structure.images > 0 {
            findings.add(&self.image_only, count("images", structure.images));
        }
    }
}

impl Filter for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let shown = |part: &Part<'_>| !part.is_attachment();
        let plain = item
            .message
            .texts()
            .any(|t| shown(t.part) && t.part.rendered().is_none() && !t.text.trim().is_empty());
        for text in item.message.texts().filter(|t| shown(t.part)) {
            let Some(page) = text.part.rendered() else { continue };
            self.page(text.index, page, !plain, findings);
            if !plain {
                findings.add(&self.only, Evidence::new(View::Html, text.index, 0, b""));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    fn found(html: &str) -> Vec<String> {
        let plain = "Content-Type: multipart/alternative; boundary=b\n\n--b\n\nhello there\n--b\n";
        let mail = format!("{plain}Content-Type: text/html\n\n{html}\n--b--\n");
        hits(&Pages::new(&mut RuleRegistry::default()), &mail)
    }

    #[test]
    fn what_pages_hold() {
        let form = "<form action=x><input type=password></form>";
        assert_eq!(found(form), ["HTML_PASSWORD", "HTML_FORM"]);
        assert_eq!(found("<iframe src='http://x.com'></iframe>"), ["HTML_FRAMES"]);
        let hidden = format!("<div style='display:none'>{}</div>", "secret words ".repeat(60));
        assert_eq!(found(&hidden), ["HTML_HIDDEN_TEXT"]);
        let preview = "<div style='display:none'>This week in the shop</div><p>Hello</p>";
        assert!(found(preview).is_empty());
    }

    #[test]
    fn pages_alone() {
        let only = |html: &str| {
            let mail = format!("Content-Type: text/html\n\n{html}\n");
            hits(&Pages::new(&mut RuleRegistry::default()), &mail)
        };
        assert_eq!(only("<img src='http://x.com/a.png'>"), ["HTML_IMAGE_ONLY", "HTML_ONLY"]);
        assert_eq!(only("<p>Hello Bob, see you on Friday.</p>"), ["HTML_ONLY"]);
        assert!(found("<img src='http://x.com/a.png'>").is_empty());
    }
}
