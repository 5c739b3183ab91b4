//! Goal: what is told is never shorter than what was seen, and fades.
use super::*;
use base::Duration;

fn lesson(srtt_ms: u32) -> HostLesson {
    HostLesson { srtt_us: srtt_ms * 1_000, rttvar_us: srtt_ms * 500, ssthresh: 0, cwnd: 14_600 }
}

#[test]
fn a_hint_fades_into_what_the_settings_say() {
    let config = Config { host_cache_age: Duration::from_secs(1_000), ..Config::default() };
    let memory = HostMemory::new(&config, lesson(100));
    let rto = |secs| memory.hint(&config, secs).rto_us;
    assert_eq!((rto(0), rto(500), rto(999)), (300_000, 650_000, 999_300));
    assert_eq!((rto(1_000), rto(5_000)), (0, 0));
    let long = HostMemory::new(&config, lesson(900));
    assert_eq!(long.hint(&config, 0).rto_us, 2_700_000, "longer than one second where it takes that");
}

#[test]
fn longer_is_believed_at_once_and_shorter_slowly() {
    let config = Config::default();
    let mut memory = HostMemory::new(&config, lesson(100));
    memory.learn(&config, &lesson(300));
    assert_eq!((memory.lesson.srtt_us, memory.lesson.rttvar_us), (300_000, 200_000));
    memory.learn(&config, &lesson(100));
    assert_eq!((memory.lesson.srtt_us, memory.lesson.rttvar_us), (275_000, 200_000));
    assert_eq!(memory.connections, 3);
}

#[test]
fn a_threshold_is_told_only_where_it_is_wanted() {
    let reduced = HostLesson { ssthresh: 20_000, ..lesson(10) };
    let wants = Config { host_ssthresh: true, ..Config::default() };
    let mut memory = HostMemory::new(&wants, reduced);
    assert_eq!(memory.hint(&wants, 0).ssthresh, 20_000);
    assert_eq!(memory.hint(&Config::default(), 0).ssthresh, 0);
    memory.learn(&wants, &HostLesson { ssthresh: 40_000, ..reduced });
    assert_eq!(memory.lesson.ssthresh, 30_000);
    memory.learn(&wants, &HostLesson { cwnd: 90_000, ..lesson(10) });
    assert_eq!(memory.lesson.ssthresh, 90_000, "a window beyond it met no loss");
    assert_eq!(HostMemory::new(&wants, lesson(10)).hint(&wants, 0).ssthresh, 0);
}
