//! Who signs in: NTLM's last message (MS-NLMP section 2.2.1.3) within a security blob.

use crate::reader::Reader;

const IDENTIFIER: &[u8] = b"NTLMSSP\0";
const AUTHENTICATE: u32 = 3;

/// What the message says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Authentication {
    /// Host, without zero bytes.
    pub host: Vec<u8>,
    /// User, without zero bytes.
    pub user: Vec<u8>,
    /// Domain, without zero bytes.
    pub domain: Vec<u8>,
    /// The fields' data does not lie in the usual order.
    pub is_unusual: bool,
}

/// Finds the message in a blob; whatever is around it (SPNEGO, RFC 4178) is stepped over. A blob
/// with a Kerberos ticket has none.
pub(crate) fn find(blob: &[u8]) -> Option<Authentication> {
    let begin = memchr::memmem::find(blob, IDENTIFIER)?;
    let message = blob.get(begin..)?;
    let mut reader = Reader::new(message);
    reader.skip(IDENTIFIER.len())?;
    if reader.le32()? != AUTHENTICATE {
        return None;
    }
    let mut fields = [(0, 0); 6];
    for field in &mut fields {
        let length = usize::from(reader.le16()?);
        reader.skip(2)?;
        let offset = usize::try_from(reader.le32()?).ok()?;
        if length >= message.len() || offset >= message.len() {
            return None;
        }
        *field = (offset, length);
    }
    reader.skip(4)?;
    let [_, _, domain, user, host, _] = fields;
    let text = |(offset, length): (usize, usize)| {
        let begin = Some(offset).filter(|offset| *offset >= 12)?;
        let bytes = message.get(begin..begin + length)?;
        Some(bytes.iter().copied().filter(|byte| *byte != 0).collect::<Vec<u8>>())
    };
    let before = |(later, _): (usize, usize), (earlier, length): (usize, usize)| {
        later > 0 && later < earlier + length
    };
    Some(Authentication {
        domain: text(domain)?,
        user: text(user)?,
        host: text(host)?,
        is_unusual: before(user, domain) || before(host, user),
    })
}
