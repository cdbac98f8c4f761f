//! The pages: their count, the text that their content streams show (section 9.4), the pictures
//! on them, and codes that are drawn as rectangles.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::document::{Document, Entry};
use super::font::Font;
use super::picture;
use super::value::{Dict, Lexer, Token, Value};
use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Tokens of the content streams of one document.
const TOKENS_MAX: usize = 4_000_000;
/// Codes in the maps of all fonts of one document.
const CODES_MAX: usize = 500_000;
/// Forms drawn inside each other.
const FORMS_DEPTH_MAX: usize = 8;
/// Nodes of the page tree above one page.
const PARENTS_MAX: usize = 32;
/// A gap in a line, in thousandths of the font's size, that is a space.
const SPACE_MIN: f64 = 180.0;
/// Dark rectangles of a page that are kept.
const RECTANGLES_MAX: usize = 20_000;

/// What is read page by page.
struct Reader<'d, 'a> {
    document: &'d Document<'a>,
    fonts: HashMap<u32, Rc<Font>>,
    forms: HashSet<u32>,
    tokens_left: usize,
    codes_left: usize,
    pictures: picture::Budget,
}

/// The state of one content stream.
struct Canvas {
    text: String,
    font: Rc<Font>,
    /// The line that text was last set on.
    line: f64,
    rectangles: Vec<picture::Rectangle>,
    /// Rectangles of the path that is not painted yet.
    path: Vec<picture::Rectangle>,
    /// Scale and place of the current coordinates: a b c d e f.
    matrix: [f64; 6],
    matrices: Vec<[f64; 6]>,
    is_dark: bool,
    is_dark_saved: Vec<bool>,
}

pub(super) fn read(document: &Document<'_>, unpacker: &mut Unpacker<'_>) {
    let mut numbers = HashSet::new();
    let pages: Vec<&Entry> = document
        .entries
        .iter()
        .filter(|entry| entry.value.dict().is_some_and(|dict| dict.is("Type", "Page")))
        .collect();
    numbers.extend(pages.iter().map(|entry| entry.number));
    if !numbers.is_empty() {
        unpacker.property(PropertyKind::Pages, &numbers.len().to_string());
    }
    if document.is_closed {
        return;
    }
    let mut reader = Reader {
        document,
        fonts: HashMap::new(),
        forms: HashSet::new(),
        tokens_left: TOKENS_MAX,
        codes_left: CODES_MAX,
        pictures: picture::Budget::default(),
    };
    for entry in pages {
        if unpacker.is_over() {
            return;
        }
        if let Some(dict) = entry.value.dict() {
            reader.page(dict, unpacker);
        }
    }
    reader.rest(unpacker);
}

impl Reader<'_, '_> {
    fn page(&mut self, dict: &Dict, unpacker: &mut Unpacker<'_>) {
        let mut content = Vec::new();
        let parts = match self.document.get(dict, "Contents") {
            Some(Value::Array(parts)) => parts.iter().collect(),
            _ => dict.get("Contents").into_iter().collect::<Vec<_>>(),
        };
        for part in parts {
            if let Value::Reference(number) = part
                && let Some(entry) = self.document.object(*number)
            {
                content.extend(self.document.stream(entry, unpacker).bytes);
                content.push(b'\n');
            }
            if content.len() as u64 > unpacker.limits().object_bytes_max {
                break;
            }
        }
        let resources = self.inherited(dict, "Resources");
        self.content(&content, resources.as_ref(), 0, unpacker);
    }

    /// A page's value, or that of a node above it.
    fn inherited(&self, dict: &Dict, key: &str) -> Option<Dict> {
        let mut dict = dict;
        for _ in 0..PARENTS_MAX {
            if let Some(value) = self.document.dict(dict, key) {
                return Some(value.clone());
            }
            dict = self.document.dict(dict, "Parent")?;
        }
        None
    }

    /// Forms that no page drew (appearances of annotations and fields), and all pictures.
    fn rest(&mut self, unpacker: &mut Unpacker<'_>) {
        for entry in &self.document.entries {
            if unpacker.is_over() {
                return;
            }
            let Some(dict) = entry.value.dict().filter(|_| entry.stream.is_some()) else {
                continue;
            };
            if dict.is("Subtype", "Form") {
                self.form(entry, 0, None, unpacker);
            } else if dict.is("Subtype", "Image") {
                self.pictures.read(self.document, entry, unpacker);
            }
        }
    }

