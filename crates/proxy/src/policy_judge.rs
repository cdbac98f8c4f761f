//! A judge that asks lists of URLs and the policy.
//!
//! ```text
//! WebRequest ─▶ lists ─▶ WebItem ─▶ Policy::decide_web ─▶ Decision, with what the log says
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use gauntlet_mail::url::canonical;
use gauntlet_policy::Policy;
use gauntlet_policy::web::WebInput;
use gauntlet_urlfilter::{Matches, Origin, UrlLists};
use gauntlet_web::{
    Listed, RequestKind, WebAction, WebChange, WebDisposition, WebItem, WebResponse,
};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, Uri};

use crate::judge::{
    BlockReason, Decision, Judge, Note, ResponseDecision, ResponseHead, TlsDecision, Warning,
};
use crate::rate_limit::RateLimit;
use crate::request::{Kind, WebRequest};
use crate::warnings::{Open, Warnings};

/// Path, on the site that was warned of, that the form on the page is sent to.
const CONTINUE_PATH: &str = "/.well-known/gauntlet/continue";
/// Characters of a reason that are logged.
const REASON_CHARS_MAX: usize = 200;

/// Gives the policy in force; asked once for each request and each response.
pub type PolicySource = Box<dyn Fn() -> Arc<dyn AsRef<Policy>> + Send + Sync>;

/// Asks lists and policy.
pub struct PolicyJudge {
    policy: PolicySource,
    lists: ArcSwap<UrlLists>,
    bypass: ArcSwap<UrlLists>,
    /// Goes up with each change of the lists.
    version: AtomicU64,
    warnings: Warnings,
    seeds: (RandomState, RandomState),
}

impl PolicyJudge {
    /// A judge with these lists.
    pub fn new(policy: PolicySource, lists: UrlLists) -> Self {
        let lists = ArcSwap::from_pointee(lists);
        PolicyJudge {
            policy,
            lists,
            bypass: ArcSwap::default(),
            version: AtomicU64::new(0),
            warnings: Warnings::default(),
            seeds: Default::default(),
        }
    }

    /// Judges by other lists from now on. A request that is being judged is judged by the old ones,
    /// which are unmapped after it.
    pub fn replace_lists(&self, lists: UrlLists) {
        self.lists.store(Arc::new(lists));
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Exempts what these lists have from decryption, from now on. Entries with a path do not
    /// match: of a tunnel host and port alone are known.
    pub fn replace_bypass(&self, lists: UrlLists) {
        self.bypass.store(Arc::new(lists));
    }

    fn dispose(
        &self,
        policy: &Policy,
        request: &WebRequest,
        response: Option<WebResponse<'_>>,
    ) -> (WebDisposition, Note) {
        let lists = self.lists.load();
        let matches = lists.look_up_from(&request.url, origin(request));
        let listed = listed(&matches);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let method = request.method.as_str();
        let item = WebItem {
            at: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            client: request.client,
            user: request.user.as_deref(),
            method,
            kind: kind(request.kind),
            url: &request.url,
            port: request.port,
            listed: &listed,
            user_agent: request.fields.user_agent.as_deref(),
            response,
        };
        let site = request.url.registrable_domain();
        let continued = self.warnings.continued(request.client, site, Instant::now());
        let input = WebInput { item: &item, continued: &continued };
        let disposition = policy.decide_web(&input);
        let note = note(&disposition, &listed);
        (disposition, note)
    }

    /// The page of a warning, whose form only this client can send.
    fn warn(&self, request: &WebRequest, rule: String, text: String, minutes: u32) -> Decision {
        let (now, first) = (Instant::now(), (request.url.as_str(), request.client));
        let token = format!(
            "{:016x}{:016x}",
            self.seeds.0.hash_one((first, now)),
            self.seeds.1.hash_one((first, now))
        );
        let site = request.url.registrable_domain().to_owned();
        let url = request.url.as_str().to_owned();
        let open = Open { client: request.client, rule: rule.clone(), site, url, minutes };
        self.warnings.open(token.clone(), open, now);
        let scheme = if request.kind == Kind::Connect { "https" } else { request.url.scheme() };
        let action = format!("{scheme}://{}{CONTINUE_PATH}", request.authority());
        Decision::Warn(BlockReason { rule, text }, Warning { action, token, minutes })
    }

    /// The answer to the form of a warning; none if the request is none.
    fn go_on(&self, request: &WebRequest) -> Option<Decision> {
        let query = request.url.path_and_query().strip_prefix(CONTINUE_PATH)?.strip_prefix('?')?;
        let value = |name: &str| {
            let of = |pair: &str| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_owned());
            query.split('&').find_map(of)
        };
        let open = self.warnings.go_on(&value("token")?, request.client, Instant::now())?;
        // A form's fields are URL-encoded (WHATWG URL, section 5).
        let reason = value("reason").unwrap_or_default().replace('+', " ");
        let reason = gauntlet_mail::encoding::percent_decode(reason.as_bytes());
        let reason = String::from_utf8_lossy(&reason).replace(char::is_control, " ");
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let evidence = format!("goes on for {} minutes; reason given: {reason}", open.minutes);
        let note = Note { rules: vec![open.rule], category: String::new(), evidence };
        Some(Decision::Noted(Box::new(Decision::Redirect(open.url)), note))
    }
}

