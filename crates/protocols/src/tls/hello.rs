//! ClientHello and ServerHello (RFC 5246 section 7.4.1, RFC 8446 section 4.1).
//!
//! A hello that is cut or lies about its lengths is read as far as it goes: what came before
//! the defect is kept, the rest is not known.

use super::event::Event;
use super::side::Side;
use super::version;
use crate::reader::Reader;

/// Longest name of a host that is taken from SNI, in bytes.
const SNI_BYTES_MAX: usize = 255;

/// Names of application protocols that are kept of one hello.
const ALPN_MAX: usize = 1024;

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Client,
    Server,
}

/// What a hello says beyond its side, for the session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Notes {
    /// Read to its end.
    pub complete: bool,
    /// The client offers versions by extension.
    pub offers_versions: bool,
    /// The server chose a version without readable certificates.
    pub hides_certificates: bool,
    /// The client sends data before the handshake is done.
    pub early_data: bool,
    /// The client has a session ticket.
    pub has_ticket: bool,
}

/// What a reader of hellos needs.
pub(super) struct HelloReader<'s> {
    pub kind: Kind,
    pub side: &'s mut Side,
    pub events: &'s mut Vec<Event>,
    /// The client offered versions by extension before.
    pub versions_were_offered: bool,
    /// A server hello before this one hides its certificates.
    pub certificates_hidden: bool,
    pub ja3: bool,
}

