//! Why a record cannot be packed or unpacked.

/// Why a record cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// MessagePack cannot express the record.
    #[error(transparent)]
    Encode(#[from] rmp_serde::encode::Error),
    /// Zstandard fails, with this name of its error.
    #[error("{0}")]
    Compress(&'static str),
}

/// Why a record cannot be unpacked.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    /// Its pack is damaged.
    #[error("its pack cannot be read ({0}): the file is damaged")]
    Pack(String),
    /// Its frame or content is damaged.
    #[error("it cannot be unpacked ({0}): the file is damaged")]
    Frame(String),
    /// It claims more bytes than a record may have.
    #[error("it claims {0} bytes")]
    TooLarge(usize),
    /// It ends within its header.
    #[error("it is cut short")]
    Truncated,
    /// Its leading byte is unknown.
    #[error(
        "its format {0} is not known to this version: it was written by a newer one, or \
         the file is damaged"
    )]
    UnknownFormat(u8),
}
