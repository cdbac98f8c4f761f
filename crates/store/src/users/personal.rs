//! Personal settings of mail addresses: sender lists, strictness, and state of digests.

use std::collections::BTreeSet;

use gauntlet_policy::people::{People, Strictness, Wishes};
use gauntlet_verdict::lists::check_entry;
use rusqlite::{OptionalExtension, params};

use super::audit::audit;
use super::{Role, User, UserDatabase, searches};
use crate::error::StoreError;

/// Most senders that one address may list.
const SENDERS_MAX: i64 = 500;
/// Longest entry, in bytes.
const ENTRY_BYTES_MAX: usize = 254;
/// Hash of users without a password: no password matches.
const NO_PASSWORD: &str = "";

impl UserDatabase {
    /// Adds a sender to the personal list of an address, or changes it.
    ///
    /// # Errors
    /// If it is neither an address nor a domain, the list is full, or it could not be made durable.
    pub fn list_personal_sender(
        &self,
        address: &str,
        entry: &str,
        allow: bool,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let (address, entry) = (address.to_lowercase(), own_entry(entry)?);
        let done = self.change(|batch| {
            let count: i64 = batch.query_row(
                "SELECT count(*) FROM own_sender WHERE address = ?1 AND entry <> ?2",
                [&address, &entry],
                |row| row.get(0),
            )?;
            if count >= SENDERS_MAX {
                return Ok(false);
            }
            batch.execute(
                "INSERT INTO own_sender (address, entry, allow) VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET allow = ?3",
                params![address, entry, allow],
            )?;
            let action = if allow { "allow for oneself" } else { "block for oneself" };
            audit(batch, now_ms, &address, action, &entry, "")?;
            Ok(true)
        })?;
        let (what, limit) = ("your list of senders".to_owned(), SENDERS_MAX.cast_unsigned());
        let hint = "remove senders that are not needed any more";
        if done { Ok(()) } else { Err(StoreError::Full { what, limit, hint }) }
    }

    /// Removes a sender from the personal list of an address.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn unlist_personal_sender(&self, address: &str, entry: &str) -> Result<bool, StoreError> {
        let (address, entry) = (address.to_lowercase(), entry.trim().to_lowercase());
        self.change(|batch| {
            let sql = "DELETE FROM own_sender WHERE address = ?1 AND entry = ?2";
            Ok(batch.execute(sql, [address, entry])? > 0)
        })
    }

    /// Sets the strictness and spam threshold of an address.
    ///
    /// # Errors
    /// If the threshold is out of range, or it could not be made durable.
    pub fn set_strictness(
        &self,
        address: &str,
        strictness: Strictness,
        spam_points: Option<f64>,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        if let Some(points) = spam_points
            && !(1.0..=100.0).contains(&points)
        {
            let cause = format!("{points} is not between 1 and 100");
            return Err(StoreError::Invalid { what: "points", cause });
        }
        let address = address.to_lowercase();
        self.change(|batch| {
            batch.execute(
                "INSERT INTO wish (address, strictness, spam_points) VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET strictness = ?2, spam_points = ?3",
                params![address, strictness.name(), spam_points],
            )?;
            audit(batch, now_ms, &address, "set strictness", "", strictness.name())
        })
    }

    /// The personal settings of one address.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn wishes(&self, address: &str) -> Result<Wishes, StoreError> {
        let mut people = self.load_settings(Some(&address.to_lowercase()))?;
        Ok(people.wishes.pop_first().map(|(_, wishes)| wishes).unwrap_or_default())
    }

    /// The personal settings of all addresses, for the policy.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn people(&self) -> Result<People, StoreError> {
        self.load_settings(None)
    }

    fn load_settings(&self, address: Option<&str>) -> Result<People, StoreError> {
        let mut people = People::default();
        self.read(|c| {
            let mut listed = c.prepare_cached(
                "SELECT address, entry, allow FROM own_sender WHERE ?1 IS NULL OR address = ?1",
            )?;
            let mut rows = listed.query([address])?;
            while let Some(row) = rows.next()? {
                let own = people.wishes.entry(row.get(0)?).or_default();
                let list = if row.get(2)? { &mut own.allow } else { &mut own.block };
                list.insert(row.get(1)?);
            }
            let mut set = c.prepare_cached(
                "SELECT address, strictness, spam_points FROM wish \
                 WHERE ?1 IS NULL OR address = ?1",
            )?;
            let mut rows = set.query([address])?;
            while let Some(row) = rows.next()? {
                let own = people.wishes.entry(row.get(0)?).or_default();
                own.strictness = row.get_ref(1)?.as_str()?.parse().unwrap_or_default();
                own.spam_points = row.get(2)?;
            }
            Ok(())
        })?;
        Ok(people)
    }

    /// The user who signs in by a link for this address: the one who has it as login or as their
    /// only address, else a new one without password who sees the mail of this address. None if the
    /// login belongs to a user with more permissions, which a link must not give.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn user_for_address(&self, address: &str, now_ms: i64) -> Result<Option<User>, StoreError> {
        let address = address.to_lowercase();
        let all = self.list()?;
        let only = BTreeSet::from([address.clone()]);
        let owns = |u: &&User| {
            u.role == Role::User
                && u.addresses.iter().map(|a| a.to_lowercase()).collect::<BTreeSet<_>>() == only
        };
        if let Some(user) = all.iter().find(owns) {
            return Ok(Some(user.clone()));
        }
        if all.iter().any(|u| u.login.eq_ignore_ascii_case(&address)) {
            return Ok(None);
        }
        super::check_login(&address)?;
        let user = User {
            login: address.clone(),
            role: Role::User,
            folders: Vec::new(),
            addresses: vec![address.clone()],
            must_change: false,
            created_ms: now_ms,
        };
        let addresses = serde_json::to_string(&user.addresses).unwrap_or_default();
        self.change(|batch| {
            batch.execute(
                "INSERT INTO user (login, role, hash, folders, addresses, must_change, created_ms) \
                 VALUES (?1, ?2, ?3, '[]', ?4, 0, ?5)",
                params![user.login, user.role.name(), NO_PASSWORD, addresses, now_ms],
            )?;
            searches::forget_private(batch, &user.login)?;
            audit(batch, now_ms, "gauntlet", "add user", &user.login, "by a digest's link")
        })?;
        Ok(Some(user))
    }

    /// The `seq` of the last held item that was in a digest for this address; 0 if there was no
    /// digest.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn digest_mark(&self, address: &str) -> Result<i64, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached("SELECT upto FROM digest WHERE address = ?1")?;
            Ok(find.query_row([address.to_lowercase()], |r| r.get(0)).optional()?.unwrap_or(0))
        })
    }

    /// Records that all items up to this one were in a digest for this address.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn set_digest_mark(&self, address: &str, upto: i64, now_ms: i64) -> Result<(), StoreError> {
        self.change(|batch| {
            batch.execute(
                "INSERT INTO digest (address, upto, at_ms) VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET upto = ?2, at_ms = ?3",
                params![address.to_lowercase(), upto, now_ms],
            )?;
            Ok(())
        })
    }
}

