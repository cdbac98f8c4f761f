//! `gauntlet array ca`, `token`, `join` and `crl`: nodes that sign in to the database by
//! certificates of the array's own authority.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use gauntlet_array::authority::{self, Authority, JOIN_NAME, NodeKey, write_new};
use gauntlet_array::joining::{self, Answer, Token};
use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Identity, Session, nodes, schema,
};
use gauntlet_gateway::config::{Config, trust_roots};
use gauntlet_gateway::net::tls::HopTls;
use gauntlet_gateway::privileges;
use gauntlet_store::{BodyKeys, files};

use crate::array_access as access;
use crate::messages::visible;
use crate::node_args::NodeArgs;

/// Days that a node's or a server's certificate is good.
const DAYS_DEFAULT: u32 = 825;
/// Between two looks for the other side.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How long a new node waits for its certificate.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Longest text that is read as a token.
const TOKEN_BYTES_MAX: u64 = 128 << 10;
/// Files of a node in its folder `array`.
const CERTIFICATE: &str = "node.pem";
const KEY: &str = "node.key";
const ROOTS: &str = "ca.pem";
/// Keys that seal what nodes share of users: beside the authority, and in a node's folder
/// `console`, which the node's own process does not read.
const USERS_KEY: &str = "users.key";
/// Its key while it waits for its certificate.
const NEW_KEY: &str = "node.key.new";

/// How nodes come to their certificates.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make the array's own certificate authority, and certificates by it
    #[command(after_help = "Examples:\n  gauntlet array ca new --out /etc/gauntlet/array-ca\n  \
                            gauntlet array ca server db.example.org --ca \
                            /etc/gauntlet/array-ca --out db")]
    Ca {
        #[command(subcommand)]
        command: CaCommand,
    },
    /// Give a token by which one new node joins, and wait for it
    #[command(after_help = "Examples:\n  gauntlet array token --ca /etc/gauntlet/array-ca --name \
                            mx3.example.org > token")]
    Token(TokenArgs),
    /// Make the key that seals what nodes share of their users, for array.users_key of all nodes
    #[command(
        after_help = "`array ca new` makes one beside the authority, which tokens take along; \
                            this is for nodes that sign in by passwords.\n\nExamples:\n  gauntlet \
                            array users-key /etc/gauntlet/users.key"
    )]
    UsersKey {
        /// File to make; it must not be there
        file: PathBuf,
    },
    /// Make this machine's node one of the array
    #[command(after_help = "Examples:\n  gauntlet array join - < token")]
    Join {
        /// What `gauntlet array token` printed; - reads it from standard input
        token: String,
    },
    /// Print the list of revoked certificates, for PostgreSQL's ssl_crl_file
    #[command(after_help = "Examples:\n  gauntlet array crl --ca /etc/gauntlet/array-ca > \
                            /etc/postgresql/gauntlet.crl")]
    Crl {
        /// Folder of the authority
        #[arg(long, value_name = "FOLDER")]
        ca: PathBuf,
    },
}

/// Does it.
pub(crate) fn run(node: &NodeArgs, command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Ca { command } => ca(command),
        Command::Token(args) => token(node, args),
        Command::UsersKey { file } => users_key(file),
        Command::Join { token } => join(node, token, &mut std::io::stdout().lock()),
        Command::Crl { ca } => crl(node, ca),
    }
}

/// `gauntlet array ca`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CaCommand {
    /// Make the authority: ca.pem for PostgreSQL's ssl_ca_file, and ca.key, which stays secret
    #[command(after_help = "Examples:\n  gauntlet array ca new --out /etc/gauntlet/array-ca")]
    New {
        /// Folder for the two files; none of them may be there
        #[arg(short, long, value_name = "FOLDER")]
        out: PathBuf,
        /// Days until it ends
        #[arg(long, default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=7_300))]
        days: u32,
    },
    /// Make a certificate and a key for the PostgreSQL server
    #[command(after_help = "Examples:\n  gauntlet array ca server db.example.org --ca \
                            /etc/gauntlet/array-ca --out db")]
    Server {
        /// Its host name or address, as array.database names it
        host: String,
        #[command(flatten)]
        issue: Issue,
    },
    /// Make a certificate and a key for a node, such as the manager itself
    #[command(after_help = "Examples:\n  gauntlet array ca node mx1.example.org --ca \
                            /etc/gauntlet/array-ca --out mx1")]
    Node {
        /// node.name of the node
        name: String,
        #[command(flatten)]
        issue: Issue,
    },
}