impl Judge for PolicyJudge {
    fn request(&self, request: &WebRequest) -> Decision {
        if let Some(decision) = self.go_on(request) {
            return decision;
        }
        let policy = (self.policy)();
        let (disposition, note) = self.dispose((*policy).as_ref(), request, None);
        let rule = disposition.decided_by.unwrap_or_default();
        let decision = match disposition.action {
            WebAction::Allow => Decision::Allow,
            WebAction::Block { text } => Decision::Block(BlockReason { rule, text }),
            WebAction::Redirect { to } => Decision::Redirect(to),
            WebAction::Warn { text, minutes } => self.warn(request, rule, text, minutes),
        };
        Decision::Noted(Box::new(decision), note)
    }

    fn version(&self) -> u64 {
        let policy: *const dyn AsRef<Policy> = Arc::as_ptr(&(self.policy)());
        // One policy after the other lies elsewhere in memory.
        self.version.load(Ordering::Relaxed) ^ (policy.cast::<()>() as u64)
    }

    fn tls(&self, request: &WebRequest) -> TlsDecision {
        let bypass = self.bypass.load();
        if bypass.look_up(&request.url).first().is_some() {
            return TlsDecision::Bypass;
        }
        let policy = (self.policy)();
        let policy = (*policy).as_ref();
        if !policy.web.iter().any(|rule| rule.changes.contains(&WebChange::BypassTls)) {
            return TlsDecision::Intercept;
        }
        let (disposition, _) = self.dispose(policy, request, None);
        match disposition.changes.contains(&WebChange::BypassTls) {
            true => TlsDecision::Bypass,
            false => TlsDecision::Intercept,
        }
    }

    fn rewrite(&self, request: &WebRequest, headers: &mut HeaderMap, _uri: &mut Uri) {
        let policy = (self.policy)();
        let policy = (*policy).as_ref();
        let strips = |change: &WebChange| matches!(change, WebChange::Strip { .. });
        if !policy.web.iter().any(|rule| rule.changes.iter().any(strips)) {
            return;
        }
        for change in self.dispose(policy, request, None).0.changes {
            if let WebChange::Strip { fields } = change {
                // Fields that a message cannot be read without are not among those that rules may
                // name.
                fields.iter().for_each(|name| drop(headers.remove(name.as_str())));
            }
        }
    }

    fn response(&self, request: &WebRequest, head: &ResponseHead<'_>) -> ResponseDecision {
        let policy = (self.policy)();
        let policy = (*policy).as_ref();
        if !concerns_responses(policy) {
            return ResponseDecision::Pass;
        }
        let text = |name| head.headers.get(name).and_then(|v| v.to_str().ok());
        let media = text(CONTENT_TYPE).and_then(|v| v.split(';').next());
        let media = media.map(|v| v.trim().to_ascii_lowercase());
        let response = WebResponse {
            status: head.status.as_u16(),
            content_type: media.as_deref(),
            bytes: text(CONTENT_LENGTH).and_then(|v| v.parse().ok()),
        };
        let (disposition, _) = self.dispose(policy, request, Some(response));
        let rate = disposition.changes.iter().filter_map(|change| match change {
            WebChange::LimitRate { bytes_per_second } => Some(*bytes_per_second),
            WebChange::Strip { .. } | WebChange::BypassTls => None,
        });
        let rule = disposition.decided_by.unwrap_or_default();
        match (disposition.action, rate.min()) {
            // It is too late to go elsewhere; the rules are checked for it.
            (WebAction::Block { text } | WebAction::Warn { text, .. }, _) => {
                ResponseDecision::Block(BlockReason { rule, text })
            }
            (_, Some(rate)) => ResponseDecision::Inspect(Box::new(RateLimit::new(rate))),
            (_, None) => ResponseDecision::Pass,
        }
    }
}

/// Whether any rule looks at responses, or changes them.
fn concerns_responses(policy: &Policy) -> bool {
    let limits = |change: &WebChange| matches!(change, WebChange::LimitRate { .. });
    policy.web.iter().any(|rule| rule.asks_response() || rule.changes.iter().any(limits))
}

/// The entries that count, as the policy sees them.
pub fn listed<'a>(matches: &Matches<'a>) -> Vec<Listed<'a>> {
    let listed = matches.effective().map(|found| Listed {
        list: found.list,
        category: found.category,
        pattern: found.pattern.to_string(),
    });
    listed.collect()
}

/// What the log says.
fn note(disposition: &WebDisposition, listed: &[Listed<'_>]) -> Note {
    let decided = disposition.decided_by.iter();
    let others = disposition.rules.iter().filter(|r| Some(*r) != disposition.decided_by.as_ref());
    let first = listed.first();
    Note {
        rules: decided.chain(others).cloned().collect(),
        category: first.map(|l| l.category.to_owned()).unwrap_or_default(),
        evidence: first.map(|l| format!("{}: {}", l.list, l.pattern)).unwrap_or_default(),
    }
}

fn kind(kind: Kind) -> RequestKind {
    match kind {
        Kind::Plain => RequestKind::Plain,
        Kind::Connect => RequestKind::Tunnel,
        Kind::Upgrade => RequestKind::Upgrade,
    }
}

/// Which page asks, as far as the client says: some entries are for third parties alone.
fn origin(request: &WebRequest) -> Origin {
    let Some(page) = request.fields.referer.as_deref().and_then(canonical) else {
        return Origin::Unknown;
    };
    match page.registrable_domain() == request.url.registrable_domain() {
        true => Origin::SameSite,
        false => Origin::OtherSite,
    }
}
