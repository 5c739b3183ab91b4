//! Goal: whatever is written is either opened or refused with a reason that helps; every row of the table is
//! complete.

use super::kind::Ports;
use super::*;
use crate::netlink;
use crate::tests::testnet::{cable, own_namespace};
use base::Addr;
use base::Rng;

fn refusal(text: &str) -> String {
    open(text, 1).err().unwrap_or_else(|| panic!("{text} was opened")).to_string()
}

#[test]
fn refusals_help() {
    for (text, hint) in [
        ("eth0", "KIND:WHAT"),
        ("", "KIND:WHAT"),
        ("tap:", "nothing stands behind"),
        ("netmap:0", "xdp:IFACE, packet:IFACE, nic:IFACE, tap:NAME, shm:PATH, pcap:FILE"),
        ("tap:a,queue=2", "has no option 'queue'; it has queues, offload"),
        ("tap:a,fast", "name=value"),
        ("tap:a,queues=many", "queues is a number, not 'many'"),
        ("tap:a,queues=0", "from 1 to 256"),
        ("tap:a,offload=maybe", "offload is on or off, not 'maybe'"),
        ("tap:a,mac=1:2:3", "mac is a link-layer address"),
        ("tap:a,mac=01:00:00:00:00:00", "mac is a link-layer address"),
        ("tap:a,host=10.0.0.1/33", "host is an address such as"),
        ("tap:a,mtu=-1", "mtu is a number"),
        ("packet:x,rx=ring", "has no option 'rx'"),
        ("xdp:x,mode=hard", "native or generic"),
        ("pcap:/no/such/file", "missing"),
        ("pcap:x,speed=-1", "speed is from 0"),
        ("pcap:x,queues=2", "has no option 'queues'"),
        ("shm:/no/such/folder/x", "folder"),
        ("shm:x,mtu=9", "MTU"),
    ] {
        let said = refusal(text);
        assert!(said.contains(hint), "{text}: {said}");
    }
    #[cfg(not(feature = "dpdk"))]
    assert!(refusal("dpdk:0000:03:00.0").contains("--features dpdk"));
    let said = open("pcap:x", 2).err().expect("refused").to_string();
    assert!(said.contains("one queue"), "{said}");
}

#[test]
fn every_row_is_complete() {
    for (n, kind) in KINDS.iter().enumerate() {
        assert!(KINDS[..n].iter().all(|other| other.name != kind.name));
        for (n, option) in kind.options.iter().enumerate() {
            assert!(!kind.options[..n].contains(option));
        }
    }
}

#[test]
fn opens_each_kind() {
    if !own_namespace() {
        return;
    }
    let (_index, _far) = cable("ms-o0", "ms-o1", 9);
    let shm = std::env::temp_dir().join(format!("ms-open-{}", std::process::id()));
    let shm = shm.display();
    for (text, queues, expected) in [
        ("tap:ms-o2,queues=2,mtu=9000,mac=02:00:00:00:00:07,host=10.3.0.1/24,host=fd03::1/64".into(), 1, 2),
        ("packet:ms-o0,offload=off".into(), 2, 2),
        (format!("shm:{shm},mtu=9000"), 3, 3),
    ] {
        let ports: Ports = open(&text, queues).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(ports.len(), expected, "{text}");
        for (queue, port) in ports.iter().enumerate() {
            let caps = port.caps();
            assert_eq!((caps.queue, caps.queues), (queue as u16, expected as u16));
            assert!(text.starts_with(&caps.name), "{}", caps.name);
            assert_eq!(caps.mtu == 9000, text.contains("mtu=9000"));
        }
    }
    for kind in ["packet", "xdp", "nic"] {
        let said = refusal(&format!("{kind}:ms-o9"));
        assert!(said.contains("there are: ms-o0"), "{said}");
    }
}

#[test]
fn an_interface_that_is_taken_is_shared() {
    if !own_namespace() {
        return;
    }
    let (_index, _far) = cable("ms-o0", "ms-o1", 9);
    let name = |ports: &Ports| ports[0].caps().name.clone();
    let first = open("nic:ms-o0", 1).expect("AF_XDP");
    assert_eq!(name(&first), "xdp:ms-o0");
    let (second, third) = (open("nic:ms-o0", 1).expect("shared"), open("nic:ms-o0", 2).expect("shared"));
    assert_eq!((name(&second), name(&third)), ("packet:ms-o0".into(), "packet:ms-o0".into()));
    let said = refusal("xdp:ms-o0");
    assert!(said.contains(&format!("pid {}", std::process::id())) && said.contains("nic:ms-o0"), "{said}");
    // What remains keeps running, and who comes next has the fast way again.
    let said = refusal("nic:ms-o0,whole=on,share=3");
    assert!(said.contains("leave share away"), "{said}");
    drop(first);
    assert_eq!(name(&open("nic:ms-o0", 1).expect("AF_XDP again")), "xdp:ms-o0");
}

#[test]
fn any_text_is_refused_in_words() {
    let mut rng = Rng::new(6);
    let pieces = [
        "tap:", "pcap:", "xdp", ",", "=", "queues", "mac", "9", "-", ":", "host", "10.0.0.1", "/", "é", "\0",
    ];
    for _ in 0..5000 {
        let text: String =
            (0..rng.below(9)).map(|_| pieces[rng.below(pieces.len() as u64) as usize]).collect();
        fuzz(&text);
    }
}

#[test]
fn a_port_of_a_bridge_names_the_bridge() {
    if !own_namespace() {
        return;
    }
    let (index, _) = netlink::add_veth("ms-p0", "ms-p1", 1).expect("a cable");
    for words in ["link add ms-br type bridge", "link set ms-p0 master ms-br", "link set ms-p0 up"] {
        let done = std::process::Command::new("ip").args(words.split(' ')).status().expect("there is ip");
        assert!(done.success(), "ip {words}");
    }
    for link in ["nic:ms-p0", "xdp:ms-p0", "packet:ms-p0"] {
        let said = refusal(link);
        assert!(said.contains("belongs to 'ms-br'") && said.contains("use nic:ms-br"), "{link}: {said}");
    }
    // An end of a wire needs no addresses, and one in a VRF has its own.
    drop(open_wire("packet:ms-p0").expect("an end of a wire"));
    netlink::add_address(index, Addr::v4([10, 77, 0, 1]), 24).expect("an address");
    drop(open("packet:ms-p0", 1).expect("it has an address"));
}
