//! Servers to compare: how each is started with as little changed as can be, so that it listens on
//! loopback alone and asks the network nothing.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::server::{Server, Start, folder, free_address, is_root, program, version, write};
use crate::protocol::Protocol;

/// Settings of all filters.
const NO_NETWORK: &str = "network tests off";
/// Settings of our services: the peers write no line a message either.
const NO_LOG: &str = "no line of the log for each message";

/// A node of ours that asks the network nothing: its SMTP listener, or a service beside it.
pub struct Node<'a> {
    /// Path of this program.
    pub program: &'a Path,
    /// Version of this program, for the report.
    pub version: &'a str,
    /// Notes about it for the report.
    pub name: &'a str,
    /// Protocol: SMTP, or that of a service.
    pub protocol: Protocol,
    /// Further settings, in TOML.
    pub settings: &'a str,
    /// What the settings mean, for the report.
    pub notes: &'a [&'a str],
    /// What is put around the process.
    pub around: &'a Around,
}

/// Which rules spamd reads.
#[derive(Debug, Clone, Default)]
pub struct SpamdRules {
    /// Its `--configpath`; none is its own.
    pub rules: Option<PathBuf>,
    /// Its `--siteconfigpath`; none is its own.
    pub site: Option<PathBuf>,
}

/// What is put around a process before it starts.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// Environment variables that are set for it.
    pub environment: Vec<(&'static str, String)>,
    /// CPUs that it may use; all if there are none.
    pub cpus: Vec<usize>,
    /// Memory may not be written and run (Linux' PR_SET_MDWE): expressions are interpreted then,
    /// not compiled to machine code.
    pub no_machine_code: bool,
}

impl Around {
    pub(crate) fn apply(&self, command: &mut Command) {
        command.envs(self.environment.iter().map(|(name, value)| (*name, value)));
        let (cpus, no_machine_code) = (self.cpus.clone(), self.no_machine_code);
        let prepare = move || {
            let signal = libc::c_ulong::try_from(libc::SIGKILL).unwrap_or_default();
            // SAFETY: prctl takes numbers; the system ends this process when the thread that starts
            // it ends, so that nothing is left behind by a measurement that was broken off.
            if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal, 0, 0, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if !cpus.is_empty() {
                crate::topology::run_on(&cpus)?;
            }
            let flag = libc::c_ulong::from(PR_MDWE_REFUSE_EXEC_GAIN);
            // SAFETY: prctl takes numbers, and forbids this process something; unused arguments
            // must be 0 here.
            if no_machine_code && unsafe { libc::prctl(PR_SET_MDWE, flag, 0, 0, 0) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        };
        // SAFETY: between fork and exec it only makes a few system calls, on values that were made
        // before; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(prepare) };
    }
}

/// prctl(2): no memory that is writable and executable, and none that becomes executable (Linux
/// 6.3).
const PR_SET_MDWE: libc::c_int = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: u32 = 1;

impl Node<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// It does not start, with the end of its log.
    pub fn start(&self) -> anyhow::Result<Server> {
        let folder = folder()?;
        let (smtp, service, console) = (free_address()?, free_address()?, free_address()?);
        let data = folder.path().join("data");
        let mut text = format!(
            "[node]\nname = \"node.bench.example\"\ndata = {:?}\n\
             [console]\naddress = \"{console}\"\n[log]\nlevel = \"warn\"\n\
             [[listener]]\naddress = \"{smtp}\"\n[facts]\nenabled = false\n{}\n",
            data.display().to_string(),
            self.settings
        );
        let address = if self.protocol == Protocol::Smtp {
            smtp
        } else {
            text.push_str(&format!(
                "[[service]]\nprotocol = \"{}\"\naddress = \"{service}\"\nlog = false\n",
                self.protocol.name()
            ));
            service
        };
        let config = write(folder.path(), "gauntlet.toml", &text)?;
        let mut command = Command::new(self.program);
        command.arg("serve").arg("--config").arg(config);
        self.around.apply(&mut command);
        let quiet = (self.protocol != Protocol::Smtp).then_some(&NO_LOG);
        let notes =
            [NO_NETWORK].iter().chain(quiet).chain(self.notes).map(|n| (*n).to_owned()).collect();
        let start = Start {
            name: self.name.to_owned(),
            version: self.version.to_owned(),
            notes,
            protocol: Some(self.protocol),
            address,
            folder,
        };
        let mut server = Server::foreground(start, command)?;
        server.metrics = Some(console);
        Ok(server)
    }
}

