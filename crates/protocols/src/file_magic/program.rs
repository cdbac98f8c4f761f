//! Programs: of Windows, Linux, Java, and scripts.

use super::{at, text, u16_le, u32_be, u32_le};

pub(super) fn describe(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(b"MZ") && !text::is_text(bytes) {
        return portable(bytes).or_else(|| dos(bytes));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Some(elf(bytes).unwrap_or_else(|| "ELF".into()));
    }
    match u32_be(bytes, 0) {
        // Fat binaries begin so, too, but with a small number of programs.
        Some(0xcafe_babe) => {
            let [_, minor, _, major] = at(bytes, 4)?;
            (major >= 43).then(|| format!("compiled Java class data, version {major}.{minor}"))
        }
        Some(0xcffa_edfe) => Some("Mach-O 64-bit executable".into()),
        Some(0xcefa_edfe) => Some("Mach-O executable".into()),
        Some(0x6465_780a) => Some("Dalvik dex file".into()),
        _ => None,
    }
}

/// A header of DOS: the place of its table at 24 tells it from others that begin so. Before 64
/// there is no room for what newer headers have, and all of the old one must be there.
fn dos(bytes: &[u8]) -> Option<String> {
    const NEW_HEADER: usize = 64;
    if usize::from(u16_le(bytes, 24)?) >= NEW_HEADER {
        return Some("MS-DOS executable".into());
    }
    (bytes.len() >= NEW_HEADER).then(|| "MS-DOS executable, MZ for MS-DOS".into())
}

/// "Microsoft PE/COFF": the header is where the word at 60 says.
fn portable(bytes: &[u8]) -> Option<String> {
    /// Flag of a file that is a library.
    const LIBRARY: u16 = 0x2000;
    /// Flag of a file whose symbols are in another one.
    const STRIPPED: u16 = 0x0200;
    let header = usize::try_from(u32_le(bytes, 60)?).ok()?;
    let coff = bytes.get(header..)?.strip_prefix(b"PE\0\0")?;
    let machine = match u16_le(coff, 0)? {
        0x014c => "Intel 80386",
        0x8664 => "x86-64",
        0x01c0 => "ARM",
        0x01c4 => "ARMv7 Thumb",
        0xaa64 => "Aarch64",
        0x0200 => "Intel Itanium",
        _ => "unknown processor",
    };
    let flags = u16_le(coff, 18)?;
    let optional = coff.get(20..)?;
    let (kind, directories) = match u16_le(optional, 0)? {
        0x010b => ("PE32", 96),
        0x020b => ("PE32+", 112),
        _ => ("PE", 96),
    };
    let library = if flags & LIBRARY != 0 { " (DLL)" } else { "" };
    let subsystem = match u16_le(optional, 68) {
        Some(1) => " (native)",
        Some(2) => " (GUI)",
        Some(3) => " (console)",
        Some(10) => " (EFI application)",
        _ => "",
    };
    // The 15th directory is that of .NET.
    let managed = u32_le(optional, directories + 14 * 8).is_some_and(|place| place != 0);
    let managed = if managed { " Mono/.Net assembly" } else { "" };
    let stripped = if flags & STRIPPED != 0 { " (stripped to external PDB)" } else { "" };
    let table = coff.get(20 + usize::from(u16_le(coff, 16)?)..).unwrap_or_default();
    let packed = if table.starts_with(b"UPX0") { ", UPX compressed" } else { "" };
    let sections = match u16_le(coff, 2)? {
        0 => String::new(),
        count => format!(", {count} sections"),
    };
    Some(format!(
        "{kind} executable{library}{subsystem} {machine}{stripped}{managed}, for MS Windows{packed}\
         {sections}"
    ))
}

fn elf(bytes: &[u8]) -> Option<String> {
    let [class, order, version] = at(bytes, 4)?;
    let bits = if class == 2 { "64-bit" } else { "32-bit" };
    let is_little = order == 1;
    let number = |place| {
        let pair: [u8; 2] = at(bytes, place)?;
        Some(if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) })
    };
    let kind = match number(16)? {
        1 => "relocatable",
        2 => "executable",
        3 => "shared object",
        4 => "core file",
        _ => "no file type",
    };
    let machine = match number(18)? {
        3 => "Intel 80386",
        8 => "MIPS",
        20 => "PowerPC or cisco 4500",
        40 => "ARM",
        42 => "Renesas SH",
        62 => "x86-64",
        183 => "ARM aarch64",
        243 => "UCB RISC-V",
        _ => "unknown arch",
    };
    let order = if is_little { "LSB" } else { "MSB" };
    Some(format!("ELF {bits} {order} {kind}, {machine}, version {version}"))
}
