//! Single sign-on: OpenID Connect Core 1.0, code flow with PKCE (RFC 7636).
//!
//! ```text
//! browser              here                                provider
//!   |- GET /sign-in/oidc ->|  state, nonce, verifier kept      |
//!   |<- to the provider ---|                                   |
//!   |--------------------- signs in there ------------------->|
//!   |- GET .../back?code,state ->|- code, verifier ---------->|
//!   |                            |<- id_token ----------------|
//!   |<- session -----------------|  signature, iss, aud, exp, nonce
//! ```
//!
//! The provider says who the user is; what they may do is decided here. The state is bound to the
//! browser by a cookie, used once, and forgotten after ten minutes.

pub mod token;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use base64_simd::URL_SAFE_NO_PAD;
use gauntlet_store::Users;
use gauntlet_store::users::{Proof, Role, User};
use ring::digest;
use serde_json::Value;

use crate::error::RequestError;
use crate::format::percent;
use crate::node::{NodeHandle, WebRequest};
use crate::text::translatable;
use token::Keys;

/// Sign-ins that are under way; a further one pushes the oldest out.
const PENDING_MAX: usize = 1_000;
/// Milliseconds in which a sign-in must be finished.
const PENDING_MS: i64 = 10 * 60_000;
/// Sign-ins for which the provider is queried at once: fewer than pages are made, so that a
/// provider that does not answer does not stop the others.
const PROVIDER_REQUESTS_MAX: usize = 2;
/// Age in milliseconds after which a provider's metadata and keys are fetched again.
const KNOWN_MS: i64 = 60 * 60_000;
/// New keys are not asked for more often than this, in milliseconds.
const KEYS_PAUSE_MS: i64 = 30_000;

/// How users sign in at a provider.
#[derive(Clone, PartialEq, Eq)]
pub struct OidcOptions {
    /// The provider, as it names itself.
    pub issuer: String,
    /// What it calls us.
    pub client_id: String,
    /// What we prove that with; empty for a public client.
    pub client_secret: String,
    /// The claim that is the login here.
    pub login_claim: String,
    /// Add accounts that are not known here, as users who see their own mail.
    pub add_people: bool,
    /// What the button says.
    pub name: String,
    /// Where browsers reach the console: `https://mail.example.com`.
    pub url: String,
}

impl std::fmt::Debug for OidcOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OidcOptions").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl OidcOptions {
    fn redirect_uri(&self) -> String {
        format!("{}/sign-in/oidc/back", self.url.trim_end_matches('/'))
    }
}

/// This console as the provider's client (OpenID Connect: relying party).
pub(crate) struct RelyingParty<'a> {
    pub(crate) options: &'a OidcOptions,
    pub(crate) users: &'a Users,
    /// Sends requests to the provider.
    pub(crate) node: &'a dyn NodeHandle,
}

/// A sign-in that is under way.
#[derive(Debug, Clone)]
struct Pending {
    nonce: String,
    verifier: String,
    next: String,
    /// Signing in there now is requested, not at some time before.
    fresh: bool,
    at_ms: i64,
}

/// What the provider says about itself.
#[derive(Debug, Clone)]
struct Provider {
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    keys: Keys,
    at_ms: i64,
    keys_at_ms: i64,
}

/// Sign-ins under way, and the provider as it is known.
#[derive(Debug, Default)]
pub(crate) struct SignIns {
    pending: Mutex<HashMap<String, Pending>>,
    provider: Mutex<Option<Provider>>,
    requests: AtomicUsize,
}

/// One of the sign-ins for which the provider is queried.
struct ProviderSlot<'a>(&'a AtomicUsize);

impl<'a> ProviderSlot<'a> {
    fn begin(requests: &'a AtomicUsize) -> Result<Self, RequestError> {
        let one_more = |n| (n < PROVIDER_REQUESTS_MAX).then_some(n + 1);
        let begun = requests.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        begun.map(|_| ProviderSlot(requests)).map_err(|_| RequestError::Busy)
    }
}

impl Drop for ProviderSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A user whom the provider has authenticated.
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// Where they wanted to go.
    pub(crate) next: String,
    /// What the session is begun with.
    pub(crate) proof: Proof,
}

fn sign_in_error(why: &str) -> RequestError {
    RequestError::Bad(format!("Signing in did not work: {why} Begin again."))
}

/// The details are for the log; the page says little.
fn provider_error(why: &str) -> RequestError {
    tracing::error!(error = why, "single sign-on failed");
    sign_in_error("the provider could not be asked, or its answer makes no sense.")
}

