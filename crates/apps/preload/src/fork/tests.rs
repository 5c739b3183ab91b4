//! Goal: what shares memory and descriptors is the kernel's, and what has memory of its own is a fork.
use super::*;

#[test]
fn flags_tell_what_a_child_is() {
    let sig = libc::SIGCHLD as u64;
    let bits = |bits: c_int| bits as u32 as u64 | sig;
    for flags in [sig, bits(libc::CLONE_NEWPID), bits(libc::CLONE_NEWNET | libc::CLONE_FS)] {
        assert_eq!(child_of(flags), Child::Fork(flags), "{flags:x}");
    }
    // The parent does not wait: it answers what the child asks.
    for waits in [libc::CLONE_VFORK, libc::CLONE_VM | libc::CLONE_VFORK] {
        assert_eq!(child_of(bits(waits)), Child::Fork(sig));
    }
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_FILES;
    for flags in [thread, thread | libc::CLONE_SETTLS, libc::CLONE_SETTLS, libc::CLONE_VM | libc::CLONE_FILES]
    {
        assert_eq!(child_of(bits(flags)), Child::Thread, "{flags:x}");
    }
}
