//! What rules see of a message, rendered as SpamAssassin 4.0.1 renders it.

use std::borrow::Cow;
use std::cell::OnceCell;

use gauntlet_mail::{Envelope, Facts, Message};

use crate::rule::HeaderSelector;
use crate::settings::Settings;

pub mod mime;

pub use self::mime::{MimeTree, Node};

/// The settings that views depend on.
#[derive(Debug, Clone, Default)]
pub struct ViewSettings {}

impl ViewSettings {
    /// Reads them from the files' settings.
    pub fn from_settings(_settings: &Settings) -> Self {
        ViewSettings {}
    }
}

/// One URI as `uri` rules see it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uri {
    /// The form that rules match.
    pub text: Vec<u8>,
}

/// All views of one message, computed when first asked for.
#[derive(Debug)]
pub struct Views<'m> {
    message: &'m Message<'m>,
    envelope: &'m Envelope,
    facts: &'m Facts,
    settings: &'m ViewSettings,
    mime: OnceCell<MimeTree<'m>>,
}

impl<'m> Views<'m> {
    /// Views of this message.
    pub fn new(
        message: &'m Message<'m>,
        envelope: &'m Envelope,
        facts: &'m Facts,
        settings: &'m ViewSettings,
    ) -> Self {
        Views { message, envelope, facts, settings, mime: OnceCell::new() }
    }

    /// The message itself.
    pub fn message(&self) -> &'m Message<'m> {
        self.message
    }

    /// The parts as SpamAssassin reads them.
    pub fn mime(&self) -> &MimeTree<'m> {
        self.mime.get_or_init(|| MimeTree::read(self.message.raw()))
    }

    /// What the connection said.
    pub fn envelope(&self) -> &'m Envelope {
        self.envelope
    }

    /// What the network said.
    pub fn facts(&self) -> &'m Facts {
        self.facts
    }

    /// The settings that views depend on.
    pub fn settings(&self) -> &'m ViewSettings {
        self.settings
    }

    /// The strings that `body` rules match, the subject first.
    pub fn body(&self) -> &[Vec<u8>] {
        &[]
    }

    /// The strings that `rawbody` rules match.
    pub fn rawbody(&self) -> &[Vec<u8>] {
        &[]
    }

    /// What `full` rules match: the message as it came.
    pub fn full(&self) -> &[u8] {
        self.message.raw()
    }

    /// The URIs that `uri` rules match, sorted by `text`, without duplicates.
    pub fn uris(&self) -> &[Uri] {
        &[]
    }

    /// A header value as `header` rules see it; none is Perl's undef (no such field).
    pub fn header(&self, selector: &HeaderSelector) -> Option<Cow<'_, [u8]>> {
        let field = self.message.header(&selector.name)?;
        let mut value = field.decoded().into_owned().into_bytes();
        value.push(b'\n');
        Some(Cow::Owned(value))
    }

    /// The value of a field in each part, the root first; none where a part lacks it.
    pub fn mime_headers(&self, selector: &HeaderSelector) -> Vec<Option<Cow<'_, [u8]>>> {
        let value = |field: &gauntlet_mail::Header<'_>| {
            let mut value = field.decoded().into_owned().into_bytes();
            value.push(b'\n');
            Cow::Owned(value)
        };
        let parts = self.message.parts().iter();
        parts.map(|p| p.header(&selector.name).map(value)).collect()
    }
}
