//! A message as it goes by (RFC 5322, RFC 2045): header fields, attachments decoded, URLs.
//!
//! Line by line: nothing is kept of bodies but the line at hand.

use crate::settings::smtp::Decoding;
use md5::{Digest as _, Md5};

use super::decode::{Base64, QuotedPrintable};
use super::header::{Field, PARAMETER_BYTES_MAX};
use super::urls::UrlFinder;

const LINE_BYTES_MAX: usize = 998;
const ENCODED_LINE_BYTES_MAX: usize = 76;
const FIELD_NAME_BYTES_MAX: usize = 75;
const FIELD_VALUE_BYTES_MAX: usize = 2000;
const BOUNDARY_BYTES_MAX: usize = 254;

/// The most fields that are kept of one header.
const FIELDS_MAX: usize = 4096;
/// The most bytes of a field's value that are kept.
const FIELD_BYTES_MAX: usize = 1 << 20;
/// Parts within parts.
const DEPTH_MAX: usize = 64;
/// Names of attachments that are kept.
const ATTACHMENTS_MAX: usize = 1024;

/// What is odd about a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Letters that base64 has not where it counts.
    pub invalid_base64: bool,
    /// An escape of quoted-printable that is none.
    pub invalid_quoted_printable: bool,
    /// A line of more than 998 bytes.
    pub long_line: bool,
    /// An encoded line of more than 76 bytes.
    pub long_encoded_line: bool,
    /// The name of a field of more than 75 bytes.
    pub long_field_name: bool,
    /// The value of a field of more than 2,000 bytes.
    pub long_field_value: bool,
    /// A boundary of more than 254 bytes.
    pub long_boundary: bool,
    /// The name of a file of more than 255 bytes.
    pub long_file_name: bool,
}

/// What a line means for the file at hand. Decoded bytes come with each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    More,
    /// A body begins; it is a file if [`Message::file_name`] is not empty.
    Open,
    /// More of the file.
    Chunk,
    /// The file ends.
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Place {
    #[default]
    Start,
    Header,
    Body,
}

#[derive(Debug, Clone, Default)]
enum Encoding {
    #[default]
    Plain,
    Base64(Base64),
    QuotedPrintable(QuotedPrintable),
}

/// A message.
#[derive(Debug, Default)]
pub struct Message {
    decoding: Decoding,
    place: Place,
    /// Fields of the message, then those of the part at hand.
    fields: Vec<Field>,
    main_fields: usize,
    file_name: Vec<u8>,
    /// Names of attachments.
    pub attachments: Vec<Vec<u8>>,
    /// URLs without their schemes, in their order.
    pub urls: Vec<Vec<u8>>,
    boundaries: Vec<Vec<u8>>,
    encoding: Encoding,
    /// The part is no text in which URLs are looked for.
    is_other: bool,
    finder: UrlFinder,
    /// The end of the last line of a plain attachment: the last one belongs to the boundary.
    line_end: [u8; 2],
    line_end_bytes: usize,
    md5: Option<Md5>,
    body_md5: Option<[u8; 16]>,
}

impl Message {
    /// A message that begins.
    pub fn new(decoding: Decoding) -> Self {
        Self { decoding, ..Self::default() }
    }

    /// Whether lines are those of a header.
    pub fn is_in_header(&self) -> bool {
        self.place < Place::Body
    }

    /// The name of the file whose body goes by.
    pub fn file_name(&self) -> &[u8] {
        &self.file_name
    }

    /// Fields of the message's own header, once it is over.
    pub fn fields(&self) -> &[Field] {
        self.fields.get(..self.main_fields).unwrap_or_default()
    }

    /// MD5 of everything behind the first empty line, once the message is over.
    pub fn body_md5(&self) -> Option<&[u8; 16]> {
        self.body_md5.as_ref()
    }

    /// The message is over.
    pub fn finish(&mut self) {
        self.body_md5 = self.md5.take().map(|hash| hash.finalize().into());
        self.find_urls(b"\n");
    }

    /// Takes a line: `text` without its end, `full` with it. Decoded bytes of an attachment are
    /// added to `output`.
    pub fn line(
        &mut self,
        text: &[u8],
        full: &[u8],
        output: &mut Vec<u8>,
        oddities: &mut Oddities,
    ) -> Step {
        oddities.long_line |= text.len() > LINE_BYTES_MAX;
        if let Some(md5) = &mut self.md5 {
            md5.update(full);
        }
        match self.place {
            Place::Start | Place::Header => self.header_line(text, oddities),
            Place::Body => self.body_line(text, full, output, oddities),
        }
    }

    fn header_line(&mut self, text: &[u8], oddities: &mut Oddities) -> Step {
        if text.is_empty() {
            return self.header_ends(oddities);
        }
        if self.place == Place::Header && matches!(text.first(), Some(b' ' | b'\t')) {
            if let Some(last) = self.fields.last_mut()
                && last.value.len() + text.len() <= FIELD_BYTES_MAX
            {
                last.value.extend_from_slice(text.get(1..).unwrap_or_default());
            }
        } else if let Some(field) = Field::read(text) {
            self.place = Place::Header;
            oddities.long_field_name |= field.name.len() > FIELD_NAME_BYTES_MAX;
            oddities.long_field_value |= field.value.len() > FIELD_VALUE_BYTES_MAX;
            if self.fields.len() < FIELDS_MAX {
                self.fields.push(field);
            }
        }
        Step::More
    }

