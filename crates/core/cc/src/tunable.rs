//! Tunables of a policy: one row gives the range, the sentence that explains it, the reader and the writer.

/// A row of a policy's table of tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// Its name.
    pub name: &'static str,
    /// Least value.
    pub min: i64,
    /// Greatest value.
    pub max: i64,
    /// Effect and unit.
    pub help: &'static str,
}

impl Tunable {
    /// `value`, if it lies in the row's range.
    ///
    /// # Errors
    /// [`TunableError::OutOfRange`].
    pub fn checked(&self, value: i64) -> Result<i64, TunableError> {
        let error = TunableError::OutOfRange { min: self.min, max: self.max };
        (self.min..=self.max).contains(&value).then_some(value).ok_or(error)
    }
}

/// A tunable could not be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunableError {
    /// The policy has no such tunable.
    Unknown,
    /// The value lies outside `min..=max`.
    OutOfRange {
        /// Least value allowed.
        min: i64,
        /// Greatest value allowed.
        max: i64,
    },
}

/// A field that a tunable sets, as the number that people see. What [`set`](Field::set) gets is in the row's range.
pub(crate) trait Field {
    fn number(&self) -> i64;
    fn set(&mut self, number: i64);
}

impl Field for bool {
    fn number(&self) -> i64 {
        i64::from(*self)
    }
    fn set(&mut self, number: i64) {
        *self = number != 0;
    }
}

macro_rules! integer {
    ($($kind:ty),+) => {$(
        impl Field for $kind {
            fn number(&self) -> i64 {
                i64::from(*self)
            }
            fn set(&mut self, number: i64) {
                *self = number as $kind;
            }
        }
    )+};
}
integer!(u8, u16, u32);

/// The three methods that a table of tunables makes: `tunables`, `tunable` and `set_tunable`. A row is a name, the
/// field it sets, its range, what it does, and a method to call afterwards, if any.
macro_rules! tunables {
    (pub $($rows:tt)+) => {
        $crate::tunable::tunables! { @[pub] $($rows)+ }
    };
    (@[$($vis:tt)?] $(
        $name:literal: $($field:ident).+, $min:expr => $max:expr, $help:literal $(, then $after:ident)?;
    )+) => {
        /// Returns the tunables.
        $($vis)? fn tunables(&self) -> &'static [$crate::Tunable] {
            &[$($crate::Tunable { name: $name, min: $min as i64, max: $max as i64, help: $help }),+]
        }

        /// A tunable's value, if there is one of that name.
        $($vis)? fn tunable(&self, name: &str) -> Option<i64> {
            match name {
                $($name => Some($crate::tunable::Field::number(&self.$($field).+)),)+
                _ => None,
            }
        }

        /// Changes a tunable.
        $($vis)? fn set_tunable(&mut self, name: &str, value: i64) -> Result<(), $crate::TunableError> {
            let row = self.tunables().iter().find(|row| row.name == name);
            let value = row.ok_or($crate::TunableError::Unknown)?.checked(value)?;
            match name {
                $($name => {
                    $crate::tunable::Field::set(&mut self.$($field).+, value);
                    $(self.$after();)?
                })+
                _ => return Err($crate::TunableError::Unknown),
            }
            Ok(())
        }
    };
    ($($rows:tt)+) => {
        $crate::tunable::tunables! { @[] $($rows)+ }
    };
}
pub(crate) use tunables;

#[cfg(test)]
mod tests;
