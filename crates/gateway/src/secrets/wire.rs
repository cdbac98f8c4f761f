//! Frames between the node and its secrets process.
//!
//! A frame is a version (one byte), a kind (one byte), a length (four bytes, little-endian) and so
//! many bytes. A request is the MessagePack form of its type; an answer is that of its value, or a
//! sentence. A length above the limit, another version or an unknown kind ends the connection: both
//! ends are one program.

use std::io::{self, Read, Write};

/// Version of the frames and of what is in them.
pub const VERSION: u8 = 1;
/// Bytes of a request: the list of files of a channel is the longest, with 8 MiB at most.
pub const REQUEST_BYTES_MAX: usize = 9 << 20;
/// Bytes of an answer: what everybody wants for their own mail comes as one.
pub const ANSWER_BYTES_MAX: usize = 256 << 20;
const HEAD_BYTES: usize = 6;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A question of the node's.
    Request,
    /// It was done; the value follows.
    Done,
    /// It was not done; a sentence follows.
    Failed,
    /// The user database refused; its error follows.
    Refused,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Request, Kind::Done, Kind::Failed, Kind::Refused];
}

fn bad(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Writes a frame.
///
/// # Errors
/// The socket's, or that the frame is too long.
pub fn write(to: &mut impl Write, kind: Kind, body: &[u8]) -> io::Result<()> {
    let most = if kind == Kind::Request { REQUEST_BYTES_MAX } else { ANSWER_BYTES_MAX };
    let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= most);
    let length = length.ok_or_else(|| bad(format!("a frame of {} bytes", body.len())))?;
    let mut frame = Vec::with_capacity(HEAD_BYTES + body.len());
    frame.extend([VERSION, kind as u8]);
    frame.extend(length.to_le_bytes());
    frame.extend_from_slice(body);
    to.write_all(&frame)
}

/// Reads a frame of at most `bytes_max` bytes.
///
/// # Errors
/// The socket's, [`io::ErrorKind::UnexpectedEof`] at its end, or that it is no frame.
pub fn read(from: &mut impl Read, bytes_max: usize) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0; HEAD_BYTES];
    from.read_exact(&mut head)?;
    let [version, kind, a, b, c, d] = head;
    if version != VERSION {
        return Err(bad(format!("version {version} of the frames, not {VERSION}")));
    }
    let kind = Kind::ALL.into_iter().find(|k| *k as u8 == kind);
    let kind = kind.ok_or_else(|| bad("a frame of unknown kind".to_owned()))?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > bytes_max {
        return Err(bad(format!("a frame of {length} bytes; at most {bytes_max}")));
    }
    // Taken as it comes: a length that was only claimed costs no memory.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, body))
}

/// A value in MessagePack.
///
/// # Errors
/// If it cannot be written so.
pub fn encode<T: serde::Serialize + ?Sized>(value: &T) -> io::Result<Vec<u8>> {
    rmp_serde::to_vec(value).map_err(io::Error::other)
}

/// A value from MessagePack.
///
/// # Errors
/// If the bytes are none of its type.
pub fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    rmp_serde::from_slice(bytes).map_err(|e| bad(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_bounded_and_versioned() {
        let mut frame = Vec::new();
        write(&mut frame, Kind::Done, b"abc").unwrap();
        assert_eq!(read(&mut frame.as_slice(), 3).unwrap(), (Kind::Done, b"abc".to_vec()));
        assert!(read(&mut frame.as_slice(), 2).unwrap_err().to_string().contains("3 bytes"));
        for cut in 0..frame.len() {
            let error = read(&mut &frame[..cut], 9).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
        }
        let (mut version, mut kind) = (frame.clone(), frame.clone());
        version[0] = 2;
        kind[1] = 9;
        assert!(read(&mut version.as_slice(), 9).unwrap_err().to_string().contains("version 2"));
        assert!(read(&mut kind.as_slice(), 9).is_err());
        let long = vec![0; REQUEST_BYTES_MAX + 1];
        assert!(write(&mut Vec::new(), Kind::Request, &long).is_err());
        // A length that is a lie takes no memory before the bytes are there.
        let lie = [VERSION, 1, 255, 255, 255, 15, 0];
        assert!(read(&mut lie.as_slice(), usize::MAX).is_err());
    }
}
