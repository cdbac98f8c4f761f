//! `gauntlet digest`: mails about held mail, and the thread that sends them every day.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_array::{Duties, Duty, SharedQuarantine};
use gauntlet_console::Texts;
use gauntlet_console::digest::{
    Digest, DigestMail, DigestOptions, DigestRights, DigestRun, OwnMail, digest, round,
};
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::control::{self, Answer, Request};
use gauntlet_mail::date::{DAY_MS, HOUR_MS};
use gauntlet_store::{Quarantine, Users};

use crate::array::digests::{self, ArrayMail};
use crate::array::member::Membership;
use crate::array_access as access;
use crate::node_args::NodeArgs;
use crate::user;

/// Between two looks whether it is time.
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// How long after a round is due, and the array's database away, a node makes one about its own
/// mail.
const ALONE_AFTER_MS: i64 = 4 * HOUR_MS;
/// Under this name the last round that a node of the array made for all is kept.
const ARRAY_MARK: &str = "round of the array";
/// Under this name a round is kept that this node made alone, until the array knows of it.
const ALONE_MARK: &str = "round made alone";
/// Under this name the last round of the schedule is kept among the marks of digests: no address
/// has it.
const SCHEDULE_MARK: &str = "scheduled round";

const AFTER_HELP: &str = "\
The node sends them by itself at digest.hour, if digest.enabled; in an array one node sends
those of all. Each message is in one digest
of a recipient only; probe accounts (learning.probes) get none. Exit status of send: 0 all sent,
1 some failed, 2 digest.enabled is false.

Examples:
  gauntlet digest preview ann@example.org    what she would get now, as a message
  gauntlet digest send --now                 send all that is due, through the running node
  gauntlet digest send --now --force         the same where digest.enabled is false";

/// Arguments of `gauntlet digest`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Send the digests of everybody for whom something new is held
    Send {
        /// Do not wait for digest.hour
        #[arg(long, required = true)]
        now: bool,
        /// Send them although digest.enabled is false
        #[arg(long)]
        force: bool,
    },
    /// Print the digest that an address would get; its links work
    Preview {
        /// Address of the recipient whose digest it is
        address: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let users = user::open(&config.node.data)?;
    let quarantine = Quarantine::open_shared_with(
        &config.node.data.join("quarantine"),
        gauntlet_gateway::admin::quarantine::body_keys(&config)?,
    )?;
    quarantine.set_folder_release(gauntlet_gateway::admin::quarantine::folder_release(&config));
    let options = options(&config)?;
    let rights = DigestRights { quarantine: &quarantine, users: &users };
    let shared = Shared::open(&config)?;
    let mail: Box<dyn DigestMail + '_> = match &shared {
        Some(shared) => Box::new(shared.mail(&quarantine, &users)),
        None => Box::new(OwnMail { quarantine: &quarantine, users: &users, since_ms: None }),
    };
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::Preview { address } => match digest(&*mail, rights, &options, address, now_ms())? {
            Some(made) => out.write_all(made.raw.as_bytes())?,
            None => bail!("nothing new is held for {address} since the last digest"),
        },
        Action::Send { force, .. } if !config.digest.enabled && !force => {
            eprintln!(
                "error: digest.enabled is false: this node sends no digests, and none was sent; set it, \
                 or use --force to send this round all the same"
            );
            return Ok(ExitCode::from(2));
        }
        Action::Send { .. } => {
            let data = &config.node.data;
            control::ask(data, &Request::List { max: 1 }).with_context(|| {
                format!("{}: no node answers; is `gauntlet serve` running there?", data.display())
            })?;
            let mut send = |made: &Digest| {
                let request =
                    Request::Submit { to: made.address.clone(), message: made.raw.clone() };
                match control::ask(data, &request).map_err(|e| e.to_string())? {
                    Answer::Failed(why) => Err(why),
                    _ => Ok(()),
                }
            };
            let done = round(&*mail, rights, &options, now_ms(), &mut send)?;
            writeln!(out, "{} digests sent, {} failed", done.sent, done.failed)?;
            if done.failed > 0 {
                return Ok(ExitCode::from(1));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The held mail of the array that a configuration names, with what carries its connections.
struct Shared {
    duties: Duties,
    held: SharedQuarantine,
    name: String,
    _runtime: tokio::runtime::Runtime,
}

impl Shared {
    /// None if the node is alone, or held mail stays on its node.
    fn open(config: &Config) -> anyhow::Result<Option<Self>> {
        let database = access::database(config)?;
        let Some(database) = database.filter(|_| !config.array.objects.is_empty()) else {
            return Ok(None);
        };
        let runtime = access::runtime(1)?;
        let own = access::identity(config)?;
        Ok(Some(Shared {
            duties: Duties::new(database, runtime.handle().clone(), own.identity),
            held: access::shared_quarantine(config, &runtime)?,
            name: own.name,
            _runtime: runtime,
        }))
    }

    fn mail<'a>(&'a self, own: &'a Quarantine, users: &'a Users) -> ArrayMail<'a> {
        let Shared { duties, held, name, .. } = self;
        ArrayMail { duties, held, own, users, name, due_ms: now_ms(), is_scheduled: false }
    }
}

