//! Goal: what a library declares is checked before it is believed and what it wants is corrected before it is obeyed; a
//! library lives as long as what was made of it; and a policy behind a table does what it does without one.

use base::{Duration, Instant, Rng};
use cc::{AckSample, Controller, HyStartLimits, PathInfo, Registry, Signal, SignalInfo};
use policy::{Library, LoadError, abi, export};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Compiles `body`, with the header before it, to a library.
fn library(name: &str, body: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, out) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    std::fs::write(&source, format!("#include \"millstream_cc.h\"\n{body}\n")).unwrap();
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-I", include, "-o"]);
    let output = cc.arg(&out).arg(&source).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// The table with `fields`, and what gives it.
fn table(fields: &str) -> String {
    format!(
        "static const struct millstream_cc policy = {{.abi = MILLSTREAM_CC_ABI, .size = sizeof policy, {fields}}};\n\
         const struct millstream_cc *millstream_cc_policy(void) {{ return &policy; }}"
    )
}

const PATH: PathInfo = PathInfo { mss: 1000, srtt: None, initial_window: 10_000, ssthresh: None };

fn ack(bytes: u32) -> AckSample<'static> {
    let rtt = Duration::from_millis(40);
    AckSample {
        now: Instant::from_secs(1),
        bytes,
        sacked: 0,
        segments: 1,
        in_flight: 10_000,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        rate: None,
        window_limited: true,
        in_recovery: false,
        paced: false,
        hystart: &HyStartLimits::STANDARD,
    }
}

fn info(flight_size: u32) -> SignalInfo {
    SignalInfo { now: Instant::from_secs(2), flight_size, mss: 1000, metered: false, after_mark: false }
}

#[test]
fn refusals_name_the_file_and_say_what_would_be_right() {
    let not_one = Path::new(env!("CARGO_TARGET_TMPDIR")).join("text.so");
    std::fs::write(&not_one, "not a library").unwrap();
    let rows = |row: &str| {
        format!(
            "static const struct millstream_cc_tunable rows[] = {{{row}}};\n\
             static int64_t get(const void *s, uint32_t i) {{ (void)s; return i; }}\n\
             static void set(void *s, uint32_t i, int64_t v) {{ (void)s; (void)i; (void)v; }}\n{}",
            table(
                ".name = \"x\", .tunables = rows, .tunables_len = 1, .get_tunable = get, .set_tunable = set"
            )
        )
    };
    type Kind = fn(String) -> LoadError;
    let cases: Vec<(PathBuf, Kind, &str)> = vec![
        ("/no/such/lib.so".into(), LoadError::File, "No such file"),
        (not_one, LoadError::File, "no shared library that can be loaded"),
        (
            library("symbol", "int other(void) { return 1; }"),
            LoadError::Symbol,
            "no function millstream_cc_policy",
        ),
        (
            library("null", "const struct millstream_cc *millstream_cc_policy(void) { return 0; }"),
            LoadError::Table,
            "no table",
        ),
        (
            library("version", &table(".name = \"x\", .abi = 2").replace(".abi = MILLSTREAM_CC_ABI, ", "")),
            LoadError::Version,
            "version 2",
        ),
        (
            library("short", &table(".name = \"x\", .size = 8").replace(".size = sizeof policy, ", "")),
            LoadError::Version,
            "(8 bytes)",
        ),
        (library("nameless", &table(".name = 0")), LoadError::Table, "name \"\""),
        (library("shouting", &table(".name = \"LOUD\"")), LoadError::Table, "name \"LOUD\""),
        (library("long", &table(".name = \"sixteen-letters-\"")), LoadError::Table, "1 to 15"),
        (
            library("crooked", &table(".name = \"x\", .state_size = 8, .state_align = 3")),
            LoadError::Table,
            "aligned to 3",
        ),
        (
            library("vast", &table(".name = \"x\", .state_size = (size_t)-1")),
            LoadError::Table,
            "at most 65536",
        ),
        (library("rowless", &table(".name = \"x\", .tunables_len = 1")), LoadError::Table, "1 tunables"),
        (library("range", &rows("{\"a\", \"A.\", 2, 1}")), LoadError::Table, "a range"),
        (library("dotted", &rows("{\"a.b\", \"A.\", 1, 2}")), LoadError::Table, "letters, digits"),
    ];
    for (file, kind, say) in cases {
        let error = Library::open(&file).err().unwrap_or_else(|| panic!("{} was loaded", file.display()));
        let text = error.to_string();
        assert_eq!(error, kind(text.clone()));
        assert!(text.contains(say) && text.contains(&file.display().to_string()), "{text}");
    }
}

