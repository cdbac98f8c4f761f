//! JSON as file(1) takes it: more than RFC 8259 allows, and arrays and objects alone at the top.

/// Deeper files are texts.
const DEPTH_MAX: usize = 250;

/// A file of one value, or of several of the same kind one after the other; none if it is no JSON.
pub(super) fn describe(bytes: &[u8]) -> Option<&'static str> {
    let mut reader = Reader { rest: bytes };
    let mut first = None;
    let mut count = 0;
    while let Some(kind) = reader.next_word().filter(|byte| matches!(byte, b'{' | b'[')) {
        if first.is_some_and(|first| first != kind) {
            return None;
        }
        reader.value(0)?;
        first = Some(kind);
        count += 1;
    }
    match count {
        _ if !reader.rest.is_empty() => None,
        0 => None,
        1 => Some("JSON text data"),
        _ => Some("New Line Delimited JSON text data"),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    /// The first byte behind white space; it stays.
    fn next_word(&mut self) -> Option<u8> {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    fn take(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.next_word()? {
            b'{' => self.members(depth, b'}'),
            b'[' => self.members(depth, b']'),
            b'"' => self.string(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number(),
        }
    }

    /// Of an object or an array; a comma may come before the end.
    fn members(&mut self, depth: usize, end: u8) -> Option<()> {
        self.take()?;
        while self.next_word()? != end {
            if end == b'}' {
                if self.next_word()? != b'"' {
                    return None;
                }
                self.string()?;
                self.next_word()?;
                self.word(b":")?;
            }
            self.value(depth + 1)?;
            match self.next_word()? {
                b',' => self.take()?,
                other if other == end => other,
                _ => return None,
            };
        }
        self.take().map(|_| ())
    }

    fn string(&mut self) -> Option<()> {
        self.take()?;
        loop {
            match self.take()? {
                b'"' => return Some(()),
                b'\\' => match self.take()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        for _ in 0..4 {
                            self.take().filter(u8::is_ascii_hexdigit)?;
                        }
                    }
                    _ => return None,
                },
                0 => return None,
                _ => {}
            }
        }
    }

    fn digits(&mut self) -> bool {
        let before = self.rest.len();
        while let [b'0'..=b'9', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.len() < before
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.word(b"-");
        let mut has_digits = self.digits();
        if self.word(b".").is_some() {
            has_digits |= self.digits();
        }
        if !has_digits {
            return None;
        }
        if let [b'e' | b'E', rest @ ..] = self.rest {
            self.rest = rest;
            if let [b'+' | b'-', rest @ ..] = self.rest {
                self.rest = rest;
            }
            return self.digits().then_some(());
        }
        Some(())
    }
}
