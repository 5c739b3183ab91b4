//! Goal: the header is the table, byte for byte: a C compiler agrees with every size, offset and number that the Rust
//! side has, and each field has its comment.

use policy::abi;
use std::fmt::Write;
use std::process::Command;

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

#[test]
fn a_c_compiler_agrees_with_every_offset_and_number() {
    let mut source = String::from("#include \"millstream_cc.h\"\n");
    let mut claim = |claim: String| writeln!(source, "_Static_assert({claim}, \"{claim}\");").unwrap();
    for (name, size, fields) in abi::LAYOUT {
        claim(format!("sizeof(struct {name}) == {size}"));
        for (field, offset) in *fields {
            claim(format!("offsetof(struct {name}, {field}) == {offset}"));
        }
    }
    for (name, number) in [
        ("ABI", abi::ABI),
        ("NO_SSTHRESH", abi::NO_SSTHRESH),
        ("WINDOW_LIMITED", abi::WINDOW_LIMITED),
        ("IN_RECOVERY", abi::IN_RECOVERY),
        ("PACED", abi::PACED),
        ("LOSS", abi::LOSS),
        ("ECN", abi::ECN),
        ("TIMEOUT", abi::TIMEOUT),
        ("NEEDS_PACING", abi::NEEDS_PACING),
        ("NEEDS_RATES", abi::NEEDS_RATES),
        ("NEEDS_UNMETERED", abi::NEEDS_UNMETERED),
        ("NEEDS_ECHOES", abi::NEEDS_ECHOES),
        ("NEEDS_LOSSES_AFTER_MARKS", abi::NEEDS_LOSSES_AFTER_MARKS),
    ] {
        claim(format!("MILLSTREAM_CC_{name} == {number}u"));
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    std::fs::write(&file, source).unwrap();
    for (compiler, language) in [("cc", "-std=c11"), ("c++", "-std=c++17")] {
        let mut command = Command::new(compiler);
        command.args([language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", INCLUDE, "-x"]);
        if compiler == "cc" {
            command.arg("c").arg(&file);
        } else {
            // C++ has no _Static_assert; it must read the header.
            command.arg("c++").arg(format!("{INCLUDE}/millstream_cc.h"));
        }
        let output = command.output().unwrap_or_else(|e| panic!("{compiler}: {e}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_header_has_a_comment_at_every_field_and_no_field_that_the_table_lacks() {
    let header = std::fs::read_to_string(format!("{INCLUDE}/millstream_cc.h")).unwrap();
    for (name, _, fields) in abi::LAYOUT {
        let start = header.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("no struct {name}"));
        let body = &header[start..start + header[start..].find("\n};").unwrap()];
        // A hook's own parameters end with a comma or a parenthesis.
        let declared =
            body.lines().filter(|line| line.contains(';') && !line.trim().starts_with("/*")).count();
        assert_eq!(declared, fields.len(), "{name} has as many fields in C");
        let commented = body.matches("/*").count();
        let shared = if *name == "millstream_cc" { 3 } else { 0 };
        assert!(
            commented + shared >= fields.len(),
            "{name}: {commented} comments for {} fields",
            fields.len()
        );
    }
    for limit in ["65536 at most", "4096 at most", "64 at most", "1 to 15 lower-case"] {
        assert!(header.contains(limit), "{limit}");
    }
    assert_eq!((abi::STATE_MAX, abi::ALIGN_MAX, abi::TUNABLES_MAX, abi::NAME_MAX), (65_536, 4_096, 64, 15));
}
