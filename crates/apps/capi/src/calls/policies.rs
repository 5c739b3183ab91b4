//! Congestion control of the program's own.

use super::about::untold;
use crate::boundary::{Refused, refuse};
use crate::memory;
use libc::{c_char, c_int};
use policy::abi::Table;
use policy::{Library, LoadError};

api! {
    /// Offers a policy of the program's own, as millstream_cc.h describes it, on all cores that were opened together:
    /// sockets choose it with TCP_CONGESTION, and "net.inet.tcp.cc.NAME" in the tree of names tunes it, withdraws it
    /// ("quiesced") and counts who uses it. No shared library, and no millstream_cc_policy(), is needed.
    ///
    /// The table is copied. Its hooks are called until the policy has been unregistered from every context and the last
    /// connection that has it is closed, from whichever thread turns the stack; they must not call this library.
    /// EINVAL for a table that is not what the header says (ms_error() tells why), EEXIST where there is a policy of
    /// that name, EBUSY where there are too many or init() refuses.
    fn ms_cc_register(ctx, policy: *const Table) -> c_int {
        let tree = ctx.tree()?;
        if policy.is_null() {
            return Err(Refused(libc::EFAULT));
        }
        // SAFETY: not NULL, so the program vouches that it is what the header says.
        let library = unsafe { Library::from_table(policy) }.map_err(|error| match error {
            LoadError::Version(text) => refuse(libc::EINVAL, &format!("a policy {text}")),
            other => refuse(libc::EINVAL, &other.to_string()),
        })?;
        tree.offer(&library).map_err(untold)?;
        Ok(0)
    }

    /// Takes a policy away on all cores: no new connection gets it. One that is the default, or that connections or
    /// listeners use, stays (EBUSY), unless `force` is not 0: then these go on with "newreno" and the window that they
    /// have. EPERM for newreno itself, ENOENT where there is no such policy.
    fn ms_cc_unregister(ctx, name: *const c_char, force: c_int) -> c_int {
        // SAFETY: C's contract.
        let name = unsafe { memory::text(name) }?;
        let how = if force == 0 { "net.inet.tcp.cc.remove" } else { "net.inet.tcp.cc.remove_force" };
        ctx.tree()?.set(how, name).map_err(untold)?;
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
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
            let choose = |fd| {
                ms_setsockopt(ctx, fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, c"own".as_ptr().cast(), 3)
            };
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
}
