//! How a node joins: by a token that a manager gave, once, for one name.
//!
//! The token has the database's address, a certificate by which one may sign in as
//! [`JOIN_NAME`](crate::authority::JOIN_NAME), and a secret. That role may call two functions and
//! nothing else: one puts a public key beside the secret, the other reads the answer. Whoever gave
//! the token waits with the authority's key, and answers with a certificate. The new node's private
//! key never leaves it.

use serde::{Deserialize, Serialize};

use crate::authority::Issued;
use crate::database::Session;
use crate::error::ArrayError;
use crate::value::Value;

/// What a token begins with: its version.
const PREFIX: &str = "gauntlet1.";
/// Longest token, in characters.
const TOKEN_CHARS_MAX: usize = 64 << 10;
/// Instead of a serial number: a row that says since when a node's certificates are revoked.
const LEFT: &str = "left ";
/// Role that a token's certificate signs in as.
const ROLE: &str = crate::authority::JOIN_NAME;

/// What a token says.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Address of the database for the new node.
    pub database: String,
    /// Name of the node that it is for.
    pub name: String,
    /// What the row of the invitation is found by.
    pub secret: String,
    /// Certificate to ask with, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
    /// Roots by which the server's certificate is verified, PEM; empty for those that the node
    /// trusts anyway.
    pub server_roots: String,
    /// Keys that seal what nodes share of their users, as a file of them; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub users_key: String,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Token {
    /// As one word.
    pub fn to_text(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{PREFIX}{}", base64_simd::URL_SAFE_NO_PAD.encode_to_string(json))
    }

    /// Reads a token.
    ///
    /// # Errors
    /// If it is none. The message repeats nothing of it.
    pub fn parse(text: &str) -> Result<Self, ArrayError> {
        let wrong = |cause: &str| ArrayError::Token(cause.to_owned());
        let text = text.trim();
        let body = text.strip_prefix(PREFIX);
        let body = body.ok_or_else(|| wrong("it does not begin with gauntlet1."))?;
        if body.len() > TOKEN_CHARS_MAX {
            return Err(wrong("it is too long"));
        }
        let json = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(body);
        let json = json.map_err(|_| wrong("a part of it is missing, or was changed"))?;
        serde_json::from_slice(&json).map_err(|_| wrong("a part of it is missing, or was changed"))
    }
}

/// What the new node gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Its certificate, PEM.
    pub certificate: String,
    /// `array.objects`; empty for none.
    pub objects: String,
    /// `array.group`; empty for none.
    pub group: String,
}

/// Lets the role of tokens call what it is to call.
///
/// # Errors
/// If there is no such role, or the login may not grant.
pub async fn allow(session: &Session) -> Result<(), ArrayError> {
    const DOING: &str = "letting new nodes ask";
    let found = session.row(DOING, "SELECT 1 FROM pg_roles WHERE rolname = $1", &[&ROLE]).await?;
    if found.is_none() {
        let cause = format!(
            "there is no role {ROLE}; once, as an administrator of PostgreSQL: CREATE ROLE {ROLE} LOGIN"
        );
        return Err(ArrayError::Statement { doing: DOING, cause });
    }
    let grants = format!(
        "GRANT USAGE ON SCHEMA gauntlet TO {ROLE}; \
         GRANT EXECUTE ON FUNCTION gauntlet.join_ask(text, bytea), gauntlet.join_answer(text) TO {ROLE}"
    );
    session.batch(DOING, &grants).await
}

/// Enters an invitation for so many seconds; forgets those that are long over.
///
/// # Errors
/// If a statement fails.
pub async fn invite(
    session: &Session,
    secret: &str,
    name: &str,
    seconds: i64,
) -> Result<(), ArrayError> {
    const DOING: &str = "entering an invitation";
    let old = "DELETE FROM invitation WHERE until < now() - interval '1 day'";
    session.execute(DOING, old, &[]).await?;
    let sql = "INSERT INTO invitation (secret, name, until) VALUES \
               (encode(sha256(convert_to($1, 'UTF8')), 'hex'), $2, \
               now() + make_interval(secs => $3::bigint::float8))";
    session.execute(DOING, sql, &[&secret, &name, &seconds]).await.map(drop)
}

/// The public key that was put beside a secret; none yet.
///
/// # Errors
/// If a statement fails.
pub async fn asked(session: &Session, secret: &str) -> Result<Option<Vec<u8>>, ArrayError> {
    let sql = "SELECT request FROM invitation \
               WHERE secret = encode(sha256(convert_to($1, 'UTF8')), 'hex')";
    let row = session.row("looking whether a node asks", sql, &[&secret]).await?;
    Ok(row.and_then(|row| row.get(0)))
}

