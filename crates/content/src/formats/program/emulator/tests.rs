use crate::PropertyKind;
use crate::formats::program::testing::{CODE_AT, program};
use crate::formats::testing::{nasty, paths, tree};

/// Puts code behind a jump and 1,024 bytes of a file that is masked by 0x5a.
fn packed(file: &[u8], code: &[u8]) -> Vec<u8> {
    let mut body = vec![0xe9, 0, 4, 0, 0];
    let mut masked: Vec<u8> = file.iter().map(|byte| byte ^ 0x5a).collect();
    masked.resize(0x400, 0x5a);
    body.extend(masked);
    body.extend(code);
    program(&body, true)
}

/// `mov esi, x; mov ecx, 0x400`; the loop `xor byte [esi], 0x5a; inc esi; loop`; then a jump there.
fn unmask() -> Vec<u8> {
    let at = CODE_AT + 5;
    let mut code = vec![0xbe];
    code.extend(at.to_le_bytes());
    code.extend([0xb9, 0, 4, 0, 0]);
    code.extend([0x80, 0x36, 0x5a, 0x46, 0xe2, 0xfa]);
    code
}

#[test]
fn a_program_unpacks_itself_and_what_it_held_is_found() {
    let inner = program(&[0xc3; 0x200], false);
    let whole = packed(&inner, &unmask());
    let found = tree(&whole, "a.exe");
    let carved = found.objects.iter().find(|o| o.path.starts_with("a.exe/unpacked.exe/carved-at-"));
    let same = tree(&inner, "inner").objects[0].sha256.clone();
    assert_eq!(carved.map(|o| &o.sha256), Some(&same), "{:?}", paths(&found));
    assert!(found.objects[0].has(PropertyKind::PackedProgram));
    assert!(found.objects.iter().all(|o| o.defects.is_empty()));
    nasty(&whole, "a.exe");
}

#[test]
fn what_does_not_write_itself_is_left_alone() {
    let found = tree(&program(&unmask(), false), "a.exe");
    assert_eq!(paths(&found), ["a.exe"], "its code cannot be written");
    let found = tree(&program(&[0xc3], true), "a.exe");
    assert_eq!(paths(&found), ["a.exe"], "it returns at once");
}

#[test]
fn code_behind_a_fault_is_reached_by_the_handler() {
    let start = CODE_AT + 0x405;
    let handler_at = start + 23;
    let unpacks_at = handler_at + 17;
    // push handler; push fs:[0]; mov fs:[0], esp; xor eax, eax; mov [eax], eax.
    let mut code = vec![0x68];
    code.extend(handler_at.to_le_bytes());
    code.extend([0x64, 0xff, 0x35, 0, 0, 0, 0, 0x64, 0x89, 0x25, 0, 0, 0, 0]);
    code.extend([0x31, 0xc0, 0x89, 0x00]);
    // mov eax, [esp+12]; mov dword [eax+0xb8], unpacks_at; xor eax, eax; ret.
    code.extend([0x8b, 0x44, 0x24, 0x0c, 0xc7, 0x80, 0xb8, 0, 0, 0]);
    code.extend(unpacks_at.to_le_bytes());
    code.extend([0x31, 0xc0, 0xc3]);
    code.extend(unmask());
    // An instruction that is not known: another fault would unpack once more.
    code.push(0x62);
    let inner = program(&[0xc3; 0x200], false);
    let found = tree(&packed(&inner, &code), "a.exe");
    assert!(paths(&found).iter().any(|path| path.contains("carved-at-")), "{:?}", paths(&found));
}

#[test]
fn endless_programs_end_with_the_instructions_of_the_request() {
    // inc dword [x]; jmp back: writes for ever.
    let mut code = vec![0xff, 0x05];
    code.extend((CODE_AT + 0x100).to_le_bytes());
    code.extend([0xeb, 0xf8]);
    let whole = program(&code, true);
    let found = tree(&whole, "a.exe");
    assert!(paths(&found).contains(&"a.exe/unpacked.exe"), "{:?}", paths(&found));
    // A repetition over all addresses: std; mov ecx, -1; rep stosb.
    let found = tree(&program(&[0xfd, 0x31, 0xc9, 0x49, 0xf3, 0xaa], true), "a.exe");
    assert_eq!(paths(&found), ["a.exe"]);
}