/// How the digests of a node are made.
pub(crate) fn options(config: &Config) -> anyhow::Result<DigestOptions> {
    let d = &config.digest;
    let url = match d.url.as_str() {
        "" => config.console.url_at(&config.console.address),
        url => url.to_owned(),
    };
    let from = match d.from.as_str() {
        "" => format!("postmaster@{}", config.node.host_name()),
        from => from.to_owned(),
    };
    let no_digest = config.learning.probes.iter().map(|a| a.trim().to_lowercase()).collect();
    Ok(DigestOptions { url, from, link_days: d.link_days, texts: texts(config)?, no_digest })
}

/// Texts of pages and mails: the catalogue that console.texts names, else English.
pub(crate) fn texts(config: &Config) -> anyhow::Result<Arc<Texts>> {
    let path = &config.console.texts;
    if path.as_os_str().is_empty() {
        return Ok(Arc::default());
    }
    let place = || format!("console.texts: {}", path.display());
    let catalogue = std::fs::read_to_string(path).with_context(place)?;
    let read = Texts::parse(&catalogue).with_context(place)?;
    Ok(Arc::new(read))
}

/// Sends digests every day, on a thread of its own, until the process ends. In an array that has
/// the held mail of all nodes, one node sends those of all.
pub(crate) fn watch(
    node: &Arc<Node>,
    users: Arc<Users>,
    array: Option<Arc<Membership>>,
) -> anyhow::Result<()> {
    let node = Arc::downgrade(node);
    let array = array.filter(|array| array.held.is_some());
    std::thread::Builder::new()
        .name("digests".to_owned())
        .spawn(move || {
            loop {
                std::thread::sleep(LOOK_PAUSE);
                let Some(node) = node.upgrade() else { return };
                let done = look(&node, &users, array.as_deref(), now_ms());
                match done {
                    Ok(Some(done)) => {
                        let (sent, failed) = (done.sent, done.failed);
                        tracing::info!(sent, failed, "digests");
                    }
                    Ok(None) => {}
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::error!(error, "digests could not be made");
                    }
                }
            }
        })
        .context("cannot start the digests' thread")?;
    Ok(())
}

/// Makes the round that is due, if one is and it is this node's.
fn look(
    node: &Node,
    users: &Users,
    array: Option<&Membership>,
    now: i64,
) -> anyhow::Result<Option<DigestRun>> {
    let config = node.config();
    let mut since_ms = None;
    if let Some(array) = array {
        own_up(users, array)?;
        let Some(due) = due(&config, users, now) else { return Ok(None) };
        match array.away_since_ms() {
            None => return round_of_array(node, users, array, (due, now)),
            Some(away) if now < alone_at(due, away) => return Ok(None),
            Some(_) => {}
        }
        tracing::warn!("the array's database is away for long: digests are about this node's mail");
        users.set_digest_mark(ALONE_MARK, due, 0)?;
        // What came before was in the digests of the array.
        since_ms = Some(users.digest_mark(ARRAY_MARK)?);
    }
    let Some(due) = due(&config, users, now) else { return Ok(None) };
    // First the mark: a round that fails is not tried again every few seconds. Whom it did not
    // reach is notified by the next.
    users.set_digest_mark(SCHEDULE_MARK, due, 0)?;
    let quarantine = &node.quarantine;
    let mail = OwnMail { quarantine, users, since_ms };
    let rights = DigestRights { quarantine, users };
    Ok(Some(round(&mail, rights, &options(&config)?, now, &mut sender(node))?))
}

