//! Circles of imports: files of a crate of which each leads to every other by what it names.
//!
//! To read one file of a circle is to read all of them. The table below says how many files the largest circle of
//! a crate has; it may only shrink.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use petgraph::algo::kosaraju_scc;
use petgraph::graphmap::DiGraphMap;
use syn::visit::Visit;

use super::imports::room;
use crate::Outcome;
use crate::metadata::{self, Package};

/// Files of a crate's largest circle, where that is more than two. A crate without a row has none.
const LARGEST: &[(&str, usize)] = &[
    ("cc", 3),
    ("pio", 3),
    ("trace", 3),
    ("sock", 4),
    ("emu", 3),
    ("bench", 3),
    ("preload", 4),
    ("millstream", 4),
    ("xtask", 6),
];

/// Folders of a crate, each with the file of its name, in the order in which they import: none imports one behind it.
/// Other files beside the crate's root stand apart from that. A crate takes a row here once its folders have an order.
const FOLDERS: &[(&str, &str)] = &[
    (
        "tcp",
        "buffers < close < sender < stats < auth < timers < receiver < recovery < input < mtu < ecn < handshake \
         < output",
    ),
    ("stack", "tables < tx < net < rx"),
    ("sock", "settings < engine < options < boundary < metrics < tree < runner < paired < open < control"),
    ("pio", "netlink < ports < group < layers < packet < pcap < shm < tap < xdp < dpdk < open"),
    ("preload", "relay < epoll"),
];

/// Circles of this size are a parent and its child, or two halves of one thing.
const SMALL: usize = 2;

/// Modules of a crate, each with a number; the root is 0.
#[derive(Default)]
struct Tree {
    modules: Vec<Module>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    parent: usize,
    children: BTreeMap<String, usize>,
    /// Names that `use` brings, with the path that each stands for.
    uses: BTreeMap<String, Vec<String>>,
    /// Paths of `use ...::*`.
    globs: Vec<Vec<String>>,
    /// All paths that are named.
    paths: Vec<Vec<String>>,
}

/// Reader of one module's items.
struct Reader<'a> {
    tree: &'a mut Tree,
    module: usize,
    error: Option<String>,
}

fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && {
                let condition = list.tokens.to_string();
                condition == "test" || condition.starts_with("all (test") || condition.starts_with("all(test")
            }
        }
        _ => false,
    })
}

impl Tree {
    /// Reads the file at `path` as module `module`.
    fn read(&mut self, path: &Path, module: usize) -> Result<(), String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = syn::parse_file(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        self.modules[module].file = path.to_path_buf();
        let mut reader = Reader { tree: self, module, error: None };
        reader.visit_file(&file);
        reader.error.map_or(Ok(()), Err)
    }

    fn add(&mut self, parent: usize, name: &str) -> usize {
        let module = self.modules.len();
        let file = self.modules[parent].file.clone();
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules[parent].children.insert(name.into(), module);
        module
    }

    /// The file of what `path` names in `module`, if that is of this crate.
    fn file_of(&self, module: usize, path: &[String], depth: usize) -> Option<&Path> {
        // A `use` may lead to another; a circle of them is no program that compiles.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (0, rest),
            "self" | "Self" => (module, rest),
            "super" => (self.modules[module].parent, rest),
            name if self.modules[module].children.contains_key(name) => (module, path),
            name => {
                let by_use = self.modules[module].uses.get(name)?;
                // An import that names a package of its own name leads out of the crate.
                if by_use.first() == Some(first) {
                    return None;
                }
                let whole: Vec<String> = by_use.iter().chain(rest).cloned().collect();
                return self.file_of(module, &whole, depth + 1);
            }
        };
        while let Some((name, after)) = rest.split_first() {
            if name == "super" {
                at = self.modules[at].parent;
            } else if let Some(child) = self.modules[at].children.get(name) {
                at = *child;
            } else if let Some(by_use) = self.modules[at].uses.get(name) {
                let whole: Vec<String> = by_use.iter().chain(after).cloned().collect();
                return self.file_of(at, &whole, depth + 1);
            } else {
                return Some(&self.modules[at].file);
            }
            rest = after;
        }
        Some(&self.modules[at].file)
    }

    /// Each file with those that it names something of.
    fn imports(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut all: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
        for (number, module) in self.modules.iter().enumerate() {
            let found = all.entry(&module.file).or_default();
            for path in module.paths.iter().chain(&module.globs) {
                found.extend(self.file_of(number, path, 0).filter(|file| *file != module.file));
            }
        }
        all
    }
}

