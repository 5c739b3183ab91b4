//! Kernels to boot: unpacked packages in a cache, and the initial file system that gets a guest to its root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run;

/// Kernels of the whole table.
pub(super) const WANTED: usize = 3;
/// The file in a kernel's folder that `.ci/kernels` leaves when every module of its list is there.
const COMPLETE: &str = "complete-3";

/// A kernel whose package was unpacked.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// `6.12.107+deb13-amd64`.
    pub(super) version: String,
    image: PathBuf,
    folder: PathBuf,
}

/// Where `.ci/kernels` puts them.
pub(super) fn cache() -> PathBuf {
    run::target_dir().join("cards/kernels")
}

/// Every kernel of the cache, the oldest first.
pub(super) fn all() -> Vec<Kernel> {
    let folders = fs::read_dir(cache()).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut kernels: Vec<_> = folders.filter_map(|folder| find(&folder)).collect();
    kernels.sort_by_key(|kernel| numbers(&kernel.version));
    kernels
}

fn numbers(version: &str) -> Vec<u32> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

fn find(folder: &Path) -> Option<Kernel> {
    let version = folder.file_name()?.to_str()?.to_string();
    folder.join(COMPLETE).exists().then_some(())?;
    let places = [
        folder.join(format!("boot/vmlinuz-{version}")),
        folder.join(format!("usr/lib/modules/{version}/vmlinuz")),
    ];
    let image = places.into_iter().find(|path| path.is_file())?;
    Some(Kernel { version, image, folder: folder.to_path_buf() })
}

impl Kernel {
    /// `6.12`, as rows name it.
    pub(super) fn short(&self) -> String {
        numbers(&self.version)[..2].iter().map(u32::to_string).collect::<Vec<_>>().join(".")
    }

    pub(super) fn image(&self) -> &Path {
        &self.image
    }

    /// Packs an initial file system with `modules` and what they need, `init` and busybox into `to`.
    pub(super) fn pack(&self, modules: &[&str], init: &str, to: &Path) -> Result<(), String> {
        let files = module_files(&self.folder);
        let mut order = Order::default();
        for module in modules {
            order.need(module, &files)?;
        }
        let root = to.with_extension("d");
        let told = |error: std::io::Error| format!("{}: {error}", root.display());
        if root.exists() {
            fs::remove_dir_all(&root).map_err(told)?;
        }
        for folder in ["bin", "lib", "proc", "sys", "dev", "host", "rw", "root"] {
            fs::create_dir_all(root.join(folder)).map_err(told)?;
        }
        fs::copy("/usr/bin/busybox", root.join("bin/busybox"))
            .or_else(|_| fs::copy("/bin/busybox", root.join("bin/busybox")))
            .map_err(|error| format!("busybox: {error}; `.ci/setup cards` brings it"))?;
        for (name, bytes) in &order.modules {
            fs::write(root.join(format!("lib/{name}.ko")), bytes).map_err(told)?;
        }
        let names: Vec<_> = order.modules.iter().map(|(name, _)| name.as_str()).collect();
        fs::write(root.join("init"), init.replace("@MODULES@", &names.join(" "))).map_err(told)?;
        let pack = format!(
            "cd '{}' && chmod +x init && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 >'{}'",
            root.display(),
            to.display()
        );
        run::tool("sh").args(["-c", &pack]).check()?;
        fs::remove_dir_all(&root).map_err(told)
    }
}

/// Modules by name, wherever they lie below a folder.
fn module_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if let Some((name, _)) = path.file_name().and_then(|name| name.to_str()?.split_once(".ko"))
            {
                found.insert(name.replace('-', "_"), path.clone());
            }
        }
    }
    found
}

/// Modules in the order in which they can be loaded.
#[derive(Default)]
struct Order {
    modules: Vec<(String, Vec<u8>)>,
}

impl Order {
    fn need(&mut self, name: &str, files: &BTreeMap<String, PathBuf>) -> Result<(), String> {
        let name = name.replace('-', "_");
        // Without a file it is built in.
        let Some(path) = files.get(&name) else { return Ok(()) };
        if self.modules.iter().any(|(known, _)| *known == name) {
            return Ok(());
        }
        let bytes = unpacked(path)?;
        for before in depends(&bytes) {
            self.need(&before, files)?;
        }
        self.modules.push((name, bytes));
        Ok(())
    }
}

fn unpacked(path: &Path) -> Result<Vec<u8>, String> {
    let with = match path.extension().and_then(|end| end.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(path).map_err(|error| format!("{}: {error}", path.display())),
    };
    let output = Command::new(with).args(["-dc"]).arg(path).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        _ => Err(format!("{with} does not unpack {}", path.display())),
    }
}

/// The modules that one needs, from its `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let list = module[at + KEY.len()..].split(|&b| b == 0).next().unwrap_or_default();
    let list = String::from_utf8_lossy(list).into_owned();
    list.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests;