/// Answers an invitation.
///
/// # Errors
/// If a statement fails.
pub async fn answer(session: &Session, secret: &str, answer: &Answer) -> Result<(), ArrayError> {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let sql = "UPDATE invitation SET answer = $2 \
               WHERE secret = encode(sha256(convert_to($1, 'UTF8')), 'hex')";
    session.execute("answering a node", sql, &[&secret, &text]).await.map(drop)
}

/// Asks with the secret of a token for a certificate of this key, as the role of tokens. The same
/// key may ask again.
///
/// # Errors
/// If the token is over or was used with another key, or a statement fails.
pub async fn ask(session: &Session, secret: &str, public: &[u8]) -> Result<(), ArrayError> {
    const DOING: &str = "asking for a certificate";
    let sql = "SELECT gauntlet.join_ask($1, $2)";
    let values: [Value<'_>; 2] = [&secret, &public];
    let row = session.row(DOING, sql, &values).await?;
    match row.and_then(|row| row.get::<_, Option<String>>(0)) {
        Some(_) => Ok(()),
        None => Err(ArrayError::Token(
            "its time is over, or another node has used it; `gauntlet array token` on a manager \
             makes a new one"
                .to_owned(),
        )),
    }
}

/// The answer; none yet.
///
/// # Errors
/// If a statement fails, or the answer is damaged.
pub async fn answered(session: &Session, secret: &str) -> Result<Option<Answer>, ArrayError> {
    let sql = "SELECT gauntlet.join_answer($1)";
    let row = session.row("waiting for a certificate", sql, &[&secret]).await?;
    let Some(text) = row.and_then(|row| row.get::<_, Option<String>>(0)) else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| ArrayError::Damaged {
        what: "the answer to this node".to_owned(),
        cause: error.to_string(),
    })
}

/// Enters certificates that were issued for nodes, those among them that are not there yet. One of
/// a node that left after it was made is revoked.
///
/// # Errors
/// If a statement fails.
pub async fn note_issued(session: &Session, issued: &[(String, Issued)]) -> Result<(), ArrayError> {
    let sql = "INSERT INTO certificate (serial, name, made, until, revoked) \
               SELECT $1, $2, to_timestamp($3::bigint), to_timestamp($4::bigint), \
               (SELECT revoked FROM certificate WHERE serial = $5 || $2 \
               AND revoked >= to_timestamp($3::bigint)) ON CONFLICT DO NOTHING";
    for (name, Issued { serial, made_s, until_s, .. }) in issued {
        let values: [Value<'_>; 5] = [serial, name, made_s, until_s, &LEFT];
        session.execute("noting a certificate", sql, &values).await?;
    }
    Ok(())
}

/// Revokes the certificates of a node, those too that are not entered yet. Returns how many are.
///
/// # Errors
/// If a statement fails.
pub async fn revoke(session: &Session, name: &str) -> Result<u64, ArrayError> {
    const DOING: &str = "revoking certificates";
    let left = "INSERT INTO certificate (serial, name, until, revoked) \
                VALUES ($2 || $1, $1, 'infinity', now()) \
                ON CONFLICT (serial) DO UPDATE SET revoked = now()";
    session.execute(DOING, left, &[&name, &LEFT]).await?;
    let sql = "UPDATE certificate SET revoked = now() WHERE name = $1 AND revoked IS NULL";
    session.execute(DOING, sql, &[&name]).await
}

/// Serial numbers of revoked certificates whose time is not over, each with the Unix second of its
/// revocation.
///
/// # Errors
/// If a statement fails.
pub async fn revoked(session: &Session) -> Result<Vec<(String, i64)>, ArrayError> {
    let sql = "SELECT serial, extract(epoch FROM revoked)::bigint FROM certificate \
               WHERE revoked IS NOT NULL AND until > now() AND NOT starts_with(serial, $1) \
               ORDER BY revoked, serial";
    let rows = session.rows("reading revoked certificates", sql, &[&LEFT]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_damage_is_told() {
        let token = Token {
            database: "postgres://gauntlet@db.example.org/gauntlet".to_owned(),
            name: "mx3.example.org".to_owned(),
            secret: "0123456789abcdef".to_owned(),
            certificate: "C".to_owned(),
            key: "K".to_owned(),
            server_roots: String::new(),
            users_key: String::new(),
        };
        let text = token.to_text();
        assert_eq!(Token::parse(&format!(" {text}\n")).unwrap(), token);
        for end in 0..text.len() {
            let error = Token::parse(&text[..end]).unwrap_err().to_string();
            assert!(error.contains("token") && !error.contains("0123"), "{error}");
        }
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            // It may be another token; it must not panic.
            let _read = Token::parse(&String::from_utf8_lossy(&changed));
        }
        let long = format!("{PREFIX}{}", "A".repeat(TOKEN_CHARS_MAX + 1));
        assert!(Token::parse(&long).is_err());
    }
}
