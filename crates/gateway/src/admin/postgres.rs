//! Asking a PostgreSQL server one question: the protocol's version 3.0 (its manual, chapter 55), as
//! far as that takes: start, TLS, SCRAM-SHA-256 or a plain password, one simple query, its rows as
//! text.
//!
//! Why not a driver: the kept ones bring twenty crates, among them second copies of hashes that are
//! here already, for what is one read-only question every few minutes.

use anyhow::{Context, bail, ensure};
use base64_simd::STANDARD as BASE64;
use gauntlet_store::random;
use ring::{digest, hmac, pbkdf2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use crate::config::PostgresSettings;
use crate::net::tls::{Certificate, HopTls};
use crate::wire::Wire;

/// Longest message of the server, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Rounds of PBKDF2 that a server may ask for.
const ROUNDS_MAX: u32 = 1_000_000;

/// Where a database is: `postgres://user:password@host:5432/database?sslmode=verify-full`.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    user: String,
    password: String,
    host: String,
    port: u16,
    database: String,
    tls: TlsMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsMode {
    Disable,
    Require,
    VerifyFull,
}

impl std::fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "postgres://{}@{}:{}/{}", self.user, self.host, self.port, self.database)
    }
}

impl ServerAddress {
    /// Reads the address. A host that begins with `/` (written `%2Frun%2Fpostgresql`) is the folder
    /// of a Unix socket.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(url: &str) -> anyhow::Result<Self> {
        let rest = url
            .strip_prefix("postgres://")
            .or_else(|| url.strip_prefix("postgresql://"))
            .context("it does not begin with postgres://")?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').context("no database is named")?;
        let (login, host) = authority.rsplit_once('@').context("no user is named")?;
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().context("the port is no number")?),
            None => (host, 5432),
        };
        let mut tls = TlsMode::VerifyFull;
        for option in options.split('&').filter(|o| !o.is_empty()) {
            tls = match option {
                "sslmode=disable" => TlsMode::Disable,
                "sslmode=require" => TlsMode::Require,
                "sslmode=verify-full" => TlsMode::VerifyFull,
                // Without its value, which may be a password.
                other => bail!(
                    "{:?}: only sslmode=disable, require or verify-full is known",
                    other.split('=').next().unwrap_or_default()
                ),
            };
        }
        let host = decoded(host)?;
        if host.starts_with('/') {
            tls = TlsMode::Disable;
        }
        ensure!(!host.is_empty() && !database.is_empty() && !user.is_empty(), "a part is empty");
        let (user, password, database) = (decoded(user)?, decoded(password)?, decoded(database)?);
        Ok(ServerAddress { user, password, host, port, database, tls })
    }
}

/// Undoes `%40` in a name, password or database of a URL.
fn decoded(text: &str) -> anyhow::Result<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let hex = [bytes.next().unwrap_or(0), bytes.next().unwrap_or(0)];
        let hex = std::str::from_utf8(&hex).ok().and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(hex.context("a % without two hexadecimal digits")?);
    }
    let text = String::from_utf8(out)?;
    ensure!(!text.contains('\0'), "a NUL in the address");
    Ok(text)
}

/// The first two columns of every row that the query gives, as text; a column that is NULL or not
/// there is empty.
///
/// # Errors
/// The server cannot be reached, does not let us in, or refuses the query.
pub async fn rows(
    address: &ServerAddress,
    query: &str,
    tls: &HopTls,
    limits: PostgresSettings,
) -> anyhow::Result<Vec<(String, String)>> {
    let connecting = async {
        let mut session = Session { wire: connect(address, tls).await?, address, limits };
        session.start().await?;
        anyhow::Ok(session)
    };
    let connected = tokio::time::timeout(limits.connect_max(), connecting).await;
    let mut session = connected.context("connecting takes too long")??;
    let asking = async {
        // A slip in the query must not change what it asks about.
        session.ask("BEGIN READ ONLY").await?;
        let rows = session.ask(query).await?;
        // Terminate.
        session.send(Some(b'X'), b"").await?;
        Ok(rows)
    };
    tokio::time::timeout(limits.query_max(), asking).await.context("it takes too long")?
}

async fn connect(address: &ServerAddress, tls: &HopTls) -> anyhow::Result<Wire> {
    if address.host.starts_with('/') {
        let path = format!("{}/.s.PGSQL.{}", address.host, address.port);
        return Ok(Box::new(UnixStream::connect(&path).await.context(path)?));
    }
    let stream =
        TcpStream::connect((address.host.as_str(), address.port)).await.context("connecting")?;
    let mut wire: Wire = Box::new(stream);
    if address.tls == TlsMode::Disable {
        return Ok(wire);
    }
    // SSLRequest.
    wire.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).await?;
    wire.flush().await?;
    ensure!(wire.read_u8().await? == b'S', "the server offers no TLS (sslmode)");
    let wanted = match address.tls {
        TlsMode::VerifyFull => Certificate::Valid,
        _ => Certificate::Any,
    };
    Ok(tls.connect(wire, &address.host, &wanted).await?)
}

