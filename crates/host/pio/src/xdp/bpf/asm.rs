//! A small assembler: typed instructions and labels in, a program out.

use super::insn::{Alu, Cond, Helper, Insn, Operand, Reg, Size};

/// A place in a program, to be bound once and jumped to from anywhere before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A program that grows.
#[derive(Default)]
pub(crate) struct Asm {
    insns: Vec<Insn>,
    /// Where each label was bound.
    labels: Vec<Option<usize>>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// A place that will be bound later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The next instruction is what `label` means. Panics if the label was bound before.
    pub(crate) fn bind(&mut self, label: Label) {
        let place = self.labels[label.0].replace(self.insns.len());
        assert!(place.is_none(), "label bound twice");
    }

    /// `dst = operand`.
    pub(crate) fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Mov, dst, operand);
    }

    /// `dst = dst op operand`.
    pub(crate) fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        self.insns.push(Insn::alu(op, dst, operand.into()));
    }

    /// `dst = base[offset]`, zero-extended.
    pub(crate) fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        self.insns.push(Insn::load(size, dst, base, offset));
    }

    /// `base[offset] = value`.
    pub(crate) fn store(&mut self, size: Size, base: Reg, offset: i16, value: impl Into<Operand>) {
        self.insns.push(Insn::store(size, base, offset, value.into()));
    }

    /// `dst = the map behind fd`.
    pub(crate) fn load_map(&mut self, dst: Reg, fd: i32) {
        self.insns.extend(Insn::load_map(dst, fd));
    }

    /// Go on at `label`.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(Insn::jump());
    }

    /// Go on at `label` if `reg` and `operand` compare so.
    pub(crate) fn jump_if(&mut self, cond: Cond, reg: Reg, operand: impl Into<Operand>, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(Insn::jump_if(cond, reg, operand.into()));
    }

    /// Call the kernel: arguments in R1 to R5, answer in R0.
    pub(crate) fn call(&mut self, helper: Helper) {
        self.insns.push(Insn::call(helper));
    }

    /// Return R0.
    pub(crate) fn exit(&mut self) {
        self.insns.push(Insn::exit());
    }

    /// The finished program. Panics on a label that was never bound or lies too far: programs are built from
    /// constants, so this shows in the first test that builds one.
    pub(crate) fn finish(mut self) -> Vec<Insn> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("label never bound");
            let distance = to as isize - (from as isize + 1);
            self.insns[from].set_offset(i16::try_from(distance).expect("jump too far"));
        }
        self.insns
    }
}

#[cfg(test)]
mod tests {
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
}
