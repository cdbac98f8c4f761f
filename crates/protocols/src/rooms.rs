//! Rooms of buffers and numbers: one a module, no two alike.

pub(crate) const DNS: u8 = 20;
pub(crate) const MDNS: u8 = 21;
pub(crate) const TLS: u8 = 22;
pub(crate) const SMTP: u8 = 23;
pub(crate) const FTP: u8 = 24;
pub(crate) const FTP_DATA: u8 = 25;
pub(crate) const SSH: u8 = 26;
pub(crate) const SIP: u8 = 27;
pub(crate) const DCERPC: u8 = 28;
pub(crate) const SMB: u8 = 29;
pub(crate) const MQTT: u8 = 30;
pub(crate) const KRB5: u8 = 31;
pub(crate) const SNMP: u8 = 32;
pub(crate) const LDAP: u8 = 33;
pub(crate) const RFB: u8 = 34;
pub(crate) const WEBSOCKET: u8 = 35;
pub(crate) const DHCP: u8 = 36;
pub(crate) const IKE: u8 = 60;
pub(crate) const NTP: u8 = 61;
pub(crate) const QUIC: u8 = 62;
pub(crate) const MODBUS: u8 = 63;
pub(crate) const ENIP: u8 = 64;
pub(crate) const NFS: u8 = 65;