/// StartupMessage: the protocol's version, then names and values, each ended by NUL.
fn startup_message(address: &ServerAddress) -> Vec<u8> {
    let mut message = vec![0, 3, 0, 0];
    for text in [
        "user",
        &address.user,
        "database",
        &address.database,
        "application_name",
        "gauntlet",
        "client_encoding",
        "UTF8",
        "",
    ] {
        message.extend_from_slice(text.as_bytes());
        message.push(0);
    }
    message
}

struct Session<'a> {
    wire: Wire,
    address: &'a ServerAddress,
    limits: PostgresSettings,
}

impl Session<'_> {
    /// Says who we are, and proves it.
    async fn start(&mut self) -> anyhow::Result<()> {
        self.send(None, &startup_message(self.address)).await?;
        let (mut scram, mut is_proven): (Option<Scram>, bool) = (None, false);
        loop {
            let (kind, body) = self.receive().await?;
            let (code, rest) = match kind {
                b'R' => body.split_first_chunk::<4>().context("a short answer")?,
                // RFC 5802 section 5: a server that leaves its proof out may not know the password.
                b'Z' => {
                    ensure!(
                        scram.is_none() || is_proven,
                        "the server ended SCRAM without its proof"
                    );
                    return Ok(());
                }
                _ => continue,
            };
            match u32::from_be_bytes(*code) {
                0 => {}
                3 => {
                    let safe = self.address.tls != TlsMode::Disable || self.is_local();
                    ensure!(safe, "the server wants the password in clear, without TLS");
                    let password = format!("{}\0", self.address.password);
                    self.send(Some(b'p'), password.as_bytes()).await?;
                }
                10 => {
                    let ours = rest.split(|b| *b == 0).any(|m| m == b"SCRAM-SHA-256");
                    ensure!(ours, "the server offers no authentication method that is supported");
                    let began = Scram::new()?;
                    let first = began.first();
                    let mut message = b"SCRAM-SHA-256\0".to_vec();
                    message.extend_from_slice(&u32::try_from(first.len())?.to_be_bytes());
                    message.extend_from_slice(first.as_bytes());
                    self.send(Some(b'p'), &message).await?;
                    (scram, is_proven) = (Some(began), false);
                }
                11 => {
                    let began = scram.as_mut().context("an answer to nothing")?;
                    let last = began.answer(std::str::from_utf8(rest)?, &self.address.password)?;
                    self.send(Some(b'p'), last.as_bytes()).await?;
                }
                12 => {
                    let began = scram.as_ref().context("an answer to nothing")?;
                    began.check(std::str::from_utf8(rest)?)?;
                    is_proven = true;
                }
                5 => bail!("the server wants MD5; set password_encryption = scram-sha-256 there"),
                other => bail!("authentication method {other} is not supported"),
            }
        }
    }

    fn is_local(&self) -> bool {
        self.address.host.starts_with('/')
            || ["127.0.0.1", "::1"].contains(&self.address.host.as_str())
    }

    async fn ask(&mut self, query: &str) -> anyhow::Result<Vec<(String, String)>> {
        ensure!(!query.contains('\0'), "a NUL in the query");
        self.send(Some(b'Q'), format!("{query}\0").as_bytes()).await?;
        let PostgresSettings { rows_max, answer_bytes_max, .. } = self.limits;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let (kind, body) = self.receive().await?;
            bytes += body.len() as u64;
            match kind {
                b'D' => rows.push(row(&body)?),
                b'Z' => break,
                _ => {}
            }
            ensure!(rows.len() as u64 <= rows_max, "more than {rows_max} rows");
            ensure!(bytes <= answer_bytes_max, "more than {answer_bytes_max} bytes");
        }
        Ok(rows)
    }

    async fn send(&mut self, kind: Option<u8>, body: &[u8]) -> anyhow::Result<()> {
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&u32::try_from(body.len() + 4)?.to_be_bytes());
        message.extend_from_slice(body);
        self.wire.write_all(&message).await?;
        Ok(self.wire.flush().await?)
    }

    /// The next message; an error of the server is an error here.
    async fn receive(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        let kind = self.wire.read_u8().await.context("the server closed the connection")?;
        let length = self.wire.read_u32().await? as usize;
        ensure!((4..=MESSAGE_BYTES_MAX).contains(&length), "a message of {length} bytes");
        let mut body = vec![0; length - 4];
        self.wire.read_exact(&mut body).await?;
        if kind == b'E' {
            let fields = body.split(|b| *b == 0).filter_map(|f| std::str::from_utf8(f).ok());
            let text = fields.into_iter().find_map(|f| f.strip_prefix('M')).unwrap_or("no reason");
            bail!("the server says: {text}");
        }
        Ok((kind, body))
    }
}

