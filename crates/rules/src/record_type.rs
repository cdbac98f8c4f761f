//! Types of DNS records that rules may ask for.

/// The type of record that is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// IPv4 addresses (RFC 1035).
    A,
    /// IPv6 addresses (RFC 3596).
    Aaaa,
    /// Mail exchangers of a domain.
    Mx,
    /// Name servers of a zone.
    Ns,
    /// The name of an address.
    Ptr,
    /// Where a zone's authority lies.
    Soa,
    /// Texts, the strings of a record joined.
    Txt,
}

impl RecordType {
    /// The type of this name, in any case; `None` if rules cannot ask for it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "A" => RecordType::A,
            "AAAA" => RecordType::Aaaa,
            "MX" => RecordType::Mx,
            "NS" => RecordType::Ns,
            "PTR" => RecordType::Ptr,
            "SOA" => RecordType::Soa,
            "TXT" => RecordType::Txt,
            _ => return None,
        })
    }

    /// As zone files write it.
    pub fn name(self) -> &'static str {
        match self {
            RecordType::A => "A",
            RecordType::Aaaa => "AAAA",
            RecordType::Mx => "MX",
            RecordType::Ns => "NS",
            RecordType::Ptr => "PTR",
            RecordType::Soa => "SOA",
            RecordType::Txt => "TXT",
        }
    }
}