#[test]
fn only_the_name_is_mandatory() {
    let library = Library::open(&library("bare", &table(".name = \"bare\""))).unwrap();
    let mut registry = Registry::new();
    library.register(&mut registry).unwrap();
    assert!(matches!(library.register(&mut registry), Err(LoadError::Exists(_))));
    let mut policy = registry.create("bare").unwrap();
    assert_eq!((policy.name(), policy.needs()), ("bare", cc::Needs::default()));
    policy.on_established(&PATH);
    policy.on_sent(Instant::ZERO, 1000, 1000);
    policy.on_ack(&ack(1000));
    policy.on_congestion(Signal::Loss, &info(9000));
    policy.on_recovery_end(&info(0));
    policy.on_spurious(Signal::Loss, Instant::ZERO);
    policy.on_idle_restart(Instant::ZERO, Duration::ZERO, &PATH);
    assert_eq!((policy.window().cwnd, policy.window().ssthresh), (10_000, u32::MAX));
    policy.on_congestion(Signal::Timeout { nth: 1 }, &info(9000));
    assert_eq!(policy.window().cwnd, 1_000, "a timeout is answered even so");
    policy.on_mss_change(1_400);
    assert_eq!(policy.window().cwnd, 1_400);
    assert_eq!(library.corrections(), 0);
}

#[test]
fn what_makes_no_sense_is_corrected_and_counted() {
    let body = "static void ack(void *s, struct millstream_cc_window *w, const struct millstream_cc_ack *a) {\n\
                (void)s; w->cwnd = a->bytes == 1 ? 0 : a->bytes == 2 ? UINT32_MAX : 5000; \
                w->ssthresh = a->bytes == 3 ? 0 : 8000; w->pacing_rate = 1000000; }\n";
    let fields =
        ".name = \"broken\", .ack = ack, .needs = MILLSTREAM_CC_NEEDS_PACING | MILLSTREAM_CC_NEEDS_RATES";
    let library = Library::open(&library("broken", &format!("{body}{}", table(fields)))).unwrap();
    let mut registry = Registry::new();
    library.register(&mut registry).unwrap();
    let mut policy = registry.create("broken").unwrap();
    assert!(policy.needs().pacing && policy.needs().rates && !policy.needs().unmetered);
    policy.on_established(&PATH);
    let windows = [1, 2, 3, 4].map(|bytes| {
        policy.on_ack(&ack(bytes));
        (policy.window().cwnd, policy.window().ssthresh)
    });
    assert_eq!(windows, [(1_000, 8_000), (1 << 30, 8_000), (5_000, 2_000), (5_000, 8_000)]);
    assert_eq!(library.corrections(), 3);
    assert_eq!(policy.window().pacing.map(base::Rate::bytes_per_sec), Some(1_000_000));
}

