use std::fs::File;
use std::io::{Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::sync::mpsc::channel;

#[test]
fn files_of_a_thread_apart_have_no_number_of_the_process() {
    let (mut read, mut write) = pipe().expect("a pipe");
    let end = write.as_raw_fd();
    let (go, wait) = channel::<()>();
    let open = || {
        File::open("/dev/zero").map(|file| {
            let fd = file.as_raw_fd();
            (file, fd)
        })
    };
    let fd = super::spawn("apart", open, move |mut file| {
        wait.recv().expect("a word");
        file.read_exact(&mut [0; 4]).expect("its file is open");
        // The process's pipe is not there.
        // SAFETY: numbers alone.
        assert_eq!(unsafe { libc::fcntl(end, libc::F_GETFD) }, -1);
    })
    .expect("a thread");
    assert_eq!(fd, 3);
    write.write_all(b"all").expect("it takes it");
    drop(write);
    // The other end is closed everywhere.
    let mut all = String::new();
    read.read_to_string(&mut all).expect("text");
    assert_eq!(all, "all");
    go.send(()).expect("it waits");
}

#[test]
fn an_error_of_open_is_told() {
    let open = || File::open("/nowhere/at/all").map(|file| (file, ()));
    let refused = super::spawn("apart", open, drop).expect_err("no such file");
    assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
}