/// SpamAssassin's spamd with so many children.
///
/// # Errors
/// It is not installed or does not start.
pub fn spamd(children: usize, rules: &SpamdRules) -> anyhow::Result<Server> {
    let (program, folder, address) =
        (program("spamd", "spamassassin")?, folder()?, free_address()?);
    let mut command = spamd_command(&program, children, &folder, address);
    command.arg("--cf=use_bayes 0");
    if let Some(rules) = &rules.rules {
        command.arg(format!("--configpath={}", rules.display()));
    }
    if let Some(site) = &rules.site {
        command.arg(format!("--siteconfigpath={}", site.display()));
    }
    let notes = vec![NO_NETWORK.to_owned(), format!("{children} children"), "no Bayes".to_owned()];
    let version = version(&program, "--version");
    let name = "spamd".to_owned();
    let protocol = Some(Protocol::Spamd);
    Server::foreground(Start { name, version, notes, protocol, address, folder }, command)
}

/// spamd with so many children, local tests alone, without users' preferences.
pub(crate) fn spamd_command(
    program: &Path,
    children: usize,
    folder: &tempfile::TempDir,
    address: SocketAddr,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(["-L", "-x", "--max-conn-per-child=1000000"])
        .args(["-m", &children.to_string(), "--min-children", &children.to_string()])
        .args(["-i", "127.0.0.1", "-p", &address.port().to_string()])
        .arg(format!("--syslog={}", folder.path().join("log").display()))
        .arg(format!("--pidfile={}", folder.path().join("pid").display()));
    command
}

/// Modules of rspamd that ask the DNS, Redis or other servers.
const RSPAMD_ASKING: [&str; 24] = [
    "antivirus",
    "arc",
    "asn",
    "clickhouse",
    "dcc",
    "dkim",
    "dkim_signing",
    "dmarc",
    "elastic",
    "fuzzy_check",
    "greylist",
    "history_redis",
    "maillist",
    "mx_check",
    "neural",
    "p0f",
    "phishing",
    "ratelimit",
    "rbl",
    "replies",
    "reputation",
    "spf",
    "url_redirector",
    "whitelist",
];

/// rspamd with its own rules, a worker a CPU, without Redis: the program of this path, else the
/// system's.
///
/// # Errors
/// It is not installed or does not start.
pub fn rspamd(workers: usize, path: Option<&Path>) -> anyhow::Result<Server> {
    let controller = free_address()?;
    rspamd_with(&RspamdSettings { workers, path, redis: None, neural: false, controller })
}

/// How rspamd is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RspamdSettings<'p> {
    pub(crate) workers: usize,
    /// Its program; none is the one of the system.
    pub(crate) path: Option<&'p Path>,
    /// Where its Bayes is kept; none goes without.
    pub(crate) redis: Option<SocketAddr>,
    /// Its neural module runs.
    pub(crate) neural: bool,
    /// Where it is taught.
    pub(crate) controller: SocketAddr,
}