impl HelloReader<'_> {
    /// Reads a hello: all bytes of the handshake message.
    pub(super) fn read(mut self, message: &[u8]) -> Notes {
        let mut notes = Notes { hides_certificates: self.certificates_hidden, ..Notes::default() };
        let mut reader = Reader::new(message);
        if self.fields(&mut reader, &mut notes).is_none() {
            self.events.push(Event::HandshakeInvalidLength);
            return notes;
        }
        match self.extensions(&mut reader, &mut notes) {
            Ok(()) => {
                notes.complete = true;
                if self.ja3 {
                    self.side.fingerprint.finish();
                }
            }
            Err(Defect::Length) => self.events.push(Event::HandshakeInvalidLength),
        }
        notes
    }

    /// Everything before the extensions.
    fn fields(&mut self, reader: &mut Reader<'_>, notes: &mut Notes) -> Option<()> {
        self.version(reader.be16()?, notes);
        self.side.random = Some(reader.array()?);
        let has_legacy_fields = self.kind == Kind::Client || !notes.hides_certificates;
        if has_legacy_fields {
            let id = reader.prefixed8()?;
            if !id.is_empty() && self.side.session_id.is_none() {
                self.side.session_id = Some(id.to_vec());
            }
        }
        let ciphers = match self.kind {
            Kind::Client => {
                let length = usize::from(reader.be16()?);
                if length % 2 != 0 {
                    return None;
                }
                reader.take(length)?
            }
            Kind::Server => reader.take(2)?,
        };
        let mut ciphers = Reader::new(ciphers);
        let mut kept = Vec::new();
        while let Some(cipher) = ciphers.be16() {
            if !version::is_grease(cipher) {
                kept.push(cipher);
            }
        }
        if self.ja3 && !self.side.fingerprint.is_finished() {
            self.side.fingerprint.append(&kept);
        }
        self.side.hello.ciphers.extend(kept);
        if has_legacy_fields {
            match self.kind {
                Kind::Client => {
                    reader.prefixed8()?;
                }
                // It is said to be there even if the message ends here.
                Kind::Server => {
                    reader.u8()?;
                }
            }
        }
        Some(())
    }

    fn version(&mut self, number: u16, notes: &mut Notes) {
        self.side.hello.note_version(number);
        // Drafts of TLS 1.3 up to the 21st named themselves here.
        let draft = number >> 8 == 0x7f;
        if self.kind == Kind::Server && (number == version::TLS13 || draft) {
            notes.hides_certificates = true;
        }
        let early = (0x7f01..0x7f10).contains(&number) || number == version::TLS13;
        self.side.version = if early { version::TLS13_EARLY_DRAFT } else { number };
        if self.ja3 {
            self.side.fingerprint.begin(number);
        }
    }

    /// Extensions (RFC 8446 section 4.2). One that cannot be read ends them without making the
    /// hello incomplete.
    fn extensions(&mut self, reader: &mut Reader<'_>, notes: &mut Notes) -> Result<(), Defect> {
        let mut seen = Extensions::default();
        let read = self.extension_list(reader, notes, &mut seen);
        if read.is_ok() && self.ja3 && !self.side.fingerprint.is_finished() {
            self.side.fingerprint.append(&seen.kinds);
            if self.kind == Kind::Client {
                self.side.fingerprint.append(&seen.groups);
                self.side.fingerprint.append(&seen.formats);
            }
        }
        read
    }

    fn extension_list(
        &mut self,
        reader: &mut Reader<'_>,
        notes: &mut Notes,
        seen: &mut Extensions,
    ) -> Result<(), Defect> {
        let Some(total) = reader.be16().map(usize::from) else { return Ok(()) };
        if total > reader.left() {
            return Err(Defect::Length);
        }
        let mut processed = 0;
        while processed < total {
            let kind = reader.be16().ok_or(Defect::Length)?;
            let length = usize::from(reader.be16().ok_or(Defect::Length)?);
            let body = reader.rest().get(..length).ok_or(Defect::Length)?;
            let Some(consumed) = self.extension(kind, body, notes, seen) else { return Ok(()) };
            reader.skip(consumed).ok_or(Defect::Length)?;
            if !version::is_grease(kind) {
                seen.kinds.push(kind);
                self.side.hello.extensions.push(kind);
            }
            processed += length + 4;
        }
        Ok(())
    }

    /// Reads an extension; says how many of its bytes are consumed, or `None` if it is senseless
    /// and nothing behind it is read.
    fn extension(
        &mut self,
        kind: u16,
        body: &[u8],
        notes: &mut Notes,
        seen: &mut Extensions,
    ) -> Option<usize> {
        let mut reader = Reader::new(body);
        if body.is_empty() && matches!(kind, 0 | 10 | 11 | 13 | 16 | 43) {
            return Some(0);
        }
        let readable = match kind {
            0 => return self.server_name(&mut reader),
            10 => reader.prefixed16().map(|list| seen.add_groups(list)),
            11 => reader.prefixed8().map(|list| seen.add_formats(list)),
            13 => self.signature_algorithms(&mut reader),
            16 => {
                self.application_protocols(&mut reader)?;
                return Some(body.len());
            }
            43 => self.supported_versions(&mut reader, notes),
            35 | 42 => {
                if self.kind == Kind::Client {
                    notes.has_ticket |= kind == 35;
                    notes.early_data |= kind == 42;
                }
                return Some(body.len());
            }
            _ => return Some(body.len()),
        };
        if readable.is_none() {
            self.events.push(Event::HandshakeInvalidLength);
        }
        readable.map(|()| reader.position())
    }

    /// Server name indication (RFC 6066 section 3).
    fn server_name(&mut self, reader: &mut Reader<'_>) -> Option<usize> {
        let Some((_, kind)) = reader.be16().zip(reader.u8()) else {
            self.events.push(Event::HandshakeInvalidLength);
            return None;
        };
        if kind != 0 {
            self.events.push(Event::InvalidSniType);
            return None;
        }
        let Some(length) = reader.be16().map(usize::from) else {
            self.events.push(Event::HandshakeInvalidLength);
            return None;
        };
        let name = reader.take(length).filter(|name| (1..=SNI_BYTES_MAX).contains(&name.len()));
        let Some(name) = name else {
            self.events.push(Event::InvalidSniLength);
            return None;
        };
        if self.side.sni.is_some() {
            self.events.push(Event::MultipleSniExtensions);
        } else {
            self.side.sni = Some(name.to_vec());
        }
        Some(reader.position())
    }

    fn signature_algorithms(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let length = usize::from(reader.be16()?);
        if length % 2 != 0 {
            return None;
        }
        let mut list = Reader::new(reader.take(length)?);
        if self.kind == Kind::Client {
            while let Some(algorithm) = list.be16() {
                if !version::is_grease(algorithm) {
                    self.side.hello.signature_algorithms.push(algorithm);
                }
            }
        }
        Some(())
    }

    /// Application-layer protocol negotiation (RFC 7301).
    fn application_protocols(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let length = reader.be16().map(usize::from).filter(|&length| length <= reader.left());
        let Some(length) = length else {
            self.events.push(Event::HandshakeInvalidLength);
            return None;
        };
        let end = reader.position() + length;
        while reader.position() < end {
            let name_length = usize::from(reader.u8().unwrap_or_default());
            let Some(name) = reader.take(name_length) else {
                self.events.push(Event::HandshakeInvalidLength);
                return None;
            };
            if reader.position() > end {
                break;
            }
            if !name.is_empty() && self.side.hello.alpn.len() < ALPN_MAX {
                self.side.hello.alpn.push(name.to_vec());
            }
        }
        Some(())
    }

    /// Supported versions (RFC 8446 section 4.2.1).
    fn supported_versions(&mut self, reader: &mut Reader<'_>, notes: &mut Notes) -> Option<()> {
        if self.kind == Kind::Server {
            let chosen = reader.be16()?;
            if self.versions_were_offered && chosen > version::TLS12 {
                notes.hides_certificates = true;
            }
            self.side.version = chosen;
            return Some(());
        }
        let list = reader.prefixed8().filter(|list| list.len() >= 2)?;
        let mut list = Reader::new(list);
        while let Some(offered) = list.be16() {
            if version::is_valid(offered) {
                self.side.version = offered;
                self.side.hello.note_version(offered);
                break;
            }
        }
        notes.offers_versions = true;
        Some(())
    }
}

/// A length that leads out of the hello.
enum Defect {
    Length,
}

/// What JA3 takes of extensions.
#[derive(Default)]
struct Extensions {
    kinds: Vec<u16>,
    groups: Vec<u16>,
    formats: Vec<u16>,
}

impl Extensions {
    fn add_groups(&mut self, list: &[u8]) {
        let mut list = Reader::new(list);
        while let Some(group) = list.be16() {
            if !version::is_grease(group) {
                self.groups.push(group);
            }
        }
    }

    fn add_formats(&mut self, list: &[u8]) {
        self.formats.extend(list.iter().map(|&format| u16::from(format)));
    }
}