impl SignIns {
    /// Begins a sign-in: the address of the provider that the browser must go to, and the state
    /// that its cookie must hold. A fresh one is not satisfied by a sign-in there of before.
    pub(crate) fn begin(
        &self,
        party: &RelyingParty<'_>,
        next: &str,
        fresh: bool,
        now_ms: i64,
    ) -> Result<(String, String), RequestError> {
        let provider = {
            let _slot = ProviderSlot::begin(&self.requests)?;
            self.provider(party, now_ms)?
        };
        let random = || -> Result<String, RequestError> {
            let users = party.users;
            let pieces = [users.one_time_password()?, users.one_time_password()?];
            Ok([pieces.concat(), users.one_time_password()?].concat())
        };
        let (state, nonce, verifier) = (random()?, random()?, random()?);
        let challenge = digest::digest(&digest::SHA256, verifier.as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode_to_string(challenge.as_ref());
        let separator = if provider.authorization_endpoint.contains('?') { '&' } else { '?' };
        let address = format!(
            "{}{separator}response_type=code&scope=openid%20email%20profile&client_id={}&redirect_uri={}\
             &state={state}&nonce={nonce}&code_challenge={challenge}&code_challenge_method=S256",
            provider.authorization_endpoint,
            percent(&party.options.client_id),
            percent(&party.options.redirect_uri())
        );
        // OpenID Connect Core, section 3.1.2.1: with max_age the id_token says when it was.
        let address = if fresh { address + "&prompt=login&max_age=0" } else { address };
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|_, p| now_ms - p.at_ms < PENDING_MS);
        if pending.len() >= PENDING_MAX {
            let oldest = pending.iter().min_by_key(|(_, p)| p.at_ms).map(|(s, _)| s.clone());
            oldest.and_then(|state| pending.remove(&state));
        }
        let next = next.to_owned();
        pending.insert(state.clone(), Pending { nonce, verifier, next, fresh, at_ms: now_ms });
        Ok((address, state))
    }

    /// Signs in a user whose browser comes back with a code and its own state.
    pub(crate) fn finish(
        &self,
        party: &RelyingParty<'_>,
        state: &str,
        code: &str,
        now_ms: i64,
    ) -> Result<Authenticated, RequestError> {
        let _slot = ProviderSlot::begin(&self.requests)?;
        let pending = {
            let mut all = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(state).filter(|p| now_ms - p.at_ms < PENDING_MS)
        };
        let pending =
            pending.ok_or_else(|| sign_in_error("it took too long, or was done already."))?;
        let provider = self.provider(party, now_ms)?;
        let token = exchange_code(party, &provider, code, &pending.verifier)?;
        let claims = match provider.keys.verify(&token) {
            Ok(claims) => claims,
            // A key that was changed there is not known here yet.
            Err(_) => self
                .refresh_keys(party, now_ms)?
                .verify(&token)
                .map_err(|why| provider_error(&format!("id_token: {why}")))?,
        };
        let checked = token::check(
            &claims,
            &party.options.issuer,
            &party.options.client_id,
            &pending.nonce,
            now_ms,
        );
        checked.map_err(|why| provider_error(&format!("id_token: {why}")))?;
        if pending.fresh {
            let fresh = token::signed_in_since(&claims, pending.at_ms, now_ms);
            fresh.map_err(|why| provider_error(&format!("id_token: {why}")))?;
        }
        let user = user_of_claims(party, &claims, now_ms)?;
        let proof = if pending.fresh { Proof::FreshSingleSignOn } else { Proof::SingleSignOn };
        Ok(Authenticated { user, next: pending.next, proof })
    }

    /// What the provider says about itself, asked now and then.
    fn provider(&self, party: &RelyingParty<'_>, now_ms: i64) -> Result<Provider, RequestError> {
        let known = self.provider.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|p| (0..KNOWN_MS).contains(&(now_ms - p.at_ms))) {
            return Ok(known);
        }
        let issuer = party.options.issuer.trim_end_matches('/');
        let about = get(party, &format!("{issuer}/.well-known/openid-configuration"))?;
        let text = |name: &str| {
            let value = about[name].as_str().map(str::to_owned);
            value.ok_or_else(|| provider_error(&format!("the provider names no {name}")))
        };
        if text("issuer")?.trim_end_matches('/') != issuer {
            return Err(provider_error("the provider names another issuer than oidc.issuer"));
        }
        let jwks_uri = text("jwks_uri")?;
        let provider = Provider {
            authorization_endpoint: text("authorization_endpoint")?,
            token_endpoint: text("token_endpoint")?,
            keys: Keys::read(&get(party, &jwks_uri)?),
            jwks_uri,
            at_ms: now_ms,
            keys_at_ms: now_ms,
        };
        *self.provider.lock().unwrap_or_else(PoisonError::into_inner) = Some(provider.clone());
        Ok(provider)
    }

    fn refresh_keys(&self, party: &RelyingParty<'_>, now_ms: i64) -> Result<Keys, RequestError> {
        let mut provider = self.provider(party, now_ms)?;
        if now_ms - provider.keys_at_ms >= KEYS_PAUSE_MS {
            provider.keys = Keys::read(&get(party, &provider.jwks_uri)?);
            provider.keys_at_ms = now_ms;
            let mut known = self.provider.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some(provider.clone());
        }
        Ok(provider.keys)
    }
}

