//! With the feature `dpdk`: the shim over DPDK's inline functions, and the libraries it calls.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    /// The second is for tests, and what does not call it does not have it.
    const SHIMS: [&str; 2] = ["src/dpdk/shim.c", "src/dpdk/shim_test.c"];
    /// Libraries that the shim calls. Drivers are loaded at run time, from where the distribution put them.
    const LIBRARIES: [&str; 5] = ["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring"];
    const HELP: &str = "the feature `dpdk` needs DPDK 22.11 or later with its headers: install libdpdk-dev (Debian, \
                        Ubuntu) and pkg-config, or build without the feature";

    pub(super) fn build() {
        SHIMS.iter().for_each(|shim| println!("cargo:rerun-if-changed={shim}"));
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
        ask(&["--atleast-version=22.11", "libdpdk"]);
        let mut shim = cc::Build::new();
        shim.files(SHIMS).flag("-Wall").flag("-Wextra");
        // DPDK's headers are the system's: what the compiler thinks of them is not ours to mend.
        for flag in ask(&["--cflags", "libdpdk"]).split_whitespace() {
            shim.flag(flag.strip_prefix("-I").map_or(flag.into(), |folder| format!("-isystem{folder}")));
        }
        shim.compile("millstream_dpdk");
        for flag in ask(&["--libs-only-L", "libdpdk"]).split_whitespace() {
            println!("cargo:rustc-link-search=native={}", flag.trim_start_matches("-L"));
        }
        for library in LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }

    /// Returns pkg-config's output.
    fn ask(arguments: &[&str]) -> String {
        let output = Command::new("pkg-config").args(arguments).output();
        match output {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
            Ok(output) => panic!("{HELP}\n{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => panic!("{HELP}\npkg-config: {error}"),
        }
    }
}
