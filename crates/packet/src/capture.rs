//! Reads capture files: pcap and pcapng, also compressed by gzip or zstd, from any reader and in
//! bounded memory: one packet at a time.
//!
//! A file that ends within a record, or whose next record lies about its length, is read up to
//! there; [`Capture::damage`] says what was wrong. A pcap of another link type than those of
//! [`crate::Link`] is refused; of a pcapng, whose interfaces may differ, such frames are handed on
//! all the same.

mod input;
mod pcap;
mod pcapng;

use std::io::{self, Read};
use std::sync::Arc;

use crate::address::Time;
use crate::link::Link;
use input::Input;

/// The longest packet that a file may hold, in bytes (libpcap's `MAXIMUM_SNAPLEN`).
pub const FRAME_BYTES_MAX: u32 = 262_144;

/// A captured frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its number in the file, from 1; 0 of one that comes from no file.
    pub number: u64,
    /// When it was captured.
    pub time: Time,
    /// What it begins with.
    pub link: Link,
    /// What was captured of it.
    pub bytes: Arc<[u8]>,
    /// How long it was on the wire, in bytes.
    pub original_len: u32,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It begins with neither magic number.
    #[error("neither a pcap nor a pcapng file ({})", beginning(.0))]
    Format(Vec<u8>),
    /// Its header is too short, or of a version that is not known.
    #[error("the header of the capture file is damaged: {0}")]
    Header(&'static str),
    /// It is a pcap of a version that is not known: major and minor number.
    #[error("a pcap file of version {0}.{1}; versions 2.x are read")]
    Version(u16, u16),
    /// Its frames begin with what is not decoded.
    #[error("its frames are of {link}, which is not decoded; what is: {}", Link::DECODED)]
    Link {
        /// What they begin with.
        link: Link,
    },
    /// Reading failed.
    #[error("the capture file cannot be read")]
    Read(#[from] io::Error),
}

/// What a file begins with, as text or else in hexadecimal digits.
fn beginning(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        _ if bytes.is_empty() => "it is empty".to_owned(),
        Ok(text) if !text.contains(char::is_control) => format!("it begins with {text:?}"),
        _ => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with 0x{digits}")
        }
    }
}

/// Where and why reading stopped before the end of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// After how many frames.
    pub frames: u64,
    /// What was found.
    pub reason: &'static str,
}

enum Format {
    Pcap(pcap::Header),
    PcapNg(pcapng::Section),
}

/// One record of a file, or why there is none.
enum Record {
    Frame { time: Time, link: Link, bytes: Arc<[u8]>, original_len: u32 },
    End,
    Damage(&'static str),
}

/// A capture file that is being read.
pub struct Capture {
    input: Input,
    format: Format,
    frames: u64,
    damage: Option<Damage>,
    ended: bool,
}

impl Capture {
    /// Reads the file's header.
    ///
    /// # Errors
    ///
    /// If it is no capture file.
    pub fn open(reader: impl Read + Send + 'static) -> Result<Self, Error> {
        let mut input = Input::open(reader)?;
        let mut magic = [0; 4];
        let read = input.fill(&mut magic)?;
        let format = match magic {
            _ if read < magic.len() => {
                return Err(Error::Format(magic.get(..read).unwrap_or_default().to_vec()));
            }
            pcapng::SECTION => Format::PcapNg(pcapng::Section::open(&mut input)?),
            _ => Format::Pcap(
                pcap::Header::open(magic, &mut input)?
                    .ok_or_else(|| Error::Format(magic.to_vec()))?,
            ),
        };
        Ok(Self { input, format, frames: 0, damage: None, ended: false })
    }

    /// The next frame; `None` at the end, or where the file is damaged.
    ///
    /// # Errors
    ///
    /// If reading fails otherwise than by a premature end.
    #[expect(clippy::should_implement_trait, reason = "an iterator's items would hide the errors")]
    pub fn next(&mut self) -> Result<Option<Frame>, Error> {
        if self.ended {
            return Ok(None);
        }
        let record = match &mut self.format {
            Format::Pcap(header) => header.record(&mut self.input),
            Format::PcapNg(section) => section.record(&mut self.input),
        };
        match record {
            Ok(Record::Frame { time, link, bytes, original_len }) => {
                self.frames += 1;
                Ok(Some(Frame { number: self.frames, time, link, bytes, original_len }))
            }
            Ok(Record::End) => {
                self.ended = true;
                Ok(None)
            }
            Ok(Record::Damage(reason)) => {
                self.ended = true;
                self.damage = Some(Damage { frames: self.frames, reason });
                Ok(None)
            }
            // A compressed file that ends early or fails its check, too, is kept as far as it goes.
            Err(_) if self.input.is_compressed() => {
                self.ended = true;
                let reason = "the compressed file is damaged";
                self.damage = Some(Damage { frames: self.frames, reason });
                Ok(None)
            }
            Err(error) => {
                self.ended = true;
                Err(error.into())
            }
        }
    }

    /// What was wrong with the file where reading stopped, if anything.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }
}
