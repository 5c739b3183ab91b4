//! Goal: a table that is none is refused with its reason, one that is comes and goes as the registry says.
use super::*;
use crate::calls::about::{ms_sysctl_get, ms_sysctl_set};
use crate::calls::open::{ms_close_ctx, ms_error, ms_open};
use crate::calls::options::ms_setsockopt;
use crate::calls::sockets::{ms_listen, ms_socket};
use std::ffi::CStr;
use std::ptr::null;

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn table(name: &CStr) -> Table {
    Table::new(name.as_ptr())
}

#[test]
fn a_table_comes_and_goes() {
    let path = std::env::temp_dir().join(format!("ms-capi-policy-{}.pcap", std::process::id()));
    // A capture of nothing: a link without privileges.
    let mut head = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    head.extend([0; 8]);
    head.extend([0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    std::fs::write(&path, head).unwrap();
    let link = std::ffi::CString::new(format!("pcap:{}", path.display())).unwrap();
    let list = [c"link".as_ptr(), link.as_ptr(), c"address".as_ptr(), c"10.0.0.1/24".as_ptr(), null()];
    // SAFETY: strings and a table that live until the end of the test.
    unsafe {
        let ctx = ms_open(list.as_ptr());
        assert!(!ctx.is_null(), "{:?}", CStr::from_ptr(ms_error()));
        let why = || CStr::from_ptr(ms_error()).to_str().unwrap().to_string();
        let get = |name: &CStr| {
            let mut text = [0; 256];
            assert!(ms_sysctl_get(ctx, name.as_ptr(), text.as_mut_ptr(), text.len()) >= 0, "{}", why());
            CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_string()
        };

        assert_eq!((ms_cc_register(ctx, null()), errno()), (-1, libc::EFAULT));
        let old = Table { abi: 9, ..table(c"own") };
        assert_eq!((ms_cc_register(ctx, &old), errno()), (-1, libc::EINVAL));
        assert!(why().starts_with("a policy made for version 9 of millstream_cc.h"), "{}", why());
        assert_eq!((ms_cc_register(ctx, &table(c"My Own")), errno()), (-1, libc::EINVAL));
        assert_eq!((ms_cc_register(ctx, &table(c"cubic")), errno()), (-1, libc::EEXIST));

        assert_eq!(ms_cc_register(ctx, &table(c"own")), 0, "{}", why());
        assert_eq!((ms_cc_register(ctx, &table(c"own")), errno()), (-1, libc::EEXIST));
        assert!(get(c"net.inet.tcp.cc.available").contains("own"));
        assert_eq!(get(c"net.inet.tcp.cc.libraries"), "own - 0");

        // A listener that has it counts as a user; who comes later does not get it while it is withdrawn.
        let fd = ms_socket(ctx, libc::AF_INET, libc::SOCK_STREAM, 0);
        let choose =
            |fd| ms_setsockopt(ctx, fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, c"own".as_ptr().cast(), 3);
        assert_eq!((choose(fd), ms_listen(ctx, fd, 5)), (0, 0));
        assert_eq!((ms_cc_unregister(ctx, c"own".as_ptr(), 0), errno()), (-1, libc::EBUSY));
        assert_eq!(ms_sysctl_set(ctx, c"net.inet.tcp.cc.own.quiesced".as_ptr(), c"1".as_ptr()), 0);
        let late = ms_socket(ctx, libc::AF_INET, libc::SOCK_STREAM, 0);
        assert_eq!((choose(late), errno()), (-1, libc::ENOENT));
        assert_eq!(ms_cc_unregister(ctx, c"own".as_ptr(), 1), 0, "{}", why());
        assert_eq!(get(c"net.inet.tcp.cc.libraries"), "");

        assert_eq!((ms_cc_unregister(ctx, c"own".as_ptr(), 0), errno()), (-1, libc::ENOENT));
        assert_eq!((ms_cc_unregister(ctx, c"newreno".as_ptr(), 1), errno()), (-1, libc::EPERM));
        assert_eq!(ms_close_ctx(ctx, 0), 0);
    }
    std::fs::remove_file(&path).unwrap();
}
