//! A judge that asks lists of URLs and the policy.
//!
//! ```text
//! WebRequest ─▶ lists ─▶ WebItem ─▶ Policy::decide_web ─▶ Decision, with what the log says
//! ```

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::canonical;
use gauntlet_policy::Policy;
use gauntlet_policy::web::WebInput;
use gauntlet_policy::web_rules::{QuotaUse, WebQuota};
use gauntlet_urlfilter::{Match, Matched, Matches, Origin, Role, UrlLists};
use gauntlet_web::release::Asked;
use gauntlet_web::{
    Listed, RELEASED_ACTION, WebAction, WebChange, WebDisposition, WebItem, WebListed, WebResponse,
};
use hyper::header::CONTENT_LENGTH;
use hyper::{HeaderMap, Uri};

use crate::content::media_types;
use crate::judge::{
    BlockReason, Decision, Judge, Note, ResponseDecision, ResponseHead, TlsDecision, Warning,
};
use crate::meter::Meter;
use crate::quotas::Quotas;
use crate::rate_limit::RateLimit;
use crate::reason::minutes;
use crate::releases::{Desk, Releases};
use crate::request::{Kind, WebRequest, by_address};
use crate::settings::Limits;
use crate::warnings::{Open, Warnings};

/// Path, on the site that was warned of, that the form on the page is sent to.
const CONTINUE_PATH: &str = "/.well-known/gauntlet/continue";
/// Characters of a reason that are logged.
const REASON_CHARS_MAX: usize = 200;

