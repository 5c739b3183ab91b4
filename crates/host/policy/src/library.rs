//! A table that was looked at before it is believed, and the shared library it came from.

use crate::abi::{self, Table};
use crate::adapter::Loaded;
use cc::{Factory, Tunable};
use std::alloc::Layout;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[cfg(feature = "load")]
use std::path::{Path, PathBuf};

/// A library could not be loaded; the text of each says what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// There is no such file, or it is no shared library for this machine.
    File(String),
    /// It has no [`abi::SYMBOL`].
    Symbol(String),
    /// It is made for another version of the table.
    Version(String),
    /// A value of the table is out of bounds.
    Table(String),
    /// A policy of this name is registered already.
    Exists(String),
    /// The program has more rights than its caller (AT_SECURE).
    Elevated(String),
    /// The registry is full, or the library makes no policies.
    Refused(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (LoadError::File(text)
        | LoadError::Symbol(text)
        | LoadError::Version(text)
        | LoadError::Table(text)
        | LoadError::Exists(text)
        | LoadError::Elevated(text)
        | LoadError::Refused(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for LoadError {}

/// Libraries that a program may still use.
static LIVING: Mutex<Vec<Weak<Library>>> = Mutex::new(Vec::new());

/// Texts and rows that outlive libraries, for connections and registries name policies for good: each once, however
/// often a library is loaded.
static TEXTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
static ROWS: Mutex<Vec<&'static [Tunable]>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kept(text: &str) -> &'static str {
    let mut texts = lock(&TEXTS);
    let known = texts.iter().find(|known| **known == text).copied();
    known.unwrap_or_else(|| {
        texts.push(text.to_string().leak());
        texts[texts.len() - 1]
    })
}

fn kept_rows(rows: Vec<Tunable>) -> &'static [Tunable] {
    let mut all = lock(&ROWS);
    let known = all.iter().find(|known| **known == rows).copied();
    known.unwrap_or_else(|| {
        all.push(rows.leak());
        all[all.len() - 1]
    })
}

/// A policy's table. What a connection makes of it is a [`Loaded`]; as long as one lives, so does the library.
pub struct Library {
    pub(crate) table: Table,
    pub(crate) layout: Layout,
    name: &'static str,
    pub(crate) tunables: &'static [Tunable],
    corrections: AtomicU64,
    #[cfg(feature = "load")]
    file: Option<PathBuf>,
    /// Unmapped when this goes.
    #[cfg(feature = "load")]
    _mapped: Option<libloading::Library>,
}

impl Library {
    /// Maps a shared library and looks at its table; the same one, if it is mapped already.
    ///
    /// A program that names a file here trusts it as if it were linked: its initialisers run now, and nothing can
    /// check that its hooks keep what `millstream_cc.h` says.
    ///
    /// # Errors
    /// See [`LoadError`]; nothing stays mapped.
    #[cfg(feature = "load")]
    pub fn open(path: &Path) -> Result<Arc<Library>, LoadError> {
        let shown = path.display();
        if crate::elevated() {
            return Err(LoadError::Elevated(format!(
                "{shown} is not loaded: this program has rights that its caller lacks (file capabilities or \
                 set-user-ID); run it as root instead, or compile the policy into it"
            )));
        }
        // A name without a slash would be looked for in the system's folders.
        let file = path.canonicalize().map_err(|e| LoadError::File(format!("{shown}: {e}")))?;
        if let Some(library) = Library::living().into_iter().find(|library| library.file() == Some(&file)) {
            return Ok(library);
        }
        // SAFETY: a program that named the file trusts it, as said above.
        let mapped = unsafe { libloading::Library::new(&file) }
            .map_err(|e| LoadError::File(format!("{shown} is no shared library that can be loaded: {e}")))?;
        // SAFETY: the header declares the symbol with this type.
        let entry = unsafe { mapped.get::<unsafe extern "C" fn() -> *const Table>(abi::SYMBOL.as_bytes()) };
        let entry = entry.map_err(|_| {
            LoadError::Symbol(format!("{shown} has no function {}: see millstream_cc.h", abi::SYMBOL))
        })?;
        // SAFETY: as above.
        let table = unsafe { entry() };
        // SAFETY: the table belongs to the library, which stays mapped as long as what is made of it.
        let mut library = unsafe { Library::read(table) }.map_err(|error| error.about(&shown.to_string()))?;
        library.file = Some(file);
        library._mapped = Some(mapped);
        Ok(library.known())
    }

    /// Every library that is mapped or was given as a table, and that a program still has.
    pub fn living() -> Vec<Arc<Library>> {
        let mut living = lock(&LIVING);
        living.retain(|library| library.strong_count() > 0);
        living.iter().filter_map(Weak::upgrade).collect()
    }

    fn known(self) -> Arc<Library> {
        let library = Arc::new(self);
        lock(&LIVING).push(Arc::downgrade(&library));
        library
    }

    /// A policy of a table that is part of this program. The table is copied, its strings and rows too.
    ///
    /// # Errors
    /// As [`Library::open`].
    ///
    /// # Safety
    /// The table is null, or what `millstream_cc.h` says, and its hooks can be called as long as the library or
    /// anything made of it lives.
    pub unsafe fn from_table(table: *const Table) -> Result<Arc<Library>, LoadError> {
        // SAFETY: the caller's promise.
        unsafe { Library::read(table) }.map(Library::known)
    }

    /// # Safety
    /// As for [`Library::from_table`].
    unsafe fn read(table: *const Table) -> Result<Library, LoadError> {
        let wrong = |why: String| Err(LoadError::Table(why));
        if table.is_null() {
            return wrong(format!("{} gives no table", abi::SYMBOL));
        }
        // SAFETY: every version begins with these two words.
        let (version, size) = unsafe { ((*table).abi, (*table).size) };
        if version != abi::ABI || (size as usize) < size_of::<Table>() {
            let ours = (abi::ABI, size_of::<Table>());
            return Err(LoadError::Version(format!(
                "made for version {version} of millstream_cc.h ({size} bytes); this stack has version {} ({} bytes): \
                 build it anew with this stack's header",
                ours.0, ours.1
            )));
        }
        // SAFETY: the version is ours, and it is long enough.
        let table = unsafe { *table };
        // SAFETY: the table's strings end with a zero.
        let name = unsafe { text(table.name) }.unwrap_or_default();
        let fits = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
        if name.is_empty() || name.len() > abi::NAME_MAX || !name.bytes().all(fits) {
            return wrong(format!(
                "its name \"{name}\" is not 1 to {} lower-case letters, digits, - and _",
                abi::NAME_MAX
            ));
        }
        let (size, align) = (table.state_size, table.state_align.max(1));
        let layout = Layout::from_size_align(size, align).ok();
        let within = size <= abi::STATE_MAX && align <= abi::ALIGN_MAX;
        let Some(layout) = layout.filter(|_| within) else {
            return wrong(format!(
                "a state of {size} bytes aligned to {align}: at most {} bytes, aligned to a power of two up to {}",
                abi::STATE_MAX,
                abi::ALIGN_MAX
            ));
        };
        // SAFETY: the table's rows are as many as it says, and their strings end with a zero.
        let tunables = unsafe { rows(&table) }?;
        Ok(Library {
            table,
            layout,
            name: kept(&name),
            tunables: kept_rows(tunables),
            corrections: AtomicU64::new(0),
            #[cfg(feature = "load")]
            file: None,
            #[cfg(feature = "load")]
            _mapped: None,
        })
    }

    /// The policy's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The file it was loaded from.
    #[cfg(feature = "load")]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// How often a hook left a window that makes no sense and was corrected.
    pub fn corrections(&self) -> u64 {
        self.corrections.load(Ordering::Relaxed)
    }

    /// Returns the factory of its policies, for [`cc::Registry::register`].
    pub fn factory(self: &Arc<Self>) -> Factory {
        let library = self.clone();
        Arc::new(move || {
            let policy = Loaded::new(&library)?;
            Some(Box::new(policy))
        })
    }

    /// Registers the policy.
    ///
    /// # Errors
    /// [`LoadError::Exists`] and [`LoadError::Refused`].
    pub fn register(self: &Arc<Self>, registry: &mut cc::Registry) -> Result<(), LoadError> {
        let name = self.name;
        registry.register(name, self.factory()).map_err(|error| match error {
            cc::RegisterError::Exists => {
                LoadError::Exists(format!("there is a congestion control {name} already; remove it first"))
            }
            cc::RegisterError::Full => LoadError::Refused(format!("no room for {name}: too many policies")),
            cc::RegisterError::Misnamed | cc::RegisterError::Failed => {
                LoadError::Refused(format!("{name} refuses to make a policy (init)"))
            }
        })
    }

    pub(crate) fn count_correction(&self) {
        self.corrections.fetch_add(1, Ordering::Relaxed);
    }
}

impl LoadError {
    /// Adds the subject of the error.
    #[cfg(feature = "load")]
    fn about(self, what: &str) -> LoadError {
        match self {
            LoadError::Version(text) => LoadError::Version(format!("{what} is {text}")),
            LoadError::Table(text) => LoadError::Table(format!("{what}: {text}")),
            other => other,
        }
    }
}

/// # Safety
/// Null, or a string that ends with a zero.
unsafe fn text(chars: *const c_char) -> Option<String> {
    if chars.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(chars) }.to_str().ok().map(str::to_string)
}

/// # Safety
/// The rows are as many as the table says, and their strings end with a zero.
unsafe fn rows(table: &Table) -> Result<Vec<Tunable>, LoadError> {
    let len = table.tunables_len;
    if len == 0 {
        return Ok(Vec::new());
    }
    if table.tunables.is_null() || len > abi::TUNABLES_MAX {
        return Err(LoadError::Table(format!(
            "{len} tunables: none are there, or more than {}",
            abi::TUNABLES_MAX
        )));
    }
    if table.get_tunable.is_none() || table.set_tunable.is_none() {
        return Err(LoadError::Table("it has tunables, but not both of get_tunable and set_tunable".into()));
    }
    // SAFETY: the caller's promise.
    let raw = unsafe { std::slice::from_raw_parts(table.tunables, len as usize) };
    let row = |raw: &abi::Tunable| {
        // SAFETY: the caller's promise.
        let (name, help) = unsafe { (text(raw.name), text(raw.help)) };
        let name = name
            .filter(|name| !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'));
        let name = name.filter(|_| raw.min <= raw.max).ok_or_else(|| {
            LoadError::Table("a tunable needs a name of letters, digits and _, and a range".into())
        })?;
        let help = help.unwrap_or_default();
        Ok(Tunable { name: kept(&name), min: raw.min, max: raw.max, help: kept(&help) })
    };
    raw.iter().map(row).collect()
}
