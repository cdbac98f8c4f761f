//! Settings of SMTP.

/// Settings of SMTP (`app-layer.protocols.smtp`).
#[derive(Debug, Clone)]
pub struct Settings {
    /// Messages are read, attachments become files.
    pub decode_mime: bool,
    /// Whole messages become files instead; only without [`Self::decode_mime`].
    pub raw_extraction: bool,
    /// What of messages is decoded.
    pub decoding: Decoding,
    /// Bytes of a file that are looked at before its end (`content-limit`), 0 is no limit.
    pub content_limit: u64,
    /// Bytes of a file that are waited for (`content-inspect-min-size`).
    pub content_inspect_min_size: u64,
    /// Transactions of one flow; with more parsing ends.
    pub max_tx: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            decode_mime: true,
            raw_extraction: false,
            decoding: Decoding::default(),
            content_limit: 100_000,
            content_inspect_min_size: 32_768,
            max_tx: 256,
        }
    }
}

impl Settings {
    /// Sets one by its name in the stock file; `false` if there is no such name, or the value
    /// cannot be read.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let on = matches!(value, "yes" | "true" | "1" | "on");
        let size = gauntlet_packet::units::bytes(value);
        match name {
            "raw-extraction" => self.raw_extraction = on,
            "mime.decode-mime" => self.decode_mime = on,
            "mime.decode-base64" => self.decoding.base64 = on,
            "mime.decode-quoted-printable" => self.decoding.quoted_printable = on,
            "mime.extract-urls" => self.decoding.urls = on,
            "mime.extract-urls-schemes" => self.decoding.schemes = schemes(value),
            "mime.body-md5" => self.decoding.body_md5 = on,
            _ => {
                let Some(size) = size else { return false };
                match name {
                    "inspected-tracker.content-limit" => self.content_limit = size,
                    "inspected-tracker.content-inspect-min-size" => {
                        self.content_inspect_min_size = size;
                    }
                    "max-tx" => self.max_tx = size,
                    _ => return false,
                }
            }
        }
        true
    }
}

/// A list of schemes (`[http, https]`) as what URLs begin with.
fn schemes(value: &str) -> Vec<Vec<u8>> {
    let names = value.trim_matches(['[', ']']).split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| {
            let name = name.to_ascii_lowercase();
            if name.ends_with('/') { name.into_bytes() } else { format!("{name}://").into_bytes() }
        })
        .collect()
}

/// What is decoded (`app-layer.protocols.smtp.mime`).
#[derive(Debug, Clone)]
pub struct Decoding {
    /// Base64.
    pub base64: bool,
    /// Quoted-printable.
    pub quoted_printable: bool,
    /// URLs are gathered.
    pub urls: bool,
    /// What URLs begin with, in lower case.
    pub schemes: Vec<Vec<u8>>,
    /// MD5 of the body.
    pub body_md5: bool,
}

impl Default for Decoding {
    fn default() -> Self {
        Self {
            base64: true,
            quoted_printable: true,
            urls: true,
            schemes: vec![b"http://".to_vec()],
            body_md5: false,
        }
    }
}
