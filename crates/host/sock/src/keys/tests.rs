//! Goal: structs in Linux's layouts are read as what they say, what cannot be is refused, and typed calls say the same.
use super::*;
use tcp::auth::AoKeyReport;

fn peers(text: &str, prefix: u8) -> Peers {
    Peers { addr: text.parse::<std::net::IpAddr>().unwrap().into(), prefix }
}

fn secret() -> Secret {
    Secret::new(b"lobster").unwrap()
}

fn ao(prefix: Peers, ids: (u8, u8), name: &str) -> MasterKey {
    MasterKey::new(prefix, ids, secret(), sign::find(name).unwrap())
}

/// Writes a change and reads it again.
fn round(change: &KeyChange) -> Result<KeyChange, Errno> {
    let (name, value) = encode(change);
    match name {
        c::TCP_MD5SIG_EXT => read_md5(&value, true),
        c::TCP_AO_ADD_KEY => read_add(&value),
        c::TCP_AO_DEL_KEY => read_del(&value),
        _ => read_info(&value),
    }
}

#[test]
fn typed_changes_survive_the_layouts() {
    let choice = Choice { current: Some(3), next: Some(4) };
    let settings = AoSettings {
        choice,
        ao_required: true,
        accept_icmps: true,
        counts: Some(AoCounts { good: 1, bad: 2, key_not_found: 3, required: 4, dropped_icmp: 5 }),
    };
    let excluding = MasterKey {
        covers_options: false,
        mac_len: 16,
        ..ao(peers("2001:db8::", 32), (1, 2), "cmac(aes128)")
    };
    for change in [
        md5(peers("10.0.0.0", 8), secret()),
        md5(peers("2001:db8::1", 128), secret()),
        KeyChange::RemoveMd5(peers("10.0.0.0", 8)),
        KeyChange::AddAo(ao(peers("10.1.2.3", 32), (3, 4), "hmac(sha1)"), choice),
        KeyChange::AddAo(ao(peers("0.0.0.0", 0), (9, 9), "hmac(sha256)"), Choice::default()),
        KeyChange::AddAo(excluding, Choice::default()),
        KeyChange::RemoveAo(peers("10.1.2.3", 32), (7, 8), choice),
        KeyChange::Ao(settings),
        KeyChange::Ao(AoSettings::default()),
    ] {
        assert_eq!(format!("{:?}", round(&change).unwrap()), format!("{change:?}"));
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (_, good) = encode(&md5(peers("10.0.0.1", 32), secret()));
    let with = |at: usize, byte: u8| {
        let mut value = good.clone();
        value[at] = byte;
        value
    };
    assert_eq!(read_md5(&good[..215], true).err(), Some(Errno::EINVAL));
    assert_eq!(read_md5(&with(0, 99), true).err(), Some(Errno::EINVAL), "family");
    assert_eq!(read_md5(&with(128, 2), true).err(), Some(Errno::EINVAL), "interface");
    assert_eq!(read_md5(&with(129, 33), true).err(), Some(Errno::EINVAL), "prefix");
    assert!(read_md5(&with(129, 33), false).is_ok(), "TCP_MD5SIG has no prefix");
    assert_eq!(read_md5(&with(130, 81), true).err(), Some(Errno::EINVAL), "length");

    let key = ao(peers("10.0.0.1", 32), (1, 2), "hmac(sha1)");
    let (_, good) = encode(&KeyChange::AddAo(key, Choice::default()));
    let with = |at: usize, byte: u8| {
        let mut value = good.clone();
        value[at] = byte;
        read_add(&value).err()
    };
    assert_eq!(with(128, b'x'), Some(Errno::ENOENT), "no such algorithm");
    assert_eq!(with(202, 0), Some(Errno::EINVAL), "an address without a prefix");
    assert_eq!(with(206, 4), Some(Errno::EINVAL), "flags");
    assert_eq!(with(192, 1), Some(Errno::EINVAL), "interface");
    assert_eq!(with(207, 81), Some(Errno::EINVAL), "length");
    assert_eq!(read_info(&[0xff; 48]).err(), Some(Errno::EINVAL));
}

/// RFC 5925, 2.2-3 and 3.1-1.
#[test]
fn a_ring_keeps_its_keys_apart() {
    let mut ring = None;
    let mut change = |change: KeyChange| change_ring(&mut ring, &change).map_err(Errno::raw);
    let add = |peers, ids| KeyChange::AddAo(ao(peers, ids, "hmac(sha1)"), Choice::default());
    assert_eq!(change(add(peers("10.0.0.0", 8), (1, 2))), Ok(()));
    assert_eq!(change(add(peers("10.1.0.0", 16), (1, 3))), Err(libc::EEXIST));
    assert_eq!(change(add(peers("10.1.0.0", 16), (3, 2))), Err(libc::EEXIST));
    assert_eq!(change(add(peers("11.0.0.0", 8), (1, 2))), Ok(()));
    assert_eq!(change(md5(peers("10.2.3.4", 32), secret())), Err(libc::EKEYREJECTED));
    assert_eq!(change(md5(peers("12.2.3.4", 32), secret())), Ok(()));
    assert_eq!(change(add(peers("12.0.0.0", 8), (5, 5))), Err(libc::EKEYREJECTED));
    let long = MasterKey { mac_len: 17, ..ao(peers("13.0.0.0", 8), (1, 1), "hmac(sha256)") };
    assert_eq!(change(KeyChange::AddAo(long, Choice::default())), Err(libc::EMSGSIZE));
    let longer = MasterKey { mac_len: 17, ..ao(peers("13.0.0.0", 8), (1, 1), "cmac(aes128)") };
    assert_eq!(change(KeyChange::AddAo(longer, Choice::default())), Err(libc::EINVAL));
    let none = Choice::default();
    assert_eq!(change(KeyChange::RemoveAo(peers("10.0.0.0", 9), (1, 2), none)), Err(libc::ENOENT));
    assert_eq!(change(KeyChange::RemoveAo(peers("10.0.0.0", 8), (1, 2), none)), Ok(()));
    assert_eq!(change(KeyChange::RemoveAo(peers("11.0.0.0", 8), (1, 2), none)), Ok(()));
    assert_eq!(change(KeyChange::RemoveMd5(peers("12.2.3.4", 32))), Ok(()));
    assert_eq!(change(KeyChange::RemoveMd5(peers("12.2.3.4", 32))), Err(libc::ENOENT));
    assert!(ring.is_none_or(|ring| ring.is_empty()));
}

#[test]
fn keys_are_shown_as_asked_for() {
    let key = |ids, current, next| AoKeyReport {
        key: ao(peers("10.0.0.1", 32), ids, "hmac(sha1)"),
        current,
        next,
        counts: (5, 6),
    };
    let report = AoReport {
        keys: vec![key((1, 2), true, false), key((3, 4), false, true), key((5, 6), false, false)],
        counts: AoCounts { good: 7, ..AoCounts::default() },
        accept_icmps: false,
        ao_required: false,
    };
    let info = write_info(&report);
    assert_eq!((info[0], info[6], info[7], info[8]), (3, 1, 4, 7));
    let ask = |bits: u16, nkeys: u32| {
        let mut value = [0; 3 * AO_KEY];
        put_addr(&mut value, report.keys[0].key.peers.addr);
        put(&mut value, 272, &nkeys.to_ne_bytes());
        put(&mut value, 276, &bits.to_ne_bytes());
        put(&mut value, 278, &[5, 6, 32]);
        let len = write_keys(&report, &mut value).unwrap();
        let shown: Vec<u8> = value[..len].chunks(AO_KEY).map(|one| one[278]).collect();
        (Fields(&value).word(272), shown)
    };
    assert_eq!(ask(GET_ALL, 9), (3, vec![1, 3, 5]));
    assert_eq!(ask(GET_ALL, 2), (3, vec![1, 3]));
    assert_eq!(ask(GET_CURRENT, 2), (1, vec![1]));
    assert_eq!(ask(GET_NEXT, 2), (1, vec![3]));
    assert_eq!(ask(0, 2), (1, vec![5]));
    assert_eq!(write_keys(&report, &mut [0; AO_KEY - 1]), Err(Errno::EINVAL));
}
