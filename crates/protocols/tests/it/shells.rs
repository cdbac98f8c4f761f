//! FTP, SSH and SMB as rules see them.

use gauntlet_packet::Direction::{ToClient, ToServer};
use gauntlet_protocols::{Carrier, Protocol};

use super::talk::Talk;

#[test]
fn a_command_of_ftp_has_its_reply() {
    let mut talk = Talk::tcp(21);
    talk.say(ToClient, b"220 hello\r\n")
        .say(ToServer, b"USER a\r\n")
        .say(ToClient, b"331 pass\r\n");
    assert_eq!(talk.protocol(), "ftp");
    assert_eq!(talk.field(1, "ftp.command").as_deref(), Some("USER"));
}

#[test]
fn a_passive_port_announces_the_data() {
    let mut talk = Talk::tcp(21);
    talk.say(ToClient, b"220 hello\r\n")
        .say(ToServer, b"USER a\r\n")
        .say(ToClient, b"230 in\r\n")
        .say(ToServer, b"PASV\r\n")
        .say(ToClient, b"227 Entering Passive Mode (10,0,0,1,4,1)\r\n")
        .say(ToServer, b"RETR f.bin\r\n");
    let expected = talk.expected();
    assert_eq!(expected.len(), 1);
    assert_eq!((expected[0].port, expected[0].protocol), (1025, Protocol::FtpData));
    assert!(expected[0].about.ends_with(b"f.bin"));
    let mut data = Talk::tcp(1025);
    data.conversation.expect(&expected[0]);
    data.say(ToClient, b"content").end();
    assert_eq!(data.protocol(), "ftp-data");
    let state = data.conversation.state(0).expect("there is the transfer");
    assert_eq!(state.files(ToClient).iter().map(|file| file.size).sum::<u64>(), 7);
}

#[test]
fn ssh_has_its_versions_and_fingerprints() {
    let mut talk = Talk::new(Carrier::Tcp, 22, &[("ssh.hassh", "yes")]);
    talk.say(ToServer, b"SSH-2.0-client_1\r\n").say(ToClient, b"SSH-2.0-server_2 hi\r\n");
    assert_eq!(talk.protocol(), "ssh");
    assert_eq!(talk.texts(0, "ssh.proto", ToServer), ["2.0"]);
    assert_eq!(talk.texts(0, "ssh.software", ToServer), ["client_1"]);
    let mut kex = vec![20];
    kex.extend_from_slice(&[7; 16]);
    for name in ["a", "k", "c", "d", "m", "n", "z", "y", "", ""] {
        kex.extend_from_slice(&(name.len() as u32).to_be_bytes());
        kex.extend_from_slice(name.as_bytes());
    }
    kex.extend_from_slice(&[0; 5]);
    let mut packet = (kex.len() as u32 + 5).to_be_bytes().to_vec();
    packet.push(4);
    packet.extend_from_slice(&kex);
    packet.extend_from_slice(&[0; 4]);
    talk.say(ToServer, &packet);
    assert_eq!(talk.texts(0, "ssh.hassh.string", ToServer), ["a;c;m;z"]);
}

/// A negotiation of SMB 1 and its answer with SMB 2.
pub(super) const SMB_NEGOTIATE: &[u8] = b"\x00\x00\x00\x2f\xffSMB\x72\x00\x00\x00\x00\x18\x53\xc8\
    \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xfe\x00\x00\x00\x00\
    \x00\x0c\x00\x02NT LM 0.12";

#[test]
fn smb_has_its_dialects() {
    let mut bytes = SMB_NEGOTIATE.to_vec();
    bytes.push(0);
    bytes[3] = (bytes.len() - 4) as u8;
    let mut talk = Talk::tcp(445);
    talk.say(ToServer, &bytes);
    assert_eq!(talk.protocol(), "smb");
    assert_eq!(talk.field(0, "smb.command").as_deref(), Some("SMB1_COMMAND_NEGOTIATE_PROTOCOL"));
    assert_eq!(talk.field(0, "smb.client_dialects.0").as_deref(), Some("NT LM 0.12"));
}
