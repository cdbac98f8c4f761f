//! The MIME fields of one header block: type, transfer encoding, disposition, and every name that
//! they give the part.

use crate::defect::DefectKind;
use crate::header::Header;
use crate::mime::{ContentType, Disposition, TransferEncoding};
use crate::names;
use crate::params;

/// The fields of a header block that say how the body is read.
pub(super) struct MimeFields {
    pub(super) content_type: ContentType,
    pub(super) transfer_encoding: TransferEncoding,
    pub(super) disposition: Option<Disposition>,
    /// Of further fields of the same kind.
    pub(super) alternative_names: Vec<String>,
    pub(super) fallback_names: Vec<String>,
    /// Kinds of defects, and where.
    pub(super) defects: Vec<(DefectKind, usize)>,
}

impl MimeFields {
    /// Reads the fields of a header block that starts at the same offset of `raw`.
    pub(super) fn read(
        raw: &[u8],
        headers: &[Header<'_>],
        in_digest: bool,
        parameters_max: usize,
    ) -> Self {
        let mut fields = MimeFields {
            content_type: ContentType::assumed(in_digest),
            transfer_encoding: TransferEncoding::Identity,
            disposition: None,
            alternative_names: Vec::new(),
            fallback_names: Vec::new(),
            defects: Vec::new(),
        };
        let is_mime = |h: &&Header<'_>| {
            h.name.get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"content-"))
        };
        let (mut first_type, mut first_encoding) = (None, None);
        let named = headers.iter().filter(|h| NAME_FIELDS.iter().any(|name| h.is(name)));
        fields.fallback_names.extend(named.map(|h| h.decoded().into_owned()));
        for header in headers.iter().filter(is_mime) {
            let value = header.unfolded();
            if header.is("content-type") {
                let read = ContentType::parse(&value, in_digest, parameters_max);
                fields.content_type(read, &value, header.offset, &mut first_type);
            } else if header.is("content-transfer-encoding") {
                fields.encoding(&value, header.offset, &mut first_encoding);
            } else if header.is("content-disposition") {
                fields.disposition(Disposition::parse(&value, parameters_max), header.offset);
            } else {
                if FALLBACK_NAME_FIELDS.iter().any(|name| header.is(name)) {
                    fields.fallback_names.push(header.decoded().into_owned());
                } else if header.is("content-id") {
                    fields.fallback_names.extend(name_of_id(&header.decoded()));
                }
                continue;
            }
            if params::is_folded_inside(header.raw_value) {
                let names = params::names_without_folds(header.raw_value, parameters_max);
                fields.alternative_names.extend(names);
            }
            if raw.get(header.offset + header.name.len()) != Some(&b':') {
                fields.defects.push((DefectKind::OddFieldName, header.offset));
            }
            if has_control(header.raw_value) {
                fields.defects.push((DefectKind::ControlInParameter, header.offset));
            }
        }
        fields
    }

    fn content_type(
        &mut self,
        read: ContentType,
        value: &[u8],
        at: usize,
        first: &mut Option<Vec<u8>>,
    ) {
        self.defects.extend(read.defects.iter().map(|kind| (*kind, at)));
        let Some(first) = first else {
            *first = Some(comparable(value));
            self.content_type = read;
            return;
        };
        if *first != comparable(value) {
            self.defects.push((DefectKind::DuplicateMimeHeader, at));
        }
        let named = read.params.into_iter().filter(|(name, _)| params::is_file_name(name));
        self.alternative_names.extend(named.map(|(_, value)| value));
        self.alternative_names.extend(read.alternative_names);
    }

    fn encoding(&mut self, value: &[u8], at: usize, first: &mut Option<TransferEncoding>) {
        let read = TransferEncoding::parse(value);
        if read == TransferEncoding::Unknown {
            self.defects.push((DefectKind::BadTransferEncoding, at));
        }
        if TransferEncoding::is_ambiguous(value) {
            self.defects.push((DefectKind::OddTransferEncoding, at));
        }
        match first {
            None => (self.transfer_encoding, *first) = (read, Some(read)),
            Some(first) if *first != read => {
                self.defects.push((DefectKind::DuplicateMimeHeader, at));
            }
            Some(_) => {}
        }
    }

    /// All names of all dispositions count, so a second one hides nothing.
    fn disposition(&mut self, read: Disposition, at: usize) {
        self.defects.extend(read.defects.iter().map(|kind| (*kind, at)));
        let Some(first) = &mut self.disposition else {
            self.disposition = Some(read);
            return;
        };
        if read.kind.starts_with("attachment") {
            first.kind = read.kind;
        }
        let named = read.params.into_iter().filter(|(name, _)| params::is_file_name(name));
        self.alternative_names.extend(named.map(|(_, value)| value));
        self.alternative_names.extend(read.alternative_names);
    }
}

/// Fields that name a part which has no name (MS-OXCMAIL section 2.2.3.4; Content-Name:
/// Thunderbird).
const FALLBACK_NAME_FIELDS: [&str; 3] = ["content-name", "content-description", "content-location"];

/// Fields that no standard names and some programs write a name into.
const NAME_FIELDS: [&str; 3] = ["x-attachment-name", "x-filename", "x-file-name"];

/// What Outlook's and other programs' identifiers have of a name: `<image001.png@01DB.5A>`. What
/// ends like a host is none, for identifiers are made of hosts (RFC 2045 section 7).
fn name_of_id(id: &str) -> Option<String> {
    let name = id.trim().trim_start_matches('<').trim_end_matches('>');
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    let extension = names::extension(name).to_ascii_lowercase();
    (names::has_extension(name) && extension != "com" && extension != "app")
        .then(|| name.to_owned())
}

/// A value without what makes no difference between two fields: case and white space.
fn comparable(value: &[u8]) -> Vec<u8> {
    let letters = value.iter().filter(|b| !b.is_ascii_whitespace() && **b != b'"');
    letters.map(u8::to_ascii_lowercase).collect()
}

/// Whether a folded value has a control character: a NUL, or a CR that ends no line.
fn has_control(raw_value: &[u8]) -> bool {
    let bare_return = |i: usize| raw_value[i] == b'\r' && raw_value.get(i + 1) != Some(&b'\n');
    (0..raw_value.len()).any(|i| match raw_value[i] {
        b'\t' | b'\n' => false,
        b'\r' => bare_return(i),
        byte => byte.is_ascii_control(),
    })
}
