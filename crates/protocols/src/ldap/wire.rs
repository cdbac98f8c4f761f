//! Messages of LDAP 3 (RFC 4511).

use crate::der::{self, Defect as DerDefect, ENUMERATED, Element, Elements, SEQUENCE};

/// The most attributes or changes of a message that are kept.
const ATTRIBUTES_MAX: usize = 1024;

/// Tags of what a client signs in with.
const PASSWORD: u32 = 0;
const SASL: u32 = 3;

/// Operations, by their tags.
pub mod operation {
    /// Signs in.
    pub const BIND_REQUEST: u32 = 0;
    /// What came of it.
    pub const BIND_RESPONSE: u32 = 1;
    /// The end.
    pub const UNBIND_REQUEST: u32 = 2;
    /// Looks for entries.
    pub const SEARCH_REQUEST: u32 = 3;
    /// An entry.
    pub const SEARCH_ENTRY: u32 = 4;
    /// No more entries.
    pub const SEARCH_DONE: u32 = 5;
    /// Changes an entry.
    pub const MODIFY_REQUEST: u32 = 6;
    /// What came of it.
    pub const MODIFY_RESPONSE: u32 = 7;
    /// Adds an entry.
    pub const ADD_REQUEST: u32 = 8;
    /// What came of it.
    pub const ADD_RESPONSE: u32 = 9;
    /// Deletes an entry.
    pub const DELETE_REQUEST: u32 = 10;
    /// What came of it.
    pub const DELETE_RESPONSE: u32 = 11;
    /// Moves an entry.
    pub const RENAME_REQUEST: u32 = 12;
    /// What came of it.
    pub const RENAME_RESPONSE: u32 = 13;
    /// Compares with an entry.
    pub const COMPARE_REQUEST: u32 = 14;
    /// What came of it.
    pub const COMPARE_RESPONSE: u32 = 15;
    /// Gives something up.
    pub const ABANDON_REQUEST: u32 = 16;
    /// Other servers.
    pub const SEARCH_REFERENCE: u32 = 19;
    /// Something else.
    pub const EXTENDED_REQUEST: u32 = 23;
    /// What came of it.
    pub const EXTENDED_RESPONSE: u32 = 24;
    /// What comes of it so far.
    pub const INTERMEDIATE_RESPONSE: u32 = 25;
}

/// Why there is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Defect {
    /// More bytes are needed.
    Incomplete,
    /// It is broken.
    Invalid,
}

/// What came of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its code.
    pub code: u32,
    /// The last entry that was found on the way.
    pub matched: Vec<u8>,
    /// For people.
    pub message: Vec<u8>,
}

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub number: u32,
    /// What it does, see [`operation`].
    pub operation: u32,
    /// The entry that a request is about, or an entry that was found.
    pub entry: Vec<u8>,
    /// Types of attributes.
    pub attributes: Vec<Vec<u8>>,
    /// A request's other operation, by its object's id.
    pub extension: Vec<u8>,
    /// What came of a request.
    pub outcome: Option<Outcome>,
}

impl From<DerDefect> for Defect {
    fn from(defect: DerDefect) -> Self {
        match defect {
            DerDefect::Incomplete => Self::Incomplete,
            DerDefect::Invalid => Self::Invalid,
        }
    }
}

impl Message {
    /// Reads one; says how many bytes it has.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), Defect> {
        match bytes.first() {
            None => return Err(Defect::Incomplete),
            Some(0x30) => {}
            Some(_) => return Err(Defect::Invalid),
        }
        let (element, rest) = Element::read(bytes)?;
        let message = read(element.inner()).ok_or(Defect::Invalid)?;
        Ok((message, bytes.len() - rest.len()))
    }

    /// Whether names and texts are UTF-8, as they must be (RFC 4511 section 4.1.2).
    fn is_text(&self) -> bool {
        let texts = self.outcome.iter().flat_map(|outcome| [&outcome.matched, &outcome.message]);
        let mut all = texts.chain([&self.entry]).chain(&self.attributes);
        all.all(|text| std::str::from_utf8(text).is_ok())
    }

    /// Whether clients send it.
    pub fn is_request(&self) -> bool {
        matches!(
            self.operation,
            operation::BIND_REQUEST
                | operation::UNBIND_REQUEST
                | operation::SEARCH_REQUEST
                | operation::MODIFY_REQUEST
                | operation::ADD_REQUEST
                | operation::DELETE_REQUEST
                | operation::RENAME_REQUEST
                | operation::COMPARE_REQUEST
                | operation::ABANDON_REQUEST
                | operation::EXTENDED_REQUEST
        )
    }

    /// Whether nothing more comes of the request.
    pub fn is_last(&self) -> bool {
        matches!(
            self.operation,
            operation::UNBIND_REQUEST
                | operation::ABANDON_REQUEST
                | operation::SEARCH_DONE
                | operation::BIND_RESPONSE
                | operation::MODIFY_RESPONSE
                | operation::ADD_RESPONSE
                | operation::DELETE_RESPONSE
                | operation::RENAME_RESPONSE
                | operation::COMPARE_RESPONSE
                | operation::EXTENDED_RESPONSE
        )
    }
}

