//! Which elements are open, as far as it says where a word ends (HTML Standard, section 13.2.6).
//!
//! Browsers ignore end tags of what is not open, and cells and rows outside a table: what such a
//! tag stands in is one word on the screen. So the elements that part words are kept in a stack
//! while they are open. What is within a line is kept only where it decides whether an end tag is
//! one of HTML: it ends nothing but itself.

use crate::element::{Element, Name};

/// Elements inside each other; browsers build no deeper tree.
const DEPTH_MAX: usize = 512;

/// What a tag does to the word it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    No,
    /// It depends on what this reader does not know: both is searched.
    Maybe,
    Yes,
}

/// A start tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) name: Name,
    pub(crate) element: Element,
    pub(crate) is_self_closing: bool,
    /// In SVG and MathML: `<font>` with one of the attributes that end them, or
    /// `<annotation-xml>` whose content is HTML.
    pub(crate) is_html: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html(Element),
    /// SVG or MathML, whose content is read otherwise.
    Svg,
    Math,
    /// An element of these whose content is HTML.
    Point,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    kind: Kind,
    name: Name,
}

impl Open {
    fn is(&self, element: Element) -> bool {
        self.kind == Kind::Html(element)
    }

    fn is_within_line(&self) -> bool {
        self.is(Element::Inline) || self.is(Element::Ruby)
    }

    /// End tags within it do not end what is around it.
    fn is_scope(&self) -> bool {
        use Element::{Cell, Scope, Select, Table, Template};
        match self.kind {
            Kind::Html(element) => matches!(element, Cell | Scope | Select | Table | Template),
            Kind::Point => true,
            Kind::Svg | Kind::Math => false,
        }
    }

    /// Content of a table of its own.
    fn is_table_scope(&self) -> bool {
        self.is(Element::Template) || self.kind == Kind::Point
    }
}

/// The elements that are open.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    open: Vec<Open>,
    selects: usize,
    /// Elements that show blocks in them within a line: choices and ruby.
    joining: usize,
    points: usize,
    templates: usize,
    /// Elements `svg`.
    images: usize,
    /// A form is open, or was left open: further ones are ignored.
    has_form: bool,
    /// Not all that is open is in the stack.
    is_deeper: bool,
}

impl Tree {
    /// In SVG or MathML: no element has content of another kind, and `<![CDATA[` begins text.
    pub(crate) fn is_foreign(&self) -> bool {
        self.open.last().is_some_and(|open| matches!(open.kind, Kind::Svg | Kind::Math))
    }

    /// In a template or SVG: what is in these is not shown in the line where it stands.
    pub(crate) fn is_aside(&self) -> bool {
        self.templates > 0 || self.images > 0
    }

    /// Takes a start tag. If it was one of HTML, what it does; else the kind of its content must
    /// not be changed.
    pub(crate) fn start(&mut self, tag: Start) -> (Parts, bool) {
        if self.is_foreign() {
            let is_end = tag.name.breaks_out() || (tag.is_html && tag.name.is("font"));
            if !is_end {
                return (self.start_foreign(tag), false);
            }
            self.leave_foreign();
        }
        let parts = self.start_html(tag);
        (self.where_it_stands(parts, tag.element), true)
    }

    fn start_foreign(&mut self, tag: Start) -> Parts {
        let name = tag.name;
        let is_svg = self.open.last().is_some_and(|open| open.kind == Kind::Svg);
        let is_point = match is_svg {
            true => ["foreignobject", "desc", "title"].iter().any(|point| name.is(point)),
            false => {
                tag.is_html || ["mi", "mo", "mn", "ms", "mtext"].iter().any(|point| name.is(point))
            }
        };
        let is_root = matches!(tag.element, Element::Svg | Element::Math);
        if (is_point || is_root) && !tag.is_self_closing {
            let kind = match (is_point, is_svg) {
                (true, _) => Kind::Point,
                (_, true) => Kind::Svg,
                (_, false) => Kind::Math,
            };
            self.push(kind, name);
        }
        match is_svg {
            // Each text has its place.
            true => Parts::Maybe,
            false => Parts::No,
        }
    }

