use crate::formats::testing::{base64, nasty, paths, tree, tree_with};
use crate::{DefectKind, PropertyKind};

/// A text of 841 bytes by the archiver itself, with `-m1`, `-m4` and `-m1 -gsecret`.
const METHOD_1: &str = "\
    YOoqACILAQIQAAJknWUEa51lBGsAAAAAAAAAAAAAAAAAAAAAAABtMS5hcmoAAB3fBNIAAGDqNQAuCwECEAEAnZ1lBG\
    sqAAAASQMAAK5ObpUAAKQRAAAAAAAAnWUEa51lBGsAAAAAYi50eHQAAG9hk/8AAAAYQm5p/6P6AdIaIOcwKCfgwGnV\
    ob9XGMAQC5mfCOjeFceLLBUVFT9NAGDqAAA=";
const METHOD_4: &str = "\
    YOoqACILAQIQAAJknWUEa51lBGsAAAAAAAAAAAAAAAAAAAAAAABtNC5hcmoAALrwPIAAAGDqNQAuCwECEAQAnZ1lBG\
    sjAAAASQMAAK5ObpUAAKQRAAAAAAAAnWUEa51lBGsAAAAAYi50eHQAAG4yivEAADQZTYbDeIDSbhAYYARyMZoNJ2Mo\
    sEH/+Cn/+Cn/+Cn0gUBQYOoAAA==";
const GARBLED: &str = "\
    YOopACILAQIRAAIAnWUEa51lBGsAAAAAAAAAAAAAAAABAAAAAABnLmFyagAAhOYzVwAAYOo1AC4LAQIRAQCdnWUEay\
    oAAABJAwAArk5ulQAApBEAAAAAAACdZQRrnWUEawAAAABiLnR4dAAAfE7LcAAAEBpCYWvus/gB3Rgx9zIoKOLRedeh\
    sFUJ0BILlp0Z+NwVyIk9BRcVME8RYOoAAA==";

#[test]
fn the_methods_of_the_archiver() {
    let text = "hello in an archive, ".repeat(40);
    for archive in [METHOD_1, METHOD_4] {
        let bytes = base64(archive);
        let found = tree(&bytes, "a.arj");
        assert_eq!(paths(&found), ["a.arj", "a.arj/b.txt"]);
        assert_eq!(found.objects[1].text, text.trim());
        assert!(found.objects[0].defects.is_empty(), "{found:?}");
        nasty(&bytes, "a.arj");
    }
}

#[test]
fn garbled_files() {
    let bytes = base64(GARBLED);
    let closed = tree(&bytes, "a.arj");
    assert_eq!(closed.objects[0].defects[0].kind, DefectKind::Encrypted);
    let opened = tree_with(&bytes, "a.arj", &["wrong", "secret"]);
    assert_eq!(opened.objects[1].size, 841);
    assert!(opened.objects[0].has(PropertyKind::PasswordFound));
    nasty(&bytes, "a.arj");
}

#[test]
fn a_byte_changed_in_the_data_is_known() {
    for archive in [METHOD_1, METHOD_4] {
        let whole = base64(archive);
        let sha256 = |tree: &crate::Tree| tree.objects.last().unwrap().sha256.clone();
        let good = sha256(&tree(&whole, "a.arj"));
        let name = memchr::memmem::rfind(&whole, b"b.txt").unwrap();
        // Behind the name, a comment, the checksum and the size of extensions.
        let data = name + 6 + 1 + 4 + 2;
        for at in data..data + 12 {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            let found = tree(&changed, "a.arj");
            // A block may say that it has more symbols than the file needs.
            let is_known = found.unread().next().is_some() || sha256(&found) == good;
            assert!(is_known, "{at}: {found:?}");
        }
    }
}
