//! SIP, MQTT, Kerberos, SNMP, LDAP, RFB and DHCP as rules see them.

use gauntlet_packet::Direction::{ToClient, ToServer};

use super::talk::Talk;

pub(super) const SIP: &[u8] = b"INVITE sip:b@example.org SIP/2.0\r\nFrom: <sip:a@example.com>\r\n\
    To: <sip:b@example.org>\r\nContent-Type: application/sdp\r\nContent-Length: 58\r\n\r\n\
    v=0\r\no=a 1 1 IN IP4 10.0.0.1\r\ns=talk\r\nc=IN IP4 10.0.0.1\r\nt=0";

#[test]
fn sip_has_its_method_and_header() {
    let mut talk = Talk::udp(5060);
    talk.say(ToServer, b"INVITE sip:b@example.org SIP/2.0\r\nVia: x\r\nVia: y\r\n\r\n");
    talk.say(ToClient, b"SIP/2.0 404 Not Found\r\n\r\n");
    assert_eq!(talk.protocol(), "sip");
    assert_eq!(talk.texts(0, "sip.method", ToServer), ["INVITE"]);
    assert_eq!(talk.texts(0, "sip.via", ToServer), ["x", "y"]);
    assert_eq!(talk.texts(1, "sip.stat_code", ToClient), ["404"]);
}

/// CONNECT, PUBLISH and SUBSCRIBE.
pub(super) const MQTT: &[u8] =
    b"\x10\x16\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01c\x00\x04user\x00\x01p\
    \x32\x0a\x00\x03t/a\x00\x01abc\x82\x08\x00\x02\x00\x03t/b\x01";
pub(super) const MQTT_ANSWERS: &[u8] = b"\x20\x02\x00\x00\x40\x02\x00\x01\x90\x03\x00\x02\x01";

#[test]
fn mqtt_answers_belong_to_their_packets() {
    let mut talk = Talk::tcp(1883);
    let (connect, rest) = MQTT.split_at(24);
    let (accepted, answers) = MQTT_ANSWERS.split_at(4);
    talk.say(ToServer, connect).say(ToClient, accepted).say(ToServer, rest).say(ToClient, answers);
    assert_eq!(talk.protocol(), "mqtt");
    assert_eq!(talk.conversation.count(), 3);
    assert_eq!(talk.texts(0, "mqtt.connect.username", ToServer), ["user"]);
    assert_eq!(talk.numbers(0, "mqtt.type", ToServer), [1, 2]);
    assert_eq!(talk.texts(1, "mqtt.publish.message", ToServer), ["abc"]);
    assert_eq!(talk.texts(2, "mqtt.subscribe.topic", ToServer), ["t/b"]);
    assert_eq!(talk.numbers(2, "mqtt.reason_code", ToServer), [1]);
    assert!((0..3).all(|place| talk.events(place).is_empty()));
}

#[test]
fn mqtt_strangers_are_events() {
    let mut talk = Talk::tcp(1883);
    talk.say(ToServer, b"\xc0\x00").say(ToClient, b"\x40\x02\x00\x01");
    assert_eq!(talk.events(0), ["unintroduced_message"]);
    assert_eq!(talk.events(1), ["missing_publish", "unintroduced_message"]);
}

pub(super) const SNMP: &[u8] =
    b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x01\x07\x02\x01\x00\
    \x02\x01\x00\x30\x0e\x30\x0c\x06\x08\x2b\x06\x01\x02\x01\x01\x05\x00\x05\x00";

#[test]
fn snmp_has_its_community() {
    let mut talk = Talk::udp(161);
    talk.say(ToServer, SNMP);
    assert_eq!(talk.protocol(), "snmp");
    assert_eq!(talk.texts(0, "snmp.community", ToServer), ["public"]);
    assert_eq!(talk.numbers(0, "snmp.version", ToServer), [2]);
    assert_eq!(talk.field(0, "snmp.vars.0").as_deref(), Some("1.3.6.1.2.1.1.5.0"));
}

/// A search, an entry that was found, and the end.
pub(super) const LDAP: &[u8] = b"\x30\x2a\x02\x01\x05\x63\x25\x04\x04dc=a\x0a\x01\x02\x0a\x01\x00\
    \x02\x01\x00\x02\x01\x00\x01\x01\x00\x87\x0bobjectClass\x30\x04\x04\x02cn";