    fn form(
        &mut self,
        entry: &Entry,
        depth: usize,
        outer: Option<&Dict>,
        unpacker: &mut Unpacker<'_>,
    ) {
        let Some(dict) = entry.value.dict() else { return };
        if depth >= FORMS_DEPTH_MAX || !self.forms.insert(entry.number) {
            return;
        }
        let content = self.document.stream(entry, unpacker).bytes;
        let resources = self.document.dict(dict, "Resources").or(outer).cloned();
        self.content(&content, resources.as_ref(), depth + 1, unpacker);
    }

    /// Reads a content stream.
    fn content(
        &mut self,
        content: &[u8],
        resources: Option<&Dict>,
        depth: usize,
        unpacker: &mut Unpacker<'_>,
    ) {
        let mut canvas = Canvas::new();
        let mut lexer = Lexer::new(content, 0);
        let mut operands: Vec<Value> = Vec::new();
        loop {
            let start = lexer.at;
            match lexer.token() {
                None => break,
                Some(Token::Word(b"BI")) => {
                    self.inline_picture(&mut lexer, unpacker);
                    operands.clear();
                }
                Some(Token::Word(b"Do")) => {
                    self.draw(operands.last(), resources, depth, unpacker);
                    operands.clear();
                }
                Some(Token::Word(b"Tf")) => {
                    canvas.font = self.font(operands.first(), resources, unpacker);
                    operands.clear();
                }
                Some(Token::Word(word)) if !matches!(word, b"true" | b"false" | b"null") => {
                    canvas.operator(word, &operands);
                    operands.clear();
                }
                Some(_) => {
                    lexer.at = start;
                    let Some(value) = lexer.value(&mut self.tokens_left) else { break };
                    // Operators take six operands at most.
                    if operands.len() < 32 {
                        operands.push(value);
                    }
                }
            }
            if self.tokens_left == 0 {
                break;
            }
            self.tokens_left -= 1;
        }
        unpacker.text(&canvas.text);
        picture::drawn(&canvas.rectangles, unpacker);
    }

    fn font(
        &mut self,
        name: Option<&Value>,
        resources: Option<&Dict>,
        unpacker: &mut Unpacker<'_>,
    ) -> Rc<Font> {
        let name = name.and_then(Value::name).map(String::from_utf8_lossy);
        let fonts = resources.and_then(|resources| self.document.dict(resources, "Font"));
        let (Some(name), Some(fonts)) = (name, fonts) else { return Rc::default() };
        let number = match fonts.get(&name) {
            Some(Value::Reference(number)) => Some(*number),
            _ => None,
        };
        if let Some(font) = number.and_then(|number| self.fonts.get(&number)) {
            return font.clone();
        }
        let Some(dict) = self.document.dict(fonts, &name) else { return Rc::default() };
        let font = Rc::new(Font::read(self.document, dict, &mut self.codes_left, unpacker));
        if let Some(number) = number {
            self.fonts.insert(number, font.clone());
        }
        font
    }

    /// Draws a form; pictures are read once each, with those that no page draws.
    fn draw(
        &mut self,
        name: Option<&Value>,
        resources: Option<&Dict>,
        depth: usize,
        unpacker: &mut Unpacker<'_>,
    ) {
        let name = name.and_then(Value::name).map(String::from_utf8_lossy);
        let objects = resources.and_then(|resources| self.document.dict(resources, "XObject"));
        let (Some(name), Some(objects)) = (name, objects) else { return };
        if let Some(Value::Reference(number)) = objects.get(&name)
            && let Some(entry) = self.document.object(*number)
            && entry.value.dict().is_some_and(|dict| dict.is("Subtype", "Form"))
        {
            self.form(entry, depth, resources, unpacker);
        }
    }

    /// A picture between `BI` and `EI`.
    fn inline_picture(&mut self, lexer: &mut Lexer<'_>, unpacker: &mut Unpacker<'_>) {
        let mut dict = Dict::default();
        while let Some(token) = lexer.token() {
            match token {
                Token::Word(b"ID") => break,
                Token::Name(key) => match lexer.value(&mut self.tokens_left) {
                    Some(value) => dict.0.push((key, value)),
                    None => return,
                },
                _ => {}
            }
        }
        let start = (lexer.at + 1).min(lexer.bytes.len());
        let rest = &lexer.bytes[start..];
        let end = memchr::memmem::find_iter(rest, b"EI").find(|&at| {
            let around = |b: Option<&u8>| b.is_none_or(|&b| super::value::is_space(b));
            around(at.checked_sub(1).and_then(|at| rest.get(at))) && around(rest.get(at + 2))
        });
        let end = end.unwrap_or(rest.len());
        lexer.at = (start + end + 2).min(lexer.bytes.len());
        self.pictures.inline(self.document, &dict, &rest[..end], unpacker);
    }
}

