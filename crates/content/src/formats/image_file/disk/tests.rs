use crate::DefectKind;
use crate::formats::testing::{nasty, paths, tree};

/// A FAT12 of 64 sectors with a file in the root and one with a long name in a folder.
fn fat() -> Vec<u8> {
    let mut disk = vec![0u8; 64 * 512];
    disk[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    disk[11..24].copy_from_slice(&[0, 2, 1, 1, 0, 1, 16, 0, 64, 0, 0xf8, 1, 0]);
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    // Clusters 2 and 3 are one file, 4 is the folder, 5 the file in it.
    disk[512..521].copy_from_slice(&[0xf8, 0xff, 0xff, 0x03, 0xf0, 0xff, 0xff, 0xff, 0xff]);
    let entry = |name: &[u8; 11], attributes: u8, cluster: u8, size: u16| {
        let mut entry = vec![0u8; 32];
        entry[..11].copy_from_slice(name);
        entry[11] = attributes;
        entry[26] = cluster;
        entry[28..30].copy_from_slice(&size.to_le_bytes());
        entry
    };
    let mut long = vec![0xffu8; 32];
    long[0] = 0x41;
    (long[11], long[12], long[26], long[27]) = (0x0f, 0, 0, 0);
    for (place, unit) in [1, 3, 5, 7, 9, 14, 16].into_iter().zip("Run.exe".encode_utf16()) {
        long[place..place + 2].copy_from_slice(&unit.to_le_bytes());
    }
    long[18..20].copy_from_slice(&[0, 0]);
    let root = [entry(b"A       TXT", 0x20, 2, 600), entry(b"FOLDER     ", 0x10, 4, 0)].concat();
    disk[1_024..1_024 + root.len()].copy_from_slice(&root);
    disk[1_536..2_136].fill(b'x');
    let folder = [entry(b".          ", 0x10, 4, 0), long, entry(b"RUN     EXE", 0x20, 5, 4)];
    disk[2_560..2_560 + 96].copy_from_slice(&folder.concat());
    disk[3_072..3_076].copy_from_slice(b"MZ\x90\0");
    disk
}

const NAMES: [&str; 3] = ["d", "d/a.txt", "d/folder/Run.exe"];

#[test]
fn files_of_a_file_system() {
    let disk = fat();
    let found = tree(&disk, "d");
    assert_eq!(paths(&found), NAMES);
    assert_eq!((found.objects[1].size, found.objects[2].size), (600, 4));
    nasty(&disk[..4_096], "d");
}

#[test]
fn partitions_and_virtual_disks() {
    let mut disk = vec![0u8; 512];
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk[446..462].copy_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 64, 0, 0, 0]);
    disk[462..478].copy_from_slice(&[0, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 64, 0, 0, 0]);
    disk.extend(fat());
    let found = tree(&disk, "d");
    assert_eq!(paths(&found), NAMES);
    assert_eq!(found.objects[0].defects[0].kind, DefectKind::Unsupported);
    // A fixed virtual disk has a footer only.
    let fixed = [fat(), b"conectix".to_vec(), vec![0; 504]].concat();
    assert_eq!(paths(&tree(&fixed, "d")), NAMES);
    // A growing one of two blocks of 16 KiB, written in turn.
    let mut growing = b"conectix".to_vec();
    growing.resize(512, 0);
    // The header stands at 512, the table at 2,048: two blocks, at sectors 38 and 5.
    growing[22] = 2;
    growing.extend(b"cxsparse");
    growing.resize(2_048, 0);
    growing[512 + 22..512 + 24].copy_from_slice(&[8, 0]);
    growing[512 + 31] = 2;
    growing[512 + 34] = 0x40;
    growing.extend([0, 0, 0, 38, 0, 0, 0, 5]);
    growing.resize(5 * 512, 0);
    let (first, second) = (fat()[..16_384].to_vec(), fat()[16_384..].to_vec());
    growing.extend([vec![0xff; 512], second, vec![0xff; 512], first].concat());
    let found = tree(&growing, "d");
    assert_eq!(paths(&found), NAMES, "{found:?}");
    nasty(&growing[..8_192], "d");
    let found = tree(&[&b"vhdxfile"[..], &[0; 600]].concat(), "d");
    assert_eq!(found.objects[0].defects[0].kind, DefectKind::Unsupported);
}
