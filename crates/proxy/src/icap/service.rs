//! Which services there are, and what they decide.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;

use gauntlet_mail::Network;
use hyper::header::CONTENT_LENGTH;
use hyper::{HeaderMap, Request, Response, StatusCode};

use crate::access_log::{AccessLog, AccessRecord};
use crate::asking;
use crate::body::AnyBody;
use crate::error_page::{self, About, Form};
use crate::headers;
use crate::icap::codec::{CodecLimits, IcapMethod, IcapRequest};
use crate::icap::counters::IcapCounters;
use crate::judge::{Decision, Inspect, Judge, ResponseDecision, ResponseHead};
use crate::reason::Note;
use crate::refusal::Refusal;
use crate::releases::{self, Desk};
use crate::request::WebRequest;
use crate::service::{References, redirect};
use crate::settings::{IcapSettings, Settings, SettingsError};
use crate::smuggling;
use crate::stop::Stop;

/// What answers ICAP requests.
pub(crate) struct Service {
    pub(crate) settings: Arc<Settings>,
    pub(crate) limits: CodecLimits,
    pub(crate) judge: Arc<dyn Judge>,
    pub(crate) log: Arc<dyn AccessLog>,
    pub(crate) counters: Arc<IcapCounters>,
    pub(crate) stop: Stop,
    pub(crate) references: References,
    trusted: Vec<Network>,
    seed: RandomState,
}

/// An HTTP message that is asked about.
pub(crate) struct Question {
    /// The request.
    pub(crate) request: Request<()>,
    /// The response, if it is what is asked about.
    pub(crate) response: Option<(StatusCode, HeaderMap)>,
    /// There is a body.
    pub(crate) has_body: bool,
}

/// What is answered.
pub(crate) enum Verdict {
    /// It passes as it came.
    Pass,
    /// Its body passes through this.
    Inspect(Box<dyn Inspect>),
    /// This comes instead.
    Redirect(Response<AnyBody>),
}

/// A path that has no service, or not for this method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoService {
    /// 404
    Path,
    /// 405
    Method,
}

impl Service {
    pub(crate) fn new(
        settings: Arc<Settings>,
        judge: Arc<dyn Judge>,
        log: Arc<dyn AccessLog>,
        counters: Arc<IcapCounters>,
        stop: Stop,
    ) -> Result<Self, SettingsError> {
        let trusted = settings.icap.networks()?;
        let limits = codec_limits(&settings.icap);
        let (references, seed) = (References::default(), RandomState::new());
        Ok(Service { settings, limits, judge, log, counters, stop, references, trusted, seed })
    }

    /// Changes with the judge's lists and rules, and with every start: what was decided under other
    /// settings must not be kept (RFC 3507 section 4.7: at most 32 bytes in quotation marks).
    pub(crate) fn istag(&self) -> String {
        format!("\"{:016x}\"", self.seed.hash_one(self.judge.version()))
    }

