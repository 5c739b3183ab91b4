//! Goal: the hash is the published one, for the published vectors and, bit by bit, for any key and flow.
use super::*;
use base::{Addr, Endpoint, Rng};

/// The key of Microsoft's verification suite.
const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

fn endpoint(text: &str) -> Endpoint {
    let at: std::net::SocketAddr = text.parse().expect("an address and a port");
    match at.ip() {
        std::net::IpAddr::V4(v4) => Endpoint::new(Addr::v4(v4.octets()), at.port()),
        std::net::IpAddr::V6(v6) => Endpoint::new(Addr::v6(v6.octets()), at.port()),
    }
}

/// Destination, source and hash of Microsoft's "Verifying the RSS hash calculation", with TCP ports.
#[test]
fn published_vectors() {
    let hash = Toeplitz::new(&KEY).expect("a key of 40 bytes");
    for (destination, source, expected) in [
        ("161.142.100.80:1766", "66.9.149.187:2794", 0x51cc_c178),
        ("65.69.140.83:4739", "199.92.111.2:14230", 0xc626_b0ea),
        ("12.22.207.184:38024", "24.19.198.95:12898", 0x5c2b_394a),
        ("209.142.163.6:2217", "38.27.205.30:48228", 0xafc7_327f),
        ("202.188.127.2:1303", "153.39.163.191:44251", 0x10e8_28a2),
        ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x4020_7d3d),
        ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0xdde5_1bbf),
        ("[fe80::200:f8ff:fe21:67cf]:38024", "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251", 0x02d1_feef),
    ] {
        let flow = FlowKey::new(endpoint(destination), endpoint(source));
        assert_eq!(hash.received(&flow), expected, "{source} to {destination}");
    }
}

/// The definition: bit by bit, with a key that moves along.
fn plainly(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8] >> (7 - at % 8) & 1);
    let window = |from: usize| (from..from + 32).fold(0, |word, at| word << 1 | bit(key, at));
    (0..8 * input.len()).filter(|&at| bit(input, at) == 1).fold(0, |hash, at| hash ^ window(at))
}

#[test]
fn as_the_definition_says() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let (mut key, mut bytes) = ([0; 52], [0; 36]);
        rng.fill(&mut key);
        rng.fill(&mut bytes);
        let hash = Toeplitz::new(&key).expect("longer than it must be");
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let v6 = |at: usize| Addr::v6(core::array::from_fn(|i| bytes[at + i]));
        let flow = FlowKey::new(Endpoint::new(v6(16), port(34)), Endpoint::new(v6(0), port(32)));
        assert_eq!(hash.received(&flow), plainly(&key, &bytes), "seed {seed}");
        let v4 = |at: usize| Addr::v4(core::array::from_fn(|i| bytes[at + i]));
        let flow = FlowKey::new(Endpoint::new(v4(4), port(10)), Endpoint::new(v4(0), port(8)));
        assert_eq!(hash.received(&flow), plainly(&key, &bytes[..12]), "seed {seed}");
    }
}

#[test]
fn a_short_key_is_none() {
    assert!(Toeplitz::new(&KEY[..39]).is_none());
}