/// Gives Unix time in seconds.
pub type UnixClock = Box<dyn Fn() -> i64 + Send + Sync>;

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
    quotas: Arc<Quotas>,
    clock: Arc<UnixClock>,
    desk: Option<Arc<Desk>>,
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
            quotas: Arc::new(Quotas::new(Limits::default().quota_people_max)),
            clock: Arc::new(Box::new(now)),
            desk: None,
            seeds: Default::default(),
        }
    }

    /// The same with what people have used of quotas, which others keep over a restart.
    #[must_use]
    pub fn with_quotas(self, quotas: Arc<Quotas>) -> Self {
        PolicyJudge { quotas, ..self }
    }

    /// The same with another clock for rules and quotas.
    #[must_use]
    pub fn with_clock(self, clock: UnixClock) -> Self {
        PolicyJudge { clock: Arc::new(clock), ..self }
    }

    /// The same, at which people may ask for release; what was released passes.
    pub fn with_releases(mut self, releases: Arc<dyn Releases>) -> Self {
        self.desk = Desk::new(releases).map(Arc::new);
        self
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
        let listed = listed_by_name_and_address(&lists, request);
        let at = (self.clock)();
        let item = item(request, at, &listed, response);
        let site = request.url.registrable_domain();
        let continued = self.warnings.continued(&person(request), site, Instant::now());
        let used = self.used(policy, request, at);
        let input = WebInput { item: &item, continued: &continued, used: &used };
        let mut disposition = policy.decide_web(&input);
        let is_used_up = !used.is_empty() && explain_quotas(policy, &input, &mut disposition);
        let mut note = note(&disposition, &listed);
        self.release(request, &mut disposition, &mut note);
        if is_used_up && !matches!(disposition.action, WebAction::Allow) {
            self.quotas.refused();
        }
        (disposition, note)
    }

    /// What the person has used of the policy's quotas.
    fn used(&self, policy: &Policy, request: &WebRequest, at: i64) -> Vec<(String, QuotaUse)> {
        if policy.web_quotas.is_empty() {
            return Vec::new();
        }
        let person = person(request);
        let used = |quota: &WebQuota| (quota.name.clone(), self.quotas.get(quota, &person, at));
        policy.web_quotas.iter().map(used).collect()
    }

    /// Lets pass what the policy blocks and an administrator has released: whoever released it saw
    /// which rule blocks it. Changes by other rules stay, and so does what looks into content.
    fn release(&self, request: &WebRequest, disposition: &mut WebDisposition, note: &mut Note) {
        let is_blocked =
            matches!(disposition.action, WebAction::Block { .. } | WebAction::Warn { .. });
        let Some(desk) = self.desk.as_ref().filter(|_| is_blocked) else { return };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let asked = Asked {
            url: &request.url,
            is_tunnel: request.kind == Kind::Connect,
            client: request.client,
            user: request.user.as_deref(),
            now_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        };
        let exceptions = desk.exceptions();
        let Some(exception) = exceptions.find(&asked) else { return };
        note.rules.insert(0, exception.rule());
        let evidence = std::mem::take(&mut note.evidence);
        note.evidence = format!("released by {}: {}", exception.by, exception.target);
        if !evidence.is_empty() {
            note.evidence.push_str(&format!("; {evidence}"));
        }
        note.action = RELEASED_ACTION;
        disposition.action = WebAction::Allow;
    }

    /// The page of a warning, whose form only this person can send.
    fn warn(&self, request: &WebRequest, rule: String, text: String, minutes: u32) -> Decision {
        let (now, first) = (Instant::now(), (request.url.as_str(), request.client));
        let token = format!(
            "{:016x}{:016x}",
            self.seeds.0.hash_one((first, now)),
            self.seeds.1.hash_one((first, now))
        );
        let site = request.url.registrable_domain().to_owned();
        let url = request.url.as_str().to_owned();
        let open = Open { person: person(request), rule: rule.clone(), site, url, minutes };
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
        // A form's fields are URL-encoded (WHATWG URL, section 5).
        let reason = value("reason").unwrap_or_default().replace('+', " ");
        let reason = gauntlet_mail::encoding::percent_decode(reason.as_bytes());
        let reason = String::from_utf8_lossy(&reason).replace(char::is_control, " ");
        let reason: String = reason.trim().chars().take(REASON_CHARS_MAX).collect();
        if reason.is_empty() {
            return None;
        }
        let open = self.warnings.go_on(&value("token")?, &person(request), Instant::now())?;
        let evidence = format!("goes on for {}; reason given: {reason}", minutes(open.minutes));
        let note = Note { rules: vec![open.rule], evidence, ..Note::default() };
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
            // The DNS shows no page to go on from.
            WebAction::Warn { text, .. } if request.kind == Kind::Lookup => {
                Decision::Block(BlockReason { rule, text })
            }
            WebAction::Warn { text, minutes } => self.warn(request, rule, text, minutes),
        };
        Decision::Noted(Box::new(decision), note)
    }

    fn address(&self, request: &WebRequest, address: IpAddr) -> Decision {
        let original = Some(SocketAddr::new(address.to_canonical(), request.port));
        let asked = WebRequest { original, ..request.clone() };
        let Some(by_address) = asked.by_address() else { return Decision::Allow };
        let lists = self.lists.load();
        let matches = lists.look_up_from(&by_address, origin(request));
        let found = of_looked_up(&lists, &request.url, &matches, origin(request));
        let Some(found) = found.first() else { return Decision::Allow };
        let (mut decision, mut note) = self.request(&asked).into_parts();
        let (name, entry) = (request.host(), of_match(found));
        note.address = Some(address);
        note.category = entry.category.to_owned();
        note.evidence =
            format!("{}: {} ({address} is an address of {name})", entry.list, entry.pattern);
        if !matches!(decision, Decision::Allow) {
            let client = request.client;
            tracing::info!(%client, name, %address, entry = %found, "a name has a listed address");
        }
        if let Decision::Block(reason) | Decision::Warn(reason, _) = &mut decision {
            reason
                .text
                .push_str(&format!(" An address of this host is on the list {}.", found.list));
        }
        Decision::Noted(Box::new(decision), note)
    }

    fn version(&self) -> u64 {
        let policy: *const dyn AsRef<Policy> = Arc::as_ptr(&(self.policy)());
        // One policy after the other lies elsewhere in memory.
        let released = self.desk.as_ref().map_or(0, |desk| desk.exceptions().version);
        self.version.load(Ordering::Relaxed)
            ^ (policy.cast::<()>() as u64)
            ^ released.rotate_left(40)
    }

    fn desk(&self) -> Option<&Arc<Desk>> {
        self.desk.as_ref()
    }

    fn is_releasable(&self, rule: &str) -> bool {
        let policy = (self.policy)();
        (*policy).as_ref().web.iter().any(|known| known.name == rule)
    }

    fn meter(&self, request: &WebRequest) -> Option<Arc<dyn Meter>> {
        let policy = (self.policy)();
        let policy = (*policy).as_ref();
        if policy.web_quotas.is_empty() {
            return None;
        }
        let lists = self.lists.load();
        let listed = listed_by_name_and_address(&lists, request);
        let item = item(request, (self.clock)(), &listed, None);
        let counted = policy.quotas_of(&item).into_iter().map(WebQuota::measure);
        let counted: Vec<WebQuota> = counted.collect();
        if counted.is_empty() {
            return None;
        }
        let (quotas, clock) = (Arc::clone(&self.quotas), Arc::clone(&self.clock));
        let meter = QuotaMeter { counted, person: person(request), quotas, clock };
        meter.passed(0);
        Some(Arc::new(meter))
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
        let length = head.headers.get(CONTENT_LENGTH).and_then(|v| v.to_str().ok());
        let bytes = length.and_then(|v| v.parse().ok());
        let mut least: Option<u64> = None;
        // Programs differ in which of several types they take: the strictest counts.
        for media_type in media_types(head.headers) {
            let content_type = Some(media_type.as_str()).filter(|name| !name.is_empty());
            let response = WebResponse { status: head.status.as_u16(), content_type, bytes };
            let (disposition, _) = self.dispose(policy, request, Some(response));
            let rule = disposition.decided_by.unwrap_or_default();
            // It is too late to go elsewhere; the rules are checked for it.
            if let WebAction::Block { text } | WebAction::Warn { text, .. } = disposition.action {
                return ResponseDecision::Block(BlockReason { rule, text });
            }
            let rates = disposition.changes.iter().filter_map(|change| match change {
                WebChange::LimitRate { bytes_per_second } => Some(*bytes_per_second),
                WebChange::Strip { .. } | WebChange::BypassTls => None,
            });
            least = rates.chain(least).min();
        }
        match least {
            Some(rate) => ResponseDecision::Inspect(Box::new(RateLimit::new(rate))),
            None => ResponseDecision::Pass,
        }
    }
}

