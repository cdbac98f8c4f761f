//! What unpacking asks of the program around it.

use gauntlet_sniff::FileKind;
use serde::{Deserialize, Serialize};

use crate::object::{DefectKind, Object};

/// A file that is given to be unpacked.
#[derive(Debug, Clone, Copy)]
pub struct Root<'a> {
    /// Its name, empty if it has none.
    pub name: &'a str,
    /// The media type that its sender says, empty if none.
    pub declared_type: &'a str,
    /// The bytes with the transfer encoding removed.
    pub bytes: &'a [u8],
}

/// A file inside another, beside its bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Child {
    /// Its name as the container has it, empty if it has none.
    pub name: String,
    /// The media type that the container says, empty if none.
    pub declared_type: String,
}

impl Child {
    /// One of this name, without a type.
    pub fn named(name: impl Into<String>) -> Self {
        Child { name: name.into(), declared_type: String::new() }
    }
}

/// Why a program could not convert an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum ConvertError {
    /// The program is not installed.
    #[error("{0} is not installed")]
    Missing(String),
    /// It failed; what it said, the first line.
    #[error("{0}")]
    Failed(String),
    /// It gave more than it may.
    #[error("more bytes than content.object_bytes_max")]
    TooLarge,
    /// It took too long.
    #[error("out of time")]
    OutOfTime,
    /// The archive is encrypted.
    #[error("encrypted")]
    Encrypted,
}

impl ConvertError {
    /// The defect that it leaves on the object.
    pub(crate) fn defect(&self) -> DefectKind {
        match self {
            ConvertError::Missing(_) => DefectKind::ToolMissing,
            ConvertError::Failed(_) => DefectKind::DecoderFailed,
            ConvertError::TooLarge => DefectKind::ObjectTooLarge,
            ConvertError::OutOfTime => DefectKind::OutOfTime,
            ConvertError::Encrypted => DefectKind::Encrypted,
        }
    }
}

/// The program around the unpacker.
pub trait Host {
    /// Called once for each object, before what is in it is read: engines look at it, a command
    /// writes it to a file.
    fn object(&mut self, _object: &Object, _bytes: &[u8]) {}

    /// Turns an archive that only an external program reads into a tar archive of at most
    /// `bytes_max` bytes.
    ///
    /// # Errors
    /// Why not; the default has no program.
    fn convert(
        &mut self,
        kind: FileKind,
        _bytes: &[u8],
        _bytes_max: u64,
    ) -> Result<Vec<u8>, ConvertError> {
        Err(ConvertError::Missing(format!("a program that reads {}", kind.media_type())))
    }

    /// The parts of a message, decoded; none if the host reads no messages.
    fn message(&mut self, _bytes: &[u8]) -> Vec<(Child, Vec<u8>)> {
        Vec::new()
    }
}

/// A host that looks at nothing and converts nothing.
#[derive(Debug, Default)]
pub struct NoHost;

impl Host for NoHost {}
