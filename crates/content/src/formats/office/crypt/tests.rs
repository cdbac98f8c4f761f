use md5::{Digest, Md5};
use ring::digest::SHA1_FOR_LEGACY_USE_ONLY as SHA1;

use super::cipher;
use crate::formats::rc4::rc4;
use crate::formats::testing::{base64, compound, nasty, paths, tree, tree_with};
use crate::{DefectKind, PropertyKind};

/// A document of a few words, encrypted with the parameters and the key that
/// msoffcrypto-tool made for the password "secret".
const AGILE: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<encryption xmlns="http://schemas.microsoft.com/office/2006/encryption"
xmlns:p="http://schemas.microsoft.com/office/2006/keyEncryptor/password"
xmlns:c="http://schemas.microsoft.com/office/2006/keyEncryptor/certificate">
<keyData saltSize="16" blockSize="16" keyBits="256" hashSize="64" cipherAlgorithm="AES"
cipherChaining="ChainingModeCBC" hashAlgorithm="SHA512" saltValue="61uF4YZbt/+VnS9TU/vNPA==" />
<keyEncryptors>
<keyEncryptor uri="http://schemas.microsoft.com/office/2006/keyEncryptor/password">
<p:encryptedKey spinCount="100000" saltSize="16" blockSize="16" keyBits="256" hashSize="64"
cipherAlgorithm="AES" cipherChaining="ChainingModeCBC" hashAlgorithm="SHA512"
saltValue="NAZusw0G7CMvPA/LutbL3Q==" encryptedVerifierHashInput="1aS4DVj2e0vC8Bcl0e97OQ=="
encryptedVerifierHashValue="UrljHE7ALWvwcGSDJjP7q7jQj2lPCKMOIbXMoYffcs9KbKs1HIFX8gfFmMsCtrw9qyn7o8/uUPOqQW0dmYezeA=="
encryptedKeyValue="Bcj6+9pRWHkZOOHx4ks83SBTMKRSuHGuc0E2WFvPCqA=" />
</keyEncryptor>
</keyEncryptors>
</encryption>"#;
const PACKAGE: &str = "\
    GAEAAAAAAADgVzkBiUlrM8VN0ZiQwr/yyUHmNTYAFDuBlFZwaJRbk/Z7upsP3rDGJ61le9+V1o4ya6sEGaCn4h3WZ5jdCp\
    TMq1S3wXv7Kx4B3WSxMqB/WczxfrhuXVRbvKuQ/saSik8X5Cb2eqwQ+SEzkFXe+bwseX9ATR+n7z44ei8tGq1BrhTDR9uy\
    Yi1Gz40VxnCZirvgfeHVjay3pMTzJBpqJzr8PM6L59K8nJWgYxat4SbLd5poN7nNeDRtDYbyxxb8NNUqer37NraMA1M7yP\
    zKtLCu9GdZxzkq6Qn8KoIgPG8/OOSdzNLKrkhnzot/3S1dnbw72DZWZRLG2ISuA0aKzBL3zcvYanfHkkInOYyOQauQPnuU\
    elPiR+kJNMhm55utjlY=";

#[test]
fn a_package_of_agile_encryption() {
    let info = [&[4, 0, 4, 0, 0x40, 0, 0, 0], AGILE.as_bytes()].concat();
    let package = base64(PACKAGE);
    let whole = compound(&[("EncryptionInfo", &info), ("EncryptedPackage", &package)]);
    let closed = tree(&whole, "a.docx");
    assert_eq!(closed.objects[0].defects[0].kind, DefectKind::Encrypted);
    let opened = tree_with(&whole, "a.docx", &["wrong", "secret"]);
    assert!(paths(&opened).contains(&"a.docx/EncryptedPackage/word/document.xml"), "{opened:?}");
    assert!(opened.objects[0].has(PropertyKind::PasswordFound));
    assert!(opened.objects.iter().any(|object| object.text.contains("Hello")));
    // Each try of a password takes its rounds: few of the changes are tried, with few rounds.
    let quick = AGILE.replace("100000", "1");
    let info = [&[4, 0, 4, 0, 0x40, 0, 0, 0], quick.as_bytes()].concat();
    nasty(&compound(&[("EncryptionInfo", &info), ("EncryptedPackage", &package)]), "a.docx");
}