fn read(mut fields: Elements<'_>) -> Option<Message> {
    let number = u32::try_from(fields.number()?).ok()?;
    let body = fields.take()?;
    if body.class != der::APPLICATION {
        return None;
    }
    let mut message = Message { number, operation: body.tag, ..Message::default() };
    let mut fields = body.inner();
    match body.tag {
        operation::BIND_REQUEST => {
            fields.number()?;
            message.entry = fields.string()?.to_vec();
            let secret = fields.take()?;
            if secret.class != der::CONTEXT || !matches!(secret.tag, PASSWORD | SASL) {
                return None;
            }
        }
        operation::SEARCH_REQUEST => {
            read_search(&mut message, fields)?;
        }
        operation::MODIFY_REQUEST | operation::ADD_REQUEST | operation::SEARCH_ENTRY => {
            read_attributes(&mut message, fields)?;
        }
        operation::DELETE_REQUEST => message.entry = body.content.to_vec(),
        operation::RENAME_REQUEST => message.entry = fields.string()?.to_vec(),
        operation::COMPARE_REQUEST => {
            message.entry = fields.string()?.to_vec();
            let attribute = fields.take_of(SEQUENCE)?.inner().string()?;
            message.attributes.push(attribute.to_vec());
        }
        operation::EXTENDED_REQUEST => {
            message.extension = fields.context(0)?.0.to_vec();
        }
        operation::BIND_RESPONSE
        | operation::SEARCH_DONE
        | operation::MODIFY_RESPONSE
        | operation::ADD_RESPONSE
        | operation::DELETE_RESPONSE
        | operation::RENAME_RESPONSE
        | operation::COMPARE_RESPONSE
        | operation::EXTENDED_RESPONSE => {
            message.outcome = Some(Outcome {
                code: u32::try_from(fields.take_of(ENUMERATED)?.number()?).ok()?,
                matched: fields.string()?.to_vec(),
                message: fields.string()?.to_vec(),
            });
        }
        operation::UNBIND_REQUEST
        | operation::ABANDON_REQUEST
        | operation::SEARCH_REFERENCE
        | operation::INTERMEDIATE_RESPONSE => {}
        _ => return None,
    }
    message.is_text().then_some(message)
}

/// What is looked for, and the attributes that are wanted.
fn read_search(message: &mut Message, mut fields: Elements<'_>) -> Option<()> {
    message.entry = fields.string()?.to_vec();
    fields.take_of(ENUMERATED)?;
    fields.take_of(ENUMERATED)?;
    fields.number()?;
    fields.number()?;
    fields.take()?;
    fields.take()?;
    let mut attributes = fields.take_of(SEQUENCE)?.inner();
    while message.attributes.len() < ATTRIBUTES_MAX
        && let Some(attribute) = attributes.string()
    {
        message.attributes.push(attribute.to_vec());
    }
    Some(())
}

/// An entry with its attributes, or with changes of them.
fn read_attributes(message: &mut Message, mut fields: Elements<'_>) -> Option<()> {
    message.entry = fields.string()?.to_vec();
    let mut list = fields.take_of(SEQUENCE)?.inner();
    while message.attributes.len() < ATTRIBUTES_MAX
        && let Some(item) = list.take_of(SEQUENCE)
    {
        let mut item = item.inner();
        if message.operation == operation::MODIFY_REQUEST {
            item.take_of(ENUMERATED)?;
            item = item.take_of(SEQUENCE)?.inner();
        }
        message.attributes.push(item.string()?.to_vec());
    }
    Some(())
}
