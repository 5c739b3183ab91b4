//! The examples, against clients on the kernel.

use crate::installed::{bed, compile, pkg_config, prefix, root};
use bench::bed::{Bed, SERVER_ADDR, Server, sh};

/// Starts an example over tap, with settings on its command line.
fn start(bed: &Bed, name: &str) -> Server {
    let program = compile(&format!("examples/c/{name}.c"), name, &[]);
    bed.tap_instead().expect("a tap device");
    let address = format!("address={SERVER_ADDR}/16");
    bed.start(&bed.client, &program, &["link=tap:mst0", &address]).expect("the example starts")
}

/// The page's own words: the settings after `./echo`, and the address and port after `nc -N`.
#[test]
fn the_page_s_example_works_as_it_is_written() {
    let Some(bed) = bed() else { return };
    let page = std::fs::read_to_string(root().join("docs/C.md")).expect("the page");
    let behind =
        |begin: &str| page.lines().find_map(|line| line.split_once(begin)).expect("the page says so").1;
    let settings = behind("./echo ").trim_end_matches('&').split_whitespace();
    let to: Vec<&str> = behind("/dev/tcp/").split(['/', ';']).take(2).collect();
    let (program, client) = (compile("examples/c/echo.c", "echo-page", &[]), compile_client());
    // The device's name and addresses are its own: the veth link of the bed has the page's.
    sh("ip", &["-n", &bed.client, "link", "del", "ms1"]).expect("the link goes");
    let settings: Vec<&str> = settings.collect();
    let _server = bed.start(&bed.client, &program, &settings).expect("the example starts");
    let said = bed.in_ns(&bed.client, &client, &[to[0], to[1], "100000"]);
    assert_eq!(said.unwrap_or_else(|e| panic!("{e}")), "100000 bytes are the same\n");
}

#[test]
fn echo_gives_back_what_it_gets() {
    let Some(bed) = bed() else { return };
    let client = compile_client();
    let _server = start(&bed, "echo");
    for bytes in ["1", "1448", "100000", "5000000"] {
        let said = bed.in_ns(&bed.client, &client, &[SERVER_ADDR, "7", bytes]);
        assert_eq!(said.unwrap_or_else(|e| panic!("{bytes}: {e}")), format!("{bytes} bytes are the same\n"));
    }
}

#[test]
fn a_policy_of_the_programs_own_carries_bytes() {
    let Some(bed) = bed() else { return };
    let program = compile("examples/c/policy.c", "policy", &[]);
    let behind = compile("crates/apps/capi/tests/c/echo.c", "echo-kernel-policy", &[]);
    let _behind = bed.start(&bed.client, &behind, &["9001"]).expect("the server behind starts");
    bed.tap_instead().expect("a tap device");
    let (to, address) = (format!("TO={}:9001", bench::bed::CLIENT_BASE), format!("address={SERVER_ADDR}/16"));
    let program = program.to_string_lossy();
    let words = [&to, "BYTES=3000000", "WINDOW=17", &program, "link=tap:mst0", &address];
    let said = bed.in_ns(&bed.client, "env", &words).unwrap_or_else(|e| panic!("{e}"));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["3000000 bytes came back by steady, window 17", "its acknowledgments were seen"]);
    assert!(lines[2].starts_with("it stays: 1 connections and listeners use steady; "), "{said}");
    assert_eq!(lines[3..], ["now the connection has newreno"]);
}

fn curl(bed: &Bed, url: &str, to: &str) -> Result<String, String> {
    bed.in_ns(&bed.client, "curl", &["-sS", "--max-time", "20", "-o", to, "-w", "%{http_code}", url])
}

fn compile_client() -> String {
    compile("crates/apps/capi/tests/c/client.c", "client", &[]).to_string_lossy().into_owned()
}

#[test]
fn http_serves_files() {
    let Some(bed) = bed() else { return };
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    std::fs::write(bed.dir.join("big"), &bytes).expect("a file");
    std::fs::write(bed.dir.join("index.html"), "hello").expect("a file");
    let program = compile("examples/c/http.c", "http", &[]);
    bed.tap_instead().expect("a tap device");
    let (root, address) = (format!("ROOT={}", bed.dir.display()), format!("address={SERVER_ADDR}/16"));
    let program = program.to_string_lossy();
    let _server = bed
        .start(&bed.client, "env".as_ref(), &[&root, &program, "link=tap:mst0", &address])
        .expect("the example starts");
    let got = bed.dir.join("got");
    for (name, status, wanted) in [
        ("", "200", b"hello".as_slice()),
        ("big", "200", &bytes),
        ("index.html", "200", b"hello"),
        ("none", "404", b""),
    ] {
        let said = curl(&bed, &format!("http://{SERVER_ADDR}/{name}"), &got.to_string_lossy());
        assert_eq!(said.as_deref(), Ok(status), "{name}");
        assert!(std::fs::read(&got).unwrap_or_default() == wanted, "{name}: the bytes differ");
        let _ = std::fs::remove_file(&got);
    }
}

#[test]
fn proxy_joins_both_sides() {
    let Some(bed) = bed() else { return };
    let client = compile_client();
    let proxy = compile("examples/c/proxy.c", "proxy", &[]);
    // The server behind is the kernel's.
    let behind = compile("crates/apps/capi/tests/c/echo.c", "echo-kernel", &[]);
    let _behind = bed.start(&bed.client, &behind, &["9000"]).expect("the server behind starts");
    bed.tap_instead().expect("a tap device");
    let address = format!("address={SERVER_ADDR}/16");
    let to = format!("TO={}:9000", bench::bed::CLIENT_BASE);
    let proxy = proxy.to_string_lossy();
    let _proxy = bed
        .start(&bed.client, "env".as_ref(), &[&to, "PORT=8080", &proxy, "link=tap:mst0", &address])
        .expect("the example starts");
    for bytes in ["1", "100000", "3000000"] {
        let said = bed.in_ns(&bed.client, &client, &[SERVER_ADDR, "8080", bytes]);
        assert_eq!(said.unwrap_or_else(|e| panic!("{bytes}: {e}")), format!("{bytes} bytes are the same\n"));
    }
}

#[test]
fn symbols_have_versions_and_nothing_else_is_shown() {
    let library = prefix().join("lib/libmillstream.so.1");
    let shown = sh("nm", &["-D", "--defined-only", &library.to_string_lossy()]).expect("nm");
    assert!(shown.contains("ms_open@@MILLSTREAM_1.0"), "{shown}");
    let odd: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .filter(|name| !name.ends_with("@@MILLSTREAM_1.0") && *name != "MILLSTREAM_1.0")
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
    let header = sh("readelf", &["-d", &library.to_string_lossy()]).expect("readelf");
    assert!(header.contains("Library soname: [libmillstream.so.1]"), "{header}");
}

#[test]
fn the_examples_compile_as_their_makefile_says() {
    assert!(pkg_config("--libs").iter().any(|flag| flag == "-lmillstream"));
    let path = format!("PKG_CONFIG_PATH={}/lib/pkgconfig", prefix().display());
    let home = root().join("examples/c");
    let folder = prefix().join("examples");
    std::fs::create_dir_all(&folder).expect("a folder");
    for entry in home.read_dir().expect("examples").flatten() {
        std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
    }
    let folder = folder.to_string_lossy();
    sh("env", &[&path, "make", "-C", &folder, "CFLAGS=-O2 -Wall -Wextra -Werror"])
        .unwrap_or_else(|e| panic!("{e}"));
}