/// Counts for the quotas of the policy that was in force when the request came.
struct QuotaMeter {
    counted: Vec<WebQuota>,
    person: String,
    quotas: Arc<Quotas>,
    clock: Arc<UnixClock>,
}

impl Meter for QuotaMeter {
    fn passed(&self, bytes: u64) {
        let now = (self.clock)();
        let add = |quota| self.quotas.add(quota, &self.person, bytes, now);
        self.counted.iter().for_each(add);
    }

    fn is_used_up(&self) -> bool {
        let now = (self.clock)();
        let used = |quota| self.quotas.get(quota, &self.person, now);
        self.counted.iter().any(|quota| quota.is_used_up(used(quota)))
    }
}

/// Whose use is counted, and who goes on after a warning: a login, else an address.
fn person(request: &WebRequest) -> String {
    request.user.clone().unwrap_or_else(|| request.client.to_string())
}

/// Says on the page how much was used, and when it begins anew; whether a quota decided.
fn explain_quotas(policy: &Policy, input: &WebInput<'_>, disposition: &mut WebDisposition) -> bool {
    let (WebAction::Block { text } | WebAction::Warn { text, .. }) = &mut disposition.action else {
        return false;
    };
    let Some(rule) = &disposition.decided_by else { return false };
    let used_up = policy.used_up(rule, input);
    for (quota, used) in &used_up {
        let (used, next) = (quota.describe(*used), quota.describe_next(input.item.at));
        text.push_str(&format!(" {used}; it begins anew on {next}."));
    }
    !used_up.is_empty()
}

