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
mod tests;
