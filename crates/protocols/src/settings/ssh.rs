//! Settings of SSH.

use super::Encrypted;

/// Settings of SSH (`app-layer.protocols.ssh`).
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// HASSH is computed: by the setting, or because a rule asks.
    pub hassh: bool,
    /// HASSH is off even if a rule asks.
    pub hassh_off: bool,
    /// What becomes of encrypted flows.
    pub encrypted: Encrypted,
}

impl Settings {
    /// Sets one by its name in the stock file; `false` if there is no such name.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            "hassh" => {
                self.hassh = matches!(value, "yes" | "true" | "1" | "on");
                self.hassh_off = matches!(value, "no" | "false" | "0" | "off");
            }
            "encryption-handling" => {
                self.encrypted = Encrypted::of_name(value);
            }
            _ => return false,
        }
        true
    }

    /// Computes HASSH because a rule looks at it, unless it is off.
    pub fn want_hassh(&mut self) {
        self.hassh |= !self.hassh_off;
    }
}
