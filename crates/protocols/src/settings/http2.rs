//! Settings of HTTP/2.

/// Settings of HTTP/2 (`app-layer.protocols.http2`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Streams of a connection that are kept at the same time.
    pub streams_max: usize,
    /// Frames of one direction of a stream that are kept.
    pub frames_max: usize,
    /// Bytes of a table of header fields.
    pub table_bytes_max: usize,
    /// Bytes of header fields in several frames.
    pub fields_bytes_max: usize,
    /// Decompressed bytes of a body from which on its ratio counts.
    pub bomb_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streams_max: 4096,
            frames_max: 65_536,
            table_bytes_max: 65_536,
            fields_bytes_max: 102_400,
            bomb_bytes_max: 1024 * 1024,
        }
    }
}

impl Settings {
    /// Sets one by its name in suricata.yaml.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let Some(size) = gauntlet_packet::units::bytes(value) else { return false };
        if name == "compression-bomb-limit" {
            self.bomb_bytes_max = size;
            return true;
        }
        let place = match name {
            "max-streams" => &mut self.streams_max,
            "max-frames" => &mut self.frames_max,
            "max-table-size" => &mut self.table_bytes_max,
            "max-reassembly-size" => &mut self.fields_bytes_max,
            _ => return false,
        };
        usize::try_from(size).map(|size| *place = size).is_ok()
    }
}
