//! Goal: whole hosts over DPDK's software devices: the kernel's clients fetch what our server serves, on many
//! connections, and bytes are those that were sent. Needs the feature `dpdk`, root, and libdpdk-dev.
#![cfg(feature = "dpdk")]

use bench::bed::{Bed, Server, sh};
use std::path::Path;
use std::time::Duration;

const MILLSTREAM: &str = env!("CARGO_BIN_EXE_millstream");
/// Not one that the bed's own interfaces have.
const OURS: &str = "10.79.0.1";
const KERNELS: &str = "10.79.0.2/24";

/// Eight at a time, 400 connections in all, each for a body of another length; then one of three million bytes.
const CLIENT: &str = "
import socket, sys, threading
pattern = bytes(33 + i % 89 for i in range(89)) * 40000
def fetch(n):
    s = socket.create_connection((sys.argv[1], 80), timeout=20)
    s.sendall(b'GET /%d HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' % n)
    got = b''.join(iter(lambda: s.recv(65536), b''))
    head, body = got.split(b'\\r\\n\\r\\n', 1)
    return head.startswith(b'HTTP/1.1 200') and body == pattern[:n]
good = []
def several(first):
    good.extend(fetch(1 + 97 * n) for n in range(first, 400, 8))
threads = [threading.Thread(target=several, args=(i,)) for i in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(sum(good), len(good), fetch(3_000_000))
";

/// Our server in the namespace `ns`, over a link that appears as the kernel's interface `iface` if that is said.
fn serve(bed: &Bed, ns: &str, link: &str, iface: Option<&str>) -> Server {
    let address = format!("{OURS}/24");
    let args = ["serve", "--link", link, "--address", &address];
    let server = bed.start(ns, Path::new(MILLSTREAM), &args).expect("it serves");
    if let Some(iface) = iface {
        sh("ip", &["-n", ns, "addr", "add", KERNELS, "dev", iface]).expect("an address");
        sh("ip", &["-n", ns, "link", "set", iface, "up"]).expect("comes up");
    }
    server
}

/// All that the kernel's clients in `ns` fetch.
fn fetch_all(bed: &Bed, ns: &str) {
    let said = bed.in_ns_within(ns, 60, "python3", &["-c", CLIENT, OURS]).expect("clients run");
    assert_eq!(said.trim(), "400 400 True");
}

#[test]
fn kernel_clients_over_a_tap() {
    let Some(bed) = Bed::if_root(true) else { return };
    for offload in ["on", "off"] {
        let link = format!("dpdk:net_tap0,iface=msd0,offload={offload}");
        let server = serve(&bed, &bed.client, &link, Some("msd0"));
        fetch_all(&bed, &bed.client);
        drop(server);
        // The interface goes with its program, a moment later.
        let gone = || sh("ip", &["-n", &bed.client, "link", "show", "msd0"]).is_err();
        let left = (0..500).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            !gone()
        });
        assert!(!left, "msd0 is left behind");
    }
}

#[test]
fn kernel_clients_over_a_cable() {
    let Some(bed) = Bed::if_root(false) else { return };
    // The driver takes frames as they travel: with their checksums.
    bed.in_ns(&bed.client, "ethtool", &["-K", "ms1", "tx", "off"]).expect("ethtool");
    sh("ip", &["-n", &bed.client, "addr", "add", KERNELS, "dev", "ms1"]).expect("an address");
    let _server = serve(&bed, &bed.server, "dpdk:net_af_packet0,iface=ms0", None);
    fetch_all(&bed, &bed.client);
}

/// Both ends are ours, in two programs, and the kernel is a bridge between them.
#[test]
fn load_from_one_of_ours_to_another() {
    let Some(bed) = Bed::if_root(false) else { return };
    let _server = serve(&bed, &bed.server, "dpdk:net_af_packet0,iface=ms0", None);
    let url = format!("http://{OURS}/1000");
    let client = ["load", "--link", "dpdk:net_af_packet1,iface=ms1", "--address", KERNELS];
    let args = [&client[..], &["-c", "16", "-s", "1", "--close", &url]].concat();
    let said = bed.in_ns_within(&bed.client, 60, MILLSTREAM, &args).expect("it loads");
    let requests = said.split_whitespace().next().and_then(|count| count.parse::<u32>().ok());
    assert!(requests.is_some_and(|count| count > 50) && said.contains(" 0 errors"), "{said}");
}
