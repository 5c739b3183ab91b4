//! Goal: a slot takes what the MTU says, on both sides of each threshold; a card without interrupts by message is
//! known.
use super::*;

#[test]
fn slots_fit_the_mtu() {
    // SAFETY: all zero is a valid `Info`.
    let mut info: Info = unsafe { std::mem::zeroed() };
    (info.max_mtu, info.min_mtu) = (u16::MAX, 46);
    let edge = frames::room(SLOTS[0]) - LINK;
    assert!(edge >= 1500 && frames::room(SLOTS[0]) >= 2048, "cards count their buffers in KiB");
    assert_eq!((slot_for(1500, &info), slot_for(edge, &info)), (Ok(SLOTS[0]), Ok(SLOTS[0])));
    assert_eq!((slot_for(edge + 1, &info), slot_for(9000, &info)), (Ok(SLOTS[1]), Ok(SLOTS[1])));
    assert!(slot_for(67, &info).is_err() && slot_for(14_500, &info).is_err());
    info.max_mtu = 1500;
    assert!(slot_for(1501, &info).is_err_and(|why| why.contains("68 to 1500")));
    info.rx_room_min = 4096;
    assert_eq!(slot_for(1500, &info), Ok(SLOTS[1]));
}

#[test]
fn cards_without_messages_are_known() {
    let devices = std::env::temp_dir().join(format!("ms-dpdk-devices-{}", std::process::id()));
    // SAFETY: all zero is a valid `Info`.
    let mut info: Info = unsafe { std::mem::zeroed() };
    assert!(!lacks_messages(&devices, &info), "a device without a name");
    info.device[..12].copy_from_slice(b"0000:00:02.0");
    assert!(!lacks_messages(&devices, &info), "not on this bus");
    let messages = devices.join("0000:00:02.0/msi_irqs");
    std::fs::create_dir_all(devices.join("0000:00:02.0")).expect("a folder");
    assert!(lacks_messages(&devices, &info), "a card with a line");
    std::fs::create_dir(&messages).expect("a folder");
    assert!(lacks_messages(&devices, &info), "a card that got none");
    std::fs::write(messages.join("27"), "msix\n").expect("a file");
    assert!(!lacks_messages(&devices, &info), "a card that has one");
    std::fs::remove_dir_all(&devices).expect("ours");
}
