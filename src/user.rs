//! `gauntlet user`: the users who may use the console.

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::node_args::{NodeArgs, must_exist};
use anyhow::{Context, bail};
use gauntlet_mail::date;
use gauntlet_store::users::lost;
use gauntlet_store::{Role, User, Users};

/// Arguments of `gauntlet user`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Add a user; prints a one-time password unless one is read
    Add {
        /// What they sign in with, e.g. their mail address
        login: String,
        /// administrator: everything; reviewer: the log, held mail in folders; user: own mail only
        #[arg(long, default_value = "user")]
        role: Role,
        /// Folder that a reviewer opens and decides held mail in; repeat for more, none for all
        #[arg(long = "folder")]
        folders: Vec<String>,
        /// Address whose held mail a user may see; repeat for more
        #[arg(long = "address")]
        addresses: Vec<String>,
        /// Read the password, one line, from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Begin a new user database where the old one is lost; prints the password of its
    /// administrator
    NewDatabase,
    /// Change a user's role, folders and addresses, and end their sessions
    Change {
        /// Login name of the user
        login: String,
        /// administrator: everything; reviewer: the log, held mail in folders; user: own mail only
        #[arg(long)]
        role: Role,
        /// Folder that a reviewer opens and decides held mail in; repeat for more, none for all
        #[arg(long = "folder")]
        folders: Vec<String>,
        /// Address whose held mail a user may see; repeat for more
        #[arg(long = "address")]
        addresses: Vec<String>,
    },
    /// Print every user with role, folders and addresses
    List {
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Set a user's password and end their sessions; prints a one-time password unless one is read
    Passwd {
        /// Login name of the user
        login: String,
        /// Read the password, one line, from standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove a user's second factor, e.g. because their phone is lost, and end their sessions
    SecondFactorOff {
        /// Login name of the user
        login: String,
    },
    /// Passwords of a user's mail programs: with a second factor they log in with these only
    #[command(subcommand)]
    AppPassword(AppPasswordAction),
    /// Remove a user, end their sessions and revoke the tokens that they made
    Remove {
        /// Login name of the user
        login: String,
    },
}

#[derive(Debug, clap::Subcommand)]
enum AppPasswordAction {
    /// Make one and print it, once: only a hash of it is kept
    New {
        /// Login name of the user
        login: String,
        /// Which program it is for
        name: String,
    },
    /// Print those of a user: name, when it was made, last use
    List {
        /// Login name of the user
        login: String,
        /// Print JSON, one line each
        #[arg(long)]
        json: bool,
    },
    /// Revoke an app password; its program cannot log in any more
    Revoke {
        /// Login name of the user
        login: String,
        /// Name of the app password
        name: String,
    },
}

/// Name in the audit log of what is done on the command line.
pub(crate) const WHO: &str = "command line";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let data = args.node.data_folder()?;
    if matches!(args.action, Action::NewDatabase) {
        return new_database(&data);
    }
    let users = open(&data)?;
    match &args.action {
        Action::NewDatabase => {}
        Action::Add { login, role, folders, addresses, password_stdin } => {
            let (password, one_time) = password(&users, *password_stdin)?;
            let user = User {
                login: login.clone(),
                role: *role,
                folders: folders.clone(),
                addresses: addresses.clone(),
                must_change: one_time,
                created_ms: now_ms(),
            };
            users.add(&user, &password, WHO, now_ms())?;
            print_password(login, &password, one_time)?;
        }
        Action::Change { login, role, folders, addresses } => {
            if !users.change_rights(login, *role, folders, addresses, WHO, now_ms())? {
                bail!("there is no user {login:?}; `gauntlet user list` prints everybody");
            }
        }
        Action::List { json } => list(&users, *json)?,
        Action::Passwd { login, password_stdin } => {
            let (password, one_time) = password(&users, *password_stdin)?;
            if !users.set_password(login, &password, one_time, WHO, now_ms())? {
                bail!("there is no user {login:?}; `gauntlet user list` prints everybody");
            }
            print_password(login, &password, one_time)?;
        }
        Action::SecondFactorOff { login } => {
            if !users.remove_totp(login, WHO, now_ms())? {
                bail!("{login:?} has no second factor");
            }
        }
        Action::AppPassword(action) => app_password(&users, action)?,
        Action::Remove { login } => {
            if !users.remove(login, WHO, now_ms())? {
                bail!("there is no user {login:?}; `gauntlet user list` prints everybody");
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn app_password(users: &Users, action: &AppPasswordAction) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match action {
        AppPasswordAction::New { login, name } => {
            let made = users.add_app_password(login, name, WHO, now_ms())?;
            let made = made.with_context(|| {
                format!("there is no user {login:?}; `gauntlet user list` prints everybody")
            })?;
            writeln!(out, "{made}")?;
            let waits = |user: &User| user.login.eq_ignore_ascii_case(login) && user.must_change;
            if users.list()?.iter().any(waits) {
                eprintln!(
                    "note: mail programs get 535 with it: {login} has a one-time password, and replacing it revokes \
                     all app passwords; make another one after that"
                );
            }
        }
        AppPasswordAction::List { login, json } => {
            for one in users.app_passwords(login)? {
                if *json {
                    writeln!(out, "{}", serde_json::to_string(&one)?)?;
                    continue;
                }
                let used = one
                    .used_ms
                    .map_or("never used".to_owned(), |ms| format!("used {}", date::rfc5322(ms)));
                writeln!(out, "{:<20} made {}, {used}", one.name, date::rfc5322(one.created_ms))?;
            }
        }
        AppPasswordAction::Revoke { login, name } => {
            if !users.revoke_app_password(login, name, WHO, now_ms())? {
                bail!("{login:?} has no app password {name:?}; `app-password list` prints them");
            }
        }
    }
    Ok(())
}

/// The users of the node with this data folder.
pub(crate) fn open(data: &Path) -> anyhow::Result<Users> {
    must_exist(data)?;
    lost::check_not_lost(data)?;
    // Where `gauntlet serve` keeps them.
    Ok(Users::open(&data.join("console"))?)
}

/// Begins a user database with an administrator, as a first start does.
fn new_database(data: &Path) -> anyhow::Result<ExitCode> {
    must_exist(data)?;
    if !lost::is_missing(data)? {
        bail!(
            "there is a user database already; `gauntlet user passwd LOGIN` makes a one-time password"
        );
    }
    let users = Users::open(&data.join("console"))?;
    if let Some(password) = users.create_first_administrator(now_ms())? {
        print_password("admin", &password, true)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The password and whether it is for one time: read, or made.
fn password(users: &Users, from_input: bool) -> anyhow::Result<(String, bool)> {
    if !from_input {
        return Ok((users.one_time_password()?, true));
    }
    let input = std::io::stdin();
    if input.is_terminal() {
        bail!("--password-stdin reads from a pipe or file, since a terminal would show it");
    }
    let mut line = String::new();
    input.lock().read_line(&mut line).context("standard input")?;
    Ok((line.trim_end_matches(['\r', '\n']).to_owned(), false))
}

fn print_password(login: &str, password: &str, one_time: bool) -> std::io::Result<()> {
    if one_time {
        writeln!(std::io::stdout(), "one-time password of {login}: {password}")?;
    }
    Ok(())
}

fn list(users: &Users, json: bool) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for user in users.list()? {
        if json {
            writeln!(out, "{}", serde_json::to_string(&user)?)?;
        } else {
            let more = [user.folders.join(","), user.addresses.join(",")].join(" ");
            let (login, role) = (&user.login, user.role.name());
            writeln!(out, "{login:<32} {role:<14} {}", more.trim())?;
        }
    }
    Ok(())
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}