/// The first two columns of a DataRow.
fn row(body: &[u8]) -> anyhow::Result<(String, String)> {
    let (count, mut rest) = body.split_first_chunk::<2>().context("a short row")?;
    let mut columns = [String::new(), String::new()];
    for column in columns.iter_mut().take(usize::from(u16::from_be_bytes(*count))) {
        let (length, after) = rest.split_first_chunk::<4>().context("a short row")?;
        rest = after;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { continue };
        let (text, after) = rest.split_at_checked(length).context("a short row")?;
        *column = String::from_utf8(text.to_vec()).context("a column is no UTF-8 text")?;
        rest = after;
    }
    let [first, second] = columns;
    Ok((first, second))
}

/// SCRAM-SHA-256 (RFC 5802, RFC 7677), the client's side, without channel binding.
struct Scram {
    nonce: String,
    /// The server's signature, which it must send at the end; none before its challenge was
    /// answered.
    server_signature: Option<Vec<u8>>,
}

impl Scram {
    fn new() -> anyhow::Result<Self> {
        let random: [u8; 18] = random::array().context("randomness")?;
        Ok(Scram { nonce: BASE64.encode_to_string(random), server_signature: None })
    }

    /// The server knows the user's name from the start.
    fn first(&self) -> String {
        format!("n,,n=,r={}", self.nonce)
    }

    fn answer(&mut self, challenge: &str, password: &str) -> anyhow::Result<String> {
        let field = |name: &str| challenge.split(',').find_map(|f| f.strip_prefix(name));
        let nonce = field("r=").context("a challenge without nonce")?;
        ensure!(nonce.starts_with(&self.nonce), "the challenge is not for us");
        let salt = BASE64.decode_to_vec(field("s=").context("a challenge without salt")?);
        let salt = salt.map_err(|_| anyhow::anyhow!("a salt that is no base64"))?;
        let rounds: u32 = field("i=").context("a challenge without rounds")?.parse()?;
        ensure!((1..=ROUNDS_MAX).contains(&rounds), "{rounds} rounds");
        let rounds = std::num::NonZeroU32::new(rounds).context("no rounds")?;
        let mut salted = [0; digest::SHA256_OUTPUT_LEN];
        let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
        pbkdf2::derive(algorithm, rounds, &salt, password.as_bytes(), &mut salted);
        let without_proof = format!("c=biws,r={nonce}");
        let all = format!("n=,r={},{challenge},{without_proof}", self.nonce);
        let client_key = mac(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = mac(stored_key.as_ref(), all.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(a, b)| a ^ b).collect();
        let server_key = mac(&salted, b"Server Key");
        self.server_signature = Some(mac(server_key.as_ref(), all.as_bytes()).as_ref().to_vec());
        Ok(format!("{without_proof},p={}", BASE64.encode_to_string(&proof)))
    }

    /// The server knows the password, too.
    fn check(&self, last: &str) -> anyhow::Result<()> {
        let sent = last.split(',').find_map(|f| f.strip_prefix("v="));
        let sent = sent.and_then(|t| BASE64.decode_to_vec(t).ok());
        let is_proven = sent.is_some() && sent == self.server_signature;
        ensure!(is_proven, "the server does not know our password");
        Ok(())
    }
}

fn mac(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_keep_their_password() {
        let address =
            ServerAddress::parse("postgres://ann:p%40ss@db.example/mail?sslmode=require").unwrap();
        assert_eq!((address.password.as_str(), address.port), ("p@ss", 5432));
        assert_eq!(format!("{address:?}"), "postgres://ann@db.example:5432/mail");
        let local = ServerAddress::parse("postgresql://ann@%2Frun%2Fpg:5433/mail").unwrap();
        assert_eq!((local.host.as_str(), local.tls), ("/run/pg", TlsMode::Disable));
        for wrong in [
            "mysql://a@b/c",
            "postgres://host/db",
            "postgres://a@h",
            "postgres://a@h:x/d",
            "postgres://a@h/d?sslmode=prefer",
            "postgres://a%zz@h/d",
            "postgres://a%00@h/d",
        ] {
            assert!(ServerAddress::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_exchange_of_the_standard_is_answered() {
        // RFC 7677, section 3, with the user's name left out as PostgreSQL does: the proof differs,
        // the server's nonce and rounds are checked.
        let mut scram = Scram { nonce: "rOprNGfwEbeRWgbNEkqO".to_owned(), server_signature: None };
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                         s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = scram.answer(challenge, "pencil").unwrap();
        assert!(last.starts_with("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p="));
        assert!(scram.check("v=AAAA").is_err());
        for wrong in [
            "r=other,s=AAAA,i=1",
            "r=rOprNGfwEbeRWgbNEkqO,i=1",
            "",
            "r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=0",
        ] {
            assert!(scram.answer(wrong, "x").is_err(), "{wrong}");
        }
        assert!(row(&[0, 1, 0, 0, 0, 9, b'x']).is_err() && row(&[]).is_err());
        assert_eq!(row(&[0, 1, 255, 255, 255, 255]).unwrap(), (String::new(), String::new()));
    }
}
