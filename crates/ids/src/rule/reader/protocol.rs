//! Keywords of application protocols that compare something other than bytes in a buffer.

mod spelling;

use gauntlet_protocols::enip;

use super::draft::{Draft, List, Outcome};
use super::keyword::{Keyword, keyword};
use crate::rule::matches::{ElementIndex, Match, ProtocolCheck, ProtocolValue};
use crate::rule::number::{Compare, compare};

const U8: u64 = u8::MAX as u64;
const U16: u64 = u16::MAX as u64;
const U32: u64 = u32::MAX as u64;
const U64: u64 = u64::MAX;

/// How the value of such a keyword is written.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A comparison of a number up to this.
    Number(u64),
    /// The same, and it must hold for one of the numbers that the parser tells; if none, why.
    Told(u64, &'static [u64], &'static str),
    /// A comparison, or a name.
    Named(u64, &'static [(&'static str, u64)]),
    /// A comparison of a number, or names of bits with `!` for those that must not be set.
    Flags(u64, &'static [(&'static str, u64)]),
    /// `COMPARISON[,INDEX]` of a number, or a name, in a list.
    Element(u64, &'static [(&'static str, u64)]),
    /// A number in digits up to this, or a name; no comparison.
    Exact(u64, &'static [(&'static str, u64)]),
    /// A name, in lower case.
    Name(&'static [(&'static str, u64)]),
    /// Some of these words, with `,` or `|` between and `!` before them; any word if there are
    /// none here.
    Words(&'static [&'static str]),
    /// The same, if this function has nothing against how they are written.
    Spelt(&'static [&'static str], fn(&str) -> bool),
    /// Words that this function has the say about.
    Checked(fn(&str) -> bool),
}

/// A keyword of an application protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    name: &'static str,
    aliases: &'static [&'static str],
    protocol: &'static str,
    list: &'static str,
    form: Form,
}

const fn check(
    name: &'static str,
    protocol: &'static str,
    list: &'static str,
    form: Form,
) -> Check {
    Check { name, aliases: &[], protocol, list, form }
}

impl Check {
    const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Reads the keyword's value into the rule.
    pub(super) fn read(&self, draft: &mut Draft<'_>, value: &str) -> Outcome {
        draft.set_protocol(self.protocol)?;
        let value = self.value(value)?;
        append(draft, self.list, self.name, value)
    }

    fn value(&self, text: &str) -> Outcome<ProtocolValue> {
        Ok(match self.form {
            Form::Number(max) => ProtocolValue::Number(compare(text, max)?),
            Form::Told(max, told, why) => {
                let wanted = compare(text, max)?;
                if !told.iter().any(|number| wanted.holds(*number)) {
                    return Err(format!("{text:?} never matches: {why}").into());
                }
                ProtocolValue::Number(wanted)
            }
            Form::Named(max, names) => ProtocolValue::Number(named(text, max, names)?),
            Form::Flags(max, names) => ProtocolValue::Number(flags(text, max, names)?),
            Form::Element(max, names) => {
                let (text, index) = match text.split_once(',') {
                    Some((text, index)) => (text, element(index.trim())?),
                    None => (text, ElementIndex::Any),
                };
                ProtocolValue::Element(index, named(text, max, names)?)
            }
            Form::Exact(max, names) => ProtocolValue::Number(exact(text, max, names)?),
            Form::Name(names) => {
                let found = names.iter().find(|(name, _)| *name == text);
                let (_, number) = found.ok_or_else(|| format!("{text:?} is not known"))?;
                ProtocolValue::Number(Compare::Equal(*number))
            }
            Form::Spelt(_, is_good) if !is_good(text) => {
                return Err(format!("{text:?} cannot be read").into());
            }
            Form::Spelt(known, _) => ProtocolValue::Words(words(text, known)?),
            Form::Words(known) => ProtocolValue::Words(words(text, known)?),
            Form::Checked(is_good) if is_good(text) => ProtocolValue::Words(words(text, &[])?),
            Form::Checked(_) => return Err(format!("{text:?} cannot be read").into()),
        })
    }
}

