//! One conversation with an authority: account, order, proofs, certificate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType,
    Error, HttpClient, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};

use super::AcmeStore;
use super::proofs::{Proofs, Shown};
use crate::net::tls::HopTls;
use crate::net::web;

/// Time for a whole order.
const ORDER_WAIT: Duration = Duration::from_secs(300);
/// Orders in a row where the authority does not know its own nonce again (RFC 8555 section 6.5: try
/// again). Each of an order's dozen requests is repeated twice before.
const ORDERS_MAX: u32 = 4;
/// Time for the authority to check the proofs, and to sign.
const POLL_WAIT: Duration = Duration::from_secs(120);

/// What asks the authority: our own way to web servers.
struct Authority(Arc<HopTls>);

impl HttpClient for Authority {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let tls = self.0.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let request = Request::from_parts(head, Full::new(body.to_bytes()));
            let uri = request.uri().to_string();
            let answer = web::exchange(request, &tls).await;
            let answer = answer.map_err(|e| Error::Other(format!("{uri}: {e:#}").into()))?;
            Ok(BytesResponse::from(answer.map(Full::new)))
        })
    }
}

/// A certificate that an authority gave.
#[derive(Debug)]
pub struct Ordered {
    /// Its key in PEM, unless the secrets process keeps it.
    pub(super) key: Option<String>,
    /// Its chain in PEM.
    pub(super) chain: String,
}

/// Gets a certificate for the names of the configuration.
///
/// # Errors
/// A sentence that names the culprit, the cause and what to do.
pub async fn obtain(acme_store: AcmeStore<'_>, proofs: &Arc<Proofs>) -> anyhow::Result<Ordered> {
    let attempts = async {
        let mut left = ORDERS_MAX;
        loop {
            left -= 1;
            match order(acme_store, proofs).await {
                Err(error) if left > 0 && error.is::<StaleNonce>() => {}
                ended => return ended,
            }
        }
    };
    let ordered = tokio::time::timeout(ORDER_WAIT, attempts).await;
    let directory = &acme_store.config.acme.directory;
    ordered
        .unwrap_or_else(|_| Err(anyhow!("no certificate within {} s", ORDER_WAIT.as_secs())))
        .with_context(|| format!("acme.directory {directory}"))
}

async fn order(acme_store: AcmeStore<'_>, proofs: &Arc<Proofs>) -> anyhow::Result<Ordered> {
    let config = acme_store.config;
    let roots = crate::config::trust_roots(&config.acme.roots);
    let tls = Arc::new(HopTls::load_for(&roots, "acme.roots")?);
    let account = open_account(acme_store, &tls).await.map_err(|e| explained(e, acme_store))?;
    let names = config.acme.names(&config.node.host_name());
    let identifiers: Vec<Identifier> = names.iter().cloned().map(Identifier::Dns).collect();
    let order = account.new_order(&NewOrder::new(&identifiers)).await;
    let mut order = order.map_err(|e| explained(e, acme_store))?;
    let mut shown = proofs.show();
    show_proofs(&mut order, &mut shown).await?;
    let retry_policy = RetryPolicy::new().timeout(POLL_WAIT);
    match order.poll_ready(&retry_policy).await {
        Ok(OrderStatus::Ready) => {}
        Ok(_) => bail!(refusal(&mut order).await.unwrap_or("it does not say why".to_owned())),
        Err(Error::Api(problem)) => {
            // The authorization says more than the order.
            let why = refusal(&mut order).await;
            return Err(why.map_or_else(|| plain(Error::Api(problem)), |why| anyhow!(why)));
        }
        Err(error) => return Err(explained(error, acme_store)),
    }
    let (key, request) = acme_store.request(names)?;
    order.finalize_csr(&request).await.map_err(|e| explained(e, acme_store))?;
    let chain =
        order.poll_certificate(&retry_policy).await.map_err(|e| explained(e, acme_store))?;
    Ok(Ordered { key, chain })
}

