//! Exim beside our spamd service, as docs/guides/exim-spamd.md says it.

use crate::common::exim::Exim;
use crate::common::postfix::free_address;
use crate::common::{Node, Smtp, message};

const GTUBE: &str = "From: a@example.org\r\nSubject: x\r\n\r\n\
                     XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";

#[test]
fn exim_asks_our_spamd() {
    let Some(exim) = Exim::program() else { return };
    let mut node = Node::start(
        "[facts]\nenabled = false\n\
         [[service]]\nprotocol = \"spamd\"\naddress = \"127.0.0.1:0\"\n",
    );
    let (address, spamd) = (free_address(), node.place("spamd").replace(':', " "));
    let settings = format!(
        "spamd_address = {spamd}\nacl_smtp_rcpt = check_rcpt\nacl_smtp_data = check_data\n\
         begin acl\ncheck_rcpt:\n  accept domains = +local_domains\n  deny\n\
         check_data:\n  deny message = This message looks like spam ($spam_score points)\n\
         \x20      spam = nobody\n\
         \x20 warn add_header = X-Spam-Score: $spam_score\n  accept\n\
         begin routers\nlocal:\n  driver = accept\n  transport = maildir\n"
    );
    let exim = Exim::start(&exim, address, &node, &settings, "");
    let mut client = Smtp::connect(address).unwrap();
    let ham = message("exim", 3_000);
    let reply = client.send("ann@example.org", &["bob@example.net"], &ham).unwrap();
    assert!(reply.starts_with("250"), "{reply}\n{}", exim.log());
    let reply = client.send("ann@example.org", &["bob@example.net"], GTUBE.as_bytes()).unwrap();
    assert!(reply.starts_with("550 This message looks like spam"), "{reply}\n{}", exim.log());
    node.wait_until("Exim delivered", || exim.delivered().len() == 1);
    let text = std::fs::read_to_string(&exim.delivered()[0]).unwrap();
    assert!(text.contains("\nX-Spam-Score: "), "{text}");
    // Without a verdict Exim's own default is to put the client off: nothing passes unjudged.
    node.kill();
    let mut late = Smtp::connect(address).unwrap();
    let reply = late.send("ann@example.org", &["bob@example.net"], &ham).unwrap();
    assert!(reply.starts_with("451"), "{reply}\n{}", exim.log());
}