    fn header_ends(&mut self, oddities: &mut Oddities) -> Step {
        let holds_message = self.read_fields(oddities);
        if self.main_fields == 0 {
            self.main_fields = self.fields.len();
        }
        if holds_message {
            // The header of the message within follows.
            self.next_part();
            return Step::More;
        }
        self.place = Place::Body;
        if self.decoding.body_md5 && self.md5.is_none() {
            self.md5 = Some(Md5::new());
        }
        Step::Open
    }

    /// Reads what the part's fields say of its body; whether it is a message of its own.
    fn read_fields(&mut self, oddities: &mut Oddities) -> bool {
        let mut holds_message = false;
        let fields = self.fields.get(self.main_fields..).unwrap_or_default().to_vec();
        for field in &fields {
            if field.is("content-disposition") {
                self.name_file(field.parameter("filename"), oddities);
            } else if field.is("content-transfer-encoding") {
                if field.value.eq_ignore_ascii_case(b"base64") {
                    self.encoding = Encoding::Base64(Base64::default());
                } else if field.value.eq_ignore_ascii_case(b"quoted-printable") {
                    self.encoding = Encoding::QuotedPrintable(QuotedPrintable::default());
                }
            } else if field.is("content-type") {
                self.name_file(field.parameter("name"), oddities);
                if let Some(boundary) = field.parameter("boundary") {
                    oddities.long_boundary |= boundary.len() > BOUNDARY_BYTES_MAX;
                    if self.boundaries.len() < DEPTH_MAX {
                        self.boundaries.push([b"--", boundary.as_slice()].concat());
                    }
                }
                let kind = field.kind();
                self.is_other = kind != b"text/plain" && kind != b"text/html";
                holds_message |= kind.starts_with(b"message/");
            }
        }
        holds_message
    }

    fn name_file(&mut self, name: Option<Vec<u8>>, oddities: &mut Oddities) {
        let Some(mut name) = name.filter(|_| self.file_name.is_empty()) else { return };
        oddities.long_file_name |= name.len() > PARAMETER_BYTES_MAX;
        name.truncate(PARAMETER_BYTES_MAX);
        self.file_name.extend_from_slice(&name);
        if self.attachments.len() < ATTACHMENTS_MAX {
            self.attachments.push(name);
        }
    }

    fn next_part(&mut self) {
        self.place = Place::Start;
        self.fields.truncate(self.main_fields);
        self.encoding = Encoding::Plain;
        self.file_name.clear();
        self.line_end_bytes = 0;
        self.is_other = false;
        self.finder.clear();
    }

    fn body_line(
        &mut self,
        text: &[u8],
        full: &[u8],
        output: &mut Vec<u8>,
        oddities: &mut Oddities,
    ) -> Step {
        if let Some(boundary) = self.boundaries.last()
            && let Some(rest) = text.strip_prefix(boundary.as_slice())
        {
            if let Encoding::Base64(decoder) = &mut self.encoding
                && self.decoding.base64
                && decoder.is_open()
            {
                let _ = decoder.finish(output);
            }
            let is_file = !self.file_name.is_empty();
            if rest.starts_with(b"--") {
                self.boundaries.pop();
            }
            self.next_part();
            return if is_file { Step::Close } else { Step::More };
        }
        if self.file_name.is_empty() {
            self.text_line(text, full, oddities);
            return Step::More;
        }
        self.file_line(text, full, output, oddities);
        Step::Chunk
    }

    /// A line of a body that is no file.
    fn text_line(&mut self, text: &[u8], full: &[u8], oddities: &mut Oddities) {
        if self.is_other {
            return;
        }
        let Encoding::Base64(decoder) = &mut self.encoding else {
            self.find_urls(full);
            return;
        };
        if !self.decoding.base64 {
            return;
        }
        oddities.long_encoded_line |= text.len() > ENCODED_LINE_BYTES_MAX;
        let mut decoded = Vec::new();
        if decoder.line(text, &mut decoded).is_ok() {
            self.find_urls(&decoded);
        } else {
            oddities.invalid_base64 = true;
        }
    }

    fn file_line(
        &mut self,
        text: &[u8],
        full: &[u8],
        output: &mut Vec<u8>,
        oddities: &mut Oddities,
    ) {
        let begin = output.len();
        match &mut self.encoding {
            Encoding::Plain => {
                // Both bytes even if the line ended with one: as Suricata has it.
                if self.line_end_bytes > 0 {
                    output.extend_from_slice(&self.line_end);
                }
                output.extend_from_slice(text);
                let end = full.get(text.len()..).unwrap_or_default();
                self.line_end_bytes = end.len();
                for (place, byte) in self.line_end.iter_mut().zip(end) {
                    *place = *byte;
                }
                self.find_urls(full);
                return;
            }
            Encoding::Base64(decoder) => {
                if !self.decoding.base64 {
                    return;
                }
                oddities.long_encoded_line |= text.len() > ENCODED_LINE_BYTES_MAX;
                if decoder.line(text, output).is_err() {
                    output.truncate(begin);
                    oddities.invalid_base64 = true;
                    return;
                }
            }
            Encoding::QuotedPrintable(decoder) => {
                if !self.decoding.quoted_printable {
                    return;
                }
                oddities.long_encoded_line |= text.len() > ENCODED_LINE_BYTES_MAX;
                oddities.invalid_quoted_printable |= !decoder.line(text, full, output);
            }
        }
        let decoded = output.get(begin..).unwrap_or_default().to_vec();
        self.find_urls(&decoded);
    }

    fn find_urls(&mut self, text: &[u8]) {
        if self.decoding.urls {
            self.finder.text(text, &self.decoding.schemes, &mut self.urls);
        }
    }
}