    fn start_html(&mut self, tag: Start) -> Parts {
        let (element, name) = (tag.element, tag.name);
        match element {
            Element::Inline => {
                // In SVG and MathML: whose end tags count only if nothing of HTML is open in them.
                if self.points > 0 {
                    self.push(Kind::Html(element), name);
                }
                return Parts::No;
            }
            Element::Void | Element::Noscript | Element::Title => return Parts::No,
            Element::Script | Element::Hidden => return Parts::No,
            Element::Break | Element::Box | Element::Textarea => return Parts::Yes,
            Element::Thing | Element::Iframe => return Parts::Maybe,
            Element::Rule | Element::Xmp | Element::Plaintext => {
                self.end_paragraph();
                return Parts::Yes;
            }
            Element::Svg | Element::Math => return self.start_root(tag),
            Element::Form if self.has_form && self.templates == 0 => return Parts::No,
            Element::Form => {
                self.has_form |= self.templates == 0;
                // In a table nothing is in it.
                if self.open.last().is_some_and(|open| open.is(Element::Table)) {
                    return Parts::Maybe;
                }
                self.end_paragraph();
            }
            Element::Cell | Element::Row => return self.start_in_table(element, name),
            Element::Block | Element::Paragraph => {
                self.end_paragraph();
            }
            Element::Heading => {
                self.end_paragraph();
                self.end_top(|open| open.is(Element::Heading));
            }
            Element::Item | Element::Term => {
                self.end_item(element);
                self.end_paragraph();
            }
            Element::Table => {
                self.end_paragraph();
                self.end_top(|open| open.is(Element::Table));
            }
            Element::Button => {
                self.end_in_scope(|open| open.is(Element::Button));
            }
            Element::Choice | Element::Group => self.end_choice(element),
            // One within another ends it.
            Element::Select if self.end_in_scope(|open| open.is(element)) => return Parts::Yes,
            Element::Select | Element::Scope | Element::Template | Element::Ruby => {}
        }
        self.push(Kind::Html(element), name);
        match element {
            Element::Template | Element::Ruby => Parts::No,
            // Text in a table that is in no cell goes before it.
            Element::Scope | Element::Table => Parts::Maybe,
            _ => Parts::Yes,
        }
    }

    fn start_root(&mut self, tag: Start) -> Parts {
        let is_svg = tag.element == Element::Svg;
        if !tag.is_self_closing {
            self.push(if is_svg { Kind::Svg } else { Kind::Math }, tag.name);
        }
        if is_svg { Parts::Maybe } else { Parts::No }
    }

    /// Outside a table these tags are ignored in a page, but not where a script inserts the text
    /// into a table. Text between rows goes before the table, joined.
    fn start_in_table(&mut self, element: Element, name: Name) -> Parts {
        let Some(table) = self.table() else { return Parts::Maybe };
        let in_cell = table + 1 < self.open.len();
        self.truncate(table + 1);
        if element == Element::Row {
            return if in_cell { Parts::Yes } else { Parts::Maybe };
        }
        self.push(Kind::Html(element), name);
        Parts::Yes
    }

    /// Takes an end tag.
    pub(crate) fn end(&mut self, name: Name, element: Element) -> Parts {
        let parts = self.end_any(name, element);
        self.where_it_stands(parts, element)
    }

    /// Some browsers ignore these tags in a selection, and none shows them in an option.
    fn where_it_stands(&self, parts: Parts, element: Element) -> Parts {
        let is_joined = self.selects > 0 || self.joining > 0;
        let parts_anyhow = matches!(element, Element::Choice | Element::Select);
        match parts {
            Parts::Yes if is_joined && !parts_anyhow => Parts::Maybe,
            parts => parts,
        }
    }

    fn end_any(&mut self, name: Name, element: Element) -> Parts {
        if let Some(at) = self.foreign_with(name) {
            let was_math = self.open.get(at).is_some_and(|open| open.kind == Kind::Math);
            self.truncate(at);
            return if was_math { Parts::No } else { Parts::Maybe };
        }
        match element {
            Element::Inline | Element::Ruby => self.end_inline(name),
            Element::Void | Element::Rule | Element::Svg | Element::Math => Parts::No,
            Element::Noscript | Element::Title | Element::Script | Element::Hidden => Parts::No,
            Element::Textarea | Element::Xmp | Element::Plaintext | Element::Iframe => Parts::No,
            Element::Break => {
                self.leave_foreign();
                Parts::Yes
            }
            Element::Box | Element::Thing => Parts::Maybe,
            // Without a paragraph it makes one that is empty.
            Element::Paragraph => match self.end_paragraph() {
                true => Parts::Yes,
                false => {
                    self.leave_foreign();
                    Parts::Maybe
                }
            },
            Element::Template => {
                if let Some(at) = self.open.iter().rposition(|open| open.is(element)) {
                    self.truncate(at);
                }
                Parts::No
            }
            Element::Form => self.end_form(),
            Element::Select | Element::Heading => {
                self.when(|tree| tree.end_in_scope(|open| open.is(element)))
            }
            Element::Item => self.when(Self::end_list_item),
            Element::Table => self.when(|tree| match tree.table() {
                Some(at) => tree.truncate(at),
                None => false,
            }),
            Element::Row => self.end_row(),
            Element::Cell => self.when(|tree| tree.end_cell(name)),
            Element::Scope => match self.end_named(name) {
                true => Parts::Maybe,
                false => self.stray(),
            },
            Element::Block | Element::Term | Element::Button | Element::Choice | Element::Group => {
                self.when(|tree| tree.end_named(name))
            }
        }
    }

    fn when(&mut self, ends: impl FnOnce(&mut Self) -> bool) -> Parts {
        match ends(self) {
            true => Parts::Yes,
            false => self.stray(),
        }
    }

