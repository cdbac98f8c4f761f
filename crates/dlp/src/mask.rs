//! What evidence shows of a value.

/// Longest mask, in characters.
const MASK_CHARS_MAX: usize = 64;

/// The value with letters and digits as `*`, but for `head` at the beginning and `tail` at the end;
/// separators stay. At most half of them are shown, whatever is requested.
pub(crate) fn masked(value: &str, (head, tail): (usize, usize)) -> String {
    let count = value.chars().filter(|c| c.is_alphanumeric()).count();
    let (head, tail) = if (head + tail) * 2 > count { (0, count / 4) } else { (head, tail) };
    let mut seen = 0;
    let hide = |c: char| {
        if !c.is_alphanumeric() {
            return if c.is_whitespace() || c.is_control() { ' ' } else { c };
        }
        seen += 1;
        if seen <= head || seen + tail > count { c } else { '*' }
    };
    value.chars().map(hide).take(MASK_CHARS_MAX).collect()
}

/// A secret: as much of its beginning as says what it is, and its last four characters.
pub(crate) fn masked_secret(value: &str, prefix: usize) -> String {
    let head: String = value.chars().take(prefix).collect();
    let count = value.chars().count();
    let tail: String = match count >= prefix + 16 {
        true => value.chars().skip(count - 4).collect(),
        false => String::new(),
    };
    format!("{head}****{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_the_form_and_little_else() {
        assert_eq!(masked("4111 1111 1111 1111", (4, 4)), "4111 **** **** 1111");
        assert_eq!(masked("078-05-1120", (0, 3)), "***-**-*120");
        assert_eq!(masked("12345", (4, 4)), "****5");
        assert_eq!(masked("", (4, 4)), "");
        assert_eq!(masked_secret("ghp_0123456789abcdefghij", 4), "ghp_****ghij");
        assert_eq!(masked_secret("hf_abc", 3), "hf_****");
    }
}