pub(super) const LDAP_ANSWERS: &[u8] = b"\x30\x14\x02\x01\x05\x64\x0f\x04\x05cn=x,\x30\x06\x30\x04\
    \x04\x02cn\x31\x00\x30\x0e\x02\x01\x05\x65\x09\x0a\x01\x04\x04\x00\x04\x02no";

#[test]
fn ldap_responses_belong_to_their_request() {
    let mut search = LDAP.to_vec();
    search[1] = (search.len() - 2) as u8;
    search[6] = (search.len() - 7) as u8;
    let mut talk = Talk::tcp(389);
    talk.say(ToServer, &search);
    assert_eq!(talk.protocol(), "ldap");
    assert_eq!(talk.texts(0, "ldap.request.dn", ToServer), ["dc=a"]);
    talk.say(ToClient, b"\x30\x0e\x02\x01\x05\x65\x09\x0a\x01\x04\x04\x00\x04\x02no");
    assert_eq!(talk.numbers(0, "ldap.responses.result_code", ToClient), [4]);
    assert_eq!(talk.texts(0, "ldap.responses.message", ToClient), ["no"]);
}

#[test]
fn an_answer_to_nothing_is_an_event() {
    let mut talk = Talk::tcp(389);
    talk.say(ToServer, b"\x30\x05\x02\x01\x05\x42\x00");
    talk.say(ToClient, b"\x30\x0e\x02\x01\x06\x65\x09\x0a\x01\x04\x04\x00\x04\x02no");
    assert_eq!(talk.events(1), ["request_not_found"]);
}

#[test]
fn kerberos_has_its_names() {
    // KRB-ERROR with a server's name of two parts.
    let error: &[u8] = b"\x7e\x44\x30\x42\xa0\x03\x02\x01\x05\xa1\x03\x02\x01\x1e\
        \xa4\x11\x18\x0f20180819100324Z\xa5\x03\x02\x01\x00\xa6\x03\x02\x01\x19\
        \xa9\x03\x1b\x01R\xaa\x12\x30\x10\xa0\x03\x02\x01\x02\xa1\x09\x30\x07\x1b\x01a\x1b\x02bc";
    let mut bytes = error.to_vec();
    bytes[1] = (bytes.len() - 2) as u8;
    bytes[3] = (bytes.len() - 4) as u8;
    let mut talk = Talk::udp(88);
    talk.say(ToServer, &bytes);
    assert_eq!(talk.protocol(), "krb5");
    assert_eq!(talk.texts(0, "krb5.sname", ToServer), ["a", "bc"]);
    assert_eq!(talk.numbers(0, "krb5_err_code", ToServer), [25]);
    assert_eq!(talk.numbers(0, "krb5_msg_type", ToServer), [30]);
}

#[test]
fn rfb_has_its_security_and_name() {
    let mut talk = Talk::tcp(5900);
    let mut screen = vec![1, 0, 1, 0];
    screen.extend_from_slice(&[0; 16]);
    screen.extend_from_slice(b"\x00\x00\x00\x04desk");
    talk.say(ToClient, b"RFB 003.008\n")
        .say(ToServer, b"RFB 003.008\n")
        .say(ToClient, b"\x01\x02")
        .say(ToServer, b"\x02")
        .say(ToClient, b"0123456789abcdef")
        .say(ToServer, b"fedcba9876543210")
        .say(ToClient, b"\x00\x00\x00\x00")
        .say(ToServer, b"\x01")
        .say(ToClient, &screen);
    assert_eq!(talk.protocol(), "rfb");
    assert_eq!(talk.numbers(0, "rfb.sectype", ToServer), [2]);
    assert_eq!(talk.numbers(0, "rfb.secresult", ToClient), [0]);
    assert_eq!(talk.texts(0, "rfb.name", ToClient), ["desk"]);
}

#[test]
fn dhcp_has_its_times() {
    let mut bytes = vec![0; 240];
    bytes[..3].copy_from_slice(&[1, 1, 6]);
    bytes.extend_from_slice(b"\x35\x01\x03\x33\x04\x00\x00\x0e\x10\xff");
    let mut talk = Talk::udp(67);
    talk.say(ToServer, &bytes);
    assert_eq!(talk.protocol(), "dhcp");
    assert_eq!(talk.numbers(0, "dhcp.leasetime", ToServer), [3600]);
    bytes.pop();
    talk.say(ToServer, &bytes);
    assert_eq!(talk.events(1), ["truncated_options"]);
}