/// Why no other version matches.
const NFS_VERSIONS: &str = "calls of NFS 2 and 3 are read, of NFS 4 only the frames (nfs4.pdu)";

const MQTT_TYPES: &[(&str, u64)] = &[
    ("unassigned", 0),
    ("connect", 1),
    ("connack", 2),
    ("publish", 3),
    ("puback", 4),
    ("pubrec", 5),
    ("pubrel", 6),
    ("pubcomp", 7),
    ("subscribe", 8),
    ("suback", 9),
    ("unsubscribe", 10),
    ("unsuback", 11),
    ("pingreq", 12),
    ("pingresp", 13),
    ("disconnect", 14),
    ("auth", 15),
];
const MQTT_FLAGS: &[(&str, u64)] = &[("retain", 1), ("dup", 8)];
const MQTT_CONNECT_FLAGS: &[(&str, u64)] = &[
    ("username", 0x80),
    ("password", 0x40),
    ("will_retain", 0x20),
    ("will", 0x04),
    ("clean_session", 0x02),
];
const YES_NO: &[(&str, u64)] = &[("true", 1), ("yes", 1), ("false", 0), ("no", 0)];
const DNS_CODES: &[(&str, u64)] = &[
    ("noerror", 0),
    ("formerr", 1),
    ("servfail", 2),
    ("nxdomain", 3),
    ("notimp", 4),
    ("refused", 5),
    ("yxdomain", 6),
    ("yxrrset", 7),
    ("nxrrset", 8),
    ("notauth", 9),
    ("notzone", 10),
    ("badvers", 16),
    ("badkey", 17),
    ("badtime", 18),
    ("badmode", 19),
    ("badname", 20),
    ("badalg", 21),
    ("badtrunc", 22),
];
const DNS_TYPES: &[(&str, u64)] = &[
    ("a", 1),
    ("ns", 2),
    ("md", 3),
    ("mf", 4),
    ("cname", 5),
    ("soa", 6),
    ("mb", 7),
    ("mg", 8),
    ("mr", 9),
    ("null", 10),
    ("wks", 11),
    ("ptr", 12),
    ("hinfo", 13),
    ("minfo", 14),
    ("mx", 15),
    ("txt", 16),
    ("rp", 17),
    ("afsdb", 18),
    ("sig", 24),
    ("key", 25),
    ("aaaa", 28),
    ("loc", 29),
    ("nxt", 30),
    ("srv", 33),
    ("naptr", 35),
    ("kx", 36),
    ("cert", 37),
    ("dname", 39),
    ("opt", 41),
    ("ds", 43),
    ("sshfp", 44),
    ("ipseckey", 45),
    ("rrsig", 46),
    ("nsec", 47),
    ("dnskey", 48),
    ("dhcid", 49),
    ("nsec3", 50),
    ("nsec3param", 51),
    ("tlsa", 52),
    ("svcb", 64),
    ("https", 65),
    ("spf", 99),
    ("tkey", 249),
    ("tsig", 250),
    ("axfr", 252),
    ("maila", 254),
    ("any", 255),
    ("uri", 256),
];
const WEBSOCKET_OPCODES: &[(&str, u64)] =
    &[("continuation", 0), ("text", 1), ("binary", 2), ("close", 8), ("ping", 9), ("pong", 10)];
const WEBSOCKET_FLAGS: &[(&str, u64)] = &[("fin", 0x80), ("comp", 0x40)];
const HTTP2_FRAMES: &[(&str, u64)] = &[
    ("data", 0),
    ("headers", 1),
    ("priority", 2),
    ("rststream", 3),
    ("settings", 4),
    ("pushpromise", 5),
    ("ping", 6),
    ("goaway", 7),
    ("windowupdate", 8),
    ("continuation", 9),
];
const HTTP2_ERRORS: &[(&str, u64)] = &[
    ("no_error", 0),
    ("protocol_error", 1),
    ("internal_error", 2),
    ("flow_control_error", 3),
    ("settings_timeout", 4),
    ("stream_closed", 5),
    ("frame_size_error", 6),
    ("refused_stream", 7),
    ("cancel", 8),
    ("compression_error", 9),
    ("connect_error", 10),
    ("enhance_your_calm", 11),
    ("inadequate_security", 12),
    ("http_1_1_required", 13),
    ("http11_required", 13),
];
const RFB_RESULTS: &[(&str, u64)] =
    &[("ok", 0), ("fail", 1), ("toomany", 2), ("unknown", u32::MAX as u64)];
