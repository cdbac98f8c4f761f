//! A real Postfix for tests, in a folder of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{files_below, program};

/// An address that is free.
pub(crate) fn free_address() -> SocketAddr {
    ([127, 0, 0, 1], super::port::free_port(&["127.0.0.1"])).into()
}

/// A Postfix of our own: it takes mail on a free port and puts it into a Maildir of a virtual
/// mailbox.
pub(crate) struct Postfix {
    pub(crate) folder: tempfile::TempDir,
    postfix: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Postfix {
    /// Starts it, or says that the test is skipped.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with("", "")
    }

    /// The same with further lines of main.cf and master.cf.
    pub(crate) fn start_with(main: &str, master: &str) -> Option<Self> {
        let postfix = program("postfix")?;
        let id = Command::new("id").arg("-u").output().unwrap().stdout;
        if id != b"0\n" {
            assert!(std::env::var_os("CI").is_none(), "Postfix starts as root only");
            eprintln!("skipped: Postfix starts as root only");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("postfix").tempdir_in("/tmp").unwrap();
        let root = folder.path();
        fs::set_permissions(root, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["etc", "queue", "data", "mail"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let address = free_address();
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
             virtual_mailbox_limit = 0\nsmtpd_peername_lookup = no\n{main}\n",
            root.display()
        );
        fs::write(root.join("etc/main.cf"), main).unwrap();
        let master = format!(
            "{address} inet n - n - - smtpd\ncleanup unix n - n - 0 cleanup\n\
             qmgr unix n - n 300 1 qmgr\nrewrite unix - - n - - trivial-rewrite\n\
             bounce unix - - n - 0 bounce\ndefer unix - - n - 0 bounce\n\
             trace unix - - n - 0 bounce\nverify unix - - n - 1 verify\n\
             virtual unix - n n - - virtual\nerror unix - - n - - error\n\
             retry unix - - n - - error\nanvil unix - - n - 1 anvil\n\
             scache unix - - n - 1 scache\npostlog unix-dgram n - n - 1 postlogd\n\
             proxymap unix - - n - - proxymap\npickup unix n - n 60 1 pickup\n{master}\n"
        );
        fs::write(root.join("etc/master.cf"), master).unwrap();
        own(&root.join("data"), "postfix");
        own(&root.join("mail"), "nobody");
        let server = Postfix { folder, postfix, address };
        let started = server.command("start");
        assert!(started, "Postfix does not start: {}", server.log());
        Some(server)
    }

    /// `postfix` with this command.
    pub(crate) fn command(&self, what: &str) -> bool {
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

    /// Has it read its settings again. An SMTP server that is idle may take one more connection
    /// with the old ones: waits until those are gone, so none may have a client.
    pub(crate) fn reload(&self) {
        let before = self.smtp_servers();
        assert!(self.command("reload"), "{}", self.log());
        let is_there = |pid: &String| Path::new("/proc").join(pid).exists();
        super::running::until("SMTP servers with the old settings end", || {
            !before.iter().any(is_there)
        });
    }

    /// Process ids of its SMTP servers.
    fn smtp_servers(&self) -> Vec<String> {
        let master = self.folder.path().join("queue/pid/master.pid");
        let master = fs::read_to_string(master).unwrap();
        let mut children = super::children_of(master.trim().parse().unwrap());
        children.retain(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "smtpd\n")
        });
        children
    }

    /// Everything that Postfix has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("mail.log")).unwrap_or_default()
    }

    /// Messages in one of its queues: `hold`, `deferred`, ...
    pub(crate) fn queued(&self, queue: &str) -> usize {
        let folder = self.folder.path().join("queue").join(queue);
        if folder.is_dir() { files_below(&folder).len() } else { 0 }
    }

    /// Their files, as text.
    pub(crate) fn in_queue(&self, queue: &str) -> Vec<String> {
        let files = files_below(&self.folder.path().join("queue").join(queue));
        let text = |file: &PathBuf| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        files.iter().map(text).collect()
    }

    /// Messages in its Maildir.
    pub(crate) fn delivered(&self) -> Vec<Vec<u8>> {
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
