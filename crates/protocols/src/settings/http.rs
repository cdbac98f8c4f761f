//! Settings of HTTP/1.

use gauntlet_packet::units::bytes;

/// What becomes of `%` when no two hexadecimal digits follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidEncoding {
    /// It stays.
    Preserve,
    /// It goes.
    Remove,
    /// It is decoded all the same.
    Decode,
}

/// Settings of HTTP (`app-layer.protocols.http.libhtp.default-config`).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Bytes of a request's body that are inspected; 0 is no limit.
    pub request_body_limit: u64,
    /// Bytes of a response's body that are inspected; 0 is no limit.
    pub response_body_limit: u64,
    /// Bytes of a body whose file is to be stored, instead of the limits above; 0 is no limit.
    pub stored_body_limit: u64,
    /// Bytes of a request's body that are waited for before it is inspected.
    pub request_inspect_min: u64,
    /// Bytes of a request's body that are inspected together afterwards.
    pub request_inspect_window: u64,
    /// Bytes of a response's body that are waited for before it is inspected.
    pub response_inspect_min: u64,
    /// Bytes of a response's body that are inspected together afterwards.
    pub response_inspect_window: u64,
    /// Bodies are inspected at once; `None`: if the stream is (`auto`).
    pub body_inline: Option<bool>,
    /// Layers of content encodings that are undone; 0 is no limit.
    pub layers_max: u32,
    /// Bytes of a line, or of a header field's lines, that are kept together.
    pub field_bytes_max: usize,
    /// Header fields of one message.
    pub headers_max: usize,
    /// Transactions of a flow that are kept at the same time.
    pub transactions_max: usize,
    /// Decompressed bytes of a body from which on its ratio counts.
    pub bomb_bytes_max: u64,
    /// Bodies of a flow that may be bombs before no more are decompressed.
    pub bombs_max: u8,
    /// Bytes of memory for LZMA.
    pub lzma_bytes_max: u64,
    /// The path is decoded twice.
    pub double_decode_path: bool,
    /// The query is decoded twice.
    pub double_decode_query: bool,
    /// `\` in paths becomes `/`.
    pub backslash_is_slash: bool,
    /// Paths become lower case.
    pub lowercase: bool,
    /// Several `/` become one.
    pub compress_slashes: bool,
    /// `%2f` becomes `/`.
    pub decode_slashes: bool,
    /// `%uXXXX` is decoded.
    pub decode_u: bool,
    /// UTF-8 in paths becomes single bytes that look alike.
    pub bestfit: bool,
    /// The byte where nothing looks alike.
    pub bestfit_replacement: u8,
    /// `+` in queries becomes a space.
    pub plus_is_space: bool,
    /// A zero byte ends the path.
    pub nul_ends: bool,
    /// `%00` ends the path.
    pub encoded_nul_ends: bool,
    /// What becomes of `%` before others.
    pub invalid_encoding: InvalidEncoding,
    /// The normalised URI has scheme, name of the host and port if they were sent.
    pub uri_include_all: bool,
    /// As Apache: a zero byte ends the request line.
    pub apache: bool,
    /// White space before the method belongs to it.
    pub leading_space_in_method: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let mut settings = Self::minimal();
        settings.set("personality", "IDS");
        Self {
            request_body_limit: 100 * 1024,
            response_body_limit: 100 * 1024,
            stored_body_limit: 1 << 20,
            response_inspect_min: 40 * 1024,
            response_inspect_window: 16 * 1024,
            ..settings
        }
    }
}

impl Settings {
    /// Without a configuration file's section.
    pub fn minimal() -> Self {
        Self {
            request_body_limit: 4096,
            response_body_limit: 4096,
            stored_body_limit: 0,
            request_inspect_min: 32 * 1024,
            request_inspect_window: 4096,
            response_inspect_min: 32 * 1024,
            response_inspect_window: 4096,
            body_inline: None,
            layers_max: 2,
            field_bytes_max: 18_000,
            headers_max: 1024,
            transactions_max: 512,
            bomb_bytes_max: 1024 * 1024,
            bombs_max: 3,
            lzma_bytes_max: 1024 * 1024,
            double_decode_path: false,
            double_decode_query: false,
            backslash_is_slash: false,
            lowercase: false,
            compress_slashes: false,
            decode_slashes: false,
            decode_u: false,
            bestfit: false,
            bestfit_replacement: b'?',
            plus_is_space: false,
            nul_ends: false,
            encoded_nul_ends: false,
            invalid_encoding: InvalidEncoding::Preserve,
            uri_include_all: false,
            apache: false,
            leading_space_in_method: false,
        }
    }

