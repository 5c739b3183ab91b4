//! Goal: the kernel's texts are read as they are meant.
use super::*;

#[test]
fn texts_of_the_kernel() {
    assert_eq!((chosen("always [madvise] never\n"), chosen("")), ("madvise", ""));
    let text =
        "MemTotal: 5 kB\nHugePages_Total:      64\nHugePages_Free:       60\nHugePages_Rsvd:        0\n";
    assert_eq!(huge_pages(text), (60, 64));
    assert_eq!(huge_pages(""), (0, 0));
    let of = |kernel: &str| Machine { kernel: kernel.into(), ..Machine::default() }.version();
    assert_eq!((of("6.12.107+deb13-amd64"), of("7.0-rc1"), of("")), ((6, 12), (7, 0), (0, 0)));
    assert!(Machine::of_this().version() > (2, 6));
}
