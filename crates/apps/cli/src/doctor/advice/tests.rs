//! Goal: each piece of advice comes where it helps, and nowhere else.
use super::super::machine::Machine;
use super::super::selftest::Choice;
use super::*;
use pio::netlink::XdpFeatures;

fn seen() -> Inspection {
    Inspection {
        name: "card0".into(),
        index: 7,
        driver: "virtio_net".into(),
        mac: [2; 6],
        mtu: 1500,
        ethernet: true,
        loopback: false,
        up: true,
        running: true,
        queues: 1,
        queues_max: Some(1),
        features: Some(XdpFeatures { xdp: 3, ..XdpFeatures::default() }),
        offloads: vec![("rx-checksumming", Some(true)), ("large-receive-offload", Some(false))],
        xdp_holders: Vec::new(),
        addresses: vec![(base::Addr::v4([10, 0, 0, 2]), 24)],
        routes: Vec::new(),
        neighbours: Vec::new(),
    }
}

/// A link that needs no rights, so that the tests say the same in every place.
fn report(native: Option<bool>) -> Report {
    let machine =
        Machine { kernel: "6.12.1".into(), merges: "madvise".into(), processors: 4, ..Machine::default() };
    let choice = Some(Choice { native, ..Choice::default() });
    Report { link: "shm:x".into(), machine, choice, ..Report::default() }
}

fn commands(seen: &Inspection, report: &Report) -> Vec<String> {
    advice(seen, report, 1).into_iter().map(|advice| advice.command.unwrap_or_default()).collect()
}

#[test]
fn nothing_is_said_where_all_is_well() {
    assert!(commands(&seen(), &report(Some(true))).is_empty());
}

#[test]
fn each_fault_has_its_command() {
    let one = |change: &dyn Fn(&mut Inspection), native, command: &str| {
        let mut seen = seen();
        change(&mut seen);
        let said = commands(&seen, &report(native));
        assert_eq!(said, [command], "{seen:?}");
    };
    one(&|seen| seen.up = false, Some(true), "sudo ip link set card0 up");
    one(&|seen| seen.addresses.clear(), Some(true), "sudo ip addr add 192.0.2.10/24 dev card0");
    one(&|seen| seen.queues_max = Some(8), Some(true), "sudo ethtool -L card0 combined 4");
    one(&|seen| seen.offloads[1].1 = Some(true), Some(false), "sudo ethtool -K card0 lro off");
    one(&|seen| seen.mtu = 9000, Some(false), "sudo ip link set card0 mtu 1500");
    one(&|seen| seen.offloads[0].1 = Some(false), Some(true), "sudo ethtool -K card0 rx on");
    one(&|seen| seen.xdp_holders.push("tool (pid 7)".into()), None, "");
    let why = |native| {
        let mut seen = seen();
        seen.queues_max = None;
        commands(&seen, &report(native))
    };
    assert!(why(Some(false))[0].ends_with(" serve --link xdp:card0,mode=native"), "{:?}", why(Some(false)));
    assert!(why(Some(true)).is_empty());
    let mut old = report(Some(true));
    old.machine.merges = "never".into();
    old.machine.lockable = Some(8 << 20);
    let said = commands(&seen(), &old);
    assert_eq!(
        said,
        [
            "sudo prlimit --pid $$ --memlock=unlimited",
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"
        ]
    );
    // The same card with the program in the driver lacks nothing of these.
    let mut large = seen();
    large.mtu = 9000;
    assert!(commands(&large, &report(Some(true))).is_empty());
}
