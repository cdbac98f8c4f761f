//! Real peers: swaks as client, Postfix as next hop, real mail from the corpus.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Node, Smtp, corpus, files_below, message, program, tokens};

#[test]
fn swaks_delivers() {
    let Some(swaks) = program("swaks") else { return };
    let node = Node::start("");
    let server = node.smtp.to_string();
    let output = Command::new(swaks)
        .args(["--server", &server, "--from", "ann@example.org", "--to", "bob@example.net"])
        .args(["--pipeline", "--add-header", "X-Token: swaks", "--body", "line\n.dot\n..dots\n"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    node.wait_for_empty_queue();
    let delivered = node.maildir();
    assert_eq!(tokens(&delivered)["swaks"], 1);
    let text = String::from_utf8_lossy(&delivered[0]).into_owned();
    assert!(text.contains("\n.dot\n..dots\n"), "{text}");
}

/// A Postfix of our own: it takes mail on a free port and puts it into a Maildir of a virtual
/// mailbox.
struct Postfix {
    folder: tempfile::TempDir,
    postfix: PathBuf,
    port: u16,
}

impl Postfix {
    fn start() -> Option<Self> {
        let postfix = program("postfix")?;
        let id = Command::new("id").arg("-u").output().unwrap().stdout;
        if id != b"0\n" {
            eprintln!("skipped: Postfix starts as root only");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("postfix").tempdir_in("/tmp").unwrap();
        let root = folder.path();
        fs::set_permissions(root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["etc", "queue", "data", "mail"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let main = format!(
            "compatibility_level = 3.6\nqueue_directory = {0}/queue\ndata_directory = {0}/data\n\
             command_directory = /usr/sbin\ndaemon_directory = /usr/lib/postfix/sbin\n\
             mail_owner = postfix\nsetgid_group = postdrop\nmyhostname = hop.test\n\
             mydestination =\nvirtual_mailbox_domains = example.net\n\
             virtual_mailbox_base = {0}/mail\nvirtual_mailbox_maps = static:all/\n\
             virtual_uid_maps = static:65534\nvirtual_gid_maps = static:65534\n\
             virtual_minimum_uid = 1\ninet_interfaces = 127.0.0.1\nmynetworks = 127.0.0.0/8\n\
             maillog_file = {0}/mail.log\nmaillog_file_prefixes = {0}\nalias_maps =\n\
             alias_database =\nmessage_size_limit = 0\nmailbox_size_limit = 0\n\
             virtual_mailbox_limit = 0\nsmtpd_peername_lookup = no\n",
            root.display()
        );
        fs::write(root.join("etc/main.cf"), main).unwrap();
        let master = format!(
            "127.0.0.1:{port} inet n - n - - smtpd\ncleanup unix n - n - 0 cleanup\n\
             qmgr unix n - n 300 1 qmgr\nrewrite unix - - n - - trivial-rewrite\n\
             bounce unix - - n - 0 bounce\ndefer unix - - n - 0 bounce\n\
             trace unix - - n - 0 bounce\nverify unix - - n - 1 verify\n\
             virtual unix - n n - - virtual\nerror unix - - n - - error\n\
             retry unix - - n - - error\nanvil unix - - n - 1 anvil\n\
             scache unix - - n - 1 scache\npostlog unix-dgram n - n - 1 postlogd\n\
             proxymap unix - - n - - proxymap\npickup unix n - n 60 1 pickup\n"
        );
        fs::write(root.join("etc/master.cf"), master).unwrap();
        own(&root.join("data"), "postfix");
        own(&root.join("mail"), "nobody");
        let server = Postfix { folder, postfix, port };
        let started = server.command("start");
        assert!(started, "Postfix does not start: {}", server.log());
        Some(server)
    }

    fn command(&self, what: &str) -> bool {
        Command::new(&self.postfix)
            .arg("-c")
            .arg(self.folder.path().join("etc"))
            .arg(what)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("mail.log")).unwrap_or_default()
    }

    fn delivered(&self) -> Vec<Vec<u8>> {
        let folder = self.folder.path().join("mail/all/new");
        let files = if folder.is_dir() { files_below(&folder) } else { Vec::new() };
        files.iter().map(|f| fs::read(f).unwrap()).collect()
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        self.command("stop");
    }
}

fn own(path: &Path, user: &str) {
    assert!(Command::new("chown").arg(user).arg(path).status().unwrap().success());
}

#[test]
fn postfix_is_the_next_hop() {
    let Some(postfix) = Postfix::start() else { return };
    let config = format!(
        "[route]\nnext_hop = \"127.0.0.1:{}\"\n[sender]\nretry_seconds = [1]\n",
        postfix.port
    );
    let node = Node::start(&config);
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..20 {
        let body = message(&format!("p{i}"), i * 3_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_for_empty_queue();
    node.wait_until("Postfix delivered", || postfix.delivered().len() >= 20);
    let counts = tokens(&postfix.delivered());
    assert_eq!(counts.len(), 20, "{}", postfix.log());
    assert!(counts.values().all(|n| *n == 1));
}

/// 1,000 real messages by SMTP: each one is in the Maildir, in quarantine, or refused, and the log
/// says which.
#[test]
fn real_mail_is_accounted_for() {
    let Some(corpus) = corpus() else { return };
    let files = files_below(&corpus.join("dev"));
    let step = (files.len() / 1_000).max(1);
    let node = Node::start("");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let (mut accepted, mut refused, mut put_off) = (BTreeSet::new(), 0, 0);
    let mut sent = 0;
    for file in files.iter().step_by(step).filter(|f| f.extension().is_none_or(|e| e != "tsv")) {
        let mut body = format!("X-Token: m{sent}\r\n").into_bytes();
        body.extend(fs::read(file).unwrap());
        sent += 1;
        if sent % 100 == 0 {
            client = Smtp::connect(node.smtp).unwrap();
        }
        let reply = client.send("a@example.org", &["b@example.net"], &body).unwrap();
        match reply.as_bytes().first() {
            Some(b'2') => {
                let id = reply.trim().rsplit(' ').next().unwrap_or_default().to_owned();
                accepted.insert(id);
            }
            Some(b'5') => refused += 1,
            _ => put_off += 1,
        }
    }
    assert_eq!((sent >= 1_000, put_off), (true, 0), "{sent} sent");
    node.wait_for_empty_queue();
    let mut node = node;
    node.stop();
    let delivered = node.maildir().len();
    let log = gauntlet_store::Log::open(&node.data().join("log")).unwrap();
    let held = gauntlet_store::Quarantine::open(&node.data().join("quarantine")).unwrap();
    let held: u64 = held.folders().unwrap().iter().map(|f| f.items).sum();
    let mut other = 0;
    for id in &accepted {
        let logged = log.get(id).unwrap().unwrap_or_else(|| panic!("{id} is not in the log"));
        let ends = &logged.record.deliveries;
        assert!(!ends.is_empty() && ends.iter().all(|d| d.outcome.is_final()), "{id}: {ends:?}");
        let kept = ["delivered", "quarantined"];
        other += usize::from(!ends.iter().any(|d| kept.contains(&d.outcome.name())));
    }
    eprintln!("{sent} sent: {delivered} delivered, {held} held, {refused} refused, {other} else");
    assert_eq!(accepted.len(), delivered + usize::try_from(held).unwrap() + other);
    assert_eq!(accepted.len() + refused, sent);
}