    fn stray(&self) -> Parts {
        if self.is_deeper { Parts::Maybe } else { Parts::No }
    }

    fn push(&mut self, kind: Kind, name: Name) {
        if self.open.len() >= DEPTH_MAX {
            self.is_deeper = true;
            return;
        }
        self.count(kind, 1);
        self.open.push(Open { kind, name });
    }

    fn count(&mut self, kind: Kind, by: isize) {
        let counter = match kind {
            Kind::Html(Element::Select) => &mut self.selects,
            Kind::Html(Element::Choice | Element::Ruby) => &mut self.joining,
            Kind::Html(Element::Template) => &mut self.templates,
            Kind::Point => &mut self.points,
            Kind::Svg => &mut self.images,
            _ => return,
        };
        *counter = counter.saturating_add_signed(by);
    }

    /// Ends all but the first so many; always true, since something ended.
    fn truncate(&mut self, length: usize) -> bool {
        while self.open.len() > length
            && let Some(open) = self.open.pop()
        {
            self.count(open.kind, -1);
        }
        true
    }

    /// Ends the innermost that `is` it, unless a scope is between.
    fn end_in_scope(&mut self, is: impl Fn(&Open) -> bool) -> bool {
        for (at, open) in self.open.iter().enumerate().rev() {
            if is(open) {
                return self.truncate(at);
            }
            if open.is_scope() {
                return false;
            }
        }
        false
    }

    fn end_named(&mut self, name: Name) -> bool {
        self.end_in_scope(|open| open.name == name)
    }

    fn end_paragraph(&mut self) -> bool {
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.is(Element::Paragraph) {
                return self.truncate(at);
            }
            if open.is_scope() || open.is(Element::Button) {
                return false;
            }
        }
        false
    }

    fn end_top(&mut self, is: impl Fn(&Open) -> bool) {
        if self.open.last().is_some_and(is) {
            self.truncate(self.open.len() - 1);
        }
    }

    /// Ends the item before this one.
    fn end_item(&mut self, element: Element) {
        for (at, open) in self.open.iter().enumerate().rev() {
            let name = open.name;
            if open.is(element) {
                self.truncate(at);
                return;
            }
            let passes = open.is_within_line()
                || open.is(Element::Paragraph)
                || name.is("div")
                || name.is("address");
            if !passes {
                return;
            }
        }
    }

    fn end_list_item(&mut self) -> bool {
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.is(Element::Item) {
                return self.truncate(at);
            }
            if open.is_scope() || open.name.is("ul") || open.name.is("ol") {
                return false;
            }
        }
        false
    }

    fn end_choice(&mut self, before: Element) {
        self.end_top(|open| open.is(Element::Choice));
        if before == Element::Group {
            self.end_top(|open| open.is(Element::Group));
        }
    }

    /// It ends the form, but not what is open in it.
    fn end_form(&mut self) -> Parts {
        if self.templates > 0 {
            return self.when(|tree| tree.end_in_scope(|open| open.is(Element::Form)));
        }
        if !std::mem::take(&mut self.has_form) {
            return self.stray();
        }
        let Some(at) = self.open.iter().rposition(|open| open.is(Element::Form)) else {
            return self.stray();
        };
        if at + 1 == self.open.len() {
            self.truncate(at);
            return Parts::Yes;
        }
        self.open.remove(at);
        Parts::Maybe
    }

    fn table(&self) -> Option<usize> {
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.is(Element::Table) {
                return Some(at);
            }
            if open.is_table_scope() {
                return None;
            }
        }
        None
    }

    fn end_row(&mut self) -> Parts {
        let Some(table) = self.table() else { return self.stray() };
        let in_cell = table + 1 < self.open.len();
        self.truncate(table + 1);
        if in_cell { Parts::Yes } else { Parts::Maybe }
    }

    fn end_cell(&mut self, name: Name) -> bool {
        for (at, open) in self.open.iter().enumerate().rev() {
            if open.name == name {
                return self.truncate(at);
            }
            if open.is(Element::Table) || open.is_table_scope() {
                return false;
            }
        }
        false
    }

    fn end_inline(&mut self, name: Name) -> Parts {
        for (at, open) in self.open.iter().enumerate().rev() {
            if !open.is_within_line() {
                break;
            }
            if open.name == name {
                self.truncate(at);
                break;
            }
        }
        Parts::No
    }

    /// The element of SVG or MathML that an end tag ends.
    fn foreign_with(&self, name: Name) -> Option<usize> {
        for (at, open) in self.open.iter().enumerate().rev() {
            if matches!(open.kind, Kind::Html(_)) {
                return None;
            }
            if open.name == name {
                return Some(at);
            }
        }
        None
    }

    fn leave_foreign(&mut self) {
        while self.is_foreign() {
            self.truncate(self.open.len() - 1);
        }
    }
}
