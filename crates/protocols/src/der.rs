//! Elements of BER and DER (X.690) with definite lengths.

/// Universal class.
pub(crate) const UNIVERSAL: u8 = 0;
/// Application class.
pub(crate) const APPLICATION: u8 = 1;
/// Class of tags that depend on where they are.
pub(crate) const CONTEXT: u8 = 2;

/// Tags of the universal class.
pub(crate) const INTEGER: u32 = 2;
pub(crate) const OCTET_STRING: u32 = 4;
pub(crate) const OBJECT_ID: u32 = 6;
pub(crate) const ENUMERATED: u32 = 10;
pub(crate) const SEQUENCE: u32 = 16;

/// Bytes of a length at most.
const LENGTH_BYTES_MAX: usize = 4;

/// Bytes of a long tag at most.
const TAG_BYTES_MAX: usize = 4;

/// The most arcs of an object's id that are written.
const ARCS_MAX: usize = 128;

/// Why there is no element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// More bytes are needed.
    Incomplete,
    /// It is broken.
    Invalid,
}

/// What stands before an element's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Class, see above.
    pub class: u8,
    /// Which.
    pub tag: u32,
    /// Bytes before the content.
    pub head_bytes: usize,
    /// Bytes of the content.
    pub content_bytes: usize,
}

/// An element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// Class, see above.
    pub class: u8,
    /// Which.
    pub tag: u32,
    /// Its content.
    pub content: &'a [u8],
}

impl Head {
    /// Reads one.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Defect> {
        let first = *bytes.first().ok_or(Defect::Incomplete)?;
        let mut place = 1;
        let mut tag = u32::from(first & 0x1f);
        if tag == 0x1f {
            tag = 0;
            loop {
                let byte = *bytes.get(place).ok_or(Defect::Incomplete)?;
                place += 1;
                tag = tag << 7 | u32::from(byte & 0x7f);
                if byte & 0x80 == 0 {
                    break;
                }
                if place > TAG_BYTES_MAX {
                    return Err(Defect::Invalid);
                }
            }
        }
        let length = *bytes.get(place).ok_or(Defect::Incomplete)?;
        place += 1;
        let mut content_bytes = usize::from(length & 0x7f);
        if length & 0x80 != 0 {
            let count = content_bytes;
            if count == 0 || count > LENGTH_BYTES_MAX {
                return Err(Defect::Invalid);
            }
            content_bytes = 0;
            for _ in 0..count {
                let byte = *bytes.get(place).ok_or(Defect::Incomplete)?;
                content_bytes = content_bytes << 8 | usize::from(byte);
                place += 1;
            }
        }
        Ok(Self { class: first >> 6, tag, head_bytes: place, content_bytes })
    }
}

impl<'a> Element<'a> {
    /// The element at the beginning, and what is behind it.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Defect> {
        let head = Head::read(bytes)?;
        let rest = bytes.get(head.head_bytes..).ok_or(Defect::Incomplete)?;
        let (content, rest) =
            rest.split_at_checked(head.content_bytes).ok_or(Defect::Incomplete)?;
        Ok((Self { class: head.class, tag: head.tag, content }, rest))
    }

    /// Whether it is one of the universal class with this tag.
    pub(crate) fn is(&self, tag: u32) -> bool {
        self.class == UNIVERSAL && self.tag == tag
    }

    /// What is in it.
    pub(crate) fn inner(&self) -> Elements<'a> {
        Elements(self.content)
    }

    /// Its number.
    pub(crate) fn number(&self) -> Option<i64> {
        let (first, rest) = self.content.split_first()?;
        if rest.len() > 7 {
            return None;
        }
        let negative = first & 0x80 != 0;
        let begin = if negative { -1_i64 } else { 0 };
        Some(self.content.iter().fold(begin, |value, byte| value << 8 | i64::from(*byte)))
    }
}

/// Elements one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements<'a>(pub &'a [u8]);

impl<'a> Elements<'a> {
    /// The next one.
    pub(crate) fn take(&mut self) -> Option<Element<'a>> {
        let (element, rest) = Element::read(self.0).ok()?;
        self.0 = rest;
        Some(element)
    }

    /// The next one if it has this universal tag; otherwise it stays.
    pub(crate) fn take_of(&mut self, tag: u32) -> Option<Element<'a>> {
        let (element, rest) = Element::read(self.0).ok()?;
        if !element.is(tag) {
            return None;
        }
        self.0 = rest;
        Some(element)
    }

    /// What is in the next one if it has this tag of the context; otherwise it stays.
    pub(crate) fn context(&mut self, tag: u32) -> Option<Elements<'a>> {
        let (element, rest) = Element::read(self.0).ok()?;
        if element.class != CONTEXT || element.tag != tag {
            return None;
        }
        self.0 = rest;
        Some(element.inner())
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> Option<i64> {
        self.take_of(INTEGER)?.number()
    }

    /// The next string of bytes.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        Some(self.take_of(OCTET_STRING)?.content)
    }
}

/// An object's id with dots.
pub(crate) fn object_id(content: &[u8]) -> String {
    let mut text = String::new();
    let mut arc = 0_u64;
    let mut count = 0;
    for byte in content {
        arc = arc << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if count == 0 {
            let first = (arc / 40).min(2);
            text = format!("{first}.{}", arc - first * 40);
        } else {
            text.push('.');
            text.push_str(&arc.to_string());
        }
        arc = 0;
        count += 1;
        if count == ARCS_MAX {
            break;
        }
    }
    text
}
