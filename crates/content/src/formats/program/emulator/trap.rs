//! Why an instruction does not lead to the next one.

/// What ends or interrupts an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trap {
    /// What Windows would hand to the program's own handlers.
    Exception {
        /// Code of the exception, such as STATUS_ACCESS_VIOLATION.
        code: u32,
        /// The address that could not be read or written.
        address: u32,
    },
    /// Nothing here knows what would happen.
    Unknown,
    /// The program ends, or has taken all that it may.
    Over,
}

pub(super) const ACCESS_VIOLATION: u32 = 0xc000_0005;
pub(super) const BREAKPOINT: u32 = 0x8000_0003;
pub(super) const SINGLE_STEP: u32 = 0x8000_0004;
pub(super) const ILLEGAL_INSTRUCTION: u32 = 0xc000_001d;
pub(super) const DIVIDE_BY_ZERO: u32 = 0xc000_0094;
pub(super) const INTEGER_OVERFLOW: u32 = 0xc000_0095;
pub(super) const PRIVILEGED: u32 = 0xc000_0096;

pub(super) fn access_violation(address: u32) -> Trap {
    Trap::Exception { code: ACCESS_VIOLATION, address }
}

pub(super) fn exception(code: u32) -> Trap {
    Trap::Exception { code, address: 0 }
}
