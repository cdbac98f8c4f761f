//! The protocol of spamc and spamd: a connection a message, `CHECK`.

use super::wire::{Failure, Link, Outcome, Prepared};

/// The request, head and message.
pub(crate) fn prepare(raw: &[u8]) -> Prepared {
    let mut wire = format!("CHECK SPAMC/1.5\r\nContent-length: {}\r\n\r\n", raw.len()).into_bytes();
    wire.extend_from_slice(raw);
    Prepared { wire, ..Prepared::default() }
}

/// One request and its answer.
pub(crate) struct Exchange {
    link: Link,
}

impl Exchange {
    pub(crate) fn new(link: Link) -> Self {
        Exchange { link }
    }

    /// Sends the request and reads the answer to its end.
    pub(crate) async fn pass(&mut self, message: &Prepared) -> Result<Outcome, Failure> {
        self.link.write(&message.wire).await?;
        self.link.finish().await?;
        while self.link.read().await? {}
        outcome(&self.link.input)
    }
}

fn outcome(answer: &[u8]) -> Result<Outcome, Failure> {
    let text = String::from_utf8_lossy(answer);
    let mut lines = text.lines();
    let status = lines.next().unwrap_or_default();
    // "SPAMD/1.1 0 EX_OK"; 75 is EX_TEMPFAIL of sysexits.h.
    match status.strip_prefix("SPAMD/").and_then(|s| s.split_ascii_whitespace().nth(1)) {
        Some("0") => {}
        Some("75") => return Ok(Outcome::Deferred),
        _ => return Err(Failure::Protocol(format!("spamd answered {status:?}"))),
    }
    let verdict = lines.take_while(|l| !l.is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("Spam").then(|| value.trim_start().to_ascii_lowercase())
    });
    match verdict {
        Some(v) if v.starts_with("true") || v.starts_with("yes") => Ok(Outcome::Spam),
        Some(_) => Ok(Outcome::Passed),
        None => Err(Failure::Protocol(format!("no Spam line in the answer {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let head = "SPAMD/1.1 0 EX_OK\r\nContent-length: 2\r\n";
        let spam = format!("{head}Spam: True ; 8.1 / 5.0\r\n\r\nx");
        assert_eq!(outcome(spam.as_bytes()).unwrap(), Outcome::Spam);
        let ham = format!("{head}Spam: False ; 0.1 / 5.0\r\n\r\n");
        assert_eq!(outcome(ham.as_bytes()).unwrap(), Outcome::Passed);
        assert_eq!(outcome(b"SPAMD/1.0 75 EX_TEMPFAIL\r\n\r\n").unwrap(), Outcome::Deferred);
        for bad in [&b""[..], b"SPAMD/1.1 0 EX_OK\r\n\r\nSpam: True", b"HTTP/1.1 200 OK\r\n\r\n"] {
            assert!(outcome(bad).is_err());
        }
    }
}