/// The request as rules see it.
fn item<'a>(
    request: &'a WebRequest,
    at: i64,
    listed: &'a [Listed<'a>],
    response: Option<WebResponse<'a>>,
) -> WebItem<'a> {
    WebItem {
        at,
        client: request.client,
        user: request.user.as_deref(),
        method: request.method.as_str(),
        kind: request.kind.into(),
        url: &request.url,
        port: request.port,
        listed,
        user_agent: request.fields.user_agent.as_deref(),
        response,
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Whether any rule looks at responses, or changes them.
fn concerns_responses(policy: &Policy) -> bool {
    let limits = |change: &WebChange| matches!(change, WebChange::LimitRate { .. });
    policy.web.iter().any(|rule| rule.asks_response() || rule.changes.iter().any(limits))
}

/// The entries that count, as the policy sees them.
pub fn listed<'a>(matches: &Matches<'a>) -> Vec<Listed<'a>> {
    matches.effective().map(of_match).collect()
}

/// The entries that count for a request, and those of the address that the client connected to: the
/// name is only what it says, so that no entry of that undoes one of the address, or the other way
/// round.
fn listed_by_name_and_address<'a>(lists: &'a UrlLists, request: &WebRequest) -> Vec<Listed<'a>> {
    let mut all = listed(&lists.look_up_from(&request.url, origin(request)));
    let Some(address) = request.by_address() else { return all };
    let matches = lists.look_up_from(&address, origin(request));
    for found in matches.effective().filter(is_of_address).map(of_match) {
        if !all.contains(&found) {
            all.push(found);
        }
    }
    all
}

/// The entries that count, of an address that the URL's host was looked up to, as the policy sees
/// them: what a replay of the log asks for.
pub fn listed_at<'a>(
    lists: &'a UrlLists,
    url: &CanonicalUrl,
    address: SocketAddr,
) -> Vec<Listed<'a>> {
    let Some(by_address) = by_address(url, address) else { return Vec::new() };
    let matches = lists.look_up(&by_address);
    of_looked_up(lists, url, &matches, Origin::Unknown).into_iter().map(of_match).collect()
}

/// Those of the matches of an address that count; none if a list allows the name. Unlike one that a
/// client only says, it is where the address comes from.
fn of_looked_up<'m, 'a>(
    lists: &UrlLists,
    url: &CanonicalUrl,
    matches: &'m Matches<'a>,
    origin: Origin,
) -> Vec<&'m Match<'a>> {
    let found: Vec<_> = matches.effective().filter(is_of_address).collect();
    let is_allowed = |found: &Match<'_>| found.role == Role::Allow && !found.is_exception;
    match !found.is_empty() && lists.look_up_from(url, origin).all().iter().any(is_allowed) {
        true => Vec::new(),
        false => found,
    }
}

/// Whether an entry is of an address: expressions are tried on a URL that nobody asked for.
fn is_of_address(found: &&Match<'_>) -> bool {
    !matches!(found.pattern, Matched::Regex(_))
}

fn of_match<'a>(found: &Match<'a>) -> Listed<'a> {
    Listed { list: found.list, category: found.category, pattern: found.pattern.to_string() }
}

/// An entry as the log has it.
fn kept(listed: &Listed<'_>) -> WebListed {
    WebListed { list: listed.list.to_owned(), category: listed.category.to_owned() }
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
        action: disposition.action.name(),
        listed: listed.iter().map(kept).collect(),
        address: None,
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
