//! Structured exception handling of Windows for 32 bits: packers jump by faults that they make on
//! purpose, to lead debuggers astray.

use super::machine::{EAX, EBP, EBX, ECX, EDI, EDX, ESI, ESP, Machine, STEP};
use super::trap::{ACCESS_VIOLATION, Trap};

/// Where a handler returns to.
pub(super) const HANDLER_RETURNS: u32 = 0x7bff_0000;
/// The end of the chain of handlers.
const NO_HANDLER: u32 = u32::MAX;
/// Exceptions of one program.
const EXCEPTIONS_MAX: u32 = 65_536;
/// Exceptions inside of handlers.
const NESTED_MAX: usize = 16;
/// Bytes of EXCEPTION_RECORD and CONTEXT.
const RECORD_BYTES: u32 = 80;
const CONTEXT_BYTES: u32 = 0x2cc;
/// Offsets of registers in CONTEXT, with their numbers.
const CONTEXT: [(u32, usize); 8] = [
    (0x9c, EDI),
    (0xa0, ESI),
    (0xa4, EBX),
    (0xa8, EDX),
    (0xac, ECX),
    (0xb0, EAX),
    (0xb4, EBP),
    (0xc4, ESP),
];
const CONTEXT_IP: u32 = 0xb8;
const CONTEXT_FLAGS: u32 = 0xc0;
/// All parts of the context are there.
const CONTEXT_FULL: u32 = 0x0001_003f;

/// Exceptions that are being handled.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    /// The frame of the handler that runs, and its record and context.
    pending: Vec<(u32, u32, u32)>,
    count: u32,
}

impl Exceptions {
    /// Hands an exception to the program's first handler.
    pub(super) fn raise(
        &mut self,
        machine: &mut Machine,
        code: u32,
        address: u32,
    ) -> Result<(), Trap> {
        self.count += 1;
        if self.count > EXCEPTIONS_MAX {
            return Err(Trap::Over);
        }
        // Handlers that never return leave theirs.
        if self.pending.len() >= NESTED_MAX {
            self.pending.remove(0);
        }
        let stack = machine.regs[ESP];
        let context = stack.wrapping_sub(CONTEXT_BYTES) & !15;
        let record = context.wrapping_sub(RECORD_BYTES);
        for offset in (0..CONTEXT_BYTES).step_by(4) {
            machine.memory.write(context.wrapping_add(offset), 32, 0)?;
        }
        let parameters = if code == ACCESS_VIOLATION { 2 } else { 0 };
        for (offset, value) in
            [(0, code), (4, 0), (8, 0), (12, machine.ip), (16, parameters), (20, 0), (24, address)]
        {
            machine.memory.write(record.wrapping_add(offset), 32, value)?;
        }
        machine.memory.write(context, 32, CONTEXT_FULL)?;
        for (offset, register) in CONTEXT {
            let value = machine.regs[register];
            machine.memory.write(context.wrapping_add(offset), 32, value)?;
        }
        machine.memory.write(context.wrapping_add(CONTEXT_IP), 32, machine.ip)?;
        machine.memory.write(context.wrapping_add(CONTEXT_FLAGS), 32, machine.flags)?;
        let frame = machine.memory.read(machine.thread_block, 32)?;
        self.call(machine, frame, record, context)
    }

    fn call(
        &mut self,
        machine: &mut Machine,
        frame: u32,
        record: u32,
        context: u32,
    ) -> Result<(), Trap> {
        if frame == NO_HANDLER {
            return Err(Trap::Over);
        }
        let handler = machine.memory.read(frame.wrapping_add(4), 32)?;
        machine.regs[ESP] = record;
        for value in [0, context, frame, record, HANDLER_RETURNS] {
            machine.push(value, 32)?;
        }
        machine.set_flag(STEP, false);
        machine.ip = handler;
        self.pending.push((frame, record, context));
        Ok(())
    }

    /// What a handler has answered: go on where the context says, or ask the next one.
    pub(super) fn returned(&mut self, machine: &mut Machine) -> Result<(), Trap> {
        let Some((frame, record, context)) = self.pending.pop() else { return Err(Trap::Over) };
        if machine.regs[EAX] == 0 {
            for (offset, register) in CONTEXT {
                machine.regs[register] = machine.memory.read(context.wrapping_add(offset), 32)?;
            }
            machine.ip = machine.memory.read(context.wrapping_add(CONTEXT_IP), 32)?;
            let flags = machine.memory.read(context.wrapping_add(CONTEXT_FLAGS), 32)?;
            machine.set_flags(flags);
            return Ok(());
        }
        let next = machine.memory.read(frame, 32)?;
        self.call(machine, next, record, context)
    }
}
