//! What attributes do while a page is rendered: links, styles, alternative texts.

use std::ops::Range;

use super::flow::TextFlow;
use super::{LABEL_BYTES_MAX, Link, Renderer};
use crate::html::colour::Rgb;
use crate::html::style::{HiddenReasons, Style};
use crate::html::tag::Element;
use crate::html::token::{Attribute, Tag};
use crate::limits::Limits;
use crate::url::UrlSource;

/// Colour of links, unless styled.
const LINK_COLOUR: Rgb = Rgb(0, 0, 0xee);

/// What attributes do beyond the style.
#[derive(Default)]
pub(super) struct AttributeEffects {
    pub(super) link: Option<usize>,
    pub(super) alt: Option<Range<usize>>,
}

impl Renderer<'_> {
    pub(super) fn void(&mut self, element: Element, tag: Tag<'_>, effects: &AttributeEffects) {
        match element {
            Element::Image => self.alternative_text(effects),
            Element::Input => {
                let is_password = tag
                    .attribute("type")
                    .is_some_and(|a| a.value.eq_ignore_ascii_case(b"password"));
                self.out.structure.passwords += u32::from(is_password);
            }
            _ => {}
        }
    }

    pub(super) fn alternative_text(&mut self, effects: &AttributeEffects) {
        let Some(range) = effects.alt.clone() else { return };
        let text = self.source.get(range.clone()).unwrap_or_default();
        let mut label = TextFlow::new(&Limits::default());
        label.bytes_max = LABEL_BYTES_MAX;
        label.write(text, false);
        if label.text.is_empty() {
            return;
        }
        if self.reasons.has(HiddenReasons::DISPLAY) || self.reasons.has(HiddenReasons::NOT_SHOWN) {
            self.hidden_text(text, range.start, self.reasons);
        } else {
            self.visible.write_plain(&format!("[image: {}]", label.text));
        }
    }

    pub(super) fn attributes(
        &mut self,
        element: Element,
        tag: Tag<'_>,
        effects: &mut AttributeEffects,
    ) {
        let in_outline = self.out.outline.start(&tag);
        let (mut style, mut classes, mut id) = (None, &b""[..], &b""[..]);
        for attribute in tag.attributes() {
            if in_outline {
                self.out.outline.attribute(&attribute);
            }
            match attribute.name.len() {
                5 if attribute.is("style") => style = style.or(Some(attribute)),
                5 if attribute.is("class") => classes = attribute.value,
                2 if attribute.is("id") => id = attribute.value,
                _ => self.attribute(element, tag, attribute, effects),
            }
        }
        if !self.stylesheet.is_empty() {
            self.stylesheet.apply(self.source.as_bytes(), tag.name, classes, id, &mut self.style);
        }
        // Last, because style wins over sheets, and these over attributes of presentation.
        if let Some(attribute) = style {
            let declarations = attribute.decoded();
            self.style.apply(&declarations);
            self.css_urls(attribute.value_range());
        }
    }

    pub(super) fn attribute(
        &mut self,
        element: Element,
        tag: Tag<'_>,
        attribute: Attribute<'_>,
        effects: &mut AttributeEffects,
    ) {
        use Element as E;
        let mut lower = [0u8; 12];
        let Some(name) = lower.get_mut(..attribute.name.len()) else { return };
        name.copy_from_slice(attribute.name);
        name.make_ascii_lowercase();
        let source = match (&*name, element) {
            (b"href", E::A) => {
                // Links have their own colour unless their own style says otherwise.
                self.style.colour = Some(LINK_COLOUR);
                UrlSource::Href
            }
            (b"href", E::Area) => UrlSource::Href,
            (b"href", E::Base) => UrlSource::Base,
            (b"href", E::Link) => UrlSource::Link,
            (b"src" | b"data" | b"poster", _) => UrlSource::Src,
            (b"action" | b"formaction", _) => UrlSource::Action,
            (b"background", _) => {
                self.style.background = None;
                UrlSource::Background
            }
            (b"content", E::Meta) => return self.meta(tag, attribute),
            (b"hidden", _) => return self.style.hide(HiddenReasons::DISPLAY),
            (b"color", E::Font) | (b"text", E::Body) => {
                return self.style.set_colour(attribute.value);
            }
            (b"size", E::Font) => {
                self.style.size_px = Style::default().size_px;
                return;
            }
            (b"bgcolor", _) => return self.style.set_background(attribute.value),
            (b"alt", E::Image) => {
                effects.alt = Some(attribute.value_range());
                return;
            }
            _ => return,
        };
        let link = self.link(source, attribute.value_range());
        if element == E::A && source == UrlSource::Href {
            effects.link = effects.link.or(link);
        }
    }

    pub(super) fn link(&mut self, source: UrlSource, value: Range<usize>) -> Option<usize> {
        if value.is_empty() {
            return None;
        }
        if self.out.links.len() >= self.links_max {
            self.out.links_cut = true;
            return None;
        }
        let at = self.visible.text.len() as u32;
        let text = (source == UrlSource::Href).then_some(at..at);
        let value = value.start as u32..value.end as u32;
        self.out.links.push(Link { source, value, text });
        Some(self.out.links.len() - 1)
    }

    /// `<meta http-equiv=refresh content="0; url=...">`.
    pub(super) fn meta(&mut self, tag: Tag<'_>, content: Attribute<'_>) {
        let refresh =
            tag.attribute("http-equiv").is_some_and(|a| a.value.eq_ignore_ascii_case(b"refresh"));
        if !refresh {
            return;
        }
        let lower = content.value.to_ascii_lowercase();
        if let Some(i) = memchr::memmem::find(&lower, b"url") {
            let skipped = lower[i + 3..]
                .iter()
                .take_while(|b| matches!(b, b' ' | b'=' | b'\'' | b'"'))
                .count();
            let range = content.value_range();
            self.link(UrlSource::MetaRefresh, range.start + i + 3 + skipped..range.end);
        }
    }

    /// The `url(...)` of a style sheet or attribute.
    pub(super) fn css_urls(&mut self, range: Range<usize>) {
        let css = &self.source.as_bytes()[range.clone()];
        let mut at = 0;
        while let Some(open) = memchr::memchr(b'(', &css[at..]).map(|i| at + i) {
            at = open + 1;
            if open < 3 || !css[open - 3..open].eq_ignore_ascii_case(b"url") {
                continue;
            }
            let quote = |b: &u8| matches!(b, b'\'' | b'"') || b.is_ascii_whitespace();
            let start = at + css[at..].iter().take_while(|b| quote(b)).count();
            let end = memchr::memchr3(b')', b'\'', b'"', &css[start..]);
            let end = end.map_or(css.len(), |i| start + i);
            self.link(UrlSource::Css, range.start + start..range.start + end);
            at = end;
        }
    }
}
