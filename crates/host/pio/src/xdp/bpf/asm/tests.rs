//! Goal: instructions have the bytes the specification gives, and labels resolve both to near and far.
use super::*;
use Reg::*;

fn bytes(insns: &[Insn]) -> Vec<[u8; 8]> {
    // SAFETY: `Insn` is eight bytes without padding.
    insns.iter().map(|i| unsafe { core::mem::transmute::<Insn, [u8; 8]>(*i) }).collect()
}

#[test]
fn encodings() {
    let mut asm = Asm::default();
    asm.mov(R6, R1);
    asm.mov(R0, -2);
    asm.alu(Alu::And, R3, 0xf0);
    asm.load(Size::W, R7, R1, 4);
    asm.load(Size::B, R3, R7, -1);
    asm.store(Size::DW, R10, -8, R3);
    asm.store(Size::H, R10, -10, 7);
    asm.load_map(R1, 5);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let expected: [[u8; 8]; 11] = [
        [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
        [0xb7, 0x00, 0, 0, 0xfe, 0xff, 0xff, 0xff],
        [0x57, 0x03, 0, 0, 0xf0, 0, 0, 0],
        [0x61, 0x17, 4, 0, 0, 0, 0, 0],
        [0x71, 0x73, 0xff, 0xff, 0, 0, 0, 0],
        [0x7b, 0x3a, 0xf8, 0xff, 0, 0, 0, 0],
        [0x6a, 0x0a, 0xf6, 0xff, 7, 0, 0, 0],
        [0x18, 0x11, 0, 0, 5, 0, 0, 0],
        [0; 8],
        [0x85, 0x00, 0, 0, 51, 0, 0, 0],
        [0x95, 0x00, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes(&asm.finish()), expected);
}

#[test]
fn labels() {
    let mut asm = Asm::default();
    let (end, next) = (asm.label(), asm.label());
    asm.jump_if(Cond::Eq, R1, 9, end);
    asm.jump(next);
    asm.bind(next);
    asm.jump_if(Cond::Gt, R2, R8, end);
    asm.mov(R0, 2);
    asm.bind(end);
    asm.exit();
    let expected: [[u8; 8]; 5] = [
        [0x15, 0x01, 3, 0, 9, 0, 0, 0],
        [0x05, 0x00, 0, 0, 0, 0, 0, 0],
        [0x2d, 0x82, 1, 0, 0, 0, 0, 0],
        [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
        [0x95, 0x00, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes(&asm.finish()), expected);
}

#[test]
#[should_panic(expected = "never bound")]
fn a_forgotten_label_is_found() {
    let mut asm = Asm::default();
    let nowhere = asm.label();
    asm.jump(nowhere);
    asm.finish();
}
