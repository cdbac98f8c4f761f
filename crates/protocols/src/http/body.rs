//! Bodies: decoded data goes into the kept part, and into files.

use super::decompress::{Chain, Enough};
use super::event::Event;
use super::multipart::{Found, Multipart, parameter_of_disposition};
use super::settings::Settings;
use super::shared::Shared;
use super::transaction::{Body, Exchange, Upload};
use super::values::{ContentRange, Method, content_range};
use crate::files::{self, HashSettings, NAME_MAX, Opening, Pace};
use crate::transaction::Transaction;
use gauntlet_packet::Direction;

/// The most bytes of a body that wait for inspection.
const WINDOW_MAX: usize = 4 * 1024 * 1024;
/// A bomb has more decoded bytes than this for each byte on the wire.
const BOMB_RATIO: u64 = 2048;

/// A piece of a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// So many bytes are missing.
    Gap(u64),
}

/// Where the pieces of one body go.
pub(super) struct BodySink<'a> {
    pub settings: &'a Settings,
    pub hashes: HashSettings,
    pub direction: Direction,
    pub transaction: &'a mut Transaction<Exchange>,
    pub shared: &'a mut Shared,
}

impl BodySink<'_> {
    fn body(&mut self) -> &mut Body {
        let exchange = &mut self.transaction.data;
        match self.direction {
            Direction::ToServer => &mut exchange.request.body,
            Direction::ToClient => &mut exchange.response.body,
        }
    }

    /// Takes bytes of the wire, without chunks' lengths. `false`: the body cannot go on.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> bool {
        let body = self.body();
        body.message_len += bytes.len() as u64;
        if !body.compressed {
            body.entity_len += bytes.len() as u64;
            self.piece(Piece::Bytes(bytes));
            return true;
        }
        let Some(mut chain) = self.body().decoder.take() else { return false };
        chain.push(bytes, &mut |decoded| self.decoded(decoded));
        self.body().decoder = Some(chain);
        true
    }

    /// The body is over: decoders give what they have.
    pub(super) fn finish(&mut self) {
        let decoder: Option<Chain> = self.body().decoder.take();
        if let Some(mut chain) = decoder {
            chain.finish(&mut |decoded| self.decoded(decoded));
        }
    }

    /// Takes decoded bytes; ends decoding of bombs.
    fn decoded(&mut self, bytes: &[u8]) -> Result<(), Enough> {
        self.body().entity_len += bytes.len() as u64;
        self.piece(Piece::Bytes(bytes));
        let max = self.settings.bomb_bytes_max;
        let body = self.body();
        let allowed = body.message_len.saturating_mul(BOMB_RATIO);
        if body.entity_len <= max || body.entity_len <= allowed {
            return Ok(());
        }
        self.shared.log(Event::COMPRESSION_BOMB);
        self.shared.bombs = self.shared.bombs.saturating_add(1);
        if self.shared.bombs == self.settings.bombs_max {
            self.shared.log(Event::COMPRESSION_BOMB_LIMIT_REACHED);
        }
        Err(Enough)
    }

    /// Takes a decoded piece.
    pub(super) fn piece(&mut self, piece: Piece<'_>) {
        if matches!(piece, Piece::Bytes([])) {
            return;
        }
        self.transaction.state.touch(self.direction);
        let to_server = self.direction == Direction::ToServer;
        if to_server {
            self.choose_upload();
        }
        let settings = self.settings;
        let (limit, min, window) = if to_server {
            let min = settings.request_inspect_min;
            (settings.request_body_limit, min, settings.request_inspect_window)
        } else {
            let min = settings.response_inspect_min;
            (settings.response_body_limit, min, settings.response_inspect_window)
        };
        prune(self.body(), min, window);
        let stores = self.transaction.state.reads_on.get(self.direction.index());
        let limit = if stores == Some(&true) { settings.stored_body_limit } else { limit };
        let so_far = self.body().so_far;
        if limit == 0 || so_far < limit {
            let room = if limit == 0 { u64::MAX } else { limit - so_far };
            let piece = match piece {
                Piece::Bytes(bytes) => {
                    let room = usize::try_from(room).unwrap_or(usize::MAX);
                    let bytes = bytes.get(..room).unwrap_or(bytes);
                    let body = self.body();
                    if to_server {
                        // That of responses is looked at as a file.
                        body.window.append(bytes, WINDOW_MAX);
                    }
                    body.so_far += bytes.len() as u64;
                    Piece::Bytes(bytes)
                }
                Piece::Gap(len) => Piece::Gap(len.min(room)),
            };
            if to_server { self.upload(piece) } else { self.download(piece) }
        } else if self.body().file_open {
            self.close_file(true);
        }
        self.note_raw(min);
    }

    /// The raw stream is looked at together with the body.
    fn note_raw(&mut self, min: u64) {
        let place = self.direction.index();
        let body = self.body();
        let (begins, goes_on) = (body.inspected == 0 && body.so_far >= min, body.inspected > 0);
        let Shared { inspect_raw, raw_depth, since_last, .. } = &mut *self.shared;
        let (Some(inspect), Some(depth)) = (inspect_raw.get_mut(place), raw_depth.get_mut(place))
        else {
            return;
        };
        let since = since_last.get(place).copied().unwrap_or_default();
        if begins && since > 0 {
            *depth = Some(u32::try_from(since.min(min)).unwrap_or(u32::MAX));
            *inspect = true;
        } else if goes_on {
            *depth = Some(0);
        }
    }

    fn choose_upload(&mut self) {
        let request = &mut self.transaction.data.request;
        if std::mem::replace(&mut request.body.begun, true) {
            return;
        }
        request.upload = match request.method {
            Method::Post => {
                let kind = request.headers.value(b"content-type");
                match kind.and_then(Multipart::new) {
                    Some(multipart) => Upload::Multipart(Box::new(multipart)),
                    None => Upload::Plain,
                }
            }
            Method::Put => Upload::Plain,
            _ => Upload::None,
        };
    }

    fn upload(&mut self, piece: Piece<'_>) {
        match std::mem::take(&mut self.transaction.data.request.upload) {
            Upload::None => {}
            Upload::Plain => {
                if !self.body().file_open {
                    let name = self.path();
                    if let Some(name) = name
                        && self.open_file(&name, None)
                    {
                        self.body().file_open = true;
                        self.feed(piece);
                    }
                } else {
                    self.feed(piece);
                }
                self.transaction.data.request.upload = Upload::Plain;
            }
            Upload::Multipart(mut multipart) => {
                self.multipart(&mut multipart);
                self.transaction.data.request.upload = Upload::Multipart(multipart);
            }
        }
    }

    /// Lets the reader of parts go on from where it stopped.
    fn multipart(&mut self, multipart: &mut Multipart) {
        let parsed = self.body().parsed;
        let (bytes, start) = self.body().window.from(parsed);
        let bytes = bytes.to_vec();
        let mut place = 0;
        loop {
            let rest = bytes.get(place..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let step = multipart.step(rest);
            let taken = rest.get(..step.consumed).unwrap_or(rest);
            place += taken.len();
            if step.invalid_header {
                self.transaction.state.event(Event::MULTIPART_INVALID_HEADER.0);
            }
            if step.no_data {
                self.transaction.state.event(Event::MULTIPART_NO_FILEDATA.0);
            }
            match step.found {
                Found::More => break,
                Found::Open => {
                    let name = multipart.name.clone();
                    self.body().file_open = self.open_file(&name, None);
                }
                Found::Data if taken.is_empty() => break,
                Found::Data => {
                    if self.body().file_open {
                        self.feed(Piece::Bytes(taken));
                    }
                }
                Found::Close => {
                    if self.body().file_open {
                        let data = taken.strip_suffix(b"\n").unwrap_or(taken);
                        let cut = data.len() < taken.len();
                        let data =
                            if cut { data.strip_suffix(b"\r").unwrap_or(data) } else { data };
                        self.feed(Piece::Bytes(data));
                        self.close_file(false);
                    }
                    self.body().file_open = false;
                }
            }
        }
        self.body().parsed = start + place as u64;
    }

    fn download(&mut self, piece: Piece<'_>) {
        if std::mem::replace(&mut self.body().begun, true) {
            self.feed(piece);
            return;
        }
        let headers = &self.transaction.data.response.headers;
        let disposition = headers.value(b"content-disposition");
        let name = disposition.and_then(parameter_of_disposition).map(<[u8]>::to_vec);
        let range = headers.value(b"content-range").map(<[u8]>::to_vec);
        let Some(name) = name.or_else(|| self.path()) else { return };
        let range = range.and_then(|range| self.range(&range));
        if self.open_file(&name, range) {
            self.body().file_open = true;
            self.feed(piece);
        }
    }

    /// A range of a file, if it is a part of it.
    fn range(&mut self, value: &[u8]) -> Option<(u64, u64)> {
        let Some(ContentRange { start, end, size }) = content_range(value) else {
            self.transaction.state.event(Event::RANGE_INVALID.0);
            return None;
        };
        if end <= 0 || size <= 0 || (start == 0 && end == size - 1) {
            return None;
        }
        if start > end || end > size - 1 {
            self.transaction.state.event(Event::RANGE_INVALID.0);
            return None;
        }
        Some((u64::try_from(start).ok()?, u64::try_from(end).ok()?))
    }

    fn path(&self) -> Option<Vec<u8>> {
        self.transaction.data.request.parsed.as_ref()?.path.clone()
    }

    fn open_file(&mut self, name: &[u8], range: Option<(u64, u64)>) -> bool {
        if name.len() > NAME_MAX {
            self.transaction.state.event(Event::FILE_NAME_TOO_LONG.0);
        }
        let settings = self.settings;
        let (window, min) = match self.direction {
            Direction::ToServer => (settings.request_inspect_window, settings.request_inspect_min),
            Direction::ToClient => {
                (settings.response_inspect_window, settings.response_inspect_min)
            }
        };
        let track_id = self.shared.next_track_id;
        let pace = Pace::Windows { window, min };
        let opening = Opening { name, track_id, pace, hashes: self.hashes };
        let place = self.direction.index();
        let Some(list) = self.transaction.state.files.get_mut(place) else { return false };
        if !files::add(list, opening) {
            return false;
        }
        self.shared.next_track_id = track_id.wrapping_add(1);
        if let Some(file) = list.last_mut() {
            file.range = range;
        }
        true
    }

    fn feed(&mut self, piece: Piece<'_>) {
        let list = self.transaction.state.files.get_mut(self.direction.index());
        let Some(file) = list.and_then(|list| list.last_mut()) else { return };
        match piece {
            Piece::Bytes(bytes) => file.append(bytes),
            Piece::Gap(len) => file.gap(len),
        }
    }

    /// Closes the open file.
    pub(super) fn close_file(&mut self, truncated: bool) {
        let list = self.transaction.state.files.get_mut(self.direction.index());
        if let Some(file) = list.and_then(|list| list.last_mut()) {
            file.close(truncated);
        }
        self.body().file_open = false;
    }
}

/// Forgets what was looked at, or will not be.
fn prune(body: &mut Body, min: u64, window: u64) {
    if body.so_far == 0 {
        return;
    }
    let max = min.max(window);
    if body.so_far - body.inspected.min(body.so_far) > max * 3 {
        body.inspected = body.so_far - max;
    } else if body.inspected < max {
        return;
    }
    let edge = body.inspected;
    if edge > min && edge > window {
        body.window.slide(edge - window);
    }
}
