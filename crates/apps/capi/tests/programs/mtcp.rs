//! A program written to mTCP's documented calls, with mTCP's headers and a configuration file in its manner.

use crate::installed::{bed, compile};
use bench::bed::SERVER_ADDR;

#[test]
fn a_program_for_mtcp_runs() {
    let Some(bed) = bed() else { return };
    let client = compile("crates/apps/capi/tests/c/client.c", "client-mtcp", &[]);
    let program = compile("crates/apps/capi/tests/c/mtcp.c", "mtcp", &[]);
    bed.tap_instead().expect("a tap device");
    let file = bed.dir.join("mtcp.conf");
    let text = format!(
        "# as mTCP's programs have it\nio = dpdk\nnum_cores = 1\nnum_mem_ch = 4\nlink = tap:mst0\n\
         address = {SERVER_ADDR}/16\nrcvbuf = 65536\nsndbuf = 65536\nmax_concurrency = 5000\n\
         tcp_timeout = 60\ntcp_timewait = 2\nstat_print = dpdk0\n"
    );
    std::fs::write(&file, text).expect("a file");
    let server = bed.start(&bed.client, &program, &[&file.to_string_lossy()]).expect("it starts");
    for bytes in ["1", "100000", "3000000"] {
        let said = bed.in_ns(&bed.client, &client.to_string_lossy(), &[SERVER_ADDR, "7", bytes]);
        assert_eq!(said.unwrap_or_else(|e| panic!("{bytes}: {e}")), format!("{bytes} bytes are the same\n"));
    }
    drop(server);
}
