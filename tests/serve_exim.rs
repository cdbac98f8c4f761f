//! Exim beside our spamd service, as docs/guides/exim-spamd.md says it. Debian's exim4-daemon-heavy cannot be
//! installed beside Postfix: `check` unpacks it (tests/unpack-exim) and names it by GAUNTLET_EXIM.

mod common;

use std::process::{Child, Command, Stdio};

use common::postfix::free_address;
use common::{Node, Smtp, message};

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

/// Exim in the foreground, ended with the value.
struct Exim(Child);

impl Drop for Exim {
    fn drop(&mut self) {
        let _it_may_have_ended = Command::new("kill").arg(self.0.id().to_string()).status();
        let _reaped = self.0.wait();
    }
}

#[test]
fn exim_asks_our_spamd() {
    let named = std::env::var_os("GAUNTLET_EXIM").map(std::path::PathBuf::from);
    let Some(exim) = named.filter(|path| path.is_file()) else {
        let missing = "GAUNTLET_EXIM names no Exim (tests/unpack-exim makes one)";
        assert!(std::env::var_os("CI").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
        return;
    };
    let mut node = Node::start(
        "[facts]\nenabled = false\n\
         [[service]]\nprotocol = \"spamd\"\naddress = \"127.0.0.1:0\"\n",
    );
    let folder = tempfile::Builder::new().prefix("exim").tempdir_in("/tmp").unwrap();
    let root = folder.path().display();
    for (name, mode) in [("", 0o755), ("spool", 0o777), ("mail", 0o777), ("log", 0o777)] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    }
    let (address, spamd) = (free_address(), node.place("spamd").replace(':', " "));
    let config = format!(
        "primary_hostname = mx.test\nspool_directory = {root}/spool\n\
         log_file_path = {root}/log/%slog\npid_file_path = {root}/exim.pid\n\
         keep_environment = LD_LIBRARY_PATH\ndeliver_drop_privilege = true\nexim_path = {}\n\
         daemon_smtp_ports = {}\nlocal_interfaces = 127.0.0.1\ntls_advertise_hosts =\n\
         host_lookup =\nrfc1413_query_timeout = 0s\ndomainlist local_domains = example.net\n\
         spamd_address = {spamd}\nacl_smtp_rcpt = check_rcpt\nacl_smtp_data = check_data\n\
         begin acl\ncheck_rcpt:\n  accept domains = +local_domains\n  deny\n\
         check_data:\n  deny message = This message looks like spam ($spam_score points)\n\
         \x20      spam = nobody\n\
         \x20 warn add_header = X-Spam-Score: $spam_score\n  accept\n\
         begin routers\nlocal:\n  driver = accept\n  transport = maildir\n\
         begin transports\nmaildir:\n  driver = appendfile\n  maildir_format\n\
         \x20 directory = {root}/mail/all\n  create_directory\n  user = Debian-exim\n",
        exim.display(),
        address.port()
    );
    let file = folder.path().join("exim.conf");
    std::fs::write(&file, config).unwrap();
    let child = Command::new(exim)
        .arg("-C")
        .arg(&file)
        .arg("-bdf")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _exim = Exim(child);
    node.wait_until("Exim listens", || std::net::TcpStream::connect(address).is_ok());
    let log = || std::fs::read_to_string(folder.path().join("log/mainlog")).unwrap_or_default();
    let mut client = Smtp::connect(address).unwrap();
    let ham = message("exim", 3_000);
    let reply = client.send("ann@example.org", &["bob@example.net"], &ham).unwrap();
    assert!(reply.starts_with("250"), "{reply}\n{}", log());
    let reply = client.send("ann@example.org", &["bob@example.net"], GTUBE.as_bytes()).unwrap();
    assert!(reply.starts_with("550 This message looks like spam"), "{reply}\n{}", log());
    let delivered = folder.path().join("mail/all/new");
    node.wait_until("Exim delivered", || {
        delivered.is_dir() && common::files_below(&delivered).len() == 1
    });
    let text = std::fs::read_to_string(&common::files_below(&delivered)[0]).unwrap();
    assert!(text.contains("\nX-Spam-Score: "), "{text}");
    // Without a verdict Exim's own default is to put the client off: nothing passes unjudged.
    node.kill();
    let mut late = Smtp::connect(address).unwrap();
    let reply = late.send("ann@example.org", &["bob@example.net"], &ham).unwrap();
    assert!(reply.starts_with("451"), "{reply}\n{}", log());
}