const LDAP_OPERATIONS: &[(&str, u64)] = &[
    ("bind_request", 0),
    ("bind_response", 1),
    ("unbind_request", 2),
    ("search_request", 3),
    ("search_result_entry", 4),
    ("search_result_done", 5),
    ("modify_request", 6),
    ("modify_response", 7),
    ("add_request", 8),
    ("add_response", 9),
    ("del_request", 10),
    ("del_response", 11),
    ("mod_dn_request", 12),
    ("mod_dn_response", 13),
    ("compare_request", 14),
    ("compare_response", 15),
    ("abandon_request", 16),
    ("search_result_reference", 19),
    ("extended_request", 23),
    ("extended_response", 24),
    ("intermediate_response", 25),
];
const LDAP_RESULTS: &[(&str, u64)] = &[
    ("success", 0),
    ("operations_error", 1),
    ("protocol_error", 2),
    ("time_limit_exceeded", 3),
    ("size_limit_exceeded", 4),
    ("compare_false", 5),
    ("compare_true", 6),
    ("auth_method_not_supported", 7),
    ("stronger_auth_required", 8),
    ("referral", 10),
    ("admin_limit_exceeded", 11),
    ("confidentiality_required", 13),
    ("sasl_bind_in_progress", 14),
    ("no_such_attribute", 16),
    ("undefined_attribute_type", 17),
    ("inappropriate_matching", 18),
    ("constraint_violation", 19),
    ("invalid_attribute_syntax", 21),
    ("no_such_object", 32),
    ("invalid_dns_syntax", 34),
    ("inappropriate_authentication", 48),
    ("invalid_credentials", 49),
    ("insufficient_access_rights", 50),
    ("busy", 51),
    ("unavailable", 52),
    ("unwilling_to_perform", 53),
    ("loop_detect", 54),
    ("naming_violation", 64),
    ("object_class_violation", 65),
    ("entry_already_exists", 68),
    ("other", 80),
];
const NTP_MODES: &[(&str, u64)] = &[
    ("reserved", 0),
    ("symmetric_active", 1),
    ("symmetric_passive", 2),
    ("client", 3),
    ("server", 4),
    ("broadcast", 5),
    ("control", 6),
    ("private", 7),
];
const SNMP_TRAPS: &[(&str, u64)] = &[
    ("cold_start", 0),
    ("warm_start", 1),
    ("link_down", 2),
    ("link_up", 3),
    ("authentication_failure", 4),
    ("egp_neighbor_loss", 5),
    ("enterprise_specific", 6),
];
const FTP_MODES: &[(&str, u64)] = &[("active", 1), ("passive", 0)];
const ENIP_COMMANDS: &[(&str, u64)] = &[
    ("nop", 0),
    ("list_services", 4),
    ("list_identity", 0x63),
    ("list_interfaces", 0x64),
    ("register_session", 0x65),
    ("unregister_session", 0x66),
    ("send_rr_data", 0x6f),
    ("send_unit_data", 0x70),
    ("indicate_status", 0x72),
    ("cancel", 0x73),
];
const ENIP_STATUS: &[(&str, u64)] = &[
    ("success", 0),
    ("invalid_cmd", 1),
    ("no_resources", 2),
    ("incorrect_data", 3),
    ("invalid_session", 0x64),
    ("invalid_length", 0x65),
    ("unsupported_prot_rev", 0x69),
    ("encap_header_error", 0x6a),
];
const SSL_VERSIONS: &[&str] = &["sslv2", "sslv3", "tls1.0", "tls1.1", "tls1.2", "tls1.3"];
const SSL_STATES: &[&str] =
    &["client_hello", "server_hello", "client_keyx", "server_keyx", "unknown"];