#[test]
fn a_state_is_zeroed_aligned_its_own_and_given_back() {
    let body = "static int alive; static int moody;\n\
        struct own { unsigned char bytes[4096]; int64_t value; };\n\
        static const struct millstream_cc_tunable rows[] = {{\"value\", \"A value.\", -5, 5}, \
            {\"alive\", \"States that live.\", 0, 100}, {\"moody\", \"Is init to fail?\", 0, 1}};\n\
        static int init(void *s) { struct own *o = s; if (moody || (uintptr_t)s % 256) return 1;\n\
            for (int i = 0; i < 4096; i++) { if (o->bytes[i]) return 1; } o->bytes[7] = 9; alive++; return 0; }\n\
        static void destroy(void *s) { (void)s; alive--; }\n\
        static int64_t get(const void *s, uint32_t i) { const struct own *o = s; \
            return i == 0 ? o->value : i == 1 ? alive : moody; }\n\
        static void set(void *s, uint32_t i, int64_t v) { struct own *o = s; \
            if (i == 0) o->value = v; else if (i == 2) moody = (int)v; }\n";
    let fields = ".name = \"own\", .state_size = sizeof(struct own), .state_align = 256, .init = init, \
                  .destroy = destroy, .tunables = rows, .tunables_len = 3, .get_tunable = get, .set_tunable = set";
    let file = library("own", &format!("{body}{}", table(fields)));
    let library = Library::open(&file).unwrap();
    assert!(Arc::ptr_eq(&library, &Library::open(&file).unwrap()), "mapped once");
    let mut registry = Registry::new();
    library.register(&mut registry).unwrap();
    let mut one = registry.create("own").unwrap();
    let two = registry.create("own").unwrap();
    assert_eq!(one.set_tunable("value", 5), Ok(()));
    assert_eq!(one.set_tunable("value", 6), Err(cc::TunableError::OutOfRange { min: -5, max: 5 }));
    assert_eq!(one.set_tunable("magic", 6), Err(cc::TunableError::Unknown));
    assert_eq!(
        (one.tunable("value"), two.tunable("value"), two.tunable("alive")),
        (Some(5), Some(0), Some(2))
    );

    one.set_tunable("moody", 1).unwrap();
    assert_eq!(registry.create("own").err(), Some(cc::CreateError::Failed), "init may refuse");
    one.set_tunable("moody", 0).unwrap();
    drop(two);
    assert_eq!(one.tunable("alive"), Some(1));
    registry.retire("own");
    registry.retire("own");
    registry.remove("own").unwrap();
    drop((registry, library));
    let mapped = |name| Library::living().iter().any(|library| library.name() == name);
    assert!(mapped("own"), "its last connection lives");
    assert_eq!(one.tunable("value"), Some(5));
    drop(one);
    assert!(!mapped("own"));
}

/// Any of ours behind a table.
struct Exported;

impl export::Export for Exported {
    type Policy = cc::Cubic;
    const NAME: &'static str = "cubic-so";
    fn make() -> cc::Cubic {
        cc::Cubic::new()
    }
}

#[test]
fn a_policy_behind_a_table_does_what_it_does_without() {
    let table: &'static abi::Table = Box::leak(Box::new(export::table::<Exported>()));
    // SAFETY: the table stays for good, and its hooks are generated.
    let library = unsafe { Library::from_table(table) }.unwrap();
    let mut registry = Registry::new();
    library.register(&mut registry).unwrap();
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut pair = [registry.create("cubic").unwrap(), registry.create("cubic-so").unwrap()];
        registry.retire("cubic");
        registry.retire("cubic-so");
        assert_eq!(pair[0].tunables().concat(), pair[1].tunables().concat());
        let limits = [HyStartLimits::STANDARD, HyStartLimits::LEAST, HyStartLimits::MOST][seed as usize % 3];
        let mut now = Instant::from_secs(1);
        for policy in &mut pair {
            policy.set_tunable("fast_convergence", (seed % 2) as i64).unwrap();
            policy.on_established(&PathInfo { ssthresh: (seed % 3 == 0).then_some(20_000), ..PATH });
        }
        for step in 0..300 {
            now += Duration::from_millis(rng.below(40));
            let (op, bytes) = (rng.below(20), rng.below(6_000) as u32);
            let flight = pair[0].window().cwnd;
            let rtt = Some(Duration::from_millis(40 + rng.below(60)));
            for policy in &mut pair {
                let info = SignalInfo { now, ..info(flight) };
                match op {
                    0 => policy.on_congestion(Signal::Loss, &info),
                    1 => policy.on_congestion(Signal::Timeout { nth: 1 + bytes % 2 }, &info),
                    2 => policy.on_congestion(Signal::Ecn, &info),
                    3 | 4 => policy.on_recovery_end(&info),
                    5 => policy.on_spurious(Signal::Loss, now),
                    6 => policy.on_idle_restart(now, Duration::from_secs(3), &PATH),
                    7 => policy.on_mss_change(500 + bytes % 1_000),
                    _ => policy.on_ack(&AckSample {
                        now,
                        in_flight: flight,
                        rtt,
                        in_recovery: op == 9,
                        paced: false,
                        hystart: &limits,
                        ..ack(bytes)
                    }),
                }
            }
            assert_eq!(pair[0].window(), pair[1].window(), "seed {seed}, step {step}, op {op}");
            let tuned = pair.each_ref().map(|policy| policy.tunable("fast_convergence"));
            assert_eq!(tuned[0], tuned[1]);
        }
    }
    assert_eq!(library.corrections(), 0);
}
