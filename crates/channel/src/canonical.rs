//! Canonical JSON (OLPC's, <https://wiki.laptop.org/go/Canonical_JSON>): what signatures are over.
//!
//! Keys are sorted, nothing is between tokens, strings escape only `"` and `\`, and there are
//! integers but no fractions.

use serde_json::Value;

/// The canonical form; none if there is a number that is no integer.
pub fn canonical(value: &Value) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    write(value, &mut out)?;
    Some(out)
}

// The depth is bounded by the parser that made the value (128).
fn write(value: &Value, out: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            (number.is_i64() || number.is_u64()).then_some(())?;
            out.extend_from_slice(number.to_string().as_bytes());
        }
        Value::String(text) => write_text(text, out),
        Value::Array(all) => {
            out.push(b'[');
            for (at, item) in all.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(all) => {
            // Sorted here, whatever order the map keeps.
            let mut keys: Vec<&String> = all.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_text(key, out);
                out.push(b':');
                write(all.get(key)?, out)?;
            }
            out.push(b'}');
        }
    }
    Some(())
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_only_quotes_and_backslashes_are_escaped() {
        let value: Value =
            serde_json::from_str(r#"{"b": [1, -2, true, null], "a": "q\"\\\n\u00e9", "B": {}}"#)
                .unwrap();
        let wanted = "{\"B\":{},\"a\":\"q\\\"\\\\\n\u{e9}\",\"b\":[1,-2,true,null]}";
        assert_eq!(canonical(&value).unwrap(), wanted.as_bytes());
        assert_eq!(canonical(&serde_json::json!({"a": 1.5})), None);
    }
}