    /// Whether bodies are inspected at once.
    pub(crate) fn inline(&self, stream: bool) -> bool {
        self.body_inline.unwrap_or(stream)
    }

    /// Sets one by its name in the stock file.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let value = value.trim();
        self.set_size(name, value) || self.set_truth(name, value) || self.set_other(name, value)
    }

    fn set_size(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "request-body-limit" | "request_body_limit" => &mut self.request_body_limit,
            "response-body-limit" => &mut self.response_body_limit,
            "request-body-minimal-inspect-size" => &mut self.request_inspect_min,
            "request-body-inspect-window" => &mut self.request_inspect_window,
            "response-body-minimal-inspect-size" => &mut self.response_inspect_min,
            "response-body-inspect-window" => &mut self.response_inspect_window,
            "compression-bomb-limit" => &mut self.bomb_bytes_max,
            "lzma-memlimit" => &mut self.lzma_bytes_max,
            _ => return self.set_count(name, value),
        };
        bytes(value).map(|size| *place = size).is_some()
    }

    fn set_count(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "meta-field-limit" => &mut self.field_bytes_max,
            "headers-limit" => &mut self.headers_max,
            "max-tx" => &mut self.transactions_max,
            _ => return false,
        };
        let size = bytes(value).and_then(|size| usize::try_from(size).ok());
        size.map(|size| *place = size).is_some()
    }

    fn set_truth(&mut self, name: &str, value: &str) -> bool {
        let place = match name {
            "double-decode-path" => &mut self.double_decode_path,
            "double-decode-query" => &mut self.double_decode_query,
            "path-convert-backslash-separators" => &mut self.backslash_is_slash,
            "path-convert-lowercase" => &mut self.lowercase,
            "path-separators-compress" => &mut self.compress_slashes,
            "path-separators-decode" => &mut self.decode_slashes,
            "path-u-encoding-decode" => &mut self.decode_u,
            "path-utf8-convert-bestfit" => &mut self.bestfit,
            "query-plusspace-decode" => &mut self.plus_is_space,
            "path-nul-raw-terminates" => &mut self.nul_ends,
            "path-nul-encoded-terminates" => &mut self.encoded_nul_ends,
            "uri-include-all" => &mut self.uri_include_all,
            _ => return false,
        };
        *place = truth(value);
        true
    }

    fn set_other(&mut self, name: &str, value: &str) -> bool {
        match name {
            "personality" => return self.set_personality(&value.to_ascii_uppercase()),
            "http-body-inline" => {
                self.body_inline = (!value.eq_ignore_ascii_case("auto")).then(|| truth(value));
            }
            "response-body-decompress-layer-limit" => {
                let Ok(layers) = value.parse() else { return false };
                self.layers_max = layers;
            }
            "compression-bomb-count" => {
                let Ok(bombs) = value.parse() else { return false };
                self.bombs_max = bombs;
            }
            "path-bestfit-replacement-char" => {
                let Some(byte) = value.bytes().next() else { return false };
                self.bestfit_replacement = byte;
            }
            "path-url-encoding-invalid-handling" => {
                self.invalid_encoding = match value.to_ascii_lowercase().as_str() {
                    "preserve_percent" => InvalidEncoding::Preserve,
                    "remove_percent" => InvalidEncoding::Remove,
                    "decode_invalid" => InvalidEncoding::Decode,
                    _ => return false,
                };
            }
            _ => return false,
        }
        true
    }

    /// Servers read paths in different ways. Lower case is never asked for here: rules do not
    /// expect it.
    fn set_personality(&mut self, name: &str) -> bool {
        let (slashes, compress, decode, decode_u, bestfit) = match name {
            "MINIMAL" => (false, false, false, false, false),
            "GENERIC" | "IIS_5_1" => (true, true, true, false, false),
            "IDS" => (true, true, true, true, true),
            "APACHE" | "APACHE_2" | "APACHE_2_2" => (false, true, false, false, false),
            "IIS_6_0" | "IIS_7_0" | "IIS_7_5" => (true, true, true, true, false),
            _ => return false,
        };
        self.backslash_is_slash = slashes;
        self.compress_slashes = compress;
        self.decode_slashes = decode;
        self.decode_u = decode_u;
        self.bestfit = bestfit;
        self.apache = name.starts_with("APACHE");
        self.leading_space_in_method = self.apache;
        self.lowercase = false;
        true
    }
}

fn truth(value: &str) -> bool {
    ["yes", "true", "1", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
