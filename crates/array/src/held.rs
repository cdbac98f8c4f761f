//! The quarantine of an array: what all nodes hold, read by managers.

use std::future::Future;

use futures_util::future::try_join;
use gauntlet_store::quarantine::{FolderSummary, Held, HeldMail, HeldPage, HeldQuery, State};
use gauntlet_store::{BodyKeys, StoreError, reference};
use tokio::runtime::Handle;

use crate::bodies;
use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::held_rows::{COLUMNS, held};
use crate::held_settled::{LOOKED_AT, settle};
use crate::objects::Objects;
use crate::orders;
use crate::readers::{Readers, store_error};
use crate::value::{Typed, Value};

/// The held mail of all nodes. Its methods block, and may be called from any thread that is not one
/// of the runtime's own.
#[derive(Debug)]
pub struct SharedQuarantine {
    readers: Readers,
    objects: Objects,
    /// Keys of bodies that nodes encrypted; they are those of the nodes' key files.
    keys: Option<BodyKeys>,
}

impl SharedQuarantine {
    /// The held mail in this database and object store. `runtime` carries the connections.
    pub fn new(
        database: Database,
        objects: Objects,
        keys: Option<BodyKeys>,
        runtime: Handle,
    ) -> Self {
        SharedQuarantine { readers: Readers::new(database, runtime), objects, keys }
    }

    /// Asks with a connection of its own.
    pub(crate) fn ask<T, F>(&self, asking: impl FnOnce(Session) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = (Session, Result<T, ArrayError>)>,
    {
        self.readers.ask(asking)
    }
}

impl HeldMail for SharedQuarantine {
    fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        self.readers.ask(|session| async {
            let found = search(&session, query).await;
            (session, found)
        })
    }

    fn get(&self, id: &str) -> Result<Option<Held>, StoreError> {
        Ok(self.get_all(&[id])?.pop().flatten())
    }

    fn get_all(&self, ids: &[&str]) -> Result<Vec<Option<Held>>, StoreError> {
        self.readers.ask(|session| async {
            let found = get_all(&session, ids).await;
            (session, found)
        })
    }

    fn body(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let place = self.readers.ask(|session| async {
            let found = place_of(&session, id).await;
            (session, found)
        })?;
        let Some((name, offset, bytes)) = place else { return Ok(None) };
        let read = self.readers.runtime().block_on(self.objects.get(&name, offset, bytes));
        let place = format!("{}/{name}", self.objects.server());
        let opened = read.and_then(|record| {
            let record = record.ok_or_else(|| ArrayError::Damaged {
                what: format!("a held message in {place}"),
                cause: "the object is gone; look whether something else removes objects there"
                    .to_owned(),
            })?;
            bodies::open(&record, &place, self.keys.as_ref())
        });
        opened.map(Some).map_err(store_error)
    }

    fn folders(&self) -> Result<Vec<FolderSummary>, StoreError> {
        self.readers.ask(|session| async {
            let found = folders(&session).await;
            (session, found)
        })
    }

    fn recipients_with_held(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.readers.ask(|session| async {
            let found = recipients_with_held(&session, after, limit).await;
            (session, found)
        })
    }
}

async fn search(session: &Session, query: &HeldQuery) -> Result<HeldPage, ArrayError> {
    let limit = query.page();
    let (conditions, mut values) = conditions(query);
    values.push(Box::new(limit as i64 + 1));
    let sql = format!(
        "SELECT {COLUMNS} FROM held AS h JOIN node AS n ON n.id = h.node WHERE {conditions} \
         ORDER BY h.seq DESC LIMIT ${}",
        values.len()
    );
    let values: Vec<Value<'_>> = values.iter().map(|value| &**value as Value<'_>).collect();
    // In one exchange with the server, the orders after the items.
    let (rows, orders) = try_join(
        session.rows("searching held mail", &sql, &values),
        orders::of_held_mail(session, LOOKED_AT),
    )
    .await?;
    let mut items: Vec<Held> = rows.iter().map(held).collect::<Result<_, _>>()?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|item| item.seq);
    settle(&mut items, &orders);
    items.retain(|held| query.state.is_none_or(|state| held.state == state));
    Ok(HeldPage { items, next })
}

async fn get_all(session: &Session, references: &[&str]) -> Result<Vec<Option<Held>>, ArrayError> {
    let named: Vec<(&str, Option<&str>)> =
        references.iter().map(|reference| reference::split(reference)).collect();
    let ids: Vec<&str> = named.iter().map(|(id, _)| *id).collect();
    let sql = format!(
        "SELECT {COLUMNS} FROM held AS h JOIN node AS n ON n.id = h.node WHERE h.item = ANY ($1)"
    );
    let values: [Value<'_>; 1] = [&ids];
    let (rows, orders) = try_join(
        session.rows("reading held messages", &sql, &values),
        orders::of_held_mail(session, LOOKED_AT),
    )
    .await?;
    let mut all = rows.iter().map(held).collect::<Result<Vec<_>, _>>()?;
    settle(&mut all, &orders);
    let one = |(id, node): (&str, Option<&str>)| {
        let is_it = |held: &&Held| held.item.id == id && node.is_none_or(|node| held.node == node);
        only_one(id, all.iter().filter(is_it).map(|held| held.node.as_str()))?;
        Ok(all.iter().find(is_it).cloned())
    };
    named.into_iter().map(one).collect()
}

/// Refuses an id that several nodes gave.
fn only_one<'a>(id: &str, nodes: impl Iterator<Item = &'a str>) -> Result<(), StoreError> {
    let all: Vec<String> = nodes.map(|node| format!("{id}@{node}")).collect();
    match all.len() {
        0 | 1 => Ok(()),
        _ => Err(StoreError::Invalid {
            what: "id of a held message",
            cause: format!("several nodes have one; name {}", all.join(" or ")),
        }),
    }
}