    /// The methods of a path.
    pub(crate) fn methods(&self, path: &str) -> &'static [IcapMethod] {
        match path.strip_suffix('/').unwrap_or(path) {
            "/reqmod" => &[IcapMethod::Reqmod],
            "/respmod" => &[IcapMethod::Respmod],
            _ if self.settings.icap.any_path => &[IcapMethod::Reqmod, IcapMethod::Respmod],
            _ => &[],
        }
    }

    /// Whether a request has a service.
    ///
    /// # Errors
    /// If it has none.
    pub(crate) fn find(&self, request: &IcapRequest) -> Result<(), NoService> {
        let methods = self.methods(&request.path);
        match request.method {
            _ if methods.is_empty() => Err(NoService::Path),
            IcapMethod::Options => Ok(()),
            method if methods.contains(&method) => Ok(()),
            _ => Err(NoService::Method),
        }
    }

    /// Who asks: what an ICAP client says, if it is believed; else the client itself.
    pub(crate) fn client(
        &self,
        peer: IpAddr,
        request: &mut IcapRequest,
    ) -> (IpAddr, Option<String>) {
        let is_trusted = self.trusted.iter().any(|network| network.contains(peer));
        let client = request.client.filter(|_| is_trusted);
        let user = request.user.take().filter(|_| is_trusted);
        let user = user.and_then(|user| user.name(self.settings.icap.user_encoding));
        (client.map_or(peer, |ip| ip.to_canonical()), user)
    }

    /// The request as a judge sees it.
    ///
    /// # Errors
    /// Why it is refused before it is judged. A request that has already been answered is read as
    /// it is: whether it should have been sent is no longer the question.
    pub(crate) fn read(
        &self,
        client: IpAddr,
        user: Option<String>,
        question: &Question,
    ) -> Result<WebRequest, Refusal> {
        if question.response.is_none() {
            smuggling::check(&question.request)?;
        }
        WebRequest::asked_about(client, user, &question.request, &self.settings)
    }

    /// Who takes the form that a request brings; none if it brings none.
    pub(crate) fn desk(&self, question: &Question) -> Option<Arc<Desk>> {
        let is_form = question.response.is_none() && releases::is_form(&question.request);
        self.judge.desk().filter(|_| is_form && question.has_body).map(Arc::clone)
    }

    /// Asks the judge. RESPMOD asks about the request, too: a site that has RESPMOD alone wants its
    /// lists of addresses to count.
    ///
    /// # Errors
    /// Why it does not pass.
    pub(crate) fn decide(
        &self,
        web: &WebRequest,
        question: Question,
        note: &mut Note,
    ) -> Result<Verdict, Refusal> {
        let decision;
        (decision, *note) = self.judge.request(web).into_parts();
        let inspector = match decision {
            Decision::Allow | Decision::Noted(..) => None,
            Decision::Inspect(inspector) => Some(inspector),
            Decision::Block(reason) => return Err(Refusal::Blocked(reason)),
            Decision::Warn(reason, warning) => return Err(Refusal::Warned(reason, warning)),
            Decision::Redirect(to) => return redirect(&to).map(Verdict::Redirect),
        };
        self.meter(web, question.response.as_ref());
        let has_body = question.has_body;
        let inspector = match question.response {
            None => inspector,
            Some((status, mut fields)) => {
                // Nobody undoes it, and the body would be judged as it is not shown.
                if has_body && !headers::is_plainly_framed(&fields) {
                    return Err(Refusal::TransferCoding);
                }
                headers::remove_hop_by_hop(&mut fields);
                let is_part_asked_for = web.fields.has_range;
                let head = ResponseHead { status, headers: &fields, is_part_asked_for };
                match self.judge.response(web, &head) {
                    ResponseDecision::Pass => None,
                    ResponseDecision::Inspect(inspector) => Some(inspector),
                    ResponseDecision::Block(reason) => return Err(Refusal::Blocked(reason)),
                }
            }
        };
        Ok(inspector.filter(|_| has_body).map_or(Verdict::Pass, Verdict::Inspect))
    }

    /// Counts what a request uses: of its response, as many bytes as that says that it has, since
    /// they do not come by here.
    fn meter(&self, web: &WebRequest, response: Option<&(StatusCode, HeaderMap)>) {
        let Some(meter) = self.judge.meter(web) else { return };
        let length = response.and_then(|(_, fields)| fields.get(CONTENT_LENGTH));
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        meter.passed(length.unwrap_or(0));
    }

    /// The page for a refusal, in the form that the browser behind the ICAP client wants.
    pub(crate) fn page(
        &self,
        refusal: &Refusal,
        record: &AccessRecord,
        form: Form,
    ) -> Response<AnyBody> {
        let release = match form {
            // Where no REQMOD is asked, the server that was blocked would get what is sent.
            Form::Html if self.counters.reqmod.get() > 0 => {
                asking::form(self.judge.as_ref(), refusal, record)
            }
            Form::Html | Form::Text => None,
        };
        let about = About {
            url: &record.url,
            client: record.client,
            evidence: &record.note.evidence,
            reference: &record.reference,
            proxy: &self.settings.name,
            release,
        };
        error_page::response(refusal, &about, form)
    }
}

fn codec_limits(settings: &IcapSettings) -> CodecLimits {
    CodecLimits {
        header_bytes_max: settings.header_bytes_max,
        header_fields_max: settings.header_fields_max,
        chunk_line_bytes_max: settings.chunk_line_bytes_max,
        preview_bytes_max: settings.preview_bytes,
    }
}
