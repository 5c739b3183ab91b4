//! A small assembler: typed instructions and labels in, a program out.

use super::insn::*;

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
        self.insns.push(Insn::with_operand(op as u8 | CLASS_ALU64, dst, operand.into(), 0));
    }

    /// `dst = base[offset]`, zero-extended.
    pub(crate) fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        let code = size.bits() | MODE_MEM | CLASS_LDX;
        self.insns.push(Insn::new(code, dst as u8, base as u8, offset, 0));
    }

    /// `base[offset] = value`.
    pub(crate) fn store(&mut self, size: Size, base: Reg, offset: i16, value: impl Into<Operand>) {
        let code = size.bits() | MODE_MEM;
        self.insns.push(match value.into() {
            Operand::Reg(src) => Insn::new(code | CLASS_STX, base as u8, src as u8, offset, 0),
            Operand::Imm(imm) => Insn::new(code | CLASS_ST, base as u8, 0, offset, imm),
        });
    }

    /// `dst = the map behind fd`: a 64-bit load, which takes two instructions.
    pub(crate) fn load_map(&mut self, dst: Reg, fd: i32) {
        let code = Size::DW.bits() | CLASS_LD;
        self.insns.extend([Insn::new(code, dst as u8, PSEUDO_MAP_FD, 0, fd), Insn::default()]);
    }

    /// Go on at `label`.
    pub(crate) fn jump(&mut self, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(Insn::new(CLASS_JMP, 0, 0, 0, 0));
    }

    /// Go on at `label` if `reg` and `operand` compare so.
    pub(crate) fn jump_if(&mut self, cond: Cond, reg: Reg, operand: impl Into<Operand>, label: Label) {
        self.jumps.push((self.insns.len(), label));
        self.insns.push(Insn::with_operand(cond as u8 | CLASS_JMP, reg, operand.into(), 0));
    }

    /// Call the kernel: arguments in R1 to R5, answer in R0.
    pub(crate) fn call(&mut self, helper: Helper) {
        self.insns.push(Insn::new(CALL | CLASS_JMP, 0, 0, 0, helper as i32));
    }

    /// Return R0.
    pub(crate) fn exit(&mut self) {
        self.insns.push(Insn::new(EXIT | CLASS_JMP, 0, 0, 0, 0));
    }

    /// The finished program. Panics on a label that was never bound or lies too far: programs are built from
    /// constants, so this shows in the first test that builds one.
    pub(crate) fn finish(mut self) -> Vec<Insn> {
        for (from, label) in self.jumps {
            let to = self.labels[label.0].expect("label never bound");
            let distance = to as isize - (from as isize + 1);
            self.insns[from].offset = i16::try_from(distance).expect("jump too far");
        }
        self.insns
    }
}

#[cfg(test)]
mod tests;
