//! What is edited once for all nodes, in numbered editions: the policy, and settings.
//!
//! An edition is for all nodes, for a group, or for one node. A node goes by the newest edition of
//! the narrowest of its scopes that has one. An empty edition takes a narrower one back.

use crate::database::Session;
use crate::error::ArrayError;
use crate::nodes::Identity;

/// Name of the channel on which PostgreSQL tells nodes that something is new for them.
pub const CHANNEL: &str = "gauntlet";

/// What an edition is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The policy, as its file has it.
    Policy,
    /// Settings, as a configuration file has them.
    Settings,
}

impl Kind {
    /// Name in the database.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Policy => "policy",
            Kind::Settings => "settings",
        }
    }
}

/// Whom an edition is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All nodes.
    All,
    /// The nodes of a group.
    Group(String),
    /// One node.
    Node(String),
}

impl Scope {
    /// `all`, `group:NAME` or `node:NAME`.
    pub fn name(&self) -> String {
        match self {
            Scope::All => "all".to_owned(),
            Scope::Group(name) => format!("group:{name}"),
            Scope::Node(name) => format!("node:{name}"),
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "all" => Ok(Scope::All),
            Some(("group", name)) if !name.is_empty() => Ok(Scope::Group(name.to_owned())),
            Some(("node", name)) if !name.is_empty() => Ok(Scope::Node(name.to_owned())),
            _ => Err(format!("{text:?} is not all, group:NAME or node:NAME")),
        }
    }
}

/// An edition.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Edition {
    /// Its number, over all kinds and scopes.
    pub number: i64,
    /// Whom it is for, as [`Scope::name`] writes it.
    pub scope: String,
    /// Its text; empty takes back what its scope had.
    pub body: String,
    /// Who made it.
    pub who: String,
    /// Why; may be empty.
    pub note: String,
    /// When, in Unix milliseconds by the database's clock.
    pub made_ms: i64,
}

const COLUMNS: &str = "number, scope, body, who, note, (extract(epoch FROM made) * 1000)::bigint";

fn edition(row: &tokio_postgres::Row) -> Edition {
    Edition {
        number: row.get(0),
        scope: row.get(1),
        body: row.get(2),
        who: row.get(3),
        note: row.get(4),
        made_ms: row.get(5),
    }
}

/// Makes an edition and tells the nodes. `base` is the number of the newest one of this scope that
/// its author saw, 0 for none: if there is a newer one by now, nothing is made.
///
/// # Errors
/// If somebody was faster, or a statement fails.
pub async fn publish(
    session: &Session,
    kind: Kind,
    scope: &Scope,
    base: Option<i64>,
    (body, who, note): (&str, &str, &str),
) -> Result<i64, ArrayError> {
    const DOING: &str = "publishing to the array";
    let scope = scope.name();
    let sql = "INSERT INTO edition (kind, scope, body, who, note) SELECT $1, $2, $3, $4, $5 \
               WHERE $6::bigint IS NULL OR $6 = (SELECT coalesce(max(number), 0) FROM edition \
               WHERE kind = $1 AND scope = $2) RETURNING number, pg_notify($7, $1)";
    let values: [crate::value::Value<'_>; 7] =
        [&kind.name(), &scope, &body, &who, &note, &base, &CHANNEL];
    let Some(row) = session.row(DOING, sql, &values).await? else {
        return Err(ArrayError::Statement {
            doing: DOING,
            cause: format!("{scope} was changed meanwhile; look at the newest, then publish again"),
        });
    };
    Ok(row.get(0))
}

/// The edition that this node goes by; none if it goes by its own.
///
/// # Errors
/// If a statement fails.
pub async fn in_force(
    session: &Session,
    kind: Kind,
    own: &Identity,
) -> Result<Option<Edition>, ArrayError> {
    let scopes = [
        Scope::Node(own.name.clone()).name(),
        Scope::Group(own.group.clone()).name(),
        Scope::All.name(),
    ];
    // The newest of each scope; of those that are not empty the narrowest.
    let sql = format!(
        "SELECT {COLUMNS} FROM (SELECT DISTINCT ON (scope) * FROM edition WHERE kind = $1 AND \
         scope = ANY ($2) ORDER BY scope, number DESC) newest WHERE body <> '' \
         ORDER BY array_position($2, scope) LIMIT 1"
    );
    let scopes = scopes.as_slice();
    let row = session.row("reading the array's policy", &sql, &[&kind.name(), &scopes]).await?;
    Ok(row.as_ref().map(edition))
}

/// The newest edition of a scope, which is empty if it was withdrawn; none if there never was one.
///
/// # Errors
/// If a statement fails.
pub async fn newest(
    session: &Session,
    kind: Kind,
    scope: &Scope,
) -> Result<Option<Edition>, ArrayError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM edition WHERE kind = $1 AND scope = $2 ORDER BY number DESC LIMIT 1"
    );
    let doing = "reading an edition of the array";
    let row = session.row(doing, &sql, &[&kind.name(), &scope.name()]).await?;
    Ok(row.as_ref().map(edition))
}

/// The newest editions of a kind, newest first.
///
/// # Errors
/// If a statement fails.
pub async fn list(session: &Session, kind: Kind, max: u32) -> Result<Vec<Edition>, ArrayError> {
    let sql =
        format!("SELECT {COLUMNS} FROM edition WHERE kind = $1 ORDER BY number DESC LIMIT $2");
    let rows = session
        .rows("reading the editions of the array", &sql, &[&kind.name(), &i64::from(max)])
        .await?;
    Ok(rows.iter().map(edition).collect())
}
