//! PowerPoint's binary format (MS-PPT): texts, addresses, and objects that are compressed in its
//! stream, a VBA project among them.

use std::io::{self, Read};

use flate2::bufread::ZlibDecoder;

use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::host::Child;
use crate::object::UrlSource;
use crate::text;
use crate::unpack::Unpacker;

/// Records that are read.
const RECORDS_MAX: usize = 1_000_000;
/// Version of a record that holds others.
const CONTAINER: u16 = 0xf;
// Types of records (section 2.13.24).
const TEXT_WIDE: u16 = 0x0fa0;
const TEXT_NARROW: u16 = 0x0fa8;
const STRING: u16 = 0x0fba;
const OLE_OBJECT: u16 = 0x1011;

/// Whether the stream "Current User" says that the document is encrypted (section 2.3.2).
pub(super) fn is_encrypted(current_user: &[u8]) -> bool {
    const ENCRYPTED: u32 = 0xf3d1_c4df;
    u32_at(current_user, 12) == Some(ENCRYPTED)
}

/// Reads the stream "PowerPoint Document". Containers are entered, so that every record is seen.
pub(super) fn read(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let (mut at, mut shown) = (0, String::new());
    for _ in 0..RECORDS_MAX {
        let (Some(version), Some(kind), Some(length)) =
            (u16_at(bytes, at), u16_at(bytes, at + 2), u32_at(bytes, at + 4))
        else {
            break;
        };
        at += 8;
        if version & 0xf == CONTAINER {
            continue;
        }
        let body = slice(bytes, at, length as usize);
        at += body.len();
        match kind {
            TEXT_WIDE => line(&text::utf16_le(body), &mut shown),
            TEXT_NARROW => {
                line(&body.iter().map(|&b| char::from(b)).collect::<String>(), &mut shown);
            }
            // The target of a link, or a name.
            STRING => {
                let text = text::utf16_le(body);
                if text.contains("://") || text.starts_with("mailto:") {
                    unpacker.url(&text, UrlSource::Link);
                }
            }
            OLE_OBJECT => object(version >> 4, body, at, unpacker),
            _ => {}
        }
        if unpacker.is_over() {
            break;
        }
    }
    unpacker.text(&shown);
}

fn line(text: &str, shown: &mut String) {
    shown.extend(text.chars().map(|c| if c.is_control() { '\n' } else { c }));
    shown.push('\n');
}

/// An embedded object (section 2.10.34), compressed if its instance is 1.
fn object(instance: u16, body: &[u8], at: usize, unpacker: &mut Unpacker<'_>) {
    let name = format!("object-at-{at}.ole");
    if instance == 1 {
        let (size, packed) = (u32_at(body, 0).unwrap_or(0), body.get(4..).unwrap_or_default());
        let make = || Unended { reader: ZlibDecoder::new(packed), left: u64::from(size) };
        let plain = unpacker.read_made(make, packed.len() as u64, &name);
        unpacker.child(Child::named(name), &plain);
    } else {
        unpacker.child(Child::named(name), body);
    }
}

/// A stream that PowerPoint has not ended: one that stops behind so many bytes is whole.
struct Unended<R> {
    reader: R,
    left: u64,
}

impl<R: Read> Read for Unended<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && self.left == 0 => Ok(0),
            read => {
                self.left = self.left.saturating_sub(*read.as_ref().unwrap_or(&0) as u64);
                read
            }
        }
    }
}
