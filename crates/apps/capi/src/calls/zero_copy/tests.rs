//! Goal: a buffer can be written to while nothing refers to it, and only then.
use super::*;
use crate::memory;
use std::ptr::null_mut;

#[test]
fn a_buffer_that_is_lent_is_busy() {
    // SAFETY: a buffer of ours, from its beginning to its end.
    unsafe {
        let buffer = ms_buffer_new(8);
        let bytes = ms_buffer_bytes(buffer);
        memory::put([7_u8; 8], bytes.cast()).unwrap();
        let lent = (*buffer).bytes.clone();
        assert_eq!((ms_buffer_busy(buffer), ms_buffer_bytes(buffer)), (1, null_mut()));
        assert_eq!(*lent, [7; 8]);
        drop(lent);
        assert_eq!((ms_buffer_busy(buffer), ms_buffer_bytes(buffer)), (0, bytes));
        assert_eq!((ms_buffer_free(buffer), ms_buffer_free(null_mut())), (0, 0));
        assert!(ms_buffer_new(BUFFER_MAX + 1).is_null());
    }
}
