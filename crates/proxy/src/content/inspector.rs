//! The body of one response while it passes.
//!
//! ```text
//! bytes ─▶ held ──────────────────────────────▶ client, as they came
//!            └▶ codings undone ─▶ first bytes: what is it?
//!                                   ├▶ stream: passes, as long as its bytes are those of one
//!                                   ├▶ page: charset, phrases ─▶ verdict at its end
//!                                   ├▶ download: collected ─▶ scanner ─▶ verdict
//!                                   └▶ neither: passes from now on
//! ```
//!
//! A page is held back whole, so that a block is a page that says why. Of a download the client
//! gets some bytes now and then (`trickle`), but never the last ones before the verdict. What
//! cannot be judged follows its setting, and the record says so.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use gauntlet_phrases::{Form, PhraseSet};
use gauntlet_sniff::FileKind;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::decode::{BOMB_BYTES_MIN, DecodeError, Decoder};
use super::evidence;
use super::group::group;
use super::kind::{Class, Declared, kind_of};
use super::scan::{Download, ScanVerdict, Share};
use super::shadow::{self, PageSample};
use super::shared::Shared;
use super::stream::{Look, Watch};
use super::text::PageText;
use crate::judge::{BlockReason, Inspect, Step};
use crate::settings::content::{Action, Fail};

/// Bytes by which a kind is told; fewer if the body ends before.
const SNIFF_BYTES: usize = 1024;
/// Bytes that are decoded before other connections have their turn.
const TURN_BYTES: usize = 16 << 10;

/// Judges a response's body.
pub struct ContentInspector {
    shared: Arc<Shared>,
    set: Option<Arc<PhraseSet>>,
    declared: Declared,
    url: String,
    decoder: Option<Decoder>,
    stage: Stage,
    /// Bytes as they came, and how many of them the client has.
    held: Vec<u8>,
    /// All of them, when a scanner has them, too.
    shared_held: Bytes,
    sent: usize,
    share: Share,
    received: u64,
    begun: Instant,
    last_trickle: Option<Instant>,
    spent: Duration,
    notes: Vec<String>,
    is_waiting: bool,
    /// Says whether it is a stream; none if it is none.
    watch: Option<Watch>,
    part: Option<UnjudgedPart>,
    /// The page is one on which other phrases are tried.
    is_sample: bool,
    sample: Option<PageSample>,
}

enum Stage {
    /// The first bytes, with codings undone.
    First(Vec<u8>),
    Judging {
        kind: FileKind,
        text: Option<Box<PageText>>,
        file: Option<Collected>,
    },
    Scanning(JoinHandle<ScanVerdict>, Instant),
    /// Nothing is held back, and all of it is looked at.
    Streaming,
    Passing,
}

/// The beginning of a file, of which the type alone is looked at.
struct UnjudgedPart {
    note: &'static str,
    /// Its bytes have to be those of sound or pictures, as far as they say.
    media_only: bool,
}

/// What a scanner is to get.
enum Collected {
    /// The bytes that are held back: they have no coding.
    AsHeld,
    /// The bytes without their coding.
    Decoded(Vec<u8>),
}

