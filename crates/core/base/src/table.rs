//! Say it once, in a table: one row makes the field, its name, its help and its place in the listing.

/// Declares a struct of `u64` counters from rows of `name: "help"`.
///
/// The struct gets `Default`, `Clone`, one public field per row, `ROWS` (name and help of each),
/// `values()` in row order and `add(&other)` for summing cores.
///
/// ```
/// base::counters! {
///     /// What the example counts.
///     pub struct Example {
///         segments_in: "Segments received.",
///         segments_out: "Segments sent.",
///     }
/// }
/// let mut c = Example::default();
/// c.segments_in += 2;
/// assert_eq!(Example::ROWS[0], ("segments_in", "Segments received."));
/// assert_eq!(c.values(), [2, 0]);
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident : $help:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $name { $(#[doc = $help] pub $field: u64,)+ }

        impl $name {
            /// Name and help of every counter, in declaration order.
            pub const ROWS: &'static [(&'static str, &'static str)] = &[$((stringify!($field), $help)),+];

            /// Every value, in the order of [`Self::ROWS`].
            pub fn values(&self) -> [u64; Self::ROWS.len()] {
                [$(self.$field),+]
            }

            /// Adds another set to this one, row by row.
            pub fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.wrapping_add(other.$field);)+
            }
        }
    };
}

/// Declares a field-less enum from rows of `Variant: "name", "help"`, with `ALL`, `name()` and `help()`.
///
/// ```
/// base::names! {
///     /// Why.
///     pub enum Reason { Full: "full", "No room.", Late: "late", "Too late." }
/// }
/// assert_eq!(Reason::ALL.len(), 2);
/// assert_eq!(Reason::Late.name(), "late");
/// ```
#[macro_export]
macro_rules! names {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($variant:ident : $text:literal, $help:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $(#[doc = $help] $variant,)+ }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The name shown to people and used in counters.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// One sentence on what it means.
            pub const fn help(self) -> &'static str {
                match self { $($name::$variant => $help),+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
