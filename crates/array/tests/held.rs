//! Nodes that hold mail, and an array with database and object store.

use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::{
    ArrayError, Database, HeldShipped, HeldShipper, Objects, Session, SharedQuarantine,
};
use gauntlet_mail::Envelope;
use gauntlet_store::quarantine::{Held, HeldMail, HeldPage, HeldQuery};
use gauntlet_store::{BodyKeys, Quarantine, QuarantineItem};
use gauntlet_verdict::{Class, ReleasedBy};

use crate::logs::DAY;
use crate::postgres::Server;
use crate::s3::{S3, objects};

/// Database and object store; both real.
pub(crate) struct Array {
    pub(crate) server: Server,
    pub(crate) s3: S3,
    pub(crate) database: Database,
    pub(crate) objects: Objects,
}

impl Array {
    /// Starts both; none if one is not installed.
    pub(crate) fn start(options: &[&str]) -> Option<Array> {
        let server = Server::start(options)?;
        let s3 = S3::start()?;
        let database = crate::logs::database(&server.uri());
        let objects = objects(s3.port);
        Some(Array { server, s3, database, objects })
    }

    /// What a manager with these keys reads.
    pub(crate) fn reader(&self, keys: Option<BodyKeys>) -> Arc<SharedQuarantine> {
        let runtime = tokio::runtime::Handle::current();
        let (database, objects) = (self.database.clone(), self.objects.clone());
        Arc::new(SharedQuarantine::new(database, objects, keys, runtime))
    }
}

/// Asks held mail on a thread that may block.
pub(crate) async fn ask<T: Send + 'static>(
    held: &Arc<SharedQuarantine>,
    asking: impl FnOnce(&dyn HeldMail) -> T + Send + 'static,
) -> T {
    let held = held.clone();
    tokio::task::spawn_blocking(move || asking(&*held)).await.unwrap()
}

/// Message `n` that a node holds, received `n` seconds after the day began.
pub(crate) fn item(node: &str, n: i64) -> QuarantineItem {
    let classes = [Class::Spam, Class::Phishing, Class::Suspect];
    let number = usize::try_from(n).unwrap();
    QuarantineItem {
        id: format!("{node}-{n}-q"),
        message: format!("{node}-{n}"),
        folder: ["suspect", "spam", "virus"][number % 3].to_owned(),
        recipients: vec![format!("User{}@example.com", n % 7), "all@example.com".to_owned()],
        envelope: Envelope {
            mail_from: format!("bounce{n}@eve.example"),
            rcpt_to: vec![format!("User{}@example.com", n % 7), "all@example.com".to_owned()],
            ..Envelope::default()
        },
        received_ms: DAY + 1000 * n,
        class: classes[number % 3],
        score: 7.5 + f64::from(u8::try_from(n % 5).unwrap()),
        subject: format!("Gewinn Nr. {n} für GRÖẞE {}", n % 4),
        from: format!("Eve <eve{}@eve.example>", n % 11),
        release: [None, Some(ReleasedBy::Admin)][number % 2],
    }
}

/// The body of that message.
pub(crate) fn body(node: &str, n: i64) -> Vec<u8> {
    let line = format!("Line of the message {n} that {node} holds.\r\n");
    format!("Subject: Gewinn {n}\r\n\r\n{}", line.repeat(30)).into_bytes()
}

/// A node with its quarantine.
pub(crate) struct HeldNode {
    pub(crate) name: String,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) identity: Identity,
    pub(crate) id: i16,
    pub(crate) folder: tempfile::TempDir,
}

impl HeldNode {
    /// Takes part in the array; encrypts its bodies if it `seals`.
    pub(crate) async fn join(name: &str, session: &Session, seals: bool) -> HeldNode {
        let folder = tempfile::tempdir().unwrap();
        let keys = seals.then(|| BodyKeys::open(&folder.path().join("keys"), true).unwrap());
        let opened = Quarantine::open_with(&folder.path().join("quarantine"), keys).unwrap();
        let identity = Identity {
            name: name.to_owned(),
            identity: Identity::make().unwrap(),
            group: String::new(),
        };
        let id = nodes::register(session, &identity).await.unwrap();
        let (name, quarantine) = (name.to_owned(), Arc::new(opened));
        HeldNode { name, quarantine, identity, id, folder }
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.path().join("keys")
    }

    /// Holds messages of these numbers.
    pub(crate) fn hold(&self, numbers: impl IntoIterator<Item = i64>) {
        for n in numbers {
            self.quarantine.put(&item(&self.name, n), &body(&self.name, n)).unwrap();
        }
    }

    pub(crate) fn shipper(&self) -> HeldShipper {
        HeldShipper::new(self.quarantine.clone(), &self.identity)
    }

    /// Ships all that waits. Returns the sums of the steps.
    pub(crate) async fn ship(
        &self,
        session: &Session,
        objects: &Objects,
    ) -> Result<HeldShipped, ArrayError> {
        let (mut shipper, mut sum) = (self.shipper(), HeldShipped::default());
        while let Some(done) = shipper.step(self.id, session, objects).await? {
            sum.items += done.items;
            sum.bodies += done.bodies;
            sum.object_bytes += done.object_bytes;
        }
        Ok(sum)
    }
}

/// All pages of a query.
pub(crate) fn all(held: &dyn HeldMail, mut query: HeldQuery) -> Vec<Held> {
    let mut found = Vec::new();
    // A cursor that stands still must not stop the tests.
    for _ in 0..10_000 {
        let HeldPage { items, next } = held.search(&query).unwrap();
        found.extend(items);
        match next {
            Some(next) => query.after = Some(next),
            None => return found,
        }
    }
    panic!("the pages do not end");
}

/// An item without what differs between a node and the array.
pub(crate) fn bare(held: Held) -> Held {
    Held { seq: 0, node: String::new(), ..held }
}
