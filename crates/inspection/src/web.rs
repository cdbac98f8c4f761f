//! Requests and responses, given to the judge of the web path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use gauntlet_ids::pipeline::observer::{FilePart, Moment, TransactionEvent};
use gauntlet_protocols::{FileState, Protocol};
use gauntlet_proxy::judge::{
    BlockReason, Decision, Inspect, Judge, Note, ResponseDecision, ResponseHead, Step,
};
use gauntlet_proxy::request::WebRequest;
use gauntlet_proxy::settings::Settings as ProxySettings;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::action::Item;
use crate::files::Key;
use crate::headers::{Names, Place};

/// Names of one query that are looked up.
const QUESTIONS_MAX: usize = 16;

/// The web path's part.
pub(crate) struct Web {
    judge: Arc<dyn Judge>,
    settings: Arc<ProxySettings>,
    names: Names,
    responses: BTreeMap<Key, Response>,
    responses_max: usize,
    /// Lists and policy are asked about requests.
    asks_requests: bool,
}

/// A response whose body comes.
struct Response {
    url: String,
    /// None: it was blocked by its header, or once it was blocked.
    inspect: Option<Box<dyn Inspect>>,
    blocked: Option<BlockReason>,
    notes: Vec<String>,
}

impl Web {
    pub(crate) fn new(
        judge: Arc<dyn Judge>,
        settings: Arc<ProxySettings>,
        (asks_requests, responses_max): (bool, usize),
    ) -> Self {
        let names = Names::new();
        Self { judge, settings, names, responses: BTreeMap::new(), responses_max, asks_requests }
    }

    /// What lists and policy say of a request, if anything.
    pub(crate) fn request(&self, event: &TransactionEvent<'_>) -> Vec<Item> {
        if !self.asks_requests {
            return Vec::new();
        }
        let place = Place::of(event);
        let Some((client, server)) = ends(&event.moment) else { return Vec::new() };
        let requests: Vec<WebRequest> = match event.protocol {
            Protocol::Http1 | Protocol::Http2 => {
                self.web_request(place, client, server).into_iter().collect()
            }
            Protocol::Tls | Protocol::Quic => {
                let name = self.names.server_name(place);
                let named = name.and_then(|n| WebRequest::named(client.ip(), server, &n).ok());
                named.into_iter().collect()
            }
            Protocol::Dns | Protocol::Doh2 => {
                let names = (0..QUESTIONS_MAX).map_while(|i| self.names.queried(place, i));
                names.filter_map(|name| WebRequest::lookup(client.ip(), &name).ok()).collect()
            }
            _ => Vec::new(),
        };
        requests.iter().filter_map(|request| self.decide(event.protocol, request)).collect()
    }

    fn web_request(
        &self,
        place: Place<'_>,
        client: SocketAddr,
        server: SocketAddr,
    ) -> Option<WebRequest> {
        let request = self.names.request(place)?;
        WebRequest::seen(client.ip(), server, &request, &self.settings).ok()
    }

    fn decide(&self, protocol: Protocol, request: &WebRequest) -> Option<Item> {
        let (decision, note) = self.judge.request(request).into_parts();
        let reason = match decision {
            Decision::Allow | Decision::Inspect(_) | Decision::Noted(..) => None,
            Decision::Block(reason) | Decision::Warn(reason, _) => Some(reason),
            Decision::Redirect(to) => {
                let rule = note.rules.first().cloned().unwrap_or_default();
                Some(BlockReason { rule, text: format!("redirected to {to}") })
            }
        };
        if reason.is_none() && note.listed.is_empty() {
            return None;
        }
        let mut fields = json!({
            "kind": "url",
            "url": request.url.as_str(),
            "method": request.method.as_str(),
        });
        describe(&note, reason.as_ref(), &mut fields);
        Some(Item::new(protocol, fields, reason.is_some()))
    }

