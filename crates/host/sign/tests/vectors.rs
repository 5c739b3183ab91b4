//! Goal: each algorithm gives, through the trait, what its RFC's test vectors say, in one piece or several.

use tcp::auth::Algorithm;

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_chunks::<2>().0.iter().map(byte).collect()
}

fn check(algorithm: &dyn Algorithm, key: &[u8], data: &[u8], wanted: &str) {
    let wanted = bytes(wanted);
    for cut in [0, data.len() / 3, data.len()] {
        let (head, tail) = data.split_at(cut);
        let tag = algorithm.tag(key, &[head, tail]);
        assert_eq!(tag[..algorithm.tag_len()][..wanted.len()], wanted, "{}", algorithm.name());
    }
}

/// RFC 2202, section 3.
#[test]
fn hmac_sha1() {
    let case = |key: &[u8], data: &[u8], wanted| check(&sign::HmacSha1, key, data, wanted);
    case(&[0x0b; 20], b"Hi There", "b617318655057264e28bc0b6fb378c8ef146be00");
    case(b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    case(&[0xaa; 20], &[0xdd; 50], "125d7342b9ac11cd91a39af48aa17b4f63f175d3");
    let key: Vec<u8> = (1..=25).collect();
    case(&key, &[0xcd; 50], "4c9007f4026250c6bc8414f9bf50c86c2d7235da");
    case(&[0x0c; 20], b"Test With Truncation", "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04");
    let data = b"Test Using Larger Than Block-Size Key - Hash Key First";
    case(&[0xaa; 80], data, "aa4ae5e15272d00e95705637ce8a3b55ed402112");
}

/// RFC 4231, section 4.
#[test]
fn hmac_sha256() {
    let case = |key: &[u8], data: &[u8], wanted| check(&sign::HmacSha256, key, data, wanted);
    case(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    case(
        b"Jefe",
        b"what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    );
    case(&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    let key: Vec<u8> = (1..=25).collect();
    case(&key, &[0xcd; 50], "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    case(&[0x0c; 20], b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b");
    let data = b"Test Using Larger Than Block-Size Key - Hash Key First";
    case(&[0xaa; 131], data, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/// RFC 4493, section 4, and RFC 4615, section 4.
#[test]
fn cmac_aes_128() {
    let key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
    let message = bytes(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
         30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
    );
    let case = |len: usize, wanted| check(&sign::CmacAes128, &key, &message[..len], wanted);
    case(0, "bb1d6929e95937287fa37d129b756746");
    case(16, "070a16b46b4d4144f79bdd9dd04a287c");
    case(40, "dfa66747de9ae63030ca32611497c827");
    case(64, "51f0bebf7e3b9d92fc49741779363cfe");

    let message: Vec<u8> = (0..20).collect();
    let case = |key: &str, wanted| check(&sign::CmacAes128, &bytes(key), &message, wanted);
    case("000102030405060708090a0b0c0d0e0fedcb", "84a348a4a45d235babfffc0d2b4da09a");
    case("000102030405060708090a0b0c0d0e0f", "980ae87b5f4c9c5214f5b6a8455e4c2d");
    case("00010203040506070809", "290d9e112edb09ee141fcf64c0b72f3d");
}

/// RFC 1321, appendix A.5: without a key it is MD5.
#[test]
fn md5() {
    check(&sign::Md5, b"", b"", "d41d8cd98f00b204e9800998ecf8427e");
    check(&sign::Md5, b"", b"message digest", "f96b697d7cb7938d525a2f31aaf161d0");
    check(&sign::Md5, b"digest", b"message ", "f96b697d7cb7938d525a2f31aaf161d0");
}

#[test]
fn names_find_their_algorithms() {
    for known in sign::ALL {
        assert_eq!(sign::find(known.name()).map(Algorithm::name), Some(known.name()));
    }
    assert!(sign::find("md5").is_none() && sign::find("hmac(sha512)").is_none());
}