impl Canvas {
    fn new() -> Self {
        Canvas {
            text: String::new(),
            font: Rc::default(),
            line: 0.0,
            rectangles: Vec::new(),
            path: Vec::new(),
            matrix: [1.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            matrices: Vec::new(),
            is_dark: true,
            is_dark_saved: Vec::new(),
        }
    }

    fn operator(&mut self, word: &[u8], operands: &[Value]) {
        let number = |index: usize| match operands.get(index) {
            Some(Value::Number(number)) => *number,
            _ => 0.0,
        };
        match word {
            b"Tj" => self.show(operands.last()),
            b"'" | b"\"" => {
                self.separate('\n');
                self.show(operands.last());
            }
            b"TJ" => {
                let Some(Value::Array(parts)) = operands.last() else { return };
                for part in parts {
                    match part {
                        Value::Number(gap) if *gap < -SPACE_MIN => self.separate(' '),
                        part => self.show(Some(part)),
                    }
                }
            }
            b"Td" | b"TD" => self.separate(if number(1) == 0.0 { ' ' } else { '\n' }),
            b"Tm" => {
                let line = number(5);
                self.separate(if (line - self.line).abs() < 0.5 { ' ' } else { '\n' });
                self.line = line;
            }
            b"T*" => self.separate('\n'),
            b"ET" => self.separate(' '),
            b"q" if self.matrices.len() < 64 => {
                self.matrices.push(self.matrix);
                self.is_dark_saved.push(self.is_dark);
            }
            b"Q" => {
                self.matrix = self.matrices.pop().unwrap_or(self.matrix);
                self.is_dark = self.is_dark_saved.pop().unwrap_or(self.is_dark);
            }
            b"cm" => self.matrix = product(std::array::from_fn(number), self.matrix),
            b"g" => self.is_dark = number(0) < 0.5,
            b"rg" => self.is_dark = number(0) + number(1) + number(2) < 1.5,
            b"k" => self.is_dark = number(3) > 0.5 || number(0) + number(1) + number(2) > 1.5,
            b"sc" | b"scn" => {
                self.is_dark = match operands.len() {
                    4 => number(3) > 0.5,
                    count => (0..count).map(number).sum::<f64>() < count as f64 / 2.0,
                };
            }
            b"re" => self.rectangle(std::array::from_fn(number)),
            b"f" | b"F" | b"f*" | b"B" | b"b" | b"B*" | b"b*" => {
                if self.is_dark && self.rectangles.len() < RECTANGLES_MAX {
                    self.rectangles.append(&mut self.path);
                }
                self.path.clear();
            }
            b"n" | b"S" | b"s" => self.path.clear(),
            _ => {}
        }
    }

    fn rectangle(&mut self, [x, y, width, height]: [f64; 4]) {
        let [a, b, c, d, e, f] = self.matrix;
        let at = |x: f64, y: f64| (a * x + c * y + e, b * x + d * y + f);
        let ((x0, y0), (x1, y1)) = (at(x, y), at(x + width, y + height));
        if self.path.len() < RECTANGLES_MAX {
            self.path.push(picture::Rectangle {
                left: x0.min(x1),
                right: x0.max(x1),
                bottom: y0.min(y1),
                top: y0.max(y1),
            });
        }
    }

    fn show(&mut self, shown: Option<&Value>) {
        if let Some(text) = shown.and_then(Value::text) {
            self.font.show(text, &mut self.text);
        }
    }

    fn separate(&mut self, with: char) {
        if with == '\n' && self.text.ends_with(' ') {
            self.text.pop();
        }
        if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
            self.text.push(with);
        }
    }
}

fn product(m: [f64; 6], n: [f64; 6]) -> [f64; 6] {
    [
        m[0] * n[0] + m[1] * n[2],
        m[0] * n[1] + m[1] * n[3],
        m[2] * n[0] + m[3] * n[2],
        m[2] * n[1] + m[3] * n[3],
        m[4] * n[0] + m[5] * n[2] + n[4],
        m[4] * n[1] + m[5] * n[3] + n[5],
    ]
}