/// All of them.
const CHECKS: &[Check] = &[
    check("mqtt.type", "mqtt", "mqtt.type", Form::Named(U8, MQTT_TYPES)),
    check("mqtt.reason_code", "mqtt", "mqtt.reason_code", Form::Number(U8)),
    check("mqtt.qos", "mqtt", "mqtt.qos", Form::Exact(2, &[])),
    check("mqtt.protocol_version", "mqtt", "mqtt.protocol_version", Form::Number(U8)),
    check("mqtt.flags", "mqtt", "mqtt.flags", Form::Flags(U8, MQTT_FLAGS)),
    check("mqtt.connect.flags", "mqtt", "mqtt.connect.flags", Form::Flags(U8, MQTT_CONNECT_FLAGS)),
    check(
        "mqtt.connack.session_present",
        "mqtt",
        "mqtt.connack.session_present",
        Form::Name(YES_NO),
    ),
    check("dns.opcode", "dns", "dns.opcode", Form::Number(U8)),
    check("dns.rcode", "dns", "dns.rcode", Form::Named(U16, DNS_CODES)),
    check("dns.rrtype", "dns", "dns.rrtype", Form::Named(U16, DNS_TYPES)),
    check("dhcp.leasetime", "dhcp", "dhcp.leasetime", Form::Number(U64)),
    check("dhcp.rebinding_time", "dhcp", "dhcp.rebinding-time", Form::Number(U64)),
    check("dhcp.renewal_time", "dhcp", "dhcp.renewal-time", Form::Number(U64)),
    check("krb5_msg_type", "krb5", "krb5_msg_type", Form::Exact(U8, &[])),
    check("krb5_err_code", "krb5", "krb5_err_code", Form::Exact(999, &[])),
    check(
        "krb5.ticket_encryption",
        "krb5",
        "krb5_ticket_encryption",
        Form::Checked(spelling::ticket_encryption),
    ),
    check("ike.exchtype", "ike", "ike.exchtype", Form::Number(U8)),
    check(
        "ike.chosen_sa_attribute",
        "ike",
        "ike.chosen_sa_attribute",
        Form::Checked(spelling::ike_attribute),
    ),
    check(
        "ike.key_exchange_payload_length",
        "ike",
        "ike.key_exchange_payload_length",
        Form::Number(U32),
    ),
    check("ike.nonce_payload_length", "ike", "ike.nonce_payload_length", Form::Number(U32)),
    check("smb.version", "smb", "smb_version", Form::Number(U8)),
    check("nfs.version", "nfs", "nfs_request", Form::Told(U32, &[2, 3], NFS_VERSIONS))
        .or(&["nfs_version"]),
    check("nfs_procedure", "nfs", "nfs_request", Form::Number(U32)),
    check("ssl_state", "tls", "tls_generic", Form::Spelt(SSL_STATES, spelling::ssl_states)),
    check("ssl_version", "tls", "tls_generic", Form::Spelt(SSL_VERSIONS, spelling::ssl_versions)),
    check("tls.version", "tls", "tls_generic", Form::Checked(spelling::tls_version)),
    check("tls.cert_chain_len", "tls", "tls_cert", Form::Number(U32)),
    check("http2.frametype", "http2", "http2", Form::Exact(U8, HTTP2_FRAMES)),
    check("http2.errorcode", "http2", "http2", Form::Exact(U32, HTTP2_ERRORS)),
    check("http2.priority", "http2", "http2", Form::Number(U8)),
    check("http2.window", "http2", "http2", Form::Number(U32)),
    check("http2.size_update", "http2", "http2", Form::Number(U64)),
    check("http2.settings", "http2", "http2", Form::Checked(spelling::http2_setting)),
    check("ftp.mode", "ftp", "ftp.mode", Form::Named(1, FTP_MODES)),
    check("ftp.dynamic_port", "ftp", "ftp.dynamic_port", Form::Number(U16)),
    check("ftp.reply_received", "ftp", "ftp.reply_received", Form::Named(1, YES_NO)),
    check(
        "ftpdata_command",
        "ftp-data",
        "ftpdata_command",
        Form::Spelt(&["stor", "retr", "appe", "stou", "nlst", "list", "mlsd"], spelling::is_lower),
    ),
    check("modbus", "modbus", "modbus", Form::Words(&[])),
    check("dnp3.func", "dnp3", "dnp3", Form::Words(&[])).or(&["dnp3_func"]),
    check("dnp3.ind", "dnp3", "dnp3", Form::Words(&[])).or(&["dnp3_ind"]),
    check("dnp3.obj", "dnp3", "dnp3", Form::Words(&[])).or(&["dnp3_obj"]),
    check("dcerpc.iface", "dcerpc", "dce_generic", Form::Checked(spelling::dce_interface))
        .or(&["dce_iface"]),
    check("dcerpc.opnum", "dcerpc", "dce_generic", Form::Checked(spelling::dce_operations))
        .or(&["dce_opnum"]),
    check(
        "cip_service",
        "enip",
        "cip",
        Form::Checked(|text| enip::Service::of_text(text).is_some()),
    ),
    check("enip_command", "enip", "enip.command", Form::Named(U16, ENIP_COMMANDS))
        .or(&["enip.command"]),
    check("enip.status", "enip", "enip.status", Form::Named(U32, ENIP_STATUS)),
    check("enip.capabilities", "enip", "enip.capabilities", Form::Number(U16)),
    check("enip.cip_attribute", "enip", "enip.cip_attribute", Form::Number(U32)),
    check("enip.cip_class", "enip", "enip.cip_class", Form::Number(U32)),
    check("enip.cip_instance", "enip", "enip.cip_instance", Form::Number(U32)),
    check("enip.cip_status", "enip", "enip.cip_status", Form::Number(U8)),
    check("enip.cip_extendedstatus", "enip", "enip.cip_extendedstatus", Form::Number(U16)),
    check("enip.device_type", "enip", "enip.device_type", Form::Number(U16)),
    check("enip.identity_status", "enip", "enip.identity_status", Form::Number(U16)),
    check("enip.product_code", "enip", "enip.product_code", Form::Number(U16)),
    check("enip.protocol_version", "enip", "enip.protocol_version", Form::Number(U16)),
    check("enip.revision", "enip", "enip.revision", Form::Number(U16)),
    check("enip.serial", "enip", "enip.serial", Form::Number(U32)),
    check("enip.state", "enip", "enip.state", Form::Number(U8)),
    check("enip.vendor_id", "enip", "enip.vendor_id", Form::Number(U16)),
    check(
        "ldap.request.operation",
        "ldap",
        "ldap.request.operation",
        Form::Named(U8, LDAP_OPERATIONS),
    ),
    check(
        "ldap.responses.operation",
        "ldap",
        "ldap.responses.operation",
        Form::Element(U8, LDAP_OPERATIONS),
    ),
    check("ldap.responses.count", "ldap", "ldap.responses.count", Form::Number(U32)),
    check(
        "ldap.responses.result_code",
        "ldap",
        "ldap.responses.result_code",
        Form::Element(U32, LDAP_RESULTS),
    ),
    check("rfb.sectype", "rfb", "rfb.sectype", Form::Number(U32)),
    check("rfb.secresult", "rfb", "rfb.secresult", Form::Named(U32, RFB_RESULTS)),
    check("snmp.version", "snmp", "snmp.generic", Form::Number(U32)),
    check("snmp.pdu_type", "snmp", "snmp.generic", Form::Number(U32)),
    check("snmp.trap_type", "snmp", "snmp.generic", Form::Named(U8, SNMP_TRAPS)),
    check("ntp.version", "ntp", "ntp.generic", Form::Number(U8)),
    check("ntp.mode", "ntp", "ntp.generic", Form::Named(U8, NTP_MODES)),
    check("ntp.stratum", "ntp", "ntp.generic", Form::Number(U8)),
    check("websocket.opcode", "websocket", "websocket.opcode", Form::Named(U8, WEBSOCKET_OPCODES)),
    check("websocket.mask", "websocket", "websocket.mask", Form::Number(U32)),
    check("websocket.flags", "websocket", "websocket.flags", Form::Flags(U8, WEBSOCKET_FLAGS)),
];

