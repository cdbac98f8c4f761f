//! The message after DATA: dot-stuffing in both directions (RFC 5321 section 4.5.2).
//!
//! Exactly one sequence ends a message: CR LF `.` CR LF. Servers that also accept LF `.` LF, CR `.`
//! CR, LF `.` CR LF and so on make SMTP smuggling possible next to servers that do not: the two
//! disagree about where one message ends and the next begins. So a bare CR, a bare LF and a NUL
//! (which some servers drop) are errors that end the session: nothing after them can be trusted.
//!
//! BDAT has a length and no end marker that could be forged, but follows the same rule
//! ([`LineCheck`]): to relay such bytes by DATA they would have to be changed, and the relayed
//! message would differ from the one that was scanned.

/// A byte that a message must not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// CR that no LF follows.
    #[error("bare <CR> received")]
    BareCr,
    /// LF without a CR before it.
    #[error("bare <LF> received")]
    BareLf,
    /// A NUL byte, which some servers drop.
    #[error("NUL received")]
    Nul,
}

/// Outcome of a call of [`DataDecoder::decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataStep {
    /// The input is consumed, the message continues.
    More,
    /// The message ended; this many bytes of the input belonged to it.
    End(usize),
    /// The input has a byte that a message must not have.
    Bad(DataError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// At the start of a line.
    #[default]
    LineStart,
    Line,
    /// After a CR that a LF must follow; the CR is not yet in the output.
    Cr,
    /// After a dot at the start of a line.
    Dot,
    /// After a dot and a CR at the start of a line.
    DotCr,
}

/// Removes dot-stuffing and finds the end of the message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataDecoder {
    state: State,
}

impl DataDecoder {
    /// Decodes `input`, appending the message's bytes to `out`.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> DataStep {
        let mut at = 0;
        // Bytes from `run` to `at` are to be copied as they are.
        let mut run = 0;
        while at < input.len() {
            let rest = input.get(at..).unwrap_or_default();
            let b = rest.first().copied().unwrap_or_default();
            match self.state {
                State::LineStart if b == b'.' => {
                    out.extend_from_slice(input.get(run..at).unwrap_or_default());
                    at += 1;
                    run = at;
                    self.state = State::Dot;
                }
                State::LineStart => self.state = State::Line,
                State::Dot if b == b'\r' => {
                    at += 1;
                    self.state = State::DotCr;
                }
                State::Dot => self.state = State::Line,
                State::DotCr if b == b'\n' => return DataStep::End(at + 1),
                State::DotCr => return DataStep::Bad(DataError::BareCr),
                State::Cr if b == b'\n' => {
                    // The CR may have come with an earlier input.
                    if at == 0 {
                        out.push(b'\r');
                    }
                    at += 1;
                    self.state = State::LineStart;
                }
                State::Cr => return DataStep::Bad(DataError::BareCr),
                State::Line => match memchr::memchr3(b'\r', b'\n', 0, rest) {
                    None => at = input.len(),
                    Some(n) => match rest.get(n) {
                        Some(b'\r') => {
                            at += n + 1;
                            self.state = State::Cr;
                        }
                        Some(b'\n') => return DataStep::Bad(DataError::BareLf),
                        _ => return DataStep::Bad(DataError::Nul),
                    },
                },
            }
        }
        let end = match self.state {
            State::Cr | State::DotCr => input.len().saturating_sub(1).max(run.min(input.len())),
            _ => input.len(),
        };
        out.extend_from_slice(input.get(run..end).unwrap_or_default());
        DataStep::More
    }
}

/// Checks a message sent by BDAT (RFC 3030) for the bytes that DATA refuses.
///
/// The message may come in pieces of any length: a CR at the end of one may have its LF in the
/// next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineCheck {
    /// The last byte was a CR.
    after_cr: bool,
}