/// rspamd that asks the network nothing but the Redis of its settings.
///
/// # Errors
/// It is not installed or does not start.
pub(crate) fn rspamd_with(settings: &RspamdSettings<'_>) -> anyhow::Result<Server> {
    let RspamdSettings { workers, path, redis, neural, controller } = *settings;
    let program = match path {
        Some(path) if path.is_file() => path.to_owned(),
        Some(path) => bail!("{} is no file: --rspamd names rspamd's program", path.display()),
        None => program("rspamd", "rspamd")?,
    };
    let (folder, address) = (folder()?, free_address()?);
    let etc = folder.path().join("etc");
    if let Some(redis) = redis {
        write(&etc, "override.d/redis.conf", &format!("servers = \"{redis}\";\n"))?;
    }
    for module in RSPAMD_ASKING.into_iter().filter(|module| !(neural && *module == "neural")) {
        write(&etc, &format!("override.d/{module}.conf"), "enabled = false;\n")?;
    }
    write(&etc, "override.d/hfilter.conf", "enabled = false;\n")?;
    write(&etc, "override.d/once_received.conf", "enabled = false;\n")?;
    let normal = format!("bind_socket = \"{address}\";\ncount = {workers};\n");
    write(&etc, "override.d/worker-normal.inc", &normal)?;
    let control = format!("bind_socket = \"{controller}\";\ncount = 1;\n");
    write(&etc, "override.d/worker-controller.inc", &control)?;
    write(&etc, "override.d/worker-proxy.inc", "enabled = false;\ncount = 0;\n")?;
    write(&etc, "override.d/worker-fuzzy.inc", "enabled = false;\ncount = 0;\n")?;
    let log = folder.path().join("rspamd.log");
    let logging =
        format!("type = \"file\";\nfilename = \"{}\";\nlevel = \"error\";\n", log.display());
    write(&etc, "override.d/logging.inc", &logging)?;
    for part in ["db", "run", "log"] {
        std::fs::create_dir_all(folder.path().join(part)).context("cannot make a folder")?;
    }
    let mut command = Command::new(&program);
    command.arg("-f");
    if is_root() {
        command.args(["-u", "_rspamd", "-g", "_rspamd"]);
        give_to(folder.path(), "_rspamd")?;
    }
    let at = |part: &str| folder.path().join(part).display().to_string();
    command.arg(format!("--var=LOCAL_CONFDIR={}", at("etc")));
    command.arg(format!("--var=DBDIR={}", at("db")));
    command.arg(format!("--var=RUNDIR={}", at("run")));
    command.arg(format!("--var=LOGDIR={}", at("log")));
    let bayes = if redis.is_some() { "Bayes" } else { "no Bayes" };
    let notes = vec![
        format!("{NO_NETWORK} (and the modules that need DNS or Redis)"),
        format!("{workers} workers"),
        bayes.to_owned(),
    ];
    let version = version(&program, "--version");
    let name = "rspamd".to_owned();
    let protocol = Some(Protocol::Rspamd);
    Server::foreground(Start { name, version, notes, protocol, address, folder }, command)
}

/// Where Debian keeps ClamAV's signatures.
const CLAMAV_SIGNATURES: &str = "/var/lib/clamav";

/// How clamd is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClamdSettings {
    /// Files that it looks at at once.
    pub(super) threads: usize,
    /// Whose files it reads; none is its own user.
    pub(super) user: Option<&'static str>,
}

/// ClamAV's clamd, with the signatures that the machine has.
///
/// # Errors
/// It is not installed or does not start.
pub fn clamd(threads: usize) -> anyhow::Result<Server> {
    clamd_with(&ClamdSettings { threads, user: None })
}

/// The same with other settings.
///
/// # Errors
/// As [`clamd`].
pub(super) fn clamd_with(settings: &ClamdSettings) -> anyhow::Result<Server> {
    let (threads, user) = (settings.threads, settings.user.unwrap_or("clamav"));
    let (program, folder, address) =
        (program("clamd", "clamav-daemon")?, folder()?, free_address()?);
    let installed = ["main.cvd", "main.cld", "daily.cvd", "daily.cld"]
        .iter()
        .any(|name| Path::new(CLAMAV_SIGNATURES).join(name).is_file());
    let (signatures, note) = if installed {
        (CLAMAV_SIGNATURES.to_owned(), "the signatures of this machine".to_owned())
    } else {
        // It refuses to start with none at all. The text is one that no mail holds.
        let text = "Bench.Never:0:*:6761756e746c6574206e65766572207365656e20696e206d61696c\n";
        write(folder.path(), "signatures/bench.ndb", text)?;
        let path = folder.path().join("signatures").display().to_string();
        (path, "NO signatures but one of ours: only what it does to any message".to_owned())
    };
    let text = format!(
        "Foreground yes\nTCPSocket {}\nTCPAddr 127.0.0.1\nDatabaseDirectory {signatures}\n\
         MaxThreads {threads}\nStreamMaxLength 100M\nLogSyslog no\nConcurrentDatabaseReload no\n\
         TemporaryDirectory {}\n{}",
        address.port(),
        folder.path().display(),
        if is_root() { format!("User {user}\n") } else { String::new() }
    );
    let config = write(folder.path(), "clamd.conf", &text)?;
    if is_root() {
        give_to(folder.path(), user)?;
    }
    let mut command = Command::new(&program);
    command.arg("--config-file").arg(config);
    let notes = vec![note, format!("{threads} threads")];
    let version = version(&program, "--version");
    let name = "clamd".to_owned();
    let protocol = Some(Protocol::Clamd);
    Server::foreground(Start { name, version, notes, protocol, address, folder }, command)
}