pub(super) const KEYWORDS: &[Keyword] = &[
    keyword("ftpbounce", |draft, _| present(draft, "ftp", "ftp.bounce", "ftpbounce"))
        .without_value(),
    keyword("ssh.protoversion", |_, _| Err("it is obsolete: use ssh.proto".into())),
    keyword("ssh.softwareversion", |_, _| Err("it is obsolete: use ssh.software".into())),
];

/// A keyword by its name in lower case.
pub(super) fn find(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name || check.aliases.contains(&name))
}

/// Whether it is one of these.
pub(super) fn is_known(name: &str) -> bool {
    find(name).is_some()
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().flat_map(|check| check.aliases.iter().copied().chain([check.name]))
}

pub(super) fn append(
    draft: &mut Draft<'_>,
    list: &'static str,
    keyword: &'static str,
    value: ProtocolValue,
) -> Outcome {
    let key = draft.key(list);
    let item = Match::Protocol(ProtocolCheck { keyword, value });
    draft.append(List::Buffer(key), item).map(|_| ())
}

pub(super) fn present(
    draft: &mut Draft<'_>,
    protocol: &'static str,
    list: &'static str,
    keyword: &'static str,
) -> Outcome {
    draft.set_protocol(protocol)?;
    append(draft, list, keyword, ProtocolValue::Present)
}