impl LineCheck {
    /// Checks the next bytes.
    ///
    /// # Errors
    /// The first byte that a message must not have.
    pub fn check(&mut self, input: &[u8]) -> Result<(), DataError> {
        let mut rest = input;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").ok_or(DataError::BareCr)?;
            self.after_cr = false;
        }
        while let Some(at) = memchr::memchr3(b'\r', b'\n', 0, rest) {
            rest = match rest.get(at..).unwrap_or_default() {
                [b'\r', b'\n', tail @ ..] => tail,
                [b'\r'] => {
                    self.after_cr = true;
                    return Ok(());
                }
                [b'\r', ..] => return Err(DataError::BareCr),
                [b'\n', ..] => return Err(DataError::BareLf),
                _ => return Err(DataError::Nul),
            };
        }
        Ok(())
    }

    /// The message ends here.
    ///
    /// # Errors
    /// The last byte was a CR.
    pub fn end(self) -> Result<(), DataError> {
        if self.after_cr { Err(DataError::BareCr) } else { Ok(()) }
    }

    /// Checks a complete message.
    ///
    /// # Errors
    /// The first byte that a message must not have.
    pub fn check_all(message: &[u8]) -> Result<(), DataError> {
        let mut lines = LineCheck::default();
        lines.check(message)?;
        lines.end()
    }
}

/// The bytes, which begin a line, do not go over the wire as they are: a line begins with a dot, a
/// line end is none in SMTP, a NUL is in them, or their last line has no end. See [`dot_stuff`].
pub fn needs_dot_stuffing(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        if rest.starts_with(b".") {
            return true;
        }
        let end = memchr::memchr3(b'\r', b'\n', 0, rest).and_then(|n| rest.get(n..));
        match end {
            Some([b'\r', b'\n', tail @ ..]) => rest = tail,
            _ => return true,
        }
    }
    false
}

