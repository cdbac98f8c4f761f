//! Logs of nodes, and the way from them to the array.

use std::sync::Arc;
use std::time::Duration;

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::shipping::Shipper;
use gauntlet_array::{
    ArrayError, Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Session,
};
use gauntlet_mail::date::DAY_MS;
use gauntlet_mail::{Evidence, Hit, View};
use gauntlet_store::record::{Delivery, LogRecord, Outcome};
use gauntlet_store::{Log, LogOptions};
use gauntlet_verdict::{Class, Disposition, Final, Verdict};
use tokio_rustls::rustls;

/// The beginning of a day.
pub(crate) const DAY: i64 = 20_778 * DAY_MS;

/// A message that node `node` received at this time.
pub(crate) fn record(node: &str, n: i64, at_ms: i64) -> LogRecord {
    let to = |name: &str, end| Disposition {
        recipient: format!("{name}{n}@example.com"),
        end,
        changes: Vec::new(),
        rules: vec!["spam to quarantine".to_owned()],
        release: None,
    };
    let hit = Hit {
        rule: format!("RULE_{}", n % 3).into(),
        score: 2.5,
        count: 1,
        description: "".into(),
        evidence: vec![Evidence::new(View::Header, 0, 3, b"win").named("Subject")],
    };
    let envelope = gauntlet_mail::Envelope {
        mail_from: format!("bounce{n}@{node}.example"),
        rcpt_to: vec![format!("a{n}@example.com"), format!("b{n}@example.com")],
        ..Default::default()
    };
    let class = if n % 2 == 0 { Class::Spam } else { Class::Ham };
    LogRecord {
        id: format!("{node}-{n}"),
        received_ms: at_ms,
        envelope,
        size: 1000 + n.unsigned_abs(),
        from: format!("Eve <eve{n}@mail.example>"),
        subject: format!("Größe der Rechnung Nr. {n}"),
        message_id: format!("m{n}@{node}.example"),
        verdict: Verdict { class, score: 2.5, hits: vec![hit], ..Verdict::default() },
        dispositions: vec![
            to("a", Final::Deliver),
            to("b", Final::Quarantine { folder: "suspect".to_owned() }),
        ],
        latency_ms: 12,
        ..LogRecord::default()
    }
}

/// The same, delivered.
pub(crate) fn delivered(mut record: LogRecord, at_ms: i64) -> LogRecord {
    let address = record.dispositions[0].recipient.clone();
    let outcome = Outcome::Delivered;
    record.deliveries = vec![Delivery { address, outcome, at_ms, ..Delivery::default() }];
    record
}

/// Settings of TLS that trust nobody.
pub(crate) fn tls() -> Arc<rustls::ClientConfig> {
    tls_trusting(rustls::RootCertStore::empty())
}

/// Settings of TLS that trust these.
pub(crate) fn tls_trusting(roots: rustls::RootCertStore) -> Arc<rustls::ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// The database at this address.
pub(crate) fn database(uri: &str) -> Database {
    let tls = DatabaseTls { any: tls(), verified: None };
    let options =
        DatabaseOptions { connect_max: Duration::from_secs(5), query_max: Duration::from_secs(5) };
    Database::new(DatabaseAddress::parse(uri).unwrap(), tls, options)
}

/// A node with its log.
pub(crate) struct Node {
    pub(crate) log: Arc<Log>,
    pub(crate) identity: Identity,
    pub(crate) id: i16,
    _folder: tempfile::TempDir,
}

impl Node {
    /// Takes part in the array.
    pub(crate) async fn join(name: &str, session: &Session) -> Node {
        let folder = tempfile::tempdir().unwrap();
        let options = LogOptions { feeds_array: true, ..LogOptions::default() };
        let log = Arc::new(Log::open_with(folder.path(), options).unwrap());
        let identity = Identity {
            name: name.to_owned(),
            identity: Identity::make().unwrap(),
            group: String::new(),
        };
        let id = nodes::register(session, &identity).await.unwrap();
        Node { log, identity, id, _folder: folder }
    }

    /// Ships all that waits. Returns messages sent.
    pub(crate) async fn ship(&self, session: &Session) -> Result<u64, ArrayError> {
        let mut shipper = Shipper::new(self.log.clone(), self.id);
        let mut messages = 0;
        while let Some(shipped) = shipper.step(session).await? {
            messages += shipped.messages;
        }
        Ok(messages)
    }
}
