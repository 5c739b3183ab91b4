//! Goal: a folder is run as its scripts are meant, and what is named itself is run in any case.
use super::*;

#[test]
fn a_setting_that_would_change_nothing_is_counted_by_name() {
    let source = "`sysctl -q net.ipv4.tcp_syncookies=1 net.ipv4.tcp_sack=1`\n\
                      0 `sysctl net.ipv4.tcp_syncookies=0`\n";
    let report = run(Path::new("x.pkt"), source, &Config::default());
    let told = summary(&[report.clone(), report]).unsupported;
    assert_eq!(
        told.into_iter().collect::<Vec<_>>(),
        [("the sysctl net.ipv4.tcp_syncookies=0 (this stack has 1)".into(), 2)]
    );
}

#[test]
fn a_script_for_other_profiles_is_left_out_of_its_folder() {
    let dir = std::env::temp_dir().join(format!("millstream-suite-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    for (name, head) in
        [("all", ""), ("bsd", "// profiles: freebsd\n"), ("two", "// x\n// profiles: linux rfc\n")]
    {
        std::fs::write(dir.join(name).with_extension("pkt"), format!("{head}0 `true`\n")).unwrap();
    }
    let left = |named: &[PathBuf], profile| {
        let mut found = scripts(named).unwrap();
        let out = leave_out(&mut found, named, profile).unwrap();
        let stem = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        (found.iter().map(stem).collect::<Vec<_>>().join(" "), out)
    };
    let here = [dir.clone()];
    assert_eq!(left(&here, Profile::Linux), ("all two".into(), 1));
    assert_eq!(left(&here, Profile::Freebsd), ("all bsd".into(), 1));
    assert_eq!(left(&[dir.join("two.pkt")], Profile::Freebsd), ("two".into(), 0), "asked for by name");
    std::fs::remove_dir_all(dir).unwrap();
}