/// Postfix that relays everything to the address, durable as it comes.
///
/// # Errors
/// It is not installed, this process is not root, or it does not start.
pub fn postfix(hop: std::net::SocketAddr) -> anyhow::Result<Server> {
    let program = program("postfix", "postfix")?;
    if !is_root() {
        bail!("Postfix starts as root only");
    }
    let (folder, address) = (folder()?, free_address()?);
    let (etc, queue, lib) =
        (folder.path().join("etc"), folder.path().join("queue"), folder.path().join("lib"));
    for part in [&etc, &queue, &lib] {
        std::fs::create_dir(part).context("cannot make a folder for Postfix")?;
    }
    give_to(&lib, "postfix")?;
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {queue}\ndata_directory = {lib}\n\
         command_directory = /usr/sbin\ndaemon_directory = /usr/lib/postfix/sbin\n\
         mail_owner = postfix\nsetgid_group = postdrop\nmyhostname = postfix.bench.example\n\
         mydestination =\ninet_interfaces = 127.0.0.1\nmynetworks = 127.0.0.0/8\n\
         smtpd_relay_restrictions = permit_mynetworks, reject\nrelayhost = [{ip}]:{port}\n\
         maillog_file = {lib}/log\nmaillog_file_prefixes = {lib}\nalias_maps =\nalias_database =\n\
         smtp_tls_security_level = none\nsmtpd_tls_security_level = none\n\
         disable_dns_lookups = yes\nbiff = no\nsmtpd_client_connection_rate_limit = 0\n\
         message_size_limit = 104857600\nsmtputf8_enable = yes\nmultiinstance_name =\n\
         import_environment = MAIL_CONFIG\n",
        queue = queue.display(),
        lib = lib.display(),
        ip = hop.ip(),
        port = hop.port()
    );
    write(&etc, "main.cf", &main)?;
    write(&etc, "master.cf", &master(&address.to_string())?)?;
    let control = |what: &str| {
        let mut command = Command::new(&program);
        command.arg("-c").arg(&etc).arg(what);
        command
    };
    let output = control("start").output().context("cannot start Postfix")?;
    if !output.status.success() {
        bail!("postfix start: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let number = std::fs::read_to_string(queue.join("pid/master.pid")).unwrap_or_default();
    let process = number.trim().parse().context("Postfix does not say its process")?;
    let postconf = program.with_file_name("postconf");
    let version = version(&postconf, "mail_version").replace("mail_version = ", "Postfix ");
    let notes = vec!["durable, as it comes; TLS and DNS off".to_owned()];
    let (name, protocol) = ("Postfix".to_owned(), Some(Protocol::Smtp));
    let stop = control("stop");
    Server::background(Start { name, version, notes, protocol, address, folder }, process, stop)
}

/// The services of Debian's `master.cf`, without chroot, with one listener.
fn master(address: &str) -> anyhow::Result<String> {
    let path = "/etc/postfix/master.cf";
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let mut out = String::new();
    for line in text.lines().filter(|l| !l.starts_with(['#', ' ', '\t'])) {
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        if words.len() < 8 || words[7] == "pipe" || (words[1] == "inet" && words[0] != "smtp") {
            continue;
        }
        if words[1] == "inet" {
            words[0] = address;
        }
        words[4] = "n";
        out.push_str(&words.join(" "));
        out.push('\n');
    }
    Ok(out)
}

/// Gives the folder and all in it to a user of the system.
pub(crate) fn give_to(folder: &Path, user: &str) -> anyhow::Result<()> {
    let status = Command::new("chown").arg("-R").arg(user).arg(folder).status();
    if !status.context("cannot run chown")?.success() {
        bail!("{} cannot be given to {user}", folder.display());
    }
    Ok(())
}
