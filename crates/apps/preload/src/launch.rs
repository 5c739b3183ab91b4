//! The library's load: what the launch has said is noted before the program can change it, and the rooms below learn
//! what they ask of those above.

use crate::{description, descriptors, end, epoll, fork, heap, heritage, privileges, stack};

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static AT_LOAD: extern "C" fn() = begin;

extern "C" fn begin() {
    heap::watch();
    description::on_end(description::End { of_numbers: epoll::forget, of_users: descriptors::unused });
    end::note_launch();
    privileges::note_launch();
    if stack::note_launch(|entry| !entry.starts_with(heritage::ENTRY), watch) && heritage::adopt() {
        fork::watch();
    }
}

/// Forks and the end of the process are noticed from now on.
fn watch() {
    fork::watch();
    end::watch();
}