    /// A part of a response's body.
    pub(crate) fn part(&mut self, part: &FilePart<'_>, runtime: &Runtime) -> Option<Item> {
        let key = Key::of(part)?;
        if !self.responses.contains_key(&key) {
            let begun = self.begin(part)?;
            if self.responses.len() >= self.responses_max {
                let fields = json!({ "kind": "content", "url": begun.url, "error": "files_max" });
                return part.is_end.then(|| Item::new(part.protocol, fields, false));
            }
            self.responses.insert(key, begun);
        }
        let response = self.responses.get_mut(&key)?;
        if !part.data.is_empty() {
            response.take(part.data, runtime);
        }
        let blocked = response.blocked.take();
        if part.is_end {
            let mut response = self.responses.remove(&key)?;
            response.blocked = blocked;
            if let Some(mut inspect) = response.inspect.take().filter(|_| !response.is_over()) {
                response.end(inspect.as_mut(), runtime);
            }
            return response.told(part);
        }
        // A body that is blocked is told of at once, and followed no further.
        let reason = blocked?;
        response.inspect = None;
        let fields = content(&response.url, part, &response.notes, Some(&reason));
        response.notes.clear();
        Some(Item::new(part.protocol, fields, true))
    }

    fn begin(&self, part: &FilePart<'_>) -> Option<Response> {
        let place = Place { conversation: part.conversation, place: part.place };
        let (client, server) = ends(&part.moment)?;
        let request = self.web_request(place, client, server)?;
        let (status, headers) = self.names.response(place)?;
        let is_part_asked_for = request.fields.has_range;
        let head = ResponseHead { status, headers: &headers, is_part_asked_for };
        let url = request.url.as_str().to_owned();
        let mut response = Response { url, inspect: None, blocked: None, notes: Vec::new() };
        match self.judge.response(&request, &head) {
            ResponseDecision::Pass => {}
            ResponseDecision::Inspect(inspect) => response.inspect = Some(inspect),
            ResponseDecision::Block(reason) => response.blocked = Some(reason),
        }
        Some(response)
    }

    /// The flow has ended.
    pub(crate) fn forget(&mut self, flow: u64) {
        crate::files::forget(&mut self.responses, flow);
    }
}

impl Response {
    fn is_over(&self) -> bool {
        self.blocked.is_some()
    }

    fn take(&mut self, data: &[u8], runtime: &Runtime) {
        let Some(inspect) = &mut self.inspect else { return };
        let step = runtime.block_on(inspect.data(Bytes::copy_from_slice(data)));
        self.notes.extend(inspect.notes());
        if let Step::Block(reason) = step {
            self.blocked = Some(reason);
            self.inspect = None;
        }
    }

    fn end(&mut self, inspect: &mut dyn Inspect, runtime: &Runtime) {
        loop {
            let step = runtime.block_on(inspect.end());
            self.notes.extend(inspect.notes());
            match step {
                Step::Block(reason) => {
                    self.blocked = Some(reason);
                    return;
                }
                Step::Pass(_) | Step::Hold if !inspect.is_waiting() => return,
                Step::Pass(_) | Step::Hold => {}
            }
        }
    }

    /// The record of a body that ended, if anything was judged.
    fn told(self, part: &FilePart<'_>) -> Option<Item> {
        // The first note says what it is.
        if self.blocked.is_none() && self.notes.len() < 2 {
            return None;
        }
        let fields = content(&self.url, part, &self.notes, self.blocked.as_ref());
        Some(Item::new(part.protocol, fields, self.blocked.is_some()))
    }
}

fn content(
    url: &str,
    part: &FilePart<'_>,
    notes: &[String],
    blocked: Option<&BlockReason>,
) -> Value {
    let mut fields = json!({
        "kind": "content",
        "url": url,
        "verdict": if blocked.is_some() { "block" } else { "allow" },
        "notes": notes,
        "bytes": part.file.size,
    });
    if part.is_end && part.file.state != FileState::Closed {
        fields["end"] = "cut".into();
    }
    if let Some(reason) = blocked {
        fields["rule"] = reason.rule.clone().into();
        fields["text"] = reason.text.clone().into();
    }
    fields
}

fn describe(note: &Note, reason: Option<&BlockReason>, fields: &mut Value) {
    fields["verdict"] = note.action.into();
    fields["rules"] = note.rules.clone().into();
    fields["category"] = note.category.clone().into();
    fields["evidence"] = note.evidence.clone().into();
    let listed = note.listed.iter();
    let listed: Vec<Value> =
        listed.map(|on| json!({ "list": on.list, "category": on.category })).collect();
    fields["lists"] = listed.into();
    if let Some(reason) = reason {
        fields["text"] = reason.text.clone().into();
    }
}

/// Client and server.
fn ends(moment: &Moment<'_>) -> Option<(SocketAddr, SocketAddr)> {
    let core = moment.flow?.core;
    let (client, server) = (core.client(), core.server());
    let of = |address, port| SocketAddr::new(address, port);
    Some((of(client.address, client.port), of(server.address, server.port)))
}
