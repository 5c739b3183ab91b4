//! One eBPF instruction as the kernel reads it (RFC 9669, section 3).

/// A register. R1 to R5 carry arguments and are lost by calls; R6 to R9 survive them; R10 is the frame
/// pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much a load or store moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    /// One byte.
    B,
    /// Two bytes.
    H,
    /// Four bytes.
    W,
    /// Eight bytes.
    DW,
}

impl Size {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Size::W => 0x00,
            Size::H => 0x08,
            Size::B => 0x10,
            Size::DW => 0x18,
        }
    }
}

/// 64-bit arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Alu {
    /// `dst += operand`.
    Add = 0x00,
    /// `dst |= operand`.
    Or = 0x40,
    /// `dst &= operand`.
    And = 0x50,
    /// `dst <<= operand`.
    Shl = 0x60,
    /// `dst >>= operand`, without sign.
    Shr = 0x70,
    /// `dst = operand`.
    Mov = 0xb0,
}

/// When a jump is taken; unsigned, on 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater.
    Gt = 0x20,
    /// Any of the operand's bits set.
    Set = 0x40,
    /// Not equal.
    Ne = 0x50,
}

/// The second operand: a register, or a number that is extended by its sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    /// A register.
    Reg(Reg),
    /// A number.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Operand::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Operand::Imm(imm)
    }
}

/// A function of the kernel that programs may call, by its number in `enum bpf_func_id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Helper {
    /// R1 map, R2 pointer to key; R0 pointer to value or null.
    MapLookup = 1,
    /// R0 = nanoseconds of CLOCK_MONOTONIC.
    KtimeGetNs = 5,
    /// R1 map, R2 index, R3 the action if nothing is there; R0 the action.
    RedirectMap = 51,
    /// R1 socket that a lookup gave.
    SkRelease = 86,
    /// R1 context, R2 pointer to tuple, R3 its size, R4 namespace (-1: the device's), R5 flags; R0 socket or
    /// null.
    SkcLookupTcp = 99,
}

pub(super) const CLASS_LD: u8 = 0x00;
pub(super) const CLASS_LDX: u8 = 0x01;
pub(super) const CLASS_ST: u8 = 0x02;
pub(super) const CLASS_STX: u8 = 0x03;
pub(super) const CLASS_JMP: u8 = 0x05;
pub(super) const CLASS_ALU64: u8 = 0x07;
pub(super) const MODE_MEM: u8 = 0x60;
const SOURCE_REG: u8 = 0x08;
pub(super) const CALL: u8 = 0x80;
pub(super) const EXIT: u8 = 0x90;
/// In the source register field of a 64-bit load: the number is a map's descriptor.
pub(super) const PSEUDO_MAP_FD: u8 = 1;

/// An instruction, eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub(crate) struct Insn {
    code: u8,
    /// Destination in the low half, source in the high one.
    regs: u8,
    pub(super) offset: i16,
    imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8);

impl Insn {
    pub(super) const fn new(code: u8, dst: u8, src: u8, offset: i16, imm: i32) -> Insn {
        Insn { code, regs: src << 4 | dst, offset, imm }
    }

    pub(super) fn with_operand(code: u8, dst: Reg, operand: Operand, offset: i16) -> Insn {
        match operand {
            Operand::Reg(src) => Insn::new(code | SOURCE_REG, dst as u8, src as u8, offset, 0),
            Operand::Imm(imm) => Insn::new(code, dst as u8, 0, offset, imm),
        }
    }
}