/// When a node whose array's database is away sends digests about its own mail alone.
pub(crate) fn alone_at(due: i64, away_since: i64) -> i64 {
    due.max(away_since) + ALONE_AFTER_MS
}

/// Tells the array of a round that this node made alone, so that no other makes it again.
fn own_up(users: &Users, array: &Membership) -> anyhow::Result<()> {
    let alone = users.digest_mark(ALONE_MARK)?;
    if alone == 0 || !array.state().is_connected {
        return Ok(());
    }
    if digests::take_round(&array.duties, alone)? == Duty::Ours {
        digests::end_round(&array.duties, alone)?;
    }
    Ok(users.set_digest_mark(ALONE_MARK, 0, 0)?)
}

/// Makes the round of the array if no other node does.
fn round_of_array(
    node: &Node,
    users: &Users,
    array: &Membership,
    (due, now): (i64, i64),
) -> anyhow::Result<Option<DigestRun>> {
    if !array.state().is_connected {
        return Ok(None);
    }
    let mut made = None;
    match digests::take_round(&array.duties, due)? {
        Duty::Theirs => return Ok(None),
        Duty::Done => {}
        Duty::Ours => {
            let config = node.config();
            made = Some(round_by(node, users, array, &config, (due, now))?);
            digests::end_round(&array.duties, due)?;
        }
    }
    users.set_digest_mark(ARRAY_MARK, due, 0)?;
    users.set_digest_mark(SCHEDULE_MARK, due, 0)?;
    Ok(made)
}

/// Sends the digests of the array from here.
fn round_by(
    node: &Node,
    users: &Users,
    array: &Membership,
    config: &Config,
    (due_ms, now): (i64, i64),
) -> anyhow::Result<DigestRun> {
    let held = array.held.as_deref().context("array.objects is not set")?;
    let (own, name) = (&*node.quarantine, config.node.host_name());
    let (duties, name) = (&array.duties, name.as_str());
    let mail = ArrayMail { duties, held, own, users, name, due_ms, is_scheduled: true };
    let rights = DigestRights { quarantine: own, users };
    Ok(round(&mail, rights, &options(config)?, now, &mut sender(node))?)
}

/// Hands a digest to the queue.
fn sender(node: &Node) -> impl FnMut(&Digest) -> Result<(), String> {
    |made| {
        let sent = node.send_own(&made.address, made.raw.clone().into_bytes());
        sent.map(drop).map_err(|error| error.to_string())
    }
}

/// When today's round was due: the hour is past, and the schedule made no round since. What was
/// sent by hand is none.
fn due(config: &Config, users: &Users, now: i64) -> Option<i64> {
    let due = now.div_euclid(DAY_MS) * DAY_MS + i64::from(config.digest.hour) * HOUR_MS;
    let is_due = config.digest.enabled
        && now >= due
        && users.digest_mark(SCHEDULE_MARK).is_ok_and(|last| last < due);
    is_due.then_some(due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_makes_one_round_a_day_whatever_is_sent_by_hand() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::open(folder.path()).unwrap();
        let mut config = Config::default();
        (config.digest.enabled, config.digest.hour) = (true, 7);
        let day = 20_778 * DAY_MS;
        let seven = day + 7 * HOUR_MS;
        assert_eq!(due(&config, &users, seven - 1), None, "before the hour");
        assert_eq!(due(&config, &users, seven), Some(seven));
        // By hand, a minute after the hour: the round of the day is still to come.
        users.set_digest_mark("ann@example.org", 3, seven + 60_000).unwrap();
        assert_eq!(due(&config, &users, seven + 120_000), Some(seven));
        users.set_digest_mark(SCHEDULE_MARK, seven, 0).unwrap();
        assert_eq!(due(&config, &users, seven + 120_000), None, "a restart makes no second round");
        assert_eq!(due(&config, &users, day + DAY_MS - 1), None);
        assert_eq!(due(&config, &users, seven + DAY_MS), Some(seven + DAY_MS));
        assert_eq!(alone_at(seven, seven - HOUR_MS), seven + ALONE_AFTER_MS);
        assert_eq!(alone_at(seven, seven + HOUR_MS), seven + HOUR_MS + ALONE_AFTER_MS);
        config.digest.enabled = false;
        assert_eq!(due(&config, &users, seven + DAY_MS), None);
    }
}
