//! Goal: dynamic, static, scripts, and what is none of these.
use super::*;

fn header(kind: u32) -> Vec<u8> {
    let mut head = vec![0; 64 + 56];
    head[..6].copy_from_slice(b"\x7fELF\x02\x01");
    head[32] = 64;
    head[54] = 56;
    head[56] = 1;
    head[64..68].copy_from_slice(&kind.to_le_bytes());
    head
}

#[test]
fn what_a_header_says() {
    assert_eq!(linked_at_start(&header(PT_INTERP)), Some(true));
    assert_eq!(linked_at_start(&header(1)), Some(false));
    assert_eq!(linked_at_start(&header(1)[..60]), Some(false));
    assert_eq!(linked_at_start(b"text"), None);
    let mut far = header(PT_INTERP);
    far[32..40].copy_from_slice(&[0xff; 8]);
    assert_eq!(linked_at_start(&far), Some(false));
}

#[test]
fn files() {
    let folder = std::env::temp_dir().join(format!("ms-program-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut go = header(PT_INTERP);
    go.extend_from_slice(b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0number");
    assert_eq!(Program::of(&write("go", &go)), Program::OwnCalls);
    assert_eq!(Program::of(&write("narrow", b"\x7fELF\x01\x01")), Program::Narrow);
    let fixed = write("fixed", &header(1));
    let script = write("script", format!("#! {} -x\n", fixed.display()).as_bytes());
    assert_eq!((Program::of(&fixed), Program::of(&script)), (Program::Static, Program::Static));
    assert_eq!(Program::of(&write("text", b"hello")), Program::Unknown);
    assert_eq!(Program::of(&find(OsStr::new("sh")).unwrap()), Program::Dynamic);
    assert!(find(OsStr::new("no such program")).is_none());
    std::fs::remove_dir_all(folder).unwrap();
}
