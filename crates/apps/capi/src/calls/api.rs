//! How a function for C is written down once: its name, arguments and documentation here become `millstream.h`, too.

/// Functions whose first argument is a context.
macro_rules! api {
    ($($(#[doc = $doc:literal])+ fn $name:ident($ctx:ident $(, $arg:ident: $ty:ty)*) -> $ret:ty $body:block)+) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// C's contract: the context is NULL or open, and each other pointer NULL or what the text says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($ctx: *mut $crate::Context $(, $arg: $ty)*) -> $ret {
            $crate::boundary::guard(|| {
                // SAFETY: NULL, or what ms_open gave and ms_close_ctx has not taken.
                let $ctx = unsafe { $ctx.as_ref() }.ok_or($crate::boundary::Refused(libc::EFAULT))?;
                $body
            })
        }
    )+};
}

/// Functions without one.
macro_rules! free_api {
    ($($(#[doc = $doc:literal])+ fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $body:block)+) => {$(
        $(#[doc = $doc])+
        ///
        /// # Safety
        /// C's contract: each pointer is NULL or what the text says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            $crate::boundary::guard(|| $body)
        }
    )+};
}
