//! Goal: what the owner of the XDP program uses nothing else takes, while it lives, and the other way round.
use crate::tests::testnet::{addr, cable, own_namespace};
use crate::{ClaimError, PortClaim};

#[test]
fn authors_come_and_go_while_others_sweep() {
    if !own_namespace() {
        return;
    }
    std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| (0..2000).try_for_each(|_| super::sweep()));
        for ifindex in (900..910).cycle() {
            let outgoing = super::OutgoingPorts::new(ifindex).expect("notes");
            super::sweep().expect("sweeps");
            assert!(outgoing.path.exists(), "swept under its author");
            if sweeper.is_finished() {
                break;
            }
        }
        sweeper.join().expect("ends").expect("sweeps");
    });
}

#[test]
fn a_port_of_the_program_is_nobody_elses() {
    if !own_namespace() {
        return;
    }
    let (_index, _far) = cable("ms-l0", "ms-l1", 11);
    let open = || crate::open("nic:ms-l0", 1).expect("a port").remove(0);
    let (mut xdp, mut packet) = (open(), open());
    if !xdp.caps().name.starts_with("xdp") {
        return eprintln!("SKIPPED: no AF_XDP");
    }
    let leave =
        |port| PortClaim { addr: addr("0.0.0.0"), port, reuse_port: false, ephemeral: true, v6_only: true };
    let listen = |port| PortClaim { ephemeral: false, ..leave(port) };
    let in_use = |result| assert!(matches!(result, Err(ClaimError::InUse)), "{result:?}");
    xdp.claims().unwrap().claim(&leave(50_000)).expect("free");
    in_use(packet.claims().unwrap().claim(&leave(50_000)));
    in_use(packet.claims().unwrap().claim(&listen(50_000)));
    packet.claims().unwrap().claim(&leave(50_001)).expect("free");
    in_use(xdp.claims().unwrap().claim(&leave(50_001)));
    in_use(xdp.claims().unwrap().claim(&listen(50_001)));
    xdp.claims().unwrap().release(&leave(50_000));
    packet.claims().unwrap().claim(&leave(50_000)).expect("free again");
    xdp.claims().unwrap().claim(&leave(50_002)).expect("free");
    drop(xdp);
    packet.claims().unwrap().claim(&listen(50_002)).expect("its owner is gone");
}