/// The account with the authority; made if there is none with this one.
async fn open_account(acme_store: AcmeStore<'_>, tls: &Arc<HopTls>) -> Result<Account, Error> {
    let config = acme_store.config;
    let directory = &config.acme.directory;
    let http = || Box::new(Authority(tls.clone()));
    // The file is the library's own form; which authority it is for is its member `directory`.
    let known = acme_store.account().filter(|bytes| {
        let value = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
        value["directory"] == directory.as_str()
    });
    if let Some(known) = known.and_then(|b| serde_json::from_slice::<AccountCredentials>(&b).ok()) {
        return Account::builder_with_http(http()).from_credentials(known).await;
    }
    let contact = format!("mailto:{}", config.acme.contact);
    let contacts = [contact.as_str()];
    let new = NewAccount {
        contact: if config.acme.contact.is_empty() { &[] } else { &contacts },
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let made = Account::builder_with_http(http()).create(&new, directory.clone(), None).await;
    let (account, credentials) = made?;
    let text = serde_json::to_vec(&credentials)?;
    acme_store.keep_account(text).map_err(|e| Error::Other(format!("{e:#}").into()))?;
    tracing::info!(directory, account = account.id(), "a new account with the authority");
    Ok(account)
}

/// Shows the proofs that the authority asks for, and asks it to check them.
async fn show_proofs(order: &mut Order, shown: &mut Shown) -> anyhow::Result<()> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(plain)?;
        let name = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => bail!("the authorization of {name} is {status:?}; it is requested again"),
        }
        let challenge = authorization.challenge(ChallengeType::Http01);
        let mut challenge = challenge.with_context(|| {
            format!("the authority takes no proof by HTTP-01 for {name}: use another authority")
        })?;
        shown.add(&challenge.token, challenge.key_authorization().as_str());
        challenge.set_ready().await.map_err(plain)?;
    }
    Ok(())
}

/// Why the proofs did not convince, if an authorization says it.
async fn refusal(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|c| c.error.as_ref()) {
            return Some(format!("{name}: {}", describe(problem)));
        }
    }
    None
}

/// The authority refused a nonce of its own: the same order may go well at once.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct StaleNonce(String);

fn plain(error: Error) -> anyhow::Error {
    match error {
        Error::Api(problem) if kind(&problem) == "badNonce" => {
            StaleNonce(describe(&problem)).into()
        }
        Error::Api(problem) => anyhow!(describe(&problem)),
        other => anyhow!(other),
    }
}

/// An error with what to do; an account that the authority does not know is forgotten, so that the
/// next attempt makes one.
fn explained(error: Error, acme_store: AcmeStore<'_>) -> anyhow::Error {
    if let Error::Api(problem) = &error
        && kind(problem) == "accountDoesNotExist"
        && let Err(error) = acme_store.forget_account()
    {
        let error = format!("{error:#}");
        tracing::warn!(error, "the account's file cannot be removed");
    }
    plain(error)
}

fn kind(problem: &Problem) -> &str {
    let name = problem.r#type.as_deref().unwrap_or_default();
    name.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(name)
}

/// What the authority said, and what to do about it (RFC 8555 section 6.7).
fn describe(problem: &Problem) -> String {
    let hint = match kind(problem) {
        "connection" | "dns" | "unauthorized" | "incorrectResponse" | "tls" => {
            "the name's addresses in the DNS must be this machine's, and their port 80 must lead to \
             acme.address"
        }
        "caa" => "the CAA records of the domain must allow this authority",
        "rateLimited" => "the authority counts: it is tried again later",
        "rejectedIdentifier" | "unsupportedIdentifier" | "malformed" => {
            "is acme.names a list of public host names?"
        }
        "invalidContact" | "unsupportedContact" => "set acme.contact to a mail address that works",
        "externalAccountRequired" => {
            "it wants an account from elsewhere, which is not done here: use another authority"
        }
        "accountDoesNotExist" => "a new account is made with the next attempt",
        "userActionRequired" => "visit the authority's page",
        _ => "it is tried again later",
    };
    let detail = problem.detail.as_deref().unwrap_or("no detail");
    // It is another's text, and goes into logs.
    let detail: String =
        detail.chars().filter(|c| !gauntlet_smtp::text::breaks_line(*c)).take(300).collect();
    format!("{detail} ({}); {hint}", kind(problem))
}