/// How a certificate is issued into a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Issue {
    /// Folder of the authority
    #[arg(long, value_name = "FOLDER")]
    ca: PathBuf,
    /// Folder for the certificate, the key and ca.pem; none of them may be there
    #[arg(short, long, value_name = "FOLDER")]
    out: PathBuf,
    /// Days until it ends
    #[arg(long, default_value_t = DAYS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=7_300))]
    days: u32,
}

/// `gauntlet array token`.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Folder of the authority
    #[arg(long, value_name = "FOLDER")]
    ca: PathBuf,
    /// node.name of the new node
    #[arg(long)]
    name: String,
    /// Group of the new node
    #[arg(long, default_value = "", hide_default_value = true)]
    group: String,
    /// Minutes that the token is good, and that this command waits for the node
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    minutes: u32,
    /// Days that the node's certificate is good
    #[arg(long, default_value_t = DAYS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=7_300))]
    days: u32,
    /// Address of the database for the new node, if it differs from array.database here; without a
    /// password
    #[arg(long, value_name = "URI")]
    database: Option<String>,
}

/// Makes an authority, or issues by one.
fn ca(command: &CaCommand) -> anyhow::Result<ExitCode> {
    let out = &mut std::io::stdout().lock();
    match command {
        CaCommand::New { out: folder, days } => {
            Authority::create(folder, *days)?;
            write_new(&folder.join(USERS_KEY), &BodyKeys::new_file()?, 0o600)?;
            writeln!(
                out,
                "{}: an authority; PostgreSQL's ssl_ca_file is its ca.pem, ca.key and users.key stay \
                 here",
                folder.display()
            )?;
        }
        CaCommand::Server { host, issue } => {
            let authority = Authority::open(&issue.ca)?;
            let pair = authority.issue_server(host, issue.days)?;
            let [certificate, key] =
                write_pair(&issue.out, "server", &pair.issued.certificate, &pair.key)?;
            writeln!(out, "{}: for ssl_cert_file", certificate.display())?;
            writeln!(out, "{}: for ssl_key_file, whose owner is PostgreSQL's user", key.display())?;
        }
        CaCommand::Node { name, issue } => {
            let authority = Authority::open(&issue.ca)?;
            let key = NodeKey::make()?;
            let issued = authority.issue_node(name, key.public(), issue.days)?;
            authority.note(name, &issued)?;
            write_pair(&issue.out, "node", &issued.certificate, &key.to_pem())?;
            write_new(&issue.out.join(ROOTS), authority.certificate(), 0o644)?;
            if let Some(keys) = users_key_of(&issue.ca)? {
                write_new(&issue.out.join(USERS_KEY), &keys, 0o600)?;
            }
            let folder = issue.out.display();
            writeln!(
                out,
                "{folder}: node.pem, node.key, ca.pem and users.key for array.certificate, .key, .ca \
                 and .users_key"
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_pair(
    folder: &Path,
    name: &str,
    certificate: &str,
    key: &str,
) -> anyhow::Result<[PathBuf; 2]> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let paths = ["pem", "key"].map(|ending| folder.join(format!("{name}.{ending}")));
    write_new(&paths[1], key, 0o600)?;
    write_new(&paths[0], certificate, 0o644)?;
    Ok(paths)
}

/// Works with the array's database of this configuration.
fn with_session<T>(
    node: &NodeArgs,
    work: impl AsyncFnOnce(&Session, &Config) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let config = node.load()?;
    let database = access::database(&config)?.context("array.database is not set")?;
    access::runtime(1)?.block_on(async {
        let session = schema::session(&database).await?;
        work(&session, &config).await
    })
}

/// Makes a file of keys for `array.users_key`.
fn users_key(file: &Path) -> anyhow::Result<ExitCode> {
    write_new(file, &BodyKeys::new_file()?, 0o600)?;
    let file = file.display();
    writeln!(
        std::io::stdout().lock(),
        "{file}: for array.users_key; copy it to the other nodes, readable by node.user alone"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The keys for users that lie beside an authority; those of earlier versions have none.
fn users_key_of(authority: &Path) -> anyhow::Result<Option<String>> {
    let path = authority.join(USERS_KEY);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Gives a token, and waits until its node has asked.
fn token(node: &NodeArgs, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    authority::check_name(&args.name)?;
    let authority = Authority::open(&args.ca)?;
    let valid = Duration::from_secs(u64::from(args.minutes) * 60);
    with_session(node, async |session, config| {
        joining::allow(session).await?;
        let pair = authority.issue_join(valid)?;
        let secret = Identity::make().context("a secret")?;
        let given = args.database.clone().unwrap_or_else(|| config.array.database.clone());
        let database = without_password(&given);
        DatabaseAddress::parse(&database)?;
        let server_roots = match config.array.ca.as_os_str().is_empty() {
            true => String::new(),
            false => {
                let path = config.node.inside(&config.array.ca);
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
            }
        };
        let token = Token {
            database,
            name: args.name.clone(),
            secret: secret.clone(),
            certificate: pair.issued.certificate,
            key: pair.key,
            server_roots,
            users_key: users_key_of(&args.ca)?.unwrap_or_default(),
        };
        let seconds = i64::try_from(valid.as_secs()).unwrap_or(i64::MAX);
        joining::invite(session, &secret, &args.name, seconds).await?;
        {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{}", token.to_text())?;
            out.flush()?;
        }
        eprintln!(
            "on {}: `gauntlet array join TOKEN` within {} minutes; this command waits for it, and \
             signs its certificate",
            args.name, args.minutes
        );
        let deadline = Instant::now() + valid;
        let public = loop {
            if let Some(public) = joining::asked(session, &secret).await? {
                break public;
            }
            ensure!(Instant::now() < deadline, "{} did not ask; the token is over", args.name);
            tokio::time::sleep(LOOK_PAUSE).await;
        };
        let issued = authority.issue_node(&args.name, &public, args.days)?;
        // First the row: a certificate that nobody knows of could not be revoked.
        authority.note(&args.name, &issued)?;
        joining::note_issued(session, &authority.noted()?).await?;
        let answer = Answer {
            certificate: issued.certificate,
            objects: config.array.objects.clone(),
            group: args.group.clone(),
        };
        joining::answer(session, &secret, &answer).await?;
        eprintln!("{} has its certificate, number {}", args.name, issued.serial);
        Ok(ExitCode::SUCCESS)
    })
}

/// The address without the password of its user: nodes sign in by certificates.
fn without_password(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    match rest.split_once('@') {
        Some((user, place)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => uri.to_owned(),
    }
}

/// Prints the list of revoked certificates.
fn crl(node: &NodeArgs, ca: &Path) -> anyhow::Result<ExitCode> {
    let authority = Authority::open(ca)?;
    let revoked = with_session(node, async |session, _| {
        joining::note_issued(session, &authority.noted()?).await?;
        Ok(joining::revoked(session).await?)
    })?;
    write!(std::io::stdout().lock(), "{}", authority.revocation_list(&revoked)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes this machine's node one of the array by a token (`-` reads it from standard input), and
/// says so on `out`.
///
/// # Errors
/// What stands in the way; a join that was cut short goes on when it is tried again.
pub(crate) fn join(node: &NodeArgs, text: &str, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let mut config = node.load()?;
    let name = config.node.host_name();
    let token = token_for(&name, text)?;
    ensure!(
        !config.array.is_on(),
        "array.database is set already; take [array] out of the configuration to join anew"
    );
    let place = Place::make(&config)?;
    let answer = access::runtime(1)?.block_on(ask(&place, &config, &token))?;
    place.keep(&answer.certificate)?;
    if !token.users_key.is_empty() {
        config.array.users_key = place.keep_users_key(&token.users_key)?;
    }
    config.array.database.clone_from(&token.database);
    config.array.objects.clone_from(&answer.objects);
    config.array.group.clone_from(&answer.group);
    config.array.certificate = Path::new("array").join(CERTIFICATE);
    config.array.key = Path::new("array").join(KEY);
    if !token.server_roots.is_empty() {
        config.array.ca = Path::new("array").join(ROOTS);
    }
    let database = access::database(&config)?.context("array.database")?;
    let (there, of) = access::runtime(1)?.block_on(async {
        let session = schema::session(&database).await?;
        // A node that left takes part again: who gave the token wants that.
        if access::folder(&config).join("identity").exists() {
            nodes::take_back(&session, &access::identity(&config)?).await?;
        }
        Ok::<_, anyhow::Error>((schema::check(&session).await?, nodes::list(&session).await?.len()))
    })?;
    writeln!(out, "{}: signed in as {name}, schema {there}, {of} nodes", database.server())?;
    set(node, &config, out)?;
    writeln!(out, "next: (re)start the node; `gauntlet array nodes` then lists it")?;
    Ok(ExitCode::SUCCESS)
}

/// The token of this text, or of what comes by standard input (`-`), whole and for this node.
///
/// # Errors
/// That it is none, or for another node.
pub(crate) fn token_for(name: &str, text: &str) -> anyhow::Result<Token> {
    let token = Token::parse(&read_token(text)?)?;
    ensure!(
        token.name == name,
        "the token is for {}, and node.name here is {name}: set that name, or get a token for this \
         one",
        visible(&token.name)
    );
    Ok(token)
}

/// The token: this text, or what comes by standard input.
fn read_token(text: &str) -> anyhow::Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    std::io::stdin().take(TOKEN_BYTES_MAX).read_to_string(&mut read).context("standard input")?;
    Ok(read)
}

/// Asks for a certificate, and waits for it.
async fn ask(place: &Place<'_>, config: &Config, token: &Token) -> anyhow::Result<Answer> {
    let asking = place.asking(token)?;
    let roots = match token.server_roots.is_empty() {
        true => trust_roots(&config.sender.roots),
        false => place.folder.join(ROOTS),
    };
    let tls = HopTls::load_as(&roots, "sender.roots", Some((&asking.certificate, &asking.key)))?;
    let (any, verified) = tls.configurations();
    let address = DatabaseAddress::parse(&token.database)?.with_user(JOIN_NAME);
    let database =
        Database::new(address, DatabaseTls { any, verified }, DatabaseOptions::default());
    let session = database.connect().await?;
    joining::ask(&session, &token.secret, place.key.public()).await?;
    let deadline = Instant::now() + ANSWER_MAX;
    loop {
        if let Some(answer) = joining::answered(&session, &token.secret).await? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!(
                "no answer in {} s; is `gauntlet array token` still running on the manager? The \
                 same command goes on",
                ANSWER_MAX.as_secs()
            );
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Where a node keeps its certificate and key.
struct Place<'a> {
    config: &'a Config,
    folder: PathBuf,
    key: NodeKey,
}

/// Files with what a token signs in by; removed with it.
struct Asking {
    certificate: PathBuf,
    key: PathBuf,
}

impl Drop for Asking {
    fn drop(&mut self) {
        for path in [&self.certificate, &self.key] {
            let _it_is_good_for_minutes = std::fs::remove_file(path);
        }
    }
}

impl<'a> Place<'a> {
    fn make(config: &'a Config) -> anyhow::Result<Self> {
        let folder = access::folder(config);
        privileges::make_folder(config, &config.node.data)
            .and_then(|()| privileges::make_folder(config, &folder))
            .with_context(|| folder.display().to_string())?;
        // A join that was cut short goes on with the key that it asked for.
        let before = std::fs::read_to_string(folder.join(NEW_KEY)).ok();
        let (key, is_new) = match before.and_then(|pem| NodeKey::from_pem(&pem).ok()) {
            Some(key) => (key, false),
            None => (NodeKey::make()?, true),
        };
        let place = Place { config, folder, key };
        if is_new {
            place.write(NEW_KEY, &place.key.to_pem(), 0o600)?;
        }
        Ok(place)
    }

    /// Writes a file for the node's user alone.
    fn write(&self, name: &str, text: &str, mode: u32) -> anyhow::Result<PathBuf> {
        let path = self.folder.join(name);
        let acting = privileges::to_become(self.config)?.map(|account| account.act()).transpose();
        let _acting = acting.with_context(|| format!("node.user {:?}", self.config.node.user))?;
        files::write_durably_as(&path, text.as_bytes(), mode)
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }

    fn asking(&self, token: &Token) -> anyhow::Result<Asking> {
        if !token.server_roots.is_empty() {
            self.write(ROOTS, &token.server_roots, 0o644)?;
        }
        Ok(Asking {
            certificate: self.write("join.pem", &token.certificate, 0o600)?,
            key: self.write("join.key", &token.key, 0o600)?,
        })
    }

    fn keep(&self, certificate: &str) -> anyhow::Result<()> {
        self.write(KEY, &self.key.to_pem(), 0o600)?;
        self.write(CERTIFICATE, certificate, 0o644)?;
        let path = self.folder.join(NEW_KEY);
        std::fs::remove_file(&path).with_context(|| path.display().to_string())
    }

    /// Writes the keys for users where the secrets process alone reads. Returns the setting.
    fn keep_users_key(&self, keys: &str) -> anyhow::Result<PathBuf> {
        let folder = Path::new("console");
        let whole = self.config.node.data.join(folder);
        privileges::make_folder(self.config, &whole)
            .with_context(|| whole.display().to_string())?;
        self.write(&format!("../console/{USERS_KEY}"), keys, 0o600)?;
        Ok(folder.join(USERS_KEY))
    }
}

/// Writes `[array]` into the configuration file, or prints it where the file has one already.
fn set(node: &NodeArgs, config: &Config, out: &mut impl Write) -> anyhow::Result<()> {
    let array = &config.array;
    let mut lines = format!("\n[array]\ndatabase = {:?}\n", array.database);
    let paths = [
        ("certificate", &array.certificate),
        ("key", &array.key),
        ("ca", &array.ca),
        ("users_key", &array.users_key),
    ];
    for (name, path) in paths.iter().filter(|(_, path)| !path.as_os_str().is_empty()) {
        lines.push_str(&format!("{name} = {:?}\n", path.display().to_string()));
    }
    for (name, value) in [("objects", &array.objects), ("group", &array.group)] {
        if !value.is_empty() {
            lines.push_str(&format!("{name} = {value:?}\n"));
        }
    }
    let Some(path) = node.file() else {
        return Ok(write!(out, "set in the configuration:\n{lines}")?);
    };
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if text.lines().any(|line| line.trim_start().starts_with("[array]")) {
        return Ok(write!(out, "{} has [array]; set in it:\n{lines}", path.display())?);
    }
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .with_context(|| path.display().to_string())?;
    file.write_all(lines.as_bytes()).and_then(|()| file.sync_all())?;
    writeln!(out, "{}: [array] is added", path.display())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_passwords() {
        let without = |uri| without_password(uri);
        assert_eq!(
            without("postgres://a:b@h:1/d?sslmode=require"),
            "postgres://a@h:1/d?sslmode=require"
        );
        assert_eq!(without("postgres://a@h/d"), "postgres://a@h/d");
        assert_eq!(without("nothing"), "nothing");
    }
}
