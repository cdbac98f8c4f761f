//! The protocol of clamdscan and clamd: a session (`IDSESSION`) of messages, each by `INSTREAM`.

use super::wire::{Failure, Link, Outcome, Prepared};

/// Bytes of a message in one piece at most.
const PIECE_BYTES: usize = 1 << 20;

/// The command, the pieces with their lengths, and an empty one at the end.
pub(crate) fn prepare(raw: &[u8]) -> Prepared {
    let mut wire = b"zINSTREAM\0".to_vec();
    for piece in raw.chunks(PIECE_BYTES) {
        wire.extend_from_slice(&(piece.len() as u32).to_be_bytes());
        wire.extend_from_slice(piece);
    }
    wire.extend_from_slice(&[0; 4]);
    Prepared { wire, ..Prepared::default() }
}

/// Messages on one connection.
pub(crate) struct Session {
    link: Link,
}

impl Session {
    /// Begins a session (`IDSESSION`), in which commands share the connection.
    pub(crate) async fn open(mut link: Link) -> Result<Self, Failure> {
        link.write(b"zIDSESSION\0").await?;
        Ok(Session { link })
    }

    /// Sends a message and reads its answer.
    pub(crate) async fn pass(&mut self, message: &Prepared) -> Result<Outcome, Failure> {
        self.link.write(&message.wire).await?;
        let end = loop {
            if let Some(end) = self.link.input.iter().position(|byte| *byte == 0) {
                break end;
            }
            self.link.more().await?;
        };
        let outcome = outcome(self.link.input.get(..end).unwrap_or_default());
        self.link.input.drain(..=end);
        outcome
    }
}

/// `1: stream: OK`, `1: stream: Eicar-Test FOUND`.
fn outcome(answer: &[u8]) -> Result<Outcome, Failure> {
    let text = String::from_utf8_lossy(answer);
    match text.rsplit([' ', ':']).next() {
        Some("OK") => Ok(Outcome::Passed),
        Some("FOUND") => Ok(Outcome::Spam),
        _ => Err(Failure::Protocol(format!("clamd answered {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(outcome(b"1: stream: OK").unwrap(), Outcome::Passed);
        assert_eq!(outcome(b"2: stream: Eicar-Signature FOUND").unwrap(), Outcome::Spam);
        assert!(outcome(b"INSTREAM size limit exceeded. ERROR").is_err());
    }
}
