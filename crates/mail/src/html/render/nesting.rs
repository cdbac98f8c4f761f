//! Which elements are open while a page is rendered: explicit and implied end tags.

use super::Renderer;
use crate::html::tag::Element;

impl Renderer<'_> {
    pub(super) fn end(&mut self, element: Element) {
        match element {
            // `</p>` without `<p>` makes an empty paragraph, `</br>` is `<br>`.
            Element::Br => self.break_for(Element::Br),
            Element::P if self.open_counts[Element::P as usize] == 0 => {
                self.break_for(Element::P);
            }
            Element::Body | Element::Html => {}
            _ => self.close(element, true),
        }
    }

    /// Closes the innermost open `element` and all inside it, unless a scope lies between.
    pub(super) fn close(&mut self, element: Element, is_end_tag: bool) {
        if self.open_counts[element as usize] == 0 {
            return;
        }
        for i in (0..self.stack.len()).rev() {
            let open = self.stack[i].element;
            if open == element {
                while self.stack.len() > i {
                    self.pop();
                }
                return;
            }
            let passes = is_end_tag && element.is_table_part() && open != Element::Template;
            if open.is_scope() && !passes {
                return;
            }
        }
    }

    /// End tags that a start tag implies (standard, 13.1.2.4).
    pub(super) fn close_implied(&mut self, element: Element) {
        match element {
            Element::Li | Element::Option => self.close(element, false),
            Element::Dd | Element::Dt => {
                self.close(Element::Dd, false);
                self.close(Element::Dt, false);
            }
            Element::Td => self.close_cells(&[Element::Td]),
            Element::Tr => self.close_cells(&[Element::Td, Element::Tr]),
            Element::TableSection => {
                self.close_cells(&[Element::Td, Element::Tr, Element::TableSection]);
            }
            Element::A => self.close(Element::A, false),
            _ => {}
        }
        if element.closes_paragraph() {
            self.close(Element::P, false);
        }
    }

    /// Closes the open cell, row or section of the innermost table.
    pub(super) fn close_cells(&mut self, closing: &[Element]) {
        if closing.iter().all(|e| self.open_counts[*e as usize] == 0) {
            return;
        }
        let inner = self.stack.iter().rposition(|o| o.element == Element::Table).unwrap_or(0);
        let from = self.stack[inner..].iter().position(|o| closing.contains(&o.element));
        if let Some(from) = from {
            while self.stack.len() > inner + from {
                self.pop();
            }
        }
    }

    pub(super) fn pop(&mut self) {
        let Some(open) = self.stack.pop() else { return };
        self.open_counts[open.element as usize] -= 1;
        if matches!(open.element, Element::Ul | Element::Ol) {
            self.lists.pop();
        }
        self.gap_for(open.element.breaks());
        if let Some(text) = open.link.and_then(|i| self.out.links[i].text.as_mut()) {
            text.end = self.visible.text.len() as u32;
        }
        self.style = open.outer;
        self.reasons = self.style.hidden_reasons();
    }
}