/// Why a body goes no further, or passes unjudged.
enum Stop {
    Block(BlockReason),
    TooLarge(&'static str),
    Unreadable(String),
    /// Nobody can judge it now.
    Failed(&'static str),
}

impl ContentInspector {
    pub(super) fn new(
        shared: &Arc<Shared>,
        set: Option<Arc<PhraseSet>>,
        declared: Declared,
        url: &str,
    ) -> Self {
        ContentInspector {
            share: Share::new(&shared.held),
            shared: Arc::clone(shared),
            set,
            watch: declared.stream(),
            part: None,
            declared,
            url: url.to_owned(),
            decoder: None,
            stage: Stage::First(Vec::new()),
            held: Vec::new(),
            shared_held: Bytes::new(),
            sent: 0,
            received: 0,
            begun: Instant::now(),
            last_trickle: None,
            spent: Duration::ZERO,
            notes: Vec::new(),
            is_waiting: false,
            is_sample: false,
            sample: None,
        }
    }

    /// Hands the text of a page on, for phrases that are tried.
    pub(super) fn keep_sample(&mut self) {
        self.is_sample = true;
    }

    /// Passes what is a part of a file, if its type may pass.
    pub(super) fn pass_part(&mut self, note: &'static str, media_only: bool) {
        (self.watch, self.part) = (None, Some(UnjudgedPart { note, media_only }));
    }

    /// Passes everything, with a note why.
    pub(super) fn passing(shared: &Arc<Shared>, declared: Declared, note: &str) -> Self {
        let mut inspector = ContentInspector::new(shared, None, declared, "");
        inspector.stage = Stage::Passing;
        inspector.notes.push(note.to_owned());
        inspector
    }

    async fn take(&mut self, data: Bytes) -> Step {
        self.received = self.received.saturating_add(data.len() as u64);
        let size_max = self.shared.settings.size_max;
        if size_max > 0 && self.received > size_max {
            return Step::Block(evidence::too_large_at_all(size_max));
        }
        if matches!(self.stage, Stage::Passing) {
            return Step::Pass(data);
        }
        let is_streaming = matches!(self.stage, Stage::Streaming);
        if is_streaming {
            // It may last for days.
            self.spent = Duration::ZERO;
        }
        let held_max = self.shared.settings.all_held_bytes_max;
        let is_room = is_streaming || self.share.take(data.len() as u64, held_max);
        self.held.extend_from_slice(&data);
        if !is_room {
            return self.stopped(Stop::Failed("all_held_bytes_max is reached"));
        }
        for turn in data.chunks(TURN_BYTES) {
            let begun = Instant::now();
            let judged = self.judge(turn);
            self.spent += begun.elapsed();
            if let Err(stop) = judged {
                return self.stopped(stop);
            }
            if data.len() > TURN_BYTES {
                tokio::task::yield_now().await;
            }
        }
        match &self.stage {
            Stage::Passing | Stage::Streaming => Step::Pass(self.all_held()),
            Stage::Judging { text: None, file: Some(_), .. } => self.trickle(),
            _ => Step::Hold,
        }
    }

    /// Decodes bytes and hands them on.
    fn judge(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if self.spent > Duration::from_millis(self.shared.settings.judge_milliseconds_max) {
            return Err(Stop::TooLarge("judge_milliseconds_max"));
        }
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => {
                let settings = &self.shared.settings;
                // Before it is too large to be judged, which may let it pass.
                let bomb_bytes_min = BOMB_BYTES_MIN.min(settings.page_bytes_max);
                let (codings, ratio_max) = (&self.declared.codings, settings.ratio_max);
                let decoder = Decoder::new(codings, ratio_max, bomb_bytes_min);
                decoder.map_err(|error| stop_of(&error))?
            }
        };
        let mut stopped = Ok(());
        let fed = decoder.feed(bytes, &mut |piece| {
            stopped = self.decoded(piece);
            stopped.is_ok() && !matches!(self.stage, Stage::Passing)
        });
        self.decoder = Some(decoder);
        stopped?;
        fed.map(drop).map_err(|error| stop_of(&error))
    }

    fn decoded(&mut self, piece: &[u8]) -> Result<(), Stop> {
        let look = self.watch.as_mut().map_or(Look::Other, |watch| watch.feed(piece));
        if let Stage::First(first) = &mut self.stage {
            first.extend_from_slice(piece);
            return match look {
                Look::Stream => self.decide(),
                _ if first.len() >= SNIFF_BYTES => self.decide(),
                Look::Undecided | Look::Other => Ok(()),
            };
        }
        if matches!(self.stage, Stage::Streaming) && look == Look::Other {
            return Err(Stop::Block(evidence::no_stream()));
        }
        self.add_to_sample(piece);
        let settings = &self.shared.settings;
        let Stage::Judging { text, file, .. } = &mut self.stage else { return Ok(()) };
        if let Some(file) = file {
            let bytes = match &*file {
                Collected::AsHeld => self.held.len(),
                Collected::Decoded(bytes) => bytes.len() + piece.len(),
            };
            if bytes as u64 > settings.scan_bytes_max {
                return Err(Stop::TooLarge("scan_bytes_max"));
            }
            if let Collected::Decoded(bytes) = file {
                if !self.share.take(piece.len() as u64, settings.all_held_bytes_max) {
                    return Err(Stop::Failed("all_held_bytes_max is reached"));
                }
                bytes.extend_from_slice(piece);
            }
        }
        if let Some(text) = text {
            text.push(piece);
            if text.bytes() > settings.page_bytes_max {
                return self.text_is_too_large();
            }
        }
        Ok(())
    }

    /// A page that is too large is no sample; if nothing else is looked for in it, it passes.
    fn add_to_sample(&mut self, piece: &[u8]) {
        let Some(sample) = &mut self.sample else { return };
        sample.bytes.extend_from_slice(piece);
        if sample.bytes.len() <= shadow::BYTES_MAX {
            return;
        }
        self.sample = None;
        if matches!(&self.stage, Stage::Judging { text: None, file: None, .. }) {
            self.stage = Stage::Passing;
        }
    }

    /// What is scanned, too, goes on without its text.
    fn text_is_too_large(&mut self) -> Result<(), Stop> {
        let is_scanned = matches!(&self.stage, Stage::Judging { file: Some(_), .. });
        if !is_scanned || self.shared.settings.on_too_large == Action::Block {
            return Err(Stop::TooLarge("page_bytes_max"));
        }
        if let Some(reason) = self.judge_what_there_is() {
            return Err(Stop::Block(reason));
        }
        self.notes.push("text not judged whole: page_bytes_max".to_owned());
        if let Stage::Judging { text, .. } = &mut self.stage {
            *text = None;
        }
        Ok(())
    }

    /// Says what it is, by the first bytes.
    fn decide(&mut self) -> Result<(), Stop> {
        let Stage::First(first) = std::mem::replace(&mut self.stage, Stage::Passing) else {
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        let settings = &shared.settings;
        let kind = kind_of(&first);
        self.notes.push(evidence::types(&self.declared, kind));
        if let Some(blocked) = self.declared.blocked_type(kind, settings) {
            return Err(Stop::Block(evidence::blocked_type(blocked, &self.declared, kind)));
        }
        let Class { is_page, is_download } = self.declared.class(kind, settings);
        let extension = self.declared.blocked_extension(settings);
        // A page whose address ends like a program is a page; saved, it is a file.
        let is_shown = kind == FileKind::Html || self.declared.is_html();
        if let Some(extension) = extension.filter(|_| !is_shown || self.declared.is_attachment) {
            return Err(Stop::Block(evidence::blocked_extension(extension)));
        }
        let is_plain = self.declared.types.are_all(|one| one == "text/plain");
        let form = if is_plain && kind != FileKind::Html { Form::Plain } else { Form::Html };
        if self.is_passed(kind)? {
            return Ok(());
        }
        let set = self.set.as_ref().filter(|_| is_page);
        let charset = match &self.declared.types.charsets[..] {
            [] => None,
            [one] => Some(one.clone()),
            // Read in the one it has words, and in the other none.
            [..] if set.is_some() => {
                return Err(Stop::Unreadable("charsets differ".to_owned()));
            }
            [..] => None,
        };
        if is_page && self.is_sample {
            let (bytes, charset) = (Vec::new(), charset.clone());
            let options = self.shared.score_options();
            self.sample = Some(PageSample { bytes, form, charset, options });
        }
        let text = set.map(|set| Box::new(PageText::new(set, form, charset)));
        let scans = self.shared.scanner().is_some() && is_download;
        let is_too_long = self.declared.length.is_some_and(|n| n > settings.scan_bytes_max);
        let file = scans.then(|| match self.declared.codings.is_empty() {
            true => Collected::AsHeld,
            false => Collected::Decoded(Vec::new()),
        });
        let has_nothing_to_do = text.is_none() && file.is_none() && self.sample.is_none();
        if has_nothing_to_do {
            return Ok(());
        }
        self.stage = Stage::Judging { kind, text, file };
        if scans && is_too_long {
            return Err(Stop::TooLarge("scan_bytes_max"));
        }
        self.decoded(&first)
    }

    /// Whether no more than its type is looked at, since nobody could wait for its end or knows its
    /// beginning.
    fn is_passed(&mut self, kind: FileKind) -> Result<bool, Stop> {
        if let Some(UnjudgedPart { note, media_only }) = &self.part {
            let of = group(kind).filter(|_| *media_only);
            if of.is_some_and(|group| !matches!(group, "image" | "media")) {
                return Err(Stop::Block(evidence::partial()));
            }
            self.notes.push((*note).to_owned());
            return Ok(true);
        }
        // Nothing new: what it has taken before says what it is.
        if self.watch.as_mut().map(|watch| watch.feed(b"")) == Some(Look::Stream) {
            self.notes.push("not judged: a stream of events".to_owned());
            self.stage = Stage::Streaming;
            return Ok(true);
        }
        self.watch = None;
        Ok(false)
    }

    /// What follows if judging ends early.
    fn stopped(&mut self, stop: Stop) -> Step {
        let settings = &self.shared.settings;
        let (action, what, reason) = match stop {
            Stop::Block(reason) => return Step::Block(reason),
            Stop::Failed(why) => return self.without_verdict(evidence::failed(why)),
            Stop::TooLarge(limit) => (
                settings.on_too_large,
                format!("not judged whole: {limit}"),
                evidence::too_large(limit),
            ),
            Stop::Unreadable(why) => {
                let reason = evidence::unreadable(&why);
                (settings.on_unreadable, format!("not judged whole: {why}"), reason)
            }
        };
        if let Some(reason) = self.judge_what_there_is() {
            return Step::Block(reason);
        }
        match action {
            Action::Block => Step::Block(reason),
            Action::Pass => {
                self.notes.push(what);
                self.stage = Stage::Passing;
                Step::Pass(self.all_held())
            }
        }
    }

    /// Blocks by what was read of a page that is not judged whole.
    fn judge_what_there_is(&mut self) -> Option<BlockReason> {
        let options = self.shared.score_options();
        let Stage::Judging { text: Some(text), .. } = &mut self.stage else { return None };
        let score = text.so_far(&options);
        self.notes.push(evidence::phrases(&score));
        score.blocks().then(|| evidence::blocked_phrases(&score))
    }

    /// Without a verdict of what could have judged it.
    fn without_verdict(&mut self, reason: BlockReason) -> Step {
        match self.shared.settings.fail {
            Fail::Closed => Step::Block(reason),
            Fail::Open => {
                let why = reason.rule.trim_start_matches("content: ");
                self.notes.push(format!("not judged: {why}"));
                self.stage = Stage::Passing;
                Step::Pass(self.all_held())
            }
        }
    }

    fn all_held(&mut self) -> Bytes {
        let mut held = match self.shared_held.is_empty() {
            true => Bytes::from(std::mem::take(&mut self.held)),
            false => std::mem::take(&mut self.shared_held),
        };
        let sent = std::mem::take(&mut self.sent);
        self.share = Share::new(&self.shared.held);
        held.split_off(sent.min(held.len()))
    }

    /// Some bytes for a client that has waited long enough.
    fn trickle(&mut self) -> Step {
        let settings = &self.shared.settings;
        let wait = match self.last_trickle {
            None => self.begun + Duration::from_secs(settings.trickle_after_seconds),
            Some(last) => last + Duration::from_secs(settings.trickle_every_seconds),
        };
        let now = Instant::now();
        if !settings.trickle || now < wait {
            return Step::Hold;
        }
        let back = usize::try_from(settings.held_back_bytes).unwrap_or(usize::MAX);
        let most = usize::try_from(settings.trickle_bytes).unwrap_or(usize::MAX);
        let held = if self.shared_held.is_empty() { &self.held[..] } else { &self.shared_held[..] };
        let end = held.len().saturating_sub(back).min(self.sent.saturating_add(most));
        match held.get(self.sent..end).filter(|some| !some.is_empty()) {
            None => Step::Hold,
            Some(some) => {
                let some = Bytes::copy_from_slice(some);
                (self.sent, self.last_trickle) = (end, Some(now));
                Step::Pass(some)
            }
        }
    }

    async fn finish(&mut self) -> Step {
        self.is_waiting = false;
        if let Err(stop) = self.last_bytes() {
            return self.stopped(stop);
        }
        if let Some(sample) = self.sample.take() {
            self.shared.shadow.notice(sample);
        }
        if let Stage::Judging { text, .. } = &mut self.stage
            && let Some(text) = text.take()
        {
            let score = text.finish(&self.shared.score_options());
            self.notes.push(evidence::phrases(&score));
            if score.blocks() {
                return Step::Block(evidence::blocked_phrases(&score));
            }
        }
        self.begin_scan();
        match &self.stage {
            Stage::Scanning(..) => self.wait_for_scan().await,
            _ => Step::Pass(self.all_held()),
        }
    }

    fn last_bytes(&mut self) -> Result<(), Stop> {
        let mut stopped = Ok(());
        if let Some(mut decoder) = self.decoder.take() {
            let fed = decoder.finish(&mut |piece| {
                stopped = self.decoded(piece);
                stopped.is_ok()
            });
            fed.map_err(|error| stop_of(&error))?;
        }
        stopped?;
        match &self.stage {
            Stage::First(_) => self.decide(),
            _ => Ok(()),
        }
    }

    fn begin_scan(&mut self) {
        let Stage::Judging { kind, file: Some(file), .. } = &mut self.stage else { return };
        let Some(scanner) = &self.shared.scanner else { return };
        let bytes = match file {
            Collected::Decoded(bytes) => std::mem::take(bytes).into(),
            Collected::AsHeld => {
                self.shared_held = Bytes::from(std::mem::take(&mut self.held));
                self.shared_held.clone()
            }
        };
        let download = Download {
            bytes,
            name: self.declared.name().to_owned(),
            declared_type: self.declared.types.first().to_owned(),
            kind: *kind,
            url: self.url.clone(),
        };
        let until = Instant::now() + Duration::from_secs(self.shared.settings.scan_seconds_max);
        self.stage = Stage::Scanning(tokio::spawn(scanner.scan(download)), until);
    }

    /// The verdict, or some bytes for the client while there is none.
    async fn wait_for_scan(&mut self) -> Step {
        let every = Duration::from_secs(1);
        loop {
            let Stage::Scanning(scan, until) = &mut self.stage else { return Step::Hold };
            let until = *until;
            let verdict = tokio::select! {
                verdict = &mut *scan => verdict.unwrap_or_else(|e| ScanVerdict::Failed(e.to_string())),
                () = tokio::time::sleep_until(until.min(Instant::now() + every)) => {
                    if Instant::now() < until {
                        if let Step::Pass(some) = self.trickle() {
                            self.is_waiting = true;
                            return Step::Pass(some);
                        }
                        continue;
                    }
                    scan.abort();
                    ScanVerdict::Failed("no verdict within scan_seconds_max".to_owned())
                }
            };
            self.stage = Stage::Passing;
            return match verdict {
                ScanVerdict::Clean => {
                    self.notes.push("scan: clean".to_owned());
                    Step::Pass(self.all_held())
                }
                ScanVerdict::Found { name } => Step::Block(evidence::found(&name)),
                ScanVerdict::Bomb(path) => Step::Block(evidence::packed_bomb(&path)),
                ScanVerdict::Unreadable(why) => self.without_verdict(evidence::unreadable(&why)),
                ScanVerdict::Failed(why) => {
                    self.without_verdict(evidence::failed(&format!("the scan failed: {why}")))
                }
            };
        }
    }
}

impl Drop for ContentInspector {
    fn drop(&mut self) {
        if let Stage::Scanning(scan, _) = &self.stage {
            scan.abort();
        }
    }
}

fn stop_of(error: &DecodeError) -> Stop {
    match error {
        DecodeError::Bomb => Stop::Block(evidence::bomb()),
        DecodeError::Unknown(coding) => {
            Stop::Unreadable(format!("the content coding {coding} is not known"))
        }
        DecodeError::TooMany => Stop::Unreadable("too many content codings".to_owned()),
        DecodeError::Broken(coding) => {
            Stop::Unreadable(format!("the content coding is broken: {coding}"))
        }
    }
}

impl Inspect for ContentInspector {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(self.take(data))
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(self.finish())
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}
