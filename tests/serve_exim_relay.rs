//! Exim as client and as next hop: it hands mail to a node (CHUNKING, PIPELINING, STARTTLS) and
//! takes mail from it. `check` unpacks Exim (tests/unpack-exim) and names it by GAUNTLET_EXIM.

use crate::common::exim::Exim;
use crate::common::postfix::free_address;
use crate::common::{Node, Smtp, message, token_of};

/// Exim keeps mail for example.net and hands all other to the node, by BDAT and TLS.
const SETTINGS: &str = "prdr_enable = false\nacl_smtp_rcpt = check_rcpt\n\
     begin acl\ncheck_rcpt:\n  accept\n\
     begin routers\nlocal:\n  driver = accept\n  domains = +local_domains\n  transport = maildir\n\
     node:\n  driver = manualroute\n  route_list = * 127.0.0.1\n  self = send\n  transport = node\n";

#[test]
fn exim_hands_mail_over_and_takes_it() {
    let Some(exim) = Exim::program() else { return };
    let address = free_address();
    let node = Node::start(&format!(
        "[facts]\nenabled = false\n[sender]\nretry_seconds = [1]\n\
         [[next_hop]]\nfor = [\"example.net\"]\nhosts = [\"{address}\"]\n"
    ));
    let transports = format!(
        "node:\n  driver = smtp\n  port = {}\n  allow_localhost\n  hosts_try_chunking = *\n\
         \x20 tls_try_verify_hosts = :\n  hosts_require_tls = *\n\
         begin retry\n* * F,1h,1s\n",
        node.smtp.port()
    );
    let exim = Exim::start(&exim, address, &node, SETTINGS, &transports);

    // Exim is the client.
    let mut client = Smtp::connect(address).unwrap();
    for (token, bytes) in [("small", 100), ("large", 300_000)] {
        let mut body = message(token, bytes);
        body.extend_from_slice(b".\r\n..two dots\r\n.\r\nthe end\r\n");
        let reply = client.send("ann@example.org", &["bob@example.com"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}\n{}", exim.log());
        node.wait_until("Exim handed it over", || {
            let log = exim.log();
            assert!(!log.contains("==") && !log.contains("TLS session failure"), "{log}");
            node.maildir().iter().any(|m| token_of(m).as_deref() == Some(token))
        });
        let delivered = node.maildir();
        let is = |m: &&Vec<u8>| token_of(m).as_deref() == Some(token);
        let text =
            String::from_utf8_lossy(delivered.iter().find(is).unwrap()).replace("\r\n", "\n");
        assert!(text.contains(" with ESMTPS id "), "{text}");
        assert!(text.ends_with("\n.\n..two dots\n.\nthe end\n"), "the body is whole");
    }
    // "K": Exim sent the body by BDAT; "X=": over TLS.
    let log = exim.log();
    let handed = log.lines().find(|l| l.contains("=> bob@example.com")).unwrap_or_default();
    assert!(handed.contains(" K ") && handed.contains(" X=TLS"), "{log}");

    // Exim is the next hop.
    let mut client = Smtp::connect(node.smtp).unwrap();
    for i in 0..5 {
        let body = message(&format!("hop{i}"), i * 30_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    node.wait_until("Exim delivered", || exim.delivered().len() == 5);
    node.wait_for_empty_queue();
}