impl Reader<'_> {
    fn module(&mut self) -> &mut Module {
        &mut self.tree.modules[self.module]
    }

    /// Takes the names of a `use`; `again` says that others may use them from here.
    fn take(&mut self, before: &[String], tree: &syn::UseTree, again: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.take(&with(&path.ident), &path.tree, again),
            syn::UseTree::Group(group) => group.items.iter().for_each(|one| self.take(before, one, again)),
            syn::UseTree::Glob(_) => self.module().globs.push(before.to_vec()),
            syn::UseTree::Name(name) if name.ident == "self" => {
                self.bind(before.last().cloned(), before.to_vec(), again);
            }
            syn::UseTree::Name(name) => self.bind(Some(name.ident.to_string()), with(&name.ident), again),
            syn::UseTree::Rename(rename) => {
                self.bind(Some(rename.rename.to_string()), with(&rename.ident), again)
            }
        }
    }

    /// A re-export is no import: it says where something is.
    fn bind(&mut self, name: Option<String>, path: Vec<String>, again: bool) {
        let module = self.module();
        if !again {
            module.paths.push(path.clone());
        }
        if let Some(name) = name {
            module.uses.insert(name, path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes: &[syn::Attribute] = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Mod(item) => &item.attrs,
            _ => &[],
        };
        if !for_tests(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        let module = self.tree.add(self.module, &name);
        if let Some((_, items)) = &item.content {
            let before = std::mem::replace(&mut self.module, module);
            items.iter().for_each(|item| self.visit_item(item));
            self.module = before;
            return;
        }
        let own = &self.tree.modules[self.module].file;
        let stem = own.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let folder = own.parent().map(Path::to_path_buf).unwrap_or_default();
        let folder = if matches!(stem.as_str(), "lib" | "main" | "mod") { folder } else { folder.join(stem) };
        let named = item.attrs.iter().find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        });
        let places = match named {
            Some(named) => vec![own.with_file_name(named)],
            None => vec![folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")],
        };
        let Some(path) = places.iter().find(|path| path.exists()) else {
            self.error.get_or_insert(format!("{}: no file of module `{name}`", own.display()));
            return;
        };
        if let Err(error) = self.tree.read(path, module) {
            self.error.get_or_insert(error);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let words = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.module().paths.push(words);
        }
        syn::visit::visit_path(self, path);
    }

    /// `pub(in crate::run)` says who may name a thing, and names nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

/// Groups of files that lead to each other, the largest first.
fn circles<'a>(imports: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> Vec<Vec<&'a Path>> {
    let pairs = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)));
    let mut found = kosaraju_scc(&DiGraphMap::<&Path, ()>::from_edges(pairs));
    found.retain(|circle| circle.len() > SMALL);
    found.iter_mut().for_each(|circle| circle.sort());
    found.sort_by_key(|circle| (Reverse(circle.len()), circle[0]));
    found
}

/// The modules of the crate whose root file is `root`.
fn tree_of(root: &Path) -> Result<Tree, String> {
    let mut tree = Tree { modules: vec![Module::default()] };
    tree.read(root, 0)?;
    Ok(tree)
}

/// Prints the circles of each package, or of one: a line for each file, with the files of the circle that it imports.
///
/// # Errors
/// No package of that name; a source file that cannot be read or parsed.
pub(crate) fn show(name: Option<&str>) -> Outcome {
    let packages = metadata::workspace()?;
    let wanted = |package: &&Package| name.is_none_or(|name| room(&package.name) == room(name));
    let packages: Vec<&Package> = packages.iter().filter(wanted).collect();
    if packages.is_empty() {
        return Err(format!("no package `{}`", name.unwrap_or_default()));
    }
    for package in packages {
        for root in &package.roots {
            let folder = Path::new(root).parent().unwrap_or(Path::new(root));
            let short = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
            let tree = tree_of(Path::new(root))?;
            let imports = tree.imports();
            for circle in circles(&imports) {
                println!("{}: {} files", room(&package.name), circle.len());
                for file in &circle {
                    let inside = imports[file].iter().filter(|other| circle.contains(other));
                    let inside: Vec<String> = inside.map(|other| short(other)).collect();
                    println!("  {} -> {}", short(file), inside.join(", "));
                }
            }
        }
    }
    Ok(())
}

/// Imports of a folder of `order` from one behind it, in the crate whose root lies in `root`.
fn against(order: &str, root: &Path, imports: &BTreeMap<&Path, BTreeSet<&Path>>) -> Vec<String> {
    let short = |file: &Path| file.strip_prefix(root).unwrap_or(file).display().to_string();
    let place = |file: &Path| {
        let folder = short(file);
        order.split(" < ").position(|name| folder.split(['/', '.']).next() == Some(name))
    };
    let pairs = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)));
    pairs
        .filter(|(from, to)| place(from).zip(place(to)).is_some_and(|(from, to)| from < to))
        .map(|(from, to)| format!("{} imports {}", short(from), short(to)))
        .collect()
}

/// Crates whose largest circle is not what the table says, and imports against the order of folders.
///
/// # Errors
/// A source file that cannot be read or parsed.
pub(super) fn complaints(packages: &[Package]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for package in packages {
        let mut largest = 0;
        for root in &package.roots {
            let tree = tree_of(Path::new(root))?;
            let imports = tree.imports();
            largest = largest.max(circles(&imports).first().map_or(0, Vec::len));
            let Some((_, order)) = FOLDERS.iter().find(|(name, _)| *name == room(&package.name)) else {
                continue;
            };
            let folder = Path::new(root).parent().unwrap_or(Path::new(root));
            let told = |what| format!("{}: {what}, against the order {order}", package.manifest);
            found.extend(against(order, folder, &imports).into_iter().map(told));
        }
        let allowed =
            LARGEST.iter().find(|(name, _)| *name == room(&package.name)).map_or(0, |(_, files)| *files);
        if largest != allowed {
            found.push(format!(
                "{}: the largest circle of imports has {largest} files, and {allowed} in the table of \
                 xtask/src/tidy/circles.rs: break it, or write the smaller number there",
                package.manifest
            ));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
