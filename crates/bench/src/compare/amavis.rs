//! amavisd-new beside this program, as content filters between two relays: the same clamd looks at
//! the files of both, and its CPU time counts for neither.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, bail};

use super::peers::{self, Around, ClamdSettings, Node};
use super::server::{Server, Start, folder, free_address, is_root, program, version, write};
use super::{Contest, DRAIN_MAX, Options, Peer, hold};
use crate::load::Corpus;
use crate::null::NullServer;
use crate::protocol::Protocol;

/// The user that Debian's package makes; clamd must read what amavis unpacks.
const USER: &str = "amavis";

/// Both take a message, look at what is in it with clamd, and pass it on before they answer.
///
/// # Errors
/// A program is not installed, this process is not root, or a run fails.
pub(super) fn contest(
    options: &Options,
    corpus: &Corpus,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Contest> {
    let sink = NullServer::start(Protocol::Smtp)?;
    let threads = 2 * options.connections;
    let clamd = peers::clamd_with(&ClamdSettings { threads, user: Some(USER) })?;
    let theirs = amavis(options.connections, clamd.address, sink.address, &clamd.notes)?;
    let settings = format!(
        "[route]\nnext_hop = \"{}\"\n[[engine]]\nname = \"clamav\"\nkind = \"clamd\"\n\
         address = \"{}\"\n",
        sink.address, clamd.address
    );
    let node = |name, more: &str, notes| {
        let Options { program, version, .. } = options;
        Node {
            program,
            version,
            name,
            protocol: Protocol::Smtp,
            settings: &format!("{settings}{more}"),
            notes,
            around: &Around::default(),
        }
        .start()
    };
    let servers = [
        node("gauntlet", "", &["as it comes, with clamd: spam is judged, too"])?,
        // Each message is one that the engine's memory does not know, as it is for amavis.
        node(
            "gauntlet, no cache",
            "[content]\nengine_cache_entries_max = 0\n",
            &["the same; clamd's answers are not remembered"],
        )?,
        theirs,
    ];
    let job = "look at a message's files with clamd and pass it on";
    hold(options, Peer::Amavis, job, &servers, corpus, DRAIN_MAX, progress)
}

/// amavisd-new with its own decoders and clamd, without SpamAssassin.
fn amavis(
    children: usize,
    clamd: SocketAddr,
    hop: SocketAddr,
    clamd_notes: &[String],
) -> anyhow::Result<Server> {
    let program = program("amavisd", "amavisd-new")?;
    if !is_root() {
        bail!("amavisd-new starts as root only, and gives root's rights up");
    }
    let (folder, address) = (folder()?, free_address()?);
    let home = folder.path().join("home");
    for part in ["tmp", "var", "db", "quarantine"] {
        std::fs::create_dir_all(home.join(part)).context("cannot make a folder for amavis")?;
    }
    peers::give_to(&home, USER)?;
    let text = configuration(children, &home.display().to_string(), address, clamd, hop);
    let config = write(folder.path(), "amavisd.conf", &text)?;
    let mut command = Command::new(&program);
    command.arg("-c").arg(config).arg("foreground");
    let mut notes = vec![
        "network tests off".to_owned(),
        format!("{children} children, as many as connections"),
        "Debian's decoders; viruses alone are looked for, no spam".to_owned(),
    ];
    notes.extend(clamd_notes.iter().map(|note| format!("clamd: {note}")));
    let version = version(&program, "-V");
    let (name, protocol) = ("amavisd-new".to_owned(), Some(Protocol::Smtp));
    Server::foreground(Start { name, version, notes, protocol, address, folder }, command)
}

/// A configuration as Debian has it, in a folder of its own.
fn configuration(
    children: usize,
    home: &str,
    address: SocketAddr,
    clamd: SocketAddr,
    hop: SocketAddr,
) -> String {
    let decoders = std::fs::read_to_string("/etc/amavis/conf.d/01-debian").unwrap_or_default();
    // The file ends with the value that Perl wants.
    let decoders = decoders.replace("\n1;", "\n");
    format!(
        "use strict;\n{decoders}\n$MYHOME = '{home}';\n$TEMPBASE = \"$MYHOME/tmp\";\n\
         $ENV{{TMPDIR}} = $TEMPBASE;\n$db_home = \"$MYHOME/db\";\n$QUARANTINEDIR = \
         \"$MYHOME/quarantine\";\n$pid_file = \"$MYHOME/var/pid\";\n$lock_file = \
         \"$MYHOME/var/lock\";\n$daemon_user = '{USER}';\n$daemon_group = '{USER}';\n\
         $max_servers = {children};\n$max_requests = 100000;\n$enable_db = 0;\n\
         $mydomain = 'bench.example';\n$myhostname = 'amavis.bench.example';\n\
         $inet_socket_bind = '127.0.0.1';\n$inet_socket_port = {port};\n\
         @inet_acl = qw(127.0.0.0/8);\n@mynetworks = qw(127.0.0.0/8);\n\
         $forward_method = 'smtp:[127.0.0.1]:{hop}';\n$notify_method = $forward_method;\n\
         @bypass_spam_checks_maps = (1);\n@local_domains_maps = (1);\n\
         $enable_dkim_verification = 0;\n$enable_dkim_signing = 0;\n\
         $final_virus_destiny = D_DISCARD;\n$final_banned_destiny = D_PASS;\n\
         $final_bad_header_destiny = D_PASS;\n$virus_admin = undef;\n$log_level = 0;\n\
         $do_syslog = 0;\n$LOGFILE = \"$MYHOME/log\";\n$warnvirussender = 0;\n\
         @av_scanners = (['ClamAV-clamd', \\&ask_daemon, [\"CONTSCAN {{}}\\n\", \
         '127.0.0.1:{clamd}'], qr/\\bOK$/m, qr/\\bFOUND$/m, \
         qr/^.*?: (?!Infected Archive)(.*) FOUND$/m]);\n@av_scanners_backup = ();\n1;\n",
        port = address.port(),
        hop = hop.port(),
        clamd = clamd.port(),
    )
}
