//! Postfix hands its mail to a node by SMTP (`content_filter`) and gets it back on a second port.

use crate::common::postfix::{Postfix, free_address};
use crate::common::{Node, Smtp, message, tokens};

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

#[test]
fn postfix_gets_its_mail_back_judged() {
    let back = free_address();
    let mut node = Node::start(&format!("[route]\nnext_hop = \"{back}\"\n"));
    let filter = format!("content_filter = scan:[127.0.0.1]:{}", node.smtp.port());
    let master = format!(
        "scan unix - - n - 10 smtp\n\
         {back} inet n - n - - smtpd\n  -o content_filter=\n  -o mynetworks=127.0.0.0/8\n  \
         -o smtpd_recipient_restrictions=permit_mynetworks,reject"
    );
    let Some(postfix) = Postfix::start_with(&filter, &master) else { return };
    let mut client = Smtp::connect(postfix.address).unwrap();
    for i in 0..5 {
        let body = message(&format!("c{i}"), i * 9_000);
        let reply = client.send("ann@example.org", &["bob@example.net"], &body).unwrap();
        assert!(reply.starts_with("250"), "{reply}");
    }
    let reply = client.send("ann@example.org", &["bob@example.net"], GTUBE.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("Postfix delivered", || postfix.delivered().len() >= 5);
    let delivered = postfix.delivered();
    assert!(tokens(&delivered).values().all(|n| *n == 1), "{}", postfix.log());
    for message in &delivered {
        let text = String::from_utf8_lossy(message);
        assert!(text.contains("\nX-Gauntlet-Class: ham\n"), "{text}");
    }
    let quarantined = || node.metric("gauntlet_quarantined_total") == 1;
    node.wait_until("the spam is held", quarantined);
    assert_eq!(postfix.delivered().len(), 5, "and not delivered");
    // Without the filter Postfix keeps the mail and tries again.
    node.kill();
    let reply = client.send("ann@example.org", &["bob@example.net"], &message("late", 9)).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_until("Postfix waits", || postfix.queued("deferred") == 1);
    assert_eq!(postfix.delivered().len(), 5);
}
