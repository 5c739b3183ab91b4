//! Goal: every flag is read, what is not understood is told, and what is missing is as usual.
use super::*;

#[test]
fn every_flag() {
    let (flags, complaints) = Flags::read(
        "local_ip=10.1.2.3,remote_ip=10.9.9.9/24,gateway=10.1.0.9,prefix=8,mtu=9000,profile=freebsd,\
             sysctl_file=/tmp/x,segments=whole,mss=1000",
    );
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(flags.addresses[0], OwnAddr { addr: address("10.1.2.3").unwrap(), prefix: 8 });
    assert_eq!(flags.addresses[1].prefix, 48, "the other family as usual");
    assert_eq!(flags.gateways[0], address("10.1.0.9").unwrap());
    assert!(flags.has(address("10.1.2.3").unwrap()) && !flags.has(address("10.1.2.4").unwrap()));
    let families = ["10.1.2.4", "fd00::1"].map(|addr| flags.names_family(address(addr).unwrap()));
    assert_eq!(families, [true, false], "bind may choose the address of the other one");
    assert_eq!(Flags::read("profile=default").0.profile, Profile::Production);
    assert_eq!((flags.mtu, flags.profile), (9_000, Profile::Freebsd));
    assert_eq!((flags.whole_segments, flags.mss), (true, Some(1_000)));
    assert_eq!(flags.sysctl_file.as_deref(), Some("/tmp/x".as_ref()));
    assert_eq!(flags.own(address("10.7.7.7").unwrap()).prefix, 8);
}

#[test]
fn later_ones_win() {
    let (flags, _) = Flags::read("local_ip=10.1.2.3,mtu=9000,local_ip=fd00::1,local_ip=10.4.5.6,mtu=1400");
    let addresses: Vec<_> = flags.addresses.iter().map(|own| own.addr).collect();
    assert_eq!(addresses, [address("fd00::1").unwrap(), address("10.4.5.6").unwrap()]);
    assert_eq!(flags.mtu, 1_400);
}

#[test]
fn none_at_all() {
    let (flags, complaints) = Flags::read("");
    assert!(complaints.is_empty());
    assert_eq!((flags.addresses.len(), flags.gateways.len(), flags.mtu), (2, 2, 1_500));
    assert_eq!(flags.profile, Profile::Linux);
}

#[test]
fn what_is_not_understood_is_told() {
    let text = "local_ip=x,colour=red,mtu=67,mtu=65536,profile=plan9,prefix=129,\
            sysctl_file=,segments=many,mss=0,alone";
    let (flags, complaints) = Flags::read(text);
    assert_eq!(complaints.len(), 10, "{complaints:?}");
    assert_eq!(flags, Flags::read("").0);
    let (_, complaints) = Flags::read("local_ip=fd00::1,remote_ip=10.0.0.1");
    assert_eq!(complaints.len(), 1);
}