fn lookup(text: &str, names: &[(&str, u64)]) -> Option<u64> {
    let found = names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, number)| *number)
}

fn named(text: &str, max: u64, names: &[(&str, u64)]) -> Outcome<Compare> {
    match compare(text, max) {
        Ok(compare) => Ok(compare),
        Err(error) => {
            let text = text.trim();
            let negated = text.starts_with('!');
            let number = lookup(text.trim_start_matches('!'), names).ok_or(error)?;
            Ok(if negated { Compare::NotEqual(number) } else { Compare::Equal(number) })
        }
    }
}

/// A number without sign or comparison, or a name.
fn exact(text: &str, max: u64, names: &[(&str, u64)]) -> Outcome<Compare> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { text.parse().ok() } else { lookup(text, names) };
    let number = number.filter(|number| *number <= max);
    Ok(Compare::Equal(number.ok_or_else(|| format!("{text:?} is no number here and no name"))?))
}

fn flags(text: &str, max: u64, names: &[(&str, u64)]) -> Outcome<Compare> {
    if let Ok(compare) = compare(text, max) {
        return Ok(compare);
    }
    let (mut mask, mut value) = (0, 0);
    for word in text.split(',').map(str::trim) {
        let negated = word.starts_with('!');
        let bit = lookup(word.trim_start_matches('!'), names);
        let bit = bit.ok_or_else(|| format!("{word:?} is no flag"))?;
        if mask & bit != 0 {
            return Err(format!("{word:?} is there twice").into());
        }
        mask |= bit;
        value |= if negated { 0 } else { bit };
    }
    Ok(Compare::Mask { mask, value, negated: false })
}

fn element(text: &str) -> Outcome<ElementIndex> {
    Ok(match text {
        "all" => ElementIndex::All,
        "any" => ElementIndex::Any,
        _ => ElementIndex::At(text.parse().map_err(|_| format!("{text:?} is no index"))?),
    })
}

fn words(text: &str, known: &[&str]) -> Outcome<Vec<String>> {
    let mut out = Vec::new();
    if known.is_empty() {
        return Ok(text.split(',').map(|word| word.trim().to_owned()).collect());
    }
    for word in text.split([',', '|', ' ']).filter(|word| !word.is_empty()) {
        let name = word.trim_start_matches('!').to_ascii_lowercase();
        if !known.contains(&name.as_str()) {
            return Err(format!("{word:?} is not known").into());
        }
        let negated = word.starts_with('!');
        out.push(if negated { format!("!{name}") } else { name });
    }
    if out.is_empty() { Err("it is empty".into()) } else { Ok(out) }
}

#[cfg(test)]
mod tests;
