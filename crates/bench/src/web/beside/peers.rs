//! Proxies to compare: each on loopback, in a temporary folder, with one worker where it has such,
//! without a log of requests and without a cache.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::{Options, WebPeer};
use crate::compare::peers::give_to;
use crate::compare::server::{
    Server, Start, folder, free_address, is_root, program, version, write,
};
use crate::web::own::write_domains;
use crate::web::tls::{self, OriginFiles};

/// Bytes of an object up to which its file is filled.
const FILLED_BYTES_MAX: usize = 16 << 20;

/// Starts a peer with the list of these options.
///
/// # Errors
/// It is not installed or does not start.
pub(crate) fn start(
    peer: WebPeer,
    origin: SocketAddr,
    options: &Options,
) -> anyhow::Result<Server> {
    match peer {
        WebPeer::Squid => squid(options.entries),
        WebPeer::Squidguard => squidguard(options.entries),
        WebPeer::E2guardian => e2guardian(options.entries, options.connections),
        WebPeer::Privoxy => privoxy(options.entries),
        WebPeer::Nginx => nginx_proxy(origin, options.connections),
        WebPeer::Mitmproxy => mitmproxy(options.entries),
    }
}

/// A server that begins to be described.
struct Described {
    name: &'static str,
    version: String,
    notes: Vec<String>,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Described {
    /// Starts it. As root it gives up its rights for `user`, to whom the folder goes.
    fn start(self, user: Option<&str>, command: Command) -> anyhow::Result<Server> {
        if let Some(user) = user.filter(|_| is_root()) {
            give_to(self.folder.path(), user)?;
        }
        let Described { name, version, notes, address, folder } = self;
        let name = name.to_owned();
        Server::foreground(Start { name, version, notes, protocol: None, address, folder }, command)
    }
}

/// The server behind all proxies, without and with TLS.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) server: Server,
    /// Where it speaks TLS.
    pub(crate) secure: SocketAddr,
    pub(crate) files: OriginFiles,
}

/// nginx as the server behind all proxies: a file of each size, whatever stands behind its name;
/// large ones are holes, which cost no disk.
///
/// # Errors
/// It is not installed or does not start.
pub(crate) fn origin(sizes: &[u64]) -> anyhow::Result<Origin> {
    let (program, folder, address) = (program("nginx", "nginx-light")?, folder()?, free_address()?);
    for bytes in sizes.iter().chain([&super::TUNNEL_BYTES]) {
        let name = write(folder.path(), &format!("www/{bytes}"), "")?;
        match usize::try_from(*bytes).ok().filter(|bytes| *bytes <= FILLED_BYTES_MAX) {
            Some(bytes) => std::fs::write(&name, ".".repeat(bytes)),
            None => std::fs::File::create(&name).and_then(|file| file.set_len(*bytes)),
        }
        .with_context(|| format!("cannot write {}", name.display()))?;
    }
    let (files, secure) = (tls::origin_files(folder.path())?, free_address()?);
    let server = format!(
        "listen {address}; listen {secure} ssl; ssl_certificate {};\n\
         ssl_certificate_key {}; root www; rewrite ^/bytes/(\\d+)/ /$1 break;",
        files.certificate.display(),
        files.key.display()
    );
    let command = nginx(&program, folder.path(), "", &server)?;
    let version = version(&program, "-v").replace("nginx version: ", "");
    let name = "nginx, the origin";
    let server = Described { name, version, notes: Vec::new(), address, folder };
    Ok(Origin { server: server.start(None, command)?, secure, files })
}

fn nginx(program: &Path, folder: &Path, http: &str, server: &str) -> anyhow::Result<Command> {
    let root = folder.display();
    let user = if is_root() { "user root;" } else { "" };
    let text = format!(
        "daemon off; master_process off; pid {root}/pid; error_log stderr; {user}\n\
         events {{ worker_connections 20000; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600;\n\
         default_type text/plain; sendfile on; tcp_nodelay on;\n\
         client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;\n\
         fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;\n\
         {http}\nserver {{ {server} }} }}\n"
    );
    let config = write(folder, "nginx.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(folder).arg("-c").arg(config);
    Ok(command)
}

/// nginx that passes everything on to the origin.
fn nginx_proxy(origin: SocketAddr, connections: usize) -> anyhow::Result<Server> {
    let (program, folder, address) = (program("nginx", "nginx-light")?, folder()?, free_address()?);
    let upstream = format!("upstream origin {{ server {origin}; keepalive {connections}; }}");
    let server = format!(
        "listen {address}; location / {{ proxy_pass http://origin; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header Host $host; }}"
    );
    let command = nginx(&program, folder.path(), &upstream, &server)?;
    let version = version(&program, "-v").replace("nginx version: ", "");
    let notes = vec!["a reverse proxy in one process, without a list; so are we".to_owned()];
    Described { name: "nginx", version, notes, address, folder }.start(None, command)
}

/// What makes one Squid differ from another.
pub(super) struct SquidParts<'a> {
    pub(super) name: &'static str,
    pub(super) program: PathBuf,
    /// What its port does beside taking requests.
    pub(super) port: &'a str,
    /// What is denied, or who is asked.
    pub(super) further: &'a str,
    pub(super) note: String,
}

