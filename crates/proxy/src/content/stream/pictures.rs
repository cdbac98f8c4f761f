//! Pictures between boundaries, as cameras send them.

use gauntlet_sniff::{FileKind, sniff};
use memchr::memmem;

use super::Look;

/// Longest boundary (RFC 2046 section 5.1.1), with what cameras put around it.
const BOUNDARY_BYTES_MAX: usize = 80;
/// Bytes of a part's header.
const HEADER_BYTES_MAX: usize = 4096;
/// Bytes of a part by which its kind is told.
const BEGIN_BYTES: usize = 16;

/// Follows the parts: each is a picture by its header and by its bytes. Others would be pages and
/// files that nobody looks at.
#[derive(Debug)]
pub(crate) struct Pictures {
    /// With its two dashes.
    boundary: Vec<u8>,
    at: At,
    /// Bytes that are not yet decided about.
    rest: Vec<u8>,
    is_one: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first boundary, where nothing but line ends may stand.
    Start,
    Header,
    Begin,
    Body,
    /// Behind the last one.
    End,
    Other,
}

impl Pictures {
    /// None if it can be no boundary.
    pub(super) fn new(boundary: &str) -> Option<Self> {
        let name = boundary.trim_start_matches("--");
        if name.is_empty() || name.len() > BOUNDARY_BYTES_MAX {
            return None;
        }
        let boundary = [b"--", name.as_bytes()].concat();
        Some(Pictures { boundary, at: At::Start, rest: Vec::new(), is_one: false })
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Look {
        self.rest.extend_from_slice(bytes);
        while self.step() {}
        match (self.at, self.is_one) {
            (At::Other, _) => {
                self.rest = Vec::new();
                Look::Other
            }
            (_, true) => Look::Stream,
            (_, false) => Look::Undecided,
        }
    }

    /// Whether it went on.
    fn step(&mut self) -> bool {
        let before = self.at;
        match self.at {
            At::Start => self.start(),
            At::Header => self.header(),
            At::Begin => self.begin(),
            At::Body => self.body(),
            At::End => {
                let is_blank = self.rest.iter().all(u8::is_ascii_whitespace);
                self.rest.clear();
                self.at = if is_blank { At::End } else { At::Other };
            }
            At::Other => {}
        }
        before != self.at
    }

    fn start(&mut self) {
        let blank = self.rest.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        self.rest.drain(..blank);
        let count = self.rest.len().min(self.boundary.len());
        if self.boundary.get(..count) != self.rest.get(..count) {
            self.at = At::Other;
        } else if count == self.boundary.len() {
            self.rest.drain(..count);
            self.at = At::Header;
        }
    }

    /// What follows a boundary: the last one's dashes, or a part's header.
    fn header(&mut self) {
        if self.rest.starts_with(b"--") {
            self.rest.drain(..2);
            self.at = At::End;
            return;
        }
        let ends = [b"\n\r\n".as_slice(), b"\n\n"];
        let found = ends.iter().filter_map(|end| Some(memmem::find(&self.rest, end)? + end.len()));
        let Some(end) = found.min() else {
            if self.rest.len() > HEADER_BYTES_MAX {
                self.at = At::Other;
            }
            return;
        };
        let header: Vec<u8> = self.rest.drain(..end).collect();
        let header = String::from_utf8_lossy(&header).to_ascii_lowercase();
        let media_type = header.lines().find_map(|line| line.strip_prefix("content-type:"));
        let is_picture = media_type.is_some_and(|value| value.trim().starts_with("image/"));
        self.at = if is_picture { At::Begin } else { At::Other };
    }

    fn begin(&mut self) {
        let Some(begin) = self.rest.get(..BEGIN_BYTES) else { return };
        if sniff(begin) == FileKind::Image {
            (self.at, self.is_one) = (At::Body, true);
        } else {
            self.at = At::Other;
        }
    }

    /// Up to the next boundary; what may be the beginning of one is kept.
    fn body(&mut self) {
        match memmem::find(&self.rest, &self.boundary) {
            Some(at) => {
                self.rest.drain(..at + self.boundary.len());
                self.at = At::Header;
            }
            None => {
                let kept = self.rest.len().min(self.boundary.len() - 1);
                self.rest.drain(..self.rest.len() - kept);
            }
        }
    }
}
