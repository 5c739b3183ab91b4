//! Goal: one clause of each standing, as it is shown and as it is counted.
use super::*;
use crate::rfc::clauses;
use crate::rfc::trace::Trace;

#[test]
fn rows_and_figures() {
    let list = "rfc = 7\ntitle = \"T\"\nincomplete = \"Why.\"\n\
                    [[clause]]\nid = \"2-1\"\nlevel = \"MUST\"\ntext = \"A.\"\n\
                    [[clause]]\nid = \"MAY-1\"\nsection = \"3.1\"\ntext = \"B.\"\nexception = \"C.\"\n\
                    [[clause]]\nid = \"MUST-1\"\nsection = \"3.2\"\ntext = \"D.\"\nnote = \"E.\"\n";
    let documents = [clauses::read("rfc7.toml", list).unwrap()];
    let mut trace = Trace::default();
    trace.take_rust("crates/core/tcp/src/a.rs", "// RFC 7, 2-1\nfn f() {}");
    trace.take_script("crates/lab/drill/suites/x.pkt", "// RFC 7, 2-1");
    trace.take_rust("crates/core/tcp/src/a.rs", "// RFC 7, section 9\nfn f() {}");
    trace.take_script("crates/lab/drill/suites/y.pkt", "// RFC 7, section 9");
    trace.take_script("crates/lab/drill/suites/z.pkt", "// RFC 7, section 9");
    let joined = trace.join(&documents);
    let page = page(&documents, &joined);
    let rows = [
        "| ✅ | 2-1 | MUST | A. | [tcp/a.rs: f](../crates/core/tcp/src/a.rs) | \
             [drill/suites/x.pkt](../crates/lab/drill/suites/x.pkt) |\n",
        "| ⚪ | MAY-1 | MAY | B. (3.1) **Exception:** C. |  |  |\n",
        "| 🔴 | MUST-1 | MUST | D. (3.2) *E.* |  |  |\n",
    ];
    assert!(page.contains("rfc7>. **The list is incomplete:** Why.\n"), "{page}");
    for row in rows {
        assert!(page.contains(row), "{row}{page}");
    }
    assert!(page.contains("\nCited as a whole: 9 (1 item, 2 tests).\n"), "{page}");
    assert!(page.contains("| 7 | 2 | 1 | 0 | 1 | 0 | 1 | 0 | 0 | 1 | 0 |\n"), "{page}");
    assert!(page.contains("| all | 2 | 1 | 0 | 1 | 0 | 1 | 0 | 0 | 1 | 0 |\n"));
}
