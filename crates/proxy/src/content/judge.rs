//! A judge that looks into responses, around one that knows of URLs.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use gauntlet_phrases::PhraseSet;
use hyper::{HeaderMap, Method, StatusCode, Uri};

use super::chain::Chain;
use super::inspector::ContentInspector;
use super::kind::Declared;
use super::part::Part;
use super::scan::ScanDownload;
use super::shadow::PageShadow;
use super::shared::Shared;
use super::{evidence, rewrite};
use crate::judge::{Decision, Inspect, Judge, ResponseDecision, ResponseHead, TlsDecision};
use crate::meter::Meter;
use crate::releases::Desk;
use crate::request::WebRequest;
use crate::settings::content::{ContentSettings, Partial};

/// Asks another judge about requests, and looks at what comes back itself.
pub struct ContentJudge {
    inner: Arc<dyn Judge>,
    shared: Arc<Shared>,
    phrases: ArcSwapOption<PhraseSet>,
}

impl ContentJudge {
    /// A judge around `inner`. The settings are checked before ([`ContentSettings::check`]).
    pub fn new(
        inner: Arc<dyn Judge>,
        settings: ContentSettings,
        phrases: Option<Arc<PhraseSet>>,
        scanner: Option<Arc<dyn ScanDownload>>,
    ) -> Self {
        let (held, shadow) = (Arc::default(), PageShadow::default());
        let shared = Arc::new(Shared { settings, scanner, held, shadow });
        ContentJudge { inner, shared, phrases: ArcSwapOption::from(phrases) }
    }

    /// Judges by other phrases from now on. A page that is being judged is judged by the old ones.
    pub fn replace_phrases(&self, phrases: Option<Arc<PhraseSet>>) {
        self.phrases.store(phrases);
    }

    /// The phrases in force.
    pub fn phrases(&self) -> Option<Arc<PhraseSet>> {
        self.phrases.load_full()
    }

    /// Where lists of phrases are tried on a share of the pages.
    pub fn shadow(&self) -> &PageShadow {
        &self.shared.shadow
    }

    /// Anything is looked for in responses.
    fn looks_at_responses(&self) -> bool {
        let settings = &self.shared.settings;
        self.phrases.load().is_some()
            || self.shared.scanner().is_some()
            || !settings.blocked_types.is_empty()
            || !settings.blocked_extensions.is_empty()
            || settings.size_max > 0
    }

    fn look(
        &self,
        request: &WebRequest,
        head: &ResponseHead<'_>,
        is_sample: bool,
    ) -> ResponseDecision {
        let settings = &self.shared.settings;
        let declared = Declared::read(head.headers, request.url.path_and_query());
        if settings.size_max > 0 && declared.length.is_some_and(|n| n > settings.size_max) {
            return ResponseDecision::Block(evidence::too_large_at_all(settings.size_max));
        }
        if head.status == StatusCode::PARTIAL_CONTENT {
            match Part::read(head.headers) {
                Part::Whole => {}
                part => return self.look_at_part(request, head, declared, part),
            }
        }
        let (set, url) = (self.phrases.load_full(), request.url.as_str());
        let mut inspector = ContentInspector::new(&self.shared, set, declared, url);
        if is_sample {
            inspector.keep_sample();
        }
        ResponseDecision::Inspect(Box::new(inspector))
    }

    /// A part of a file (206). Nobody but who asked for it should get one: whoever did not takes it
    /// for the whole.
    fn look_at_part(
        &self,
        request: &WebRequest,
        head: &ResponseHead<'_>,
        declared: Declared,
        part: Part,
    ) -> ResponseDecision {
        let settings = &self.shared.settings;
        let is_media = declared.is_media();
        let (note, media_only) = match settings.partial {
            _ if !head.is_part_asked_for => {
                return ResponseDecision::Block(evidence::part_not_asked_for());
            }
            Partial::Pass => ("not judged: a part (206)", false),
            Partial::Strip if is_media => ("not judged: a part (206) of sound or pictures", true),
            Partial::Strip | Partial::Block => {
                return ResponseDecision::Block(evidence::partial());
            }
        };
        let inspector = match part {
            // Its first bytes are not those of the file, and say nothing of what it is.
            Part::Later => {
                if let Some(reason) = evidence::of_header(&declared, settings) {
                    return ResponseDecision::Block(reason);
                }
                ContentInspector::passing(&self.shared, declared, note)
            }
            Part::Whole | Part::Beginning => {
                let url = request.url.as_str();
                let mut inspector = ContentInspector::new(&self.shared, None, declared, url);
                inspector.pass_part(note, media_only);
                inspector
            }
        };
        ResponseDecision::Inspect(Box::new(inspector))
    }
}

impl Judge for ContentJudge {
    fn request(&self, request: &WebRequest) -> Decision {
        self.inner.request(request)
    }

    fn address(&self, request: &WebRequest, address: IpAddr) -> Decision {
        self.inner.address(request, address)
    }

    fn response(&self, request: &WebRequest, head: &ResponseHead<'_>) -> ResponseDecision {
        let inner = self.inner.response(request, head);
        let is_bodiless = request.method == Method::HEAD
            || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if is_bodiless {
            return inner;
        }
        let is_sample = self.shared.shadow.chooses();
        if !is_sample && !self.looks_at_responses() {
            return inner;
        }
        match inner {
            ResponseDecision::Pass => self.look(request, head, is_sample),
            ResponseDecision::Block(reason) => ResponseDecision::Block(reason),
            ResponseDecision::Inspect(first) => match self.look(request, head, is_sample) {
                ResponseDecision::Inspect(second) => {
                    let chain: Box<dyn Inspect> = Box::new(Chain::new(first, second));
                    ResponseDecision::Inspect(chain)
                }
                ResponseDecision::Pass => ResponseDecision::Inspect(first),
                ResponseDecision::Block(reason) => ResponseDecision::Block(reason),
            },
        }
    }

    fn version(&self) -> u64 {
        let phrases = self.phrases.load();
        let phrases = phrases.as_ref().map_or(0, |set| Arc::as_ptr(set) as u64);
        self.inner.version() ^ phrases.rotate_left(32)
    }

    fn meter(&self, request: &WebRequest) -> Option<Arc<dyn Meter>> {
        self.inner.meter(request)
    }

    fn tls(&self, request: &WebRequest) -> TlsDecision {
        self.inner.tls(request)
    }

    fn desk(&self) -> Option<&Arc<Desk>> {
        self.inner.desk()
    }

    fn is_releasable(&self, rule: &str) -> bool {
        self.inner.is_releasable(rule)
    }

    fn rewrite(&self, request: &WebRequest, headers: &mut HeaderMap, uri: &mut Uri) {
        self.inner.rewrite(request, headers, uri);
        let settings = &self.shared.settings;
        if self.looks_at_responses() {
            rewrite::ask_for_what_can_be_judged(headers, settings.partial);
        }
        rewrite::remove(headers, request, &settings.remove);
        rewrite::safe_search(headers, uri, request, settings);
    }
}
