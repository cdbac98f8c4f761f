//! Settings of TLS.

use super::Encrypted;

/// Settings of TLS (`app-layer.protocols.tls`).
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// JA3 and JA3S are computed: by the setting `ja3-fingerprints`, or because a rule asks.
    pub ja3: bool,
    /// JA3 is off even if a rule asks.
    pub ja3_off: bool,
    /// JA4 is computed: by the setting `ja4-fingerprints`, or because a rule asks.
    pub ja4: bool,
    /// JA4 is off even if a rule asks.
    pub ja4_off: bool,
    /// What becomes of encrypted flows.
    pub encrypted: Encrypted,
}

impl Settings {
    /// Sets one by its name in the stock file; `false` if there is no such name or value.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let switch = match value {
            "yes" | "true" | "1" | "on" => Some(true),
            "no" | "false" | "0" | "off" => Some(false),
            _ => None,
        };
        match name {
            "ja3-fingerprints" => {
                (self.ja3, self.ja3_off) = (switch == Some(true), switch == Some(false));
            }
            "ja4-fingerprints" => {
                (self.ja4, self.ja4_off) = (switch == Some(true), switch == Some(false));
            }
            "encryption-handling" => {
                self.encrypted = Encrypted::of_name(value);
            }
            "no-reassemble" if switch == Some(true) => self.encrypted = Encrypted::Bypass,
            "no-reassemble" => {}
            _ => return false,
        }
        true
    }

    /// Computes JA3 because a rule looks at it, unless it is off.
    pub fn want_ja3(&mut self) {
        self.ja3 |= !self.ja3_off;
    }

    /// Computes JA4 because a rule looks at it, unless it is off.
    pub fn want_ja4(&mut self) {
        self.ja4 |= !self.ja4_off;
    }
}