/// Object, offset and length of a body; none if the item has none.
async fn place_of(
    session: &Session,
    reference: &str,
) -> Result<Option<(String, u64, u64)>, ArrayError> {
    let (id, node) = reference::split(reference);
    let rows = session
        .rows(
            "looking for the body of a held message",
            "SELECT o.name, h.place, h.bytes, h.state, n.name FROM held AS h \
             JOIN node AS n ON n.id = h.node LEFT JOIN held_object AS o ON o.id = h.object \
             WHERE h.item = $1 AND ($2::text IS NULL OR n.name = $2) ORDER BY h.seq DESC LIMIT 2",
            &[&id, &node],
        )
        .await?;
    only_one(id, rows.iter().map(|row| row.get(4)))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let name: Option<String> = row.get(0);
    if let Some(name) = name {
        let offset = row.get::<_, Option<i64>>(1).and_then(|n| u64::try_from(n).ok());
        let bytes = row.get::<_, Option<i32>>(2).and_then(|n| u64::try_from(n).ok());
        return Ok(Some((name, offset.unwrap_or(0), bytes.unwrap_or(0))));
    }
    match State::parse(row.get(3)) {
        State::Held | State::Releasing => Err(ArrayError::Damaged {
            what: format!("the body of held message {id}"),
            cause: format!(
                "node {} could not read it; see `gauntlet quarantine verify` there",
                row.get::<_, &str>(4)
            ),
        }),
        State::Released | State::Deleted => Ok(None),
    }
}

async fn folders(session: &Session) -> Result<Vec<FolderSummary>, ArrayError> {
    let rows = session
        .rows(
            "counting held mail",
            "SELECT folder, count(*), sum(size)::bigint, min(received) FROM held \
             WHERE state = 'held' GROUP BY folder ORDER BY folder COLLATE \"C\"",
            &[],
        )
        .await?;
    let summary = |row: &tokio_postgres::Row| FolderSummary {
        name: row.get(0),
        items: u64::try_from(row.get::<_, i64>(1)).unwrap_or(0),
        bytes: u64::try_from(row.get::<_, i64>(2)).unwrap_or(0),
        oldest_ms: row.get(3),
    };
    Ok(rows.iter().map(summary).collect())
}

async fn recipients_with_held(
    session: &Session,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, ArrayError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = session
        .rows(
            "listing recipients of held mail",
            "SELECT DISTINCT r COLLATE \"C\" AS r FROM held, unnest(recipients) AS r \
             WHERE state = 'held' AND r COLLATE \"C\" > $1 ORDER BY 1 LIMIT $2",
            &[&after, &limit],
        )
        .await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// The query as SQL: conditions joined by AND, and their values in order.
fn conditions(query: &HeldQuery) -> (String, Vec<Box<dyn Typed + Send>>) {
    // Written out, for the index of what is held.
    let of_state = if query.state == Some(State::Held) { "h.state = 'held'" } else { "true" };
    let mut clauses = vec![of_state.to_owned()];
    let mut values: Vec<Box<dyn Typed + Send>> = Vec::new();
    let mut add = |clause: &str, value: Box<dyn Typed + Send>| {
        values.push(value);
        clauses.push(clause.replace('?', &format!("${}", values.len())));
    };
    // What PostgreSQL refuses is in no row.
    let text = |s: &str| Box::new(s.trim().replace('\0', "\u{fffd}"));
    if !query.folder.is_empty() {
        add("h.folder = ?", text(&query.folder));
    }
    if !query.folders.is_empty() {
        let names: Vec<String> = query.folders.iter().map(|name| *text(name)).collect();
        add("h.folder = ANY (?)", Box::new(names));
    }
    if let Some(state) = query.state.filter(|state| *state != State::Held) {
        add("h.state = ?", text(state.name()));
    }
    if !query.recipient.is_empty() {
        let recipient = vec![*text(&query.recipient.to_lowercase())];
        add("h.recipients @> ?", Box::new(recipient));
    }
    if !query.message.is_empty() {
        add("h.message = ?", text(&query.message));
    }
    if !query.text.trim().is_empty() {
        let searched = match query.hide_recipients {
            true => "h.subject || chr(10) || h.sender",
            false => {
                "h.subject || chr(10) || h.sender || chr(10) || \
                 array_to_string(h.recipients, chr(10))"
            }
        };
        // In the collation "C" only ASCII letters have a lower case.
        let clause =
            format!("position(lower(? COLLATE \"C\") in lower(({searched}) COLLATE \"C\")) > 0");
        add(&clause, text(&query.text));
    }
    if !query.classes.is_empty() {
        let names: Vec<&str> = query.classes.iter().map(|class| class.name()).collect();
        add("h.class = ANY (?)", Box::new(names));
    }
    if let Some(since) = query.since_ms {
        add("h.received >= ?", Box::new(since));
    }
    if let Some(until) = query.until_ms {
        add("h.received < ?", Box::new(until));
    }
    if let Some(after) = query.after {
        add("h.seq < ?", Box::new(after));
    }
    (clauses.join(" AND "), values)
}