/// Asks the provider and reads its JSON.
fn get(party: &RelyingParty<'_>, url: &str) -> Result<Value, RequestError> {
    let request = WebRequest { url: url.to_owned(), headers: Vec::new(), body: None };
    answer(party, &request)
}

fn answer(party: &RelyingParty<'_>, request: &WebRequest) -> Result<Value, RequestError> {
    let url = &request.url;
    let (status, text) = party
        .node
        .send_web_request(request)
        .map_err(|why| provider_error(&format!("{url}: {why}")))?;
    if status != 200 {
        let start: String = text.chars().take(200).collect();
        return Err(provider_error(&format!("{url} says {status}: {start}")));
    }
    serde_json::from_str(&text).map_err(|e| provider_error(&format!("{url}: {e}")))
}

/// The code for an id_token.
fn exchange_code(
    party: &RelyingParty<'_>,
    provider: &Provider,
    code: &str,
    verifier: &str,
) -> Result<String, RequestError> {
    let mut body = format!(
        "grant_type=authorization_code&code={}&redirect_uri={}&code_verifier={verifier}",
        percent(code),
        percent(&party.options.redirect_uri())
    );
    let form = "application/x-www-form-urlencoded".to_owned();
    let mut headers = vec![
        ("Content-Type".to_owned(), form),
        ("Accept".to_owned(), "application/json".to_owned()),
    ];
    let (id, secret) = (percent(&party.options.client_id), percent(&party.options.client_secret));
    if secret.is_empty() {
        body.push_str(&format!("&client_id={id}"));
    } else {
        // client_secret_basic: every provider must know it.
        let both = base64_simd::STANDARD.encode_to_string(format!("{id}:{secret}"));
        headers.push(("Authorization".to_owned(), format!("Basic {both}")));
    }
    let url = provider.token_endpoint.clone();
    let response = answer(party, &WebRequest { url, headers, body: Some(body) })?;
    let token = response["id_token"].as_str().map(str::to_owned);
    token.ok_or_else(|| provider_error("the provider sent no id_token"))
}

/// The user of these claims.
fn user_of_claims(
    party: &RelyingParty<'_>,
    claims: &Value,
    now_ms: i64,
) -> Result<User, RequestError> {
    let claim = party.options.login_claim.as_str();
    let login = claims[claim].as_str().unwrap_or_default();
    if login.is_empty() {
        return Err(provider_error(&format!("the id_token has no {claim} (oidc.login_claim)")));
    }
    // Users may write any address into their profile: only one that the provider says is verified
    // names a user here, or says whose mail they may see. A claim that is missing says nothing.
    // Some providers write the word instead of the value.
    let verified = &claims["email_verified"];
    let certain = verified == &Value::Bool(true) || verified == "true";
    let by_address =
        claim == "email" || claims["email"].as_str().is_some_and(|e| e.eq_ignore_ascii_case(login));
    if by_address && !certain {
        let why = "the id_token's email_verified is not true; have the provider verify the address \
                   and send that claim, or set oidc.login_claim to one that users cannot choose";
        tracing::error!(login, error = why, "single sign-on refused");
        return Err(sign_in_error("the provider does not say that your mail address is verified."));
    }
    let addresses: Vec<String> = match claims["email"].as_str() {
        Some(email) if certain => vec![email.to_lowercase()],
        _ => Vec::new(),
    };
    let role = (party.options.add_people && certain).then_some(Role::User);
    if party.options.add_people && addresses.is_empty() {
        // Not added then: a user without addresses may send mail as anybody.
        tracing::warn!(login, "the id_token has no verified email: no user is added without one");
    }
    let users = party.users;
    match users.user_from_single_sign_on(login, role, &addresses, now_ms)? {
        Some(user) => Ok(user),
        None => {
            let shown: String = login.chars().take(100).collect();
            users.note(now_ms, &shown, "sign-in failed", "not known here")?;
            Err(RequestError::Forbidden(translatable(
                "You are not known here. Ask an administrator to add you.",
            )))
        }
    }
}