/// Squid in one process.
pub(super) fn squid_with(
    folder: tempfile::TempDir,
    parts: SquidParts<'_>,
) -> anyhow::Result<Server> {
    let SquidParts { name, program, port, further, note } = parts;
    let (address, root) = (free_address()?, folder.path().display());
    let text = format!(
        "http_port {address} {port}\n{further}acl here src 127.0.0.1\nhttp_access allow here\n\
         cache deny all\naccess_log none\ncache_log {root}/cache.log\ncache_store_log none\n\
         pid_filename none\ncoredump_dir {root}\nshutdown_lifetime 0 seconds\npinger_enable off\n\
         visible_hostname squid.bench.example\n"
    );
    let config = write(folder.path(), "squid.conf", &text)?;
    let mut command = Command::new(&program);
    command.arg("-N").arg("-f").arg(config);
    let version = version(&program, "--version");
    let notes = vec!["one process, no cache, no access log".to_owned(), note];
    Described { name, version, notes, address, folder }.start(Some("proxy"), command)
}

fn squid(entries: u64) -> anyhow::Result<Server> {
    let folder = folder()?;
    let deny = squid_list(folder.path(), entries)?;
    let parts = SquidParts {
        name: "Squid",
        program: program("squid", "squid")?,
        port: "",
        further: &deny,
        note: format!("{entries} domains as dstdomain"),
    };
    squid_with(folder, parts)
}

/// What denies the domains of the list.
pub(super) fn squid_list(folder: &Path, entries: u64) -> anyhow::Result<String> {
    let list = write_domains(folder, "domains", entries, |domain| format!(".{domain}"))?;
    Ok(format!("acl bad dstdomain \"{}\"\nhttp_access deny bad\n", list.display()))
}

/// Squid with one squidGuard, which answers one question at a time.
fn squidguard(entries: u64) -> anyhow::Result<Server> {
    let (guard, folder) = (program("squidGuard", "squidguard")?, folder()?);
    let root = folder.path().display();
    std::fs::create_dir_all(folder.path().join("db")).context("cannot make a folder")?;
    write_domains(&folder.path().join("db"), "domains", entries, str::to_owned)?;
    let text = format!(
        "dbhome {root}/db\nlogdir {root}\ndest bad {{\n domainlist domains\n}}\n\
         acl {{\n default {{\n pass !bad any\n redirect 302:http://localhost/blocked\n }}\n}}\n"
    );
    let config = write(folder.path(), "squidGuard.conf", &text)?;
    let built = Command::new(&guard).arg("-c").arg(&config).args(["-C", "domains"]).output();
    if !built.context("cannot start squidGuard")?.status.success() {
        bail!("squidGuard cannot compile the list");
    }
    let ask = format!(
        "url_rewrite_program {} -c {}\nurl_rewrite_children 1 startup=1 concurrency=0\n",
        guard.display(),
        config.display()
    );
    let note = format!("one squidGuard with a database of {entries} domains; its CPU time counts");
    let program = program("squid", "squid")?;
    let name = "Squid and squidGuard";
    squid_with(folder, SquidParts { name, program, port: "", further: &ask, note })
}

/// Where Debian keeps e2guardian's configuration.
const E2GUARDIAN: &str = "/etc/e2guardian";

/// e2guardian as it comes, but for the list in place of its banned sites, and no phrases.
fn e2guardian(entries: u64, connections: usize) -> anyhow::Result<Server> {
    let (program, folder, address) =
        (program("e2guardian", "e2guardian")?, folder()?, free_address()?);
    let root = folder.path().join("etc");
    copy_moved(Path::new(E2GUARDIAN), &root, &root.display().to_string())?;
    let main = root.join("e2guardian.conf");
    let text = std::fs::read_to_string(&main).context("e2guardian has no configuration")?;
    // It takes no fewer than 20.
    let workers = (connections + 8).max(20);
    let set = [
        ("filterip", address.ip().to_string()),
        ("filterports", address.port().to_string()),
        // It listens there whether or not anybody wants it to.
        ("transparenthttpsport", free_address()?.port().to_string()),
        ("nologger", "on".to_owned()),
        ("loglevel", "0".to_owned()),
        ("weightedphrasemode", "0".to_owned()),
        ("httpworkers", workers.to_string()),
        ("pidfilename", format!("'{}'", root.join("pid").display())),
    ];
    let is_set = |line: &&str| {
        let name = line.split('=').next().unwrap_or_default().trim();
        !set.iter().any(|(set, _)| *set == name) && name != "checkip"
    };
    let mut text: String = text.lines().filter(is_set).flat_map(|line| [line, "\n"]).collect();
    set.iter().for_each(|(name, value)| text.push_str(&format!("{name} = {value}\n")));
    write(&root, "e2guardian.conf", &text)?;
    for list in ["bannedphraselist", "weightedphraselist", "exceptionphraselist"] {
        write(&root, &format!("lists/{list}"), "")?;
    }
    write_domains(&root.join("lists"), "bannedsitelist", entries, str::to_owned)?;
    let mut command = Command::new(&program);
    command.arg("-N").arg("-c").arg(&main);
    let notes = vec![
        format!("{entries} domains as bannedsitelist; no phrases, no log"),
        format!("{workers} threads, one a connection"),
    ];
    let version = version(&program, "-v");
    let described = Described { name: "e2guardian", version, notes, address, folder };
    described.start(Some("e2guardian"), command)
}

