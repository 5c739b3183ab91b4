//! Goal: `millstream.h` says exactly what the library has, and every function has a version. The header is made from
//! the functions and their documentation; `cargo xtask headers` writes it, this test refuses a difference.

mod manual;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A header: where it lies, what comes before and after the functions, and the files they are in.
struct Header {
    path: &'static str,
    head: &'static str,
    foot: &'static str,
    files: &'static [&'static str],
}

const HEADERS: &[Header] = &[Header {
    path: "include/millstream.h",
    head: include_str!("../../include/millstream.head"),
    foot: "#ifdef __cplusplus\n}\n#endif\n\n#endif /* MILLSTREAM_H */\n",
    files: &[
        "open",
        "sockets",
        "data",
        "messages",
        "descriptors",
        "options",
        "policies",
        "polling",
        "zero_copy",
        "about",
    ],
}];

/// C's words for ours.
const TYPES: &[(&str, &str)] = &[
    ("c_int", "int"),
    ("c_char", "char"),
    ("c_void", "void"),
    ("c_ulong", "unsigned long"),
    ("Context", "struct ms_ctx"),
    ("Buffer", "struct ms_buffer"),
    ("Table", "struct millstream_cc"),
    ("sockaddr", "struct sockaddr"),
    ("c_uint", "unsigned int"),
    ("mmsghdr", "struct mmsghdr"),
    ("msghdr", "struct msghdr"),
    ("iovec", "struct iovec"),
    ("pollfd", "struct pollfd"),
    ("epoll_event", "struct epoll_event"),
    ("timespec", "struct timespec"),
    ("Option<Look>", "ms_look *"),
    ("size_t", "size_t"),
    ("ssize_t", "ssize_t"),
    ("socklen_t", "socklen_t"),
    ("nfds_t", "nfds_t"),
];

struct Function {
    doc: Vec<String>,
    name: String,
    arguments: Vec<(String, String)>,
    result: String,
}

fn home() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A type as C writes it, ready for a name behind it.
fn c_type(ours: &str) -> String {
    let (inner, constant) = match ours.split_once(' ') {
        Some(("*const", inner)) => (inner, true),
        Some(("*mut", inner)) => (inner, false),
        _ => {
            let known = TYPES.iter().find(|(name, _)| *name == ours);
            let known = known.unwrap_or_else(|| panic!("no word of C for {ours}")).1;
            return if known.ends_with('*') { known.into() } else { format!("{known} ") };
        }
    };
    let pointee = c_type(inner);
    match (constant, pointee.ends_with('*')) {
        (true, false) => format!("const {pointee}*"),
        // A pointer that is not written through: its const stands behind the star.
        (true, true) => format!("{pointee}const *"),
        (false, _) => format!("{pointee}*"),
    }
}

fn argument(text: &str, context: bool) -> (String, String) {
    match text.split_once(':') {
        Some((name, kind)) => (name.trim().trim_end_matches('_').into(), c_type(kind.trim())),
        None => {
            assert!(context, "{text}: an argument has a type");
            (text.trim().into(), c_type("*mut Context"))
        }
    }
}

/// The functions of a file, as its macros show them.
fn functions(text: &str) -> Vec<Function> {
    let (mut found, mut doc, mut context) = (Vec::new(), Vec::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line {
            "api! {" => context = true,
            "free_api! {" => context = false,
            _ => {}
        }
        if let Some(words) = line.strip_prefix("    ///") {
            doc.push(words.trim().to_string());
        } else if let Some(start) = line.strip_prefix("    fn ms_").filter(|_| !doc.is_empty()) {
            let mut whole = start.to_string();
            while !whole.contains('{') {
                whole += lines.next().expect("a function has a body").trim();
            }
            let (name, rest) = whole.split_once('(').expect("arguments");
            let (arguments, rest) = rest.split_once(") -> ").expect("a result");
            found.push(Function {
                doc: std::mem::take(&mut doc),
                name: format!("ms_{name}"),
                arguments: arguments
                    .split(',')
                    .filter(|argument| !argument.trim().is_empty())
                    .map(|text| argument(text, context))
                    .collect(),
                result: c_type(rest.trim_end_matches('{').trim()),
            });
        } else {
            doc.clear();
        }
    }
    found
}

