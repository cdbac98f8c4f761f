//! Giving parts other file names, in every field that may name them (RFC 2183, RFC 2231).

use std::fmt::Write;

use gauntlet_mail::Part;
use gauntlet_verdict::RenamedPart;

use super::Edits;

/// Type of a part whose name was changed: by its own type programs would name it as before.
const NEUTRAL_TYPE: &str = "application/octet-stream";
/// Fields that stay: the others may name the file, or state its type.
const KEPT: [&str; 2] = ["content-transfer-encoding", "content-id"];

impl Edits<'_> {
    pub(super) fn convert_names(&mut self, parts: &[RenamedPart], rule: &str) {
        let message = self.message;
        for RenamedPart { part: index, from, to } in parts {
            let Some(part) = message.parts().get(usize::from(*index)) else { continue };
            if part.within.is_some() || self.replaced.contains(&part.body_range.start) {
                continue;
            }
            let essence = part.content_type.essence();
            let media_type = if part.is_container { &essence } else { NEUTRAL_TYPE };
            let fields = named_fields(media_type, to, self.line_end());
            self.replace_fields(part, &KEPT, &fields);
            let broken = self.broken_signature(part);
            let value = format!("{from} to {to}, by rule {rule}{broken}");
            self.say("X-Gauntlet-Renamed", &value);
        }
    }

    /// What a header field adds where a change breaks a signature.
    pub(super) fn broken_signature(&self, part: &Part<'_>) -> &'static str {
        match self.is_sealed(part) {
            true => "; the signature of the part around it does not verify any more",
            false => "",
        }
    }

    /// Adds a field of one line, whatever stands in names.
    pub(super) fn say(&mut self, name: &str, value: &str) {
        let line: String = value.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
        self.add_header(name, &line);
    }
}

/// Content-Type and Content-Disposition of an attachment of this name. One outside ASCII stands in
/// `filename*` (RFC 2231), and with `_` for what old programs cannot read in `name` and `filename`.
pub(super) fn named_fields(media_type: &str, name: &str, end: &str) -> String {
    let mut fields = format!("Content-Type: {media_type}");
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    if name.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        let name = quoted(name);
        let _ = write!(fields, ";{end}\tname=\"{name}\"{end}");
        let _ = write!(fields, "Content-Disposition: attachment;{end}\tfilename=\"{name}\"{end}");
        return fields;
    }
    let plain: String =
        quoted(name).chars().map(|c| if (' '..='~').contains(&c) { c } else { '_' }).collect();
    let mut percent = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_') {
            true => percent.push(char::from(byte)),
            false => {
                let _ = write!(percent, "%{byte:02X}");
            }
        }
    }
    let _ = write!(fields, ";{end}\tname=\"{plain}\"{end}");
    let _ = write!(
        fields,
        "Content-Disposition: attachment;{end}\tfilename=\"{plain}\";{end}\t\
         filename*=utf-8''{percent}{end}"
    );
    fields
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::Message;
    use gauntlet_verdict::Change;

    use super::super::apply;
    use super::*;

    fn renamed(fields: &str, to: &str) -> String {
        let raw = format!(
            "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nhi\r\n--b\r\n\
             {fields}Content-ID: <1@x>\r\nContent-Transfer-Encoding: base64\r\n\r\nTVo=\r\n--b--\r\n"
        );
        let parts = vec![RenamedPart { part: 2, from: "a.exe".into(), to: to.into() }];
        let change = Change::ConvertNames { parts, rule: "r".into() };
        String::from_utf8(apply(&Message::parse(raw.as_bytes()), &[change])).unwrap()
    }

    #[test]
    fn no_spelling_of_the_old_name_is_left() {
        for fields in [
            "Content-Type: application/x-msdownload; name=a.exe\r\n",
            "Content-Disposition: attachment; filename=\"a.exe\"\r\n",
            "Content-Disposition: attachment; filename*0=a.e; filename*1=xe\r\n",
            "Content-Disposition: attachment; filename*=utf-8''a%2Eexe\r\n",
            "Content-Type: application/octet-stream;\r\n name=\"=?utf-8?B?YS5leGU=?=\"\r\n",
            "Content-Disposition: attachment\r\nContent-Description: a.exe\r\n",
            "Content-Type: application/x; name=b.txt\r\nContent-Location: a.exe\r\n",
        ] {
            for to in ["a.exe.txt", "fär.exe.txt"] {
                let out = renamed(fields, to);
                let message = Message::parse(out.as_bytes());
                let part = &message.parts()[2];
                assert_eq!(part.file_name(), Some(to), "{out}");
                assert_eq!(part.body(), b"MZ", "{out}");
                assert!(
                    part.name_interpretations().iter().all(|n| n.ends_with(".txt")),
                    "{:?} {out}",
                    part.name_interpretations()
                );
                assert!(out.contains("Content-ID: <1@x>"), "{out}");
                assert!(out.starts_with("X-Gauntlet-Renamed: "), "{out}");
            }
        }
    }
}
