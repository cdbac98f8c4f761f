//! Changing the permissions of a user.

use rusqlite::{Transaction, params};

use super::audit::audit;
use super::{Role, UserDatabase, check_addresses, searches, session, tokens};
use crate::error::StoreError;

impl UserDatabase {
    /// Changes role, folders and addresses of a user. Their sessions end if any of them changes;
    /// tokens that they created are revoked if they are no longer an administrator. False if there
    /// is no such user.
    ///
    /// # Errors
    /// If an address is none, no administrator would be left, or the change could not be made
    /// durable.
    pub fn change_rights(
        &self,
        login: &str,
        role: Role,
        folders: &[String],
        addresses: &[String],
        who: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        check_addresses(addresses)?;
        let lists = [folders, addresses].map(|l| serde_json::to_string(l).unwrap_or_default());
        let changed = self.change(|batch| {
            if role != Role::Administrator && is_last_administrator(batch, login)? {
                return Ok(None);
            }
            let changed = batch.execute(
                "UPDATE user SET role = ?2, folders = ?3, addresses = ?4 \
                 WHERE login = ?1 AND (role, folders, addresses) <> (?2, ?3, ?4)",
                params![login, role.name(), lists[0], lists[1]],
            )?;
            if changed == 1 {
                let detail = format!("{} {} {}", role.name(), lists[0], lists[1]);
                audit(batch, now_ms, who, "change rights", login, &detail)?;
                session::end_all(batch, login)?;
                if role != Role::Administrator {
                    tokens::revoke_made_by(batch, login, who, now_ms)?;
                }
            }
            batch.prepare_cached("SELECT 1 FROM user WHERE login = ?1")?.exists([login]).map(Some)
        })?;
        changed.ok_or_else(|| StoreError::Invalid {
            what: "role",
            cause: "the last administrator must stay one; make another first".to_owned(),
        })
    }

    /// The user of this login, authenticated by a single sign-on. `role` is that of a new user;
    /// without a role or addresses no user is created. None then.
    ///
    /// # Errors
    /// If the login is invalid, or the change could not be made durable.
    pub fn user_from_single_sign_on(
        &self,
        login: &str,
        role: Option<Role>,
        addresses: &[String],
        now_ms: i64,
    ) -> Result<Option<super::User>, StoreError> {
        let known = self.list()?.into_iter().find(|u| u.login.eq_ignore_ascii_case(login));
        let (None, Some(role)) = (&known, role) else { return Ok(known) };
        if addresses.is_empty() {
            // A user without addresses may send as any address: only administrators decide that.
            return Ok(None);
        }
        super::check_login(login)?;
        let addresses = serde_json::to_string(addresses).unwrap_or_default();
        self.change(|batch| {
            // No hash: no password matches.
            let added = batch.execute(
                "INSERT OR IGNORE INTO user (login, role, hash, folders, addresses, must_change, \
                 created_ms, scram) VALUES (?1, ?2, '', '[]', ?3, 0, ?4, '')",
                params![login, role.name(), addresses, now_ms],
            )?;
            if added == 1 {
                searches::forget_private(batch, login)?;
            }
            audit(batch, now_ms, login, "add user", login, "by single sign-on")
        })?;
        Ok(self.list()?.into_iter().find(|u| u.login.eq_ignore_ascii_case(login)))
    }
}

/// Whether this is the only administrator. Checked in the transaction of the change: of two
/// administrators who remove each other's role at once, one stays.
pub(super) fn is_last_administrator(
    batch: &Transaction<'_>,
    login: &str,
) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*), coalesce(sum(login = ?1), 0) FROM user WHERE role = ?2";
    let mut count = batch.prepare_cached(sql)?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (all, them) = count.query_row(params![login, Role::Administrator.name()], row)?;
    Ok(all == 1 && them == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::User;

    #[test]
    fn rights_change_but_an_administrator_stays() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.create_first_administrator(1).unwrap();
        let user = |login: &str| User {
            login: login.to_owned(),
            role: Role::User,
            folders: Vec::new(),
            addresses: vec!["a@example.org".to_owned()],
            must_change: false,
            created_ms: 1,
        };
        users.add(&user("ada"), "correct horse battery", "test", 1).unwrap();
        let folders = ["suspect".to_owned()];
        assert!(users.change_rights("ADA", Role::Reviewer, &folders, &[], "admin", 2).unwrap());
        let ada = users.list().unwrap().into_iter().find(|u| u.login == "ada").unwrap();
        assert_eq!((ada.role, ada.folders.as_slice()), (Role::Reviewer, &folders[..]));
        assert!(!users.change_rights("eve", Role::User, &[], &[], "admin", 2).unwrap());
        assert!(users.change_rights("admin", Role::User, &[], &[], "admin", 2).is_err());
        let role = Some(Role::User);
        assert_eq!(users.user_from_single_sign_on("eve@b.example", None, &[], 3).unwrap(), None);
        let own = ["eve@b.example".to_owned()];
        assert_eq!(users.user_from_single_sign_on("eve@b.example", role, &[], 3).unwrap(), None);
        let eve = users.user_from_single_sign_on("eve@b.example", role, &own, 3).unwrap().unwrap();
        assert_eq!((eve.role, eve.must_change), (Role::User, false));
        assert_eq!(users.verify("eve@b.example", "").unwrap(), None, "no password opens it");
        let ada = users.user_from_single_sign_on("ada", role, &[], 3).unwrap().unwrap();
        assert_eq!(ada.role, Role::Reviewer, "who is known keeps the rights given here");
    }
}
