//! Goal: what is told is what was set, and an interface that is not there is an error that names others.
use super::*;
use crate::tests::testnet::{addr, cable, own_namespace};

#[test]
fn tells_what_was_set() {
    if !own_namespace() {
        return;
    }
    let (index, _there) = cable("look0", "look1", 31);
    let seen = inspect("look0").expect("it is there");
    assert_eq!((seen.index, seen.driver.as_str(), seen.mtu), (index, "veth", 1500));
    assert!(seen.ethernet && seen.up && seen.running && !seen.loopback);
    assert!(seen.addresses.contains(&(addr("10.31.0.1"), 24)), "{seen:?}");
    assert!(seen.neighbours.iter().any(|(at, _)| *at == addr("10.31.0.2")), "{seen:?}");
    assert!(seen.routes.iter().any(|route| route.dst == addr("10.31.0.0")), "{seen:?}");
    assert_eq!(
        seen.offloads.iter().find(|(name, _)| *name == "tx-checksumming"),
        Some(&("tx-checksumming", Some(true)))
    );
    netlink::set_link(index, false, None).expect("it goes down");
    let seen = inspect("look0").expect("it is there");
    assert!(!seen.up && !seen.running);
    let lo = inspect("lo").expect("it is there");
    assert!(lo.loopback && !lo.ethernet);
}

#[test]
fn an_interface_that_went_away_is_told_by_name() {
    if !own_namespace() {
        return;
    }
    let (index, _there) = cable("gone0", "gone1", 32);
    // Dropped it would take the cable with it.
    let (_, _elsewhere) = cable("apart0", "apart1", 33);
    let told = inspect("gnoe0").expect_err("there is none").to_string();
    assert!(told.contains("no interface 'gnoe0'; there are: gone0, apart0"), "{told}");
    netlink::delete_link(index).expect("it goes");
    let error = inspect("gone0").expect_err("it went");
    assert!(matches!(error, OpenError::NoInterface { .. }), "{error}");
}

#[test]
fn capabilities_have_names() {
    assert!(missing_capabilities("shm:/tmp/x").expect("a link").is_empty());
    missing_capabilities("pigeon:1").expect_err("no link");
    let lacking = capabilities().into_iter().filter(|(name, has)| !has && *name != "CAP_IPC_LOCK");
    let lacking: Vec<_> = lacking.map(|(name, _)| name).collect();
    assert_eq!(missing_capabilities("nic:eth0").expect("a link"), lacking);
}