/// Copies a folder of configuration; where its files name that folder, they name the copy.
fn copy_moved(from: &Path, to: &Path, name: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let files =
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for file in files {
        let file = file?;
        let copy = to.join(file.file_name());
        if file.file_type()?.is_dir() {
            copy_moved(&file.path(), &copy, name)?;
        } else {
            // Some of its lists are in old encodings.
            let text = std::fs::read(file.path())?;
            let text = match String::from_utf8(text) {
                Ok(text) => text.replace(E2GUARDIAN, name).into_bytes(),
                Err(other) => other.into_bytes(),
            };
            std::fs::write(&copy, text)
                .with_context(|| format!("cannot write {}", copy.display()))?;
        }
    }
    Ok(())
}

fn privoxy(entries: u64) -> anyhow::Result<Server> {
    let (program, folder, address) = (program("privoxy", "privoxy")?, folder()?, free_address()?);
    let root = folder.path().display();
    let pattern = |domain: &str| format!(".{domain}");
    let list = write_domains(folder.path(), "patterns", entries, pattern)?;
    let patterns = std::fs::read_to_string(&list).context("cannot read the list")?;
    write(folder.path(), "list.action", &format!("{{+block{{listed}}}}\n{patterns}"))?;
    let text = format!(
        "confdir {root}\ntempldir /etc/privoxy/templates\nlogdir {root}\nlogfile log\ndebug 0\n\
         actionsfile list.action\nlisten-address {address}\ntoggle 1\nkeep-alive-timeout 600\n\
         default-server-timeout 600\nconnection-sharing 1\nmax-client-connections 2048\n\
         socket-timeout 300\n"
    );
    let config = write(folder.path(), "config", &text)?;
    let mut command = Command::new(&program);
    command.arg("--no-daemon").arg(config);
    let notes = vec![
        format!("{entries} domains as patterns of an action, which it tries one by one"),
        "a thread a connection".to_owned(),
    ];
    let version = version(&program, "--version");
    Described { name: "Privoxy", version, notes, address, folder }.start(None, command)
}

/// What mitmproxy runs: it has no list of its own.
const ADDON: &str = "\
from mitmproxy import http

class List:
    def __init__(self):
        self.domains = set(open('LIST').read().split())

    def request(self, flow):
        labels = flow.request.host.split('.')
        names = ('.'.join(labels[at:]) for at in range(len(labels)))
        if any(name in self.domains for name in names):
            flow.response = http.Response.make(403, b'listed')

addons = [List()]
";

fn mitmproxy(entries: u64) -> anyhow::Result<Server> {
    Ok(mitmproxy_with(entries, &[])?.0)
}

/// mitmproxy with further arguments, and its folder.
pub(super) fn mitmproxy_with(entries: u64, further: &[&str]) -> anyhow::Result<(Server, PathBuf)> {
    let (program, folder, address) =
        (program("mitmdump", "mitmproxy")?, folder()?, free_address()?);
    let list = write_domains(folder.path(), "domains", entries, str::to_owned)?;
    let addon = ADDON.replace("LIST", &list.display().to_string());
    let addon = write(folder.path(), "addon.py", &addon)?;
    let mut command = Command::new(&program);
    command.args(["-q", "--listen-host", &address.ip().to_string()]);
    command.args(["-p", &address.port().to_string(), "--set"]);
    command.arg(format!("confdir={}", folder.path().join("conf").display()));
    command.arg("-s").arg(addon).args(further);
    let notes = vec![format!("{entries} domains as a set of Python, in an addon of nine lines")];
    let version = version(&program, "--version");
    let path = folder.path().to_owned();
    let described = Described { name: "mitmproxy", version, notes, address, folder };
    Ok((described.start(None, command)?, path))
}