/// Appends `body` as it is sent after DATA: every line ended by CR LF whatever ended it, leading
/// dots doubled, and the final CR LF `.` CR LF. NULs are dropped. Whatever the body is, the output
/// has no other end of data.
pub fn dot_stuff(body: &[u8], out: &mut Vec<u8>) {
    out.reserve(body.len() + body.len() / 64 + 8);
    let start = out.len();
    let part = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    // Bytes from `run` to `at` go as they are.
    let (mut run, mut at) = (0, 0);
    let mut line_start = true;
    while let Some(first) = body.get(at) {
        if line_start && *first == b'.' {
            out.extend_from_slice(part(run, at));
            out.push(b'.');
            run = at;
        }
        let rest = body.get(at..).unwrap_or_default();
        let Some(n) = memchr::memchr3(b'\r', b'\n', 0, rest) else {
            line_start = false;
            break;
        };
        let end = at + n;
        match rest.get(n..).unwrap_or_default() {
            [b'\r', b'\n', ..] => {
                at = end + 2;
                line_start = true;
            }
            [0, ..] => {
                out.extend_from_slice(part(run, end));
                at = end + 1;
                run = at;
                line_start = line_start && n == 0;
            }
            _ => {
                out.extend_from_slice(part(run, end));
                out.extend_from_slice(b"\r\n");
                at = end + 1;
                run = at;
                line_start = true;
            }
        }
    }
    out.extend_from_slice(part(run, body.len()));
    if !line_start && out.len() > start {
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b".\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_in(pieces: &[&[u8]]) -> (DataStep, Vec<u8>) {
        let mut decoder = DataDecoder::default();
        let mut out = Vec::new();
        let mut step = DataStep::More;
        for piece in pieces {
            step = decoder.decode(piece, &mut out);
            if step != DataStep::More {
                break;
            }
        }
        (step, out)
    }

    #[test]
    fn decodes_alike_however_it_is_cut() {
        let wire = b"a: b\r\n\r\n..one\r\n.two\r\n...\r\nx\r\n.\r\nNOOP\r\n";
        let body = b"a: b\r\n\r\n.one\r\ntwo\r\n..\r\nx\r\n";
        for i in 0..wire.len() {
            for j in i..wire.len() {
                let pieces = [&wire[..i], &wire[i..j], &wire[j..]];
                let (step, out) = decode_in(&pieces);
                assert!(matches!(step, DataStep::End(_)), "{i} {j} {step:?}");
                assert_eq!(out, body, "{i} {j}");
            }
        }
        assert_eq!(decode_in(&[wire]).0, DataStep::End(wire.len() - 6));
    }

    #[test]
    fn an_empty_message_ends_at_once() {
        assert_eq!(decode_in(&[b".\r\n"]), (DataStep::End(3), vec![]));
    }

    #[test]
    fn every_other_end_of_data_is_refused() {
        for (wire, bad) in [
            (&b"x\n.\n"[..], DataError::BareLf),
            (b"x\n.\r\n", DataError::BareLf),
            (b"x\r\n.\n", DataError::BareLf),
            (b"x\r.\r", DataError::BareCr),
            (b"x\r.\n", DataError::BareCr),
            (b"x\r\n.\rM", DataError::BareCr),
            (b"x\r\r\n.\r\r\n", DataError::BareCr),
            (b"x\n..\n", DataError::BareLf),
            (b"x\r\n\0.\r\n", DataError::Nul),
            (b"\n.\r\n", DataError::BareLf),
            (b".\r\r\n", DataError::BareCr),
        ] {
            let singles: Vec<&[u8]> = wire.chunks(1).collect();
            assert_eq!(decode_in(&[wire]).0, DataStep::Bad(bad), "{wire:?}");
            assert_eq!(decode_in(&singles).0, DataStep::Bad(bad), "{wire:?} by the byte");
        }
    }

    #[test]
    fn what_comes_by_its_length_is_held_to_the_same_rules() {
        let pieces: [&[u8]; 7] = [b"a", b"\r\n", b"\r", b"\n", b"\0", b".", b"\r\n.b"];
        let mut all: Vec<Vec<u8>> = vec![Vec::new()];
        for _ in 0..4 {
            let longer = all.iter().flat_map(|m| pieces.iter().map(move |p| [m, *p].concat()));
            all = longer.collect();
            for message in &all {
                // What DATA takes of the same bytes, dots doubled and the end put behind.
                let mut wire = Vec::new();
                for line in message.split_inclusive(|b| *b == b'\n') {
                    wire.extend_from_slice(if line.starts_with(b".") { b"." } else { b"" });
                    wire.extend_from_slice(line);
                }
                let ended = message.is_empty() || message.ends_with(b"\r\n");
                wire.extend_from_slice(if ended { b".\r\n" } else { b"\r\n.\r\n" });
                let by_data = match decode_in(&[&wire]).0 {
                    DataStep::Bad(bad) => Err(bad),
                    _ => Ok(()),
                };
                assert_eq!(LineCheck::check_all(message), by_data, "{message:?}");
                for cut in 0..=message.len() {
                    let (head, tail) = message.split_at(cut);
                    let mut lines = LineCheck::default();
                    let found = lines.check(head).and_then(|()| lines.check(tail));
                    assert_eq!(found.and_then(|()| lines.end()), by_data, "{message:?} at {cut}");
                }
            }
        }
    }

    #[test]
    fn stuffing_can_be_undone_and_never_smuggles() {
        for body in [
            &b""[..],
            b"a",
            b".",
            b"..\r\n",
            b"a\r\n.\r\nMAIL FROM:<x@y>\r\n",
            b"a\n.\nb",
            b"a\r.\rb",
            b"\0.\r\n",
            b"a\r\n\0.\r\nb",
            b"\r\n.\0\r\n",
            b"a\r\r\n.\r\r\nb",
            b"\r",
            b"\n",
            b"a\0\0.",
        ] {
            let mut wire = Vec::new();
            dot_stuff(body, &mut wire);
            let (step, out) = decode_in(&[&wire]);
            assert_eq!(step, DataStep::End(wire.len()), "{body:?} -> {wire:?}");
            let text: Vec<u8> = body.iter().copied().filter(|b| !b"\r\n\0".contains(b)).collect();
            let got: Vec<u8> = out.iter().copied().filter(|b| !b"\r\n\0".contains(b)).collect();
            assert_eq!(got, text);
        }
    }

    #[test]
    fn what_needs_no_stuffing_is_what_stuffing_leaves_alone() {
        let pieces = ["", ".", "a", "\r\n", "\n", "\r", "\0", "a.b\r\n", ".\r\n", "\r\n.\r\n"];
        for n in 0..pieces.len().pow(3) {
            let pick = |k: u32| pieces[n / pieces.len().pow(k) % pieces.len()];
            let body = [pick(0), pick(1), pick(2)].concat();
            let mut out = Vec::new();
            dot_stuff(body.as_bytes(), &mut out);
            let same = out == [body.as_bytes(), b".\r\n"].concat();
            assert_eq!(needs_dot_stuffing(body.as_bytes()), !same, "{body:?}");
        }
    }
}