/// Normalises an entry of a personal list: an address or a domain, in lower case.
fn own_entry(entry: &str) -> Result<String, StoreError> {
    let entry = entry.trim().trim_start_matches('@').to_lowercase();
    let domain = entry.rsplit_once('@').map_or(entry.as_str(), |(_, domain)| domain);
    let fit = entry.len() <= ENTRY_BYTES_MAX
        && domain.contains('.')
        && !domain.starts_with('.')
        && entry.chars().all(|c| !c.is_control() && !c.is_whitespace())
        && !entry.contains(['/', '*', ',', '<', '>']);
    let cause = format!("{entry:?} is neither an address (a@b.example) nor a domain (b.example)");
    let cause = match (fit, check_entry(&entry)) {
        (true, Ok(())) => return Ok(entry),
        (true, Err(error)) => error.to_string(),
        (false, _) => cause,
    };
    Err(StoreError::Invalid { what: "sender", cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_settings_apply() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.list_personal_sender("Ann@example.org", " @Shop.example", true, 1).unwrap();
        users.list_personal_sender("ann@example.org", "bob@else.example", true, 1).unwrap();
        users.list_personal_sender("ann@example.org", "bob@else.example", false, 2).unwrap();
        users.set_strictness("ann@example.org", Strictness::Lax, Some(4.5), 3).unwrap();
        let wishes = users.wishes("ANN@example.org").unwrap();
        assert!(wishes.allow.contains("shop.example") && wishes.block.contains("bob@else.example"));
        assert_eq!((wishes.strictness, wishes.spam_points), (Strictness::Lax, Some(4.5)));
        assert_eq!(users.people().unwrap().wishes["ann@example.org"], wishes);
        assert!(users.unlist_personal_sender("ann@example.org", "Shop.example").unwrap());
        assert!(users.wishes("ann@example.org").unwrap().allow.is_empty());
        assert_eq!(users.wishes("eve@example.org").unwrap(), Wishes::default());
        for wrong in [
            "",
            "shop",
            "a b@c.example",
            "*.example.org",
            "10.0.0.0/8",
            "x\ny.example",
            "co.uk",
            "@",
        ] {
            assert!(
                users.list_personal_sender("ann@example.org", wrong, true, 1).is_err(),
                "{wrong}"
            );
        }
        assert!(users.set_strictness("a@b.example", Strictness::Lax, Some(0.0), 3).is_err());
    }

    #[test]
    fn who_comes_by_a_link_sees_one_address_and_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let user = users.user_for_address("Ann@example.org", 1).unwrap().unwrap();
        assert_eq!(
            (user.role, user.addresses.as_slice()),
            (Role::User, &["ann@example.org".to_owned()][..])
        );
        assert_eq!(users.user_for_address("ann@example.org", 2).unwrap().unwrap(), user);
        assert_eq!(users.verify("ann@example.org", "").unwrap(), None, "no password opens it");
        let boss = User { login: "boss@example.org".to_owned(), role: Role::Administrator, ..user };
        users.add(&boss, "a long password", "test", 1).unwrap();
        assert_eq!(users.user_for_address("boss@example.org", 3).unwrap(), None);
        assert_eq!(users.digest_mark("ann@example.org").unwrap(), 0);
        users.set_digest_mark("Ann@example.org", 7, 9).unwrap();
        assert_eq!(users.digest_mark("ann@example.org").unwrap(), 7);
    }
}
