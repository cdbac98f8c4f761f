//! What rules ask of CIP: `cip_service: 75`, or `cip_service: 16,246,6` for a service on a class's
//! attribute.

use super::wire::{ATTRIBUTE, CLASS, Cip, MULTIPLE_SERVICE};

/// A condition of the keyword `cip_service`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    service: u8,
    class: Option<u32>,
    attribute: Option<u32>,
}

impl Service {
    /// Of what is behind the keyword. `None`: it cannot be read.
    pub fn of_text(text: &str) -> Option<Self> {
        let mut parts = text.split(',').map(str::trim);
        let service = parts.next()?.parse().ok().filter(|service| *service < 0x80)?;
        let class = parts.next().map(str::parse).transpose().ok()?;
        // An attribute with `!` is read and, as in Suricata, not looked at.
        let attribute = match parts.next() {
            Some(text) => match text.strip_prefix('!') {
                Some(text) => text.parse::<u32>().ok().map(|_| None)?,
                None => Some(text.parse().ok()?),
            },
            None => None,
        };
        parts.next().is_none().then_some(Self { service, class, attribute })
    }

    /// Whether it holds for a request or a response, by the buffer `enip.cip`.
    pub fn holds(&self, buffer: &[u8]) -> bool {
        Cip::read(buffer).is_some_and(|cip| self.fits(&cip))
    }

    fn fits(&self, cip: &Cip) -> bool {
        if cip.service != self.service {
            return cip.service == MULTIPLE_SERVICE
                && cip.nested.iter().any(|(_, inner)| self.fits(inner));
        }
        let names = |kind, value| cip.path.contains(&(kind, value));
        let Some(class) = self.class else { return true };
        names(CLASS, class)
            && self.attribute.is_none_or(|attribute| {
                names(ATTRIBUTE, attribute)
                    || cip.attributes.iter().any(|other| u32::from(*other) == attribute)
            })
    }
}
