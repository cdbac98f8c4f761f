//! A relay that judges nothing: `scan.enabled = false`.

use crate::common::{Node, Smtp, tokens};

#[test]
fn without_a_scan_all_mail_is_ham_and_the_policy_still_decides() {
    let mut node = Node::start("[scan]\nenabled = false\n");
    let mut client = Smtp::connect(node.smtp).unwrap();
    let test = "From: a@example.org\r\nX-Token: gtube\r\n\r\n\
                XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X\r\n";
    let reply = client.send("a@example.org", &["b@example.net"], test.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    assert_eq!(tokens(&node.maildir())["gtube"], 1);
    // What goes by something else than the verdict goes on: programs are not mailed.
    let program = "From: a@example.org\r\nMIME-Version: 1.0\r\n\
                   Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhello\r\n--b\r\n\
                   Content-Disposition: attachment; filename=\"a.exe\"\r\n\r\nMZ\r\n--b--\r\n";
    let reply = client.send("a@example.org", &["b@example.net"], program.as_bytes()).unwrap();
    assert!(reply.starts_with("250"), "{reply}");
    node.wait_for_empty_queue();
    node.stop();
    assert_eq!((node.maildir().len(), node.logged()), (1, 2));
    let held = gauntlet_store::Quarantine::open_shared(&node.data().join("quarantine")).unwrap();
    assert_eq!(held.folders().unwrap().iter().map(|f| f.items).sum::<u64>(), 1);
}
