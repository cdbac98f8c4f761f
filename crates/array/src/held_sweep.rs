//! Removing what nobody names any more: objects whose last body is gone, objects that no row came
//! to name, and rows of nodes that are not there to remove them. One manager calls it; if two do,
//! nothing is lost.

use futures_util::{StreamExt, stream};

use crate::database::Session;
use crate::error::ArrayError;
use crate::objects::Objects;

/// Objects removed at the same time.
const AT_ONCE: usize = 8;

/// What a sweep removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Objects removed.
    pub objects: u64,
    /// Their bytes, as far as they are known.
    pub bytes: u64,
    /// The limit ended it: more can be removed.
    pub is_full: bool,
}

/// Removes at most `limit` objects that no held message needs.
///
/// # Errors
/// If a statement fails, or an object cannot be removed: then the next sweep goes on.
pub async fn sweep(session: &Session, objects: &Objects, limit: u32) -> Result<Swept, ArrayError> {
    const DOING: &str = "looking for objects that no held message needs";
    let most = i64::from(limit);
    // An object gets all its rows at once when it becomes whole, and no other later.
    let whole = "UPDATE held_object SET state = 'dropped' WHERE id IN (SELECT o.id FROM \
         held_object AS o WHERE o.state = 'whole' AND NOT EXISTS \
         (SELECT 1 FROM held AS h WHERE h.object = o.id) ORDER BY o.id LIMIT $1 \
         FOR UPDATE SKIP LOCKED)";
    session.execute(DOING, whole, &[&most]).await?;
    // A node that stores for longer than a day finds it dropped, and stores again.
    let orphans = "UPDATE held_object SET state = 'dropped' WHERE id IN (SELECT id FROM \
         held_object WHERE state = 'writing' AND made < now() - interval '1 day' ORDER BY id \
         LIMIT $1 FOR UPDATE SKIP LOCKED)";
    session.execute(DOING, orphans, &[&most]).await?;
    let dropped = session
        .rows(
            DOING,
            "SELECT id, name, bytes FROM held_object WHERE state = 'dropped' ORDER BY id LIMIT $1",
            &[&most],
        )
        .await?;
    let is_full = dropped.len() as i64 >= most;
    let mut removing = stream::iter(dropped)
        .map(|row| async move {
            let (id, name, bytes): (i64, String, i64) = (row.get(0), row.get(1), row.get(2));
            objects.delete(&name).await.map(|()| (id, bytes))
        })
        .buffer_unordered(AT_ONCE);
    let (mut swept, mut removed, mut failed) = (Swept::default(), Vec::new(), None);
    while let Some(done) = removing.next().await {
        match done {
            Ok((id, bytes)) => {
                removed.push(id);
                swept.objects += 1;
                swept.bytes += u64::try_from(bytes).unwrap_or(0);
            }
            Err(error) => failed = Some(error),
        }
    }
    drop(removing);
    session
        .execute(
            "forgetting removed objects",
            "DELETE FROM held_object WHERE id = ANY ($1) AND state = 'dropped'",
            &[&removed],
        )
        .await?;
    match failed {
        Some(error) => Err(error),
        None => Ok(Swept { is_full, ..swept }),
    }
}

/// Removes at most `limit` rows of mail that was received before `before_ms` (Unix milliseconds).
/// Nodes remove their own when their retention says so; this is for nodes that do not come back,
/// and needs a time that is later than any retention. Returns how many.
///
/// # Errors
/// If the statement fails.
pub async fn forget_before(
    session: &Session,
    before_ms: i64,
    limit: u32,
) -> Result<u64, ArrayError> {
    let before = before_ms.div_euclid(1000).max(0) << 20;
    session
        .execute(
            "removing old rows of held mail",
            "DELETE FROM held WHERE seq IN (SELECT seq FROM held WHERE seq < $1 ORDER BY seq \
             LIMIT $2)",
            &[&before, &i64::from(limit)],
        )
        .await
}
