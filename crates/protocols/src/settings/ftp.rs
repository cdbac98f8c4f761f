//! Settings of FTP.

/// Settings of FTP (`app-layer.protocols.ftp`).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Transactions of a flow that wait; with more the oldest open one is closed.
    pub max_tx: u64,
    /// Longest line in bytes.
    pub max_line_length: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_tx: 1024, max_line_length: 4096 }
    }
}

impl Settings {
    /// Sets one by its name in the stock file; `false` if there is no such name, or the value
    /// cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let Some(size) = gauntlet_packet::units::bytes(value) else { return false };
        match name {
            "max-tx" => self.max_tx = size,
            "max-line-length" => {
                self.max_line_length = usize::try_from(size).unwrap_or(usize::MAX).max(1);
            }
            _ => return false,
        }
        true
    }
}