/// Joined by commas, in lines of at most 100 columns.
fn prototype(function: &Function) -> String {
    let mut text = format!("{}{}(", function.result, function.name);
    let indent = " ".repeat(text.len());
    let mut column = text.len();
    for (at, (name, kind)) in function.arguments.iter().enumerate() {
        let piece = format!("{kind}{name}");
        let comma = if at == 0 { "" } else { ", " };
        if column + comma.len() + piece.len() > 98 {
            text += &format!(",\n{indent}");
            column = indent.len();
        } else {
            text += comma;
            column += comma.len();
        }
        text += &piece;
        column += piece.len();
    }
    if function.arguments.is_empty() {
        text += "void";
    }
    text + ");\n"
}

fn comment(doc: &[String]) -> String {
    if let [line] = doc {
        return format!("/** {line} */\n");
    }
    let lines: String = doc.iter().map(|line| format!(" * {line}").trim_end().to_string() + "\n").collect();
    format!("/**\n{lines} */\n")
}

fn made(header: &Header) -> String {
    let mut text = header.head.to_string();
    for file in header.files {
        let source = read(&home().join("src/calls").join(format!("{file}.rs")));
        let title = source.lines().find_map(|line| line.strip_prefix("//! ")).expect("a title");
        text += &format!("/* --- {} --- */\n\n", title.trim_end_matches('.'));
        for function in functions(&source) {
            text += &format!("{}{}\n", comment(&function.doc), prototype(&function));
        }
    }
    text + header.foot
}

/// Returns the names in a version script.
fn listed(script: &str) -> BTreeSet<String> {
    script
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The functions that a header written by hand declares: what stands before a parenthesis at the top level.
fn declared(header: &str) -> BTreeSet<String> {
    let lines = header.lines().filter(|line| line.ends_with(");") && !line.starts_with("typedef"));
    lines.filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next()).map(str::to_owned).collect()
}

#[test]
fn headers_are_what_the_library_has() {
    for header in HEADERS {
        let (path, text) = (home().join(header.path), made(header));
        if std::env::var_os("MILLSTREAM_BLESS").is_some() {
            fs::write(&path, &text).expect("the header can be written");
        }
        let there = read(&path);
        assert!(there == text, "{} is not what the functions say: run `cargo xtask headers`", header.path);
    }
}

#[test]
fn every_function_has_a_version() {
    let all = HEADERS.iter().flat_map(|header| header.files);
    let mut functions: BTreeSet<String> = all
        .flat_map(|file| functions(&read(&home().join("src/calls").join(format!("{file}.rs")))))
        .map(|function| function.name)
        .collect();
    assert!(functions.len() > 40, "{functions:?}");
    // mTCP's are checked against their headers by the C compiler.
    for header in ["include/mtcp_api.h", "include/mtcp_epoll.h"] {
        let declared = declared(&read(&home().join(header)));
        assert!(declared.len() > 4, "{declared:?}");
        functions.extend(declared);
    }
    assert_eq!(listed(&read(&home().join("libmillstream.map"))), functions);
}

#[test]
fn types_and_prototypes() {
    assert_eq!(c_type("*const *const c_char"), "const char *const *");
    assert_eq!(c_type("*mut *mut Context"), "struct ms_ctx **");
    assert_eq!(c_type("Option<Look>"), "ms_look *");
    let text =
        "api! {\n    /// Words.\n    fn ms_x(ctx, a: c_int,\n            b: *const c_void) -> ssize_t {\n";
    let found = functions(text);
    assert_eq!(prototype(&found[0]), "ssize_t ms_x(struct ms_ctx *ctx, int a, const void *b);\n");
    let text = "free_api! {\n    /// Words.\n    fn ms_y() -> *const c_char {\n";
    assert_eq!(prototype(&functions(text)[0]), "const char *ms_y(void);\n");
}
