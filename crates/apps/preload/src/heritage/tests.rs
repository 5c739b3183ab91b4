//! Goal: what is written is read again, and what is not of this library's making is refused.
use super::*;

#[test]
fn records_survive_the_environment() {
    let listener = Record {
        inode: 71,
        kind: Kind::Listener,
        v6: true,
        nonblocking: true,
        fastened: true,
        serves: true,
        backlog: -1,
        stored_options: vec![StoredOption { level: 6, name: 9, value: vec![1, 0, 0, 0xff] }],
        relayed: None,
        names: None,
    };
    let relayed = Record {
        inode: u64::from(u32::MAX),
        kind: Kind::Relayed,
        v6: false,
        nonblocking: false,
        fastened: false,
        serves: false,
        backlog: 0,
        stored_options: Vec::new(),
        relayed: Some(Relayed { handle: 0x7f12_3456_7890, channel: 900 }),
        names: Some((vec![2, 0, 9], vec![2, 0, 0xab])),
    };
    let mut text = String::new();
    for record in [&listener, &relayed] {
        record.write(&mut text);
    }
    let read: Vec<_> = text.split(';').filter_map(Record::read).collect();
    assert_eq!(read, [listener, relayed]);
    for bad in ["", "1,2", "1,9,0,0,0,0,,", "1,1,0,0,0,0,zz,", "x,1,0,0,0,0,,", "1,1,0,0,0,0,,,6.9.1"] {
        assert_eq!(Record::read(bad), None, "{bad}");
    }
}