#[test]
fn the_verifier_of_standard_encryption() {
    use aes::Aes128;
    use aes::cipher::generic_array::GenericArray;
    use aes::cipher::{BlockEncrypt, KeyInit};
    let salt = [7u8; 16];
    let word: Vec<u8> = super::utf16("secret");
    let spun = cipher::spun(&SHA1, &salt, &word, 50_000);
    let last = cipher::hash(&SHA1, &[&spun, &[0; 4]]);
    let mut block = [0x36u8; 64];
    block.iter_mut().zip(&last).for_each(|(b, h)| *b ^= h);
    let key = cipher::hash(&SHA1, &[&block])[..16].to_vec();
    let encrypt = |plain: &[u8]| {
        let mut data = plain.to_vec();
        for block in data.chunks_exact_mut(16) {
            Aes128::new(GenericArray::from_slice(&key))
                .encrypt_block(GenericArray::from_mut_slice(block));
        }
        data
    };
    let mut hash = cipher::hash(&SHA1, &[&[9; 16]]);
    hash.resize(32, 0);
    let header = [[0u32, 0, 0x660e, 0x8004, 128, 24, 0, 0].map(u32::to_le_bytes).concat()].concat();
    let info = [
        &[3, 0, 2, 0, 0x24, 0, 0, 0][..],
        &(header.len() as u32).to_le_bytes(),
        &header,
        &16u32.to_le_bytes(),
        &salt,
        &encrypt(&[9; 16]),
        &20u32.to_le_bytes(),
        &encrypt(&hash),
    ]
    .concat();
    let plain = b"a package, filled up to 32 bytes";
    let package = [&20u64.to_le_bytes()[..], &encrypt(plain)].concat();
    let whole = compound(&[("EncryptionInfo", &info), ("EncryptedPackage", &package)]);
    let found = tree_with(&whole, "a.xlsx", &["secret"]);
    assert_eq!(found.objects[1].text, "a package, filled up");
}

/// A workbook with a cell, encrypted by RC4 with keys of 40 bits.
#[test]
fn a_workbook_of_the_older_rc4() {
    let salt = [5u8; 16];
    let first = Md5::digest(super::utf16("VelvetSweatshop"));
    let base = Md5::digest([&first[..5], &salt].concat().repeat(16))[..5].to_vec();
    let key = |block: u32| Md5::digest([&base[..], &block.to_le_bytes()].concat()).to_vec();
    let verifier = [[8u8; 16].to_vec(), Md5::digest([8; 16]).to_vec()].concat();
    let pass = [&[1, 0, 1, 0, 1, 0][..], &salt, &rc4(&key(0), &verifier)].concat();
    let record = |kind: u16, body: &[u8]| {
        [&kind.to_le_bytes()[..], &(body.len() as u16).to_le_bytes(), body].concat()
    };
    let label = [&[0; 6][..], &[5, 0, 0], b"hello"].concat();
    let head = [record(0x0809, &[0; 16]), record(0x2f, &pass)].concat();
    let plain = [head.clone(), record(0x0204, &label)].concat();
    let mut stream = rc4(&key(0), &plain);
    stream[..head.len()].copy_from_slice(&head);
    let at = head.len();
    stream[at..at + 4].copy_from_slice(&plain[at..at + 4]);
    let found = tree(&compound(&[("Workbook", &stream)]), "a.xls");
    assert_eq!(found.objects[0].text, "hello");
    assert!(found.objects[0].has(PropertyKind::PasswordFound));
}
