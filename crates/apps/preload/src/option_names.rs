//! Names of socket options, for people: a number and a level explain nothing.

use libc::c_int;

/// Returns an option's name in C, or its numbers where the boundary's table has none.
pub(crate) fn of(level: c_int, name: c_int) -> String {
    let known = sock::boundary::name_of(level, name);
    known.map_or_else(|| format!("socket option {name} of level {level}"), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    //! Goal: names of options that programs set.
    use super::*;

    #[test]
    fn options_have_their_names() {
        assert_eq!(of(6, 9), "TCP_DEFER_ACCEPT");
        assert_eq!(of(libc::SOL_SOCKET, libc::SO_PRIORITY), "SO_PRIORITY");
        assert_eq!(of(0, 13), "IP_RECVTOS");
        assert_eq!(of(41, 26), "IPV6_V6ONLY");
        assert_eq!(of(6, 9_999), "socket option 9999 of level 6");
        assert_eq!(of(77, 1), "socket option 1 of level 77");
    }
}
