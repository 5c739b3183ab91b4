//! Goal: whatever comes, goes and dies, a flow has one answerer and keeps it; and processes find each other in files,
//! notice deaths at once, and leave nothing behind.

use super::*;
use crate::tests::testnet::{addr, own_namespace};
use base::{Addr, Endpoint, Rng};

#[test]
fn one_answers_whatever_happens() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let mut data = vec![0; rng.below(600) as usize];
        rng.fill(&mut data);
        // Mostly few members, who live long enough to have flows.
        data.splice(0..0, [0, 2, 0, 0, 2, 1, 4]);
        fuzz::table(&data);
    }
}

/// A member with its socket's filter and queue, as its port and stack use it.
struct Desk {
    member: Member,
    filter: Buckets,
    came: Vec<FlowKey>,
    /// SYNs that wait, and whether no other member has seen them.
    kept: Vec<(FlowKey, bool)>,
    serves: bool,
}

impl Desk {
    fn new() -> Desk {
        let member = join(&place("0.0.0.0"));
        member.listen(true).expect("listens");
        member.serve(true).expect("serves");
        let filter = member.view().0;
        Desk { member, filter, came: Vec::new(), kept: Vec::new(), serves: true }
    }

    fn serve(&mut self, wanted: bool) {
        if std::mem::replace(&mut self.serves, wanted) != wanted {
            self.member.serve(wanted).expect("serves, or not");
        }
    }

    /// Returns true if a copy of the SYN comes here.
    fn sees(&self, key: &FlowKey) -> bool {
        let at = self.member.table.bucket(key);
        self.filter[at / 32] >> (at % 32) & 1 == 1
    }

    fn open(&self, key: &FlowKey, opened: &mut Vec<FlowKey>) {
        self.member.on_flow(key, true);
        opened.push(*key);
    }

    fn keep(&mut self, key: &FlowKey, alone: bool) {
        match self.kept.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known |= alone,
            None => self.kept.push((*key, alone)),
        }
    }

    /// Looks at a SYN that came (`waited` is `None`), or that has waited.
    fn answer(&mut self, key: &FlowKey, waited: Option<bool>, keys: &[FlowKey], opened: &mut Vec<FlowKey>) {
        // The stack looks at its own flows first.
        if self.member.table.has(self.member.number, key) {
            return;
        }
        let leaves = match self.member.answerer(key, true) {
            Answerer::Ours => return self.open(key, opened),
            Answerer::OursSoon => return self.keep(key, waited == Some(true)),
            Answerer::NoneYet | Answerer::None => return self.keep(key, waited != Some(false)),
            Answerer::Next => true,
            Answerer::Another => waited == Some(true),
            Answerer::OursLately => panic!("{key:?} asks for a connection"),
        };
        let nth = keys.iter().position(|known| known == key).expect("a key of ours") as u16;
        if leaves && !self.member.hand_over(key, &nth.to_be_bytes()) {
            self.keep(key, true);
        }
    }

    /// A turn: the group, the filter, what others have left, what was kept, and at last what came.
    fn turn(&mut self, keys: &[FlowKey], opened: &mut Vec<FlowKey>) {
        self.member.look(true).expect("looks");
        if self.member.is_many() && !self.member.has_told() {
            self.member.on_told();
        }
        let (filter, deal) = self.member.view();
        self.filter = filter;
        self.member.obeys(deal);
        let mut state = Vec::new();
        while self.member.take_over(&mut state) {
            let key = keys[usize::from(state[0]) << 8 | usize::from(state[1])];
            if !self.member.table.has(self.member.number, &key) {
                self.open(&key, opened);
            }
        }
        for (key, alone) in std::mem::take(&mut self.kept) {
            self.answer(&key, Some(alone), keys, opened);
        }
        for key in std::mem::take(&mut self.came) {
            self.answer(&key, None, keys, opened);
        }
    }
}

/// Members serve, park, stall, run again and make way for others; sometimes no member serves. Clients ask again.
#[test]
fn a_connection_that_is_asked_for_is_answered_once_whichever_members_serve() {
    if !own_namespace() {
        return;
    }
    let local = Endpoint::new(addr("10.0.0.1"), 4321);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut desks = [Desk::new(), Desk::new(), Desk::new()];
        let (mut keys, mut opened) = (Vec::new(), Vec::new());
        (0..30).for_each(|nth| desks[nth % 3].turn(&keys, &mut opened));
        for _ in 0..400 {
            let nth = rng.below(3) as usize;
            let others = desks.iter().filter(|desk| desk.serves).count() - usize::from(desks[nth].serves);
            match rng.below(32) {
                0 | 1 => {
                    let serves = desks[nth].serves;
                    desks[nth].serve(!serves);
                }
                2 => desks[(nth + 1) % 3].member.table.stall(1 << desks[nth].member.number),
                // One that has left all to others ends, and another process comes.
                3 if others > 0 => {
                    desks[nth].serve(false);
                    desks[nth].member.listen(false).expect("ceases");
                    for turn in 0.. {
                        desks.iter_mut().for_each(|desk| desk.turn(&keys, &mut opened));
                        if !desks[nth].member.owes() && desks[nth].kept.is_empty() {
                            break;
                        }
                        assert!(turn < 20, "seed {seed}: it cannot end");
                    }
                    desks[nth] = Desk::new();
                }
                4..12 => {
                    let waits = keys.iter().copied().find(|key| !opened.contains(key));
                    let again = waits.filter(|_| rng.below(4) == 0);
                    let port = 1000 + keys.len() as u16;
                    let key =
                        again.unwrap_or_else(|| FlowKey::new(local, Endpoint::new(addr("10.0.0.2"), port)));
                    if again.is_none() {
                        keys.push(key);
                    }
                    desks.iter_mut().filter(|desk| desk.sees(&key)).for_each(|desk| desk.came.push(key));
                }
                _ => desks[nth].turn(&keys, &mut opened),
            }
        }
        desks.iter_mut().for_each(|desk| desk.serve(true));
        (0..60).for_each(|nth| desks[nth % 3].turn(&keys, &mut opened));
        let times = |key: &FlowKey| opened.iter().filter(|other| *other == key).count();
        let wrong: Vec<_> =
            keys.iter().map(|key| (key, times(key))).filter(|(_, times)| *times != 1).collect();
        assert!(wrong.is_empty(), "seed {seed}: times that a SYN of {} is answered: {wrong:?}", keys.len());
    }
}

#[test]
fn a_crowded_table_is_blurred_not_wrong() {
    let memory = ring::shared::SharedMemory::private(flows::LEN);
    let table = flows::Flows(memory.words(0, flows::LEN));
    // All in one line and the three behind it.
    let print = |n: u64| 1 + n;
    for n in 0..40 {
        table.insert(3, print(n));
    }
    assert!(table.may_have(3, print(39), false) && !table.may_have(3, print(39), true));
    assert!(table.may_have(3, print(99), false) && !table.may_have(4, print(99), false));
    for n in (0..40).rev() {
        table.remove(3, print(n));
    }
    assert!((0..40).all(|n| !table.may_have(3, print(n), false)) && table.count(3) == 0);
}

const SHARE: u64 = 77;

fn place(text: &str) -> Place {
    let addr = addr(text);
    Place { addr, port: 4321, dual: addr == Addr::UNSPECIFIED_V6 }
}

fn join(at: &Place) -> Member {
    let (member, _) = Member::join(1, *at, SHARE).expect("joins");
    member.core(true, false);
    member.settle_in().expect("unlocks");
    member
}

/// Does a port's work for its member until nothing is left to do.
fn tend(members: &[&Member]) {
    for _ in 0..4 {
        for member in members {
            member.look(true).expect("looks");
            if member.is_many() && !member.has_told() {
                member.on_told();
            }
            member.obeys(member.view().1);
        }
    }
}

fn shares(members: &[&Member]) -> Vec<usize> {
    let local = Endpoint::new(addr("10.0.0.1"), 4321);
    let mut shares = vec![0; members.len()];
    for port in 1000..3000 {
        let key = FlowKey::new(local, Endpoint::new(addr("10.0.0.2"), port));
        let who: Vec<_> = (0..members.len()).filter(|at| members[*at].answers(&key, true)).collect();
        assert_eq!(who.len(), 1, "{key:?}: {who:?}");
        shares[who[0]] += 1;
    }
    shares
}

#[test]
fn processes_meet_in_a_file() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let first = join(&any);
    first.serve(true).expect("serves");
    assert_eq!(shares(&[&first]), [2000]);
    let (second, third) = (join(&any), join(&any));
    [&second, &third].iter().for_each(|member| member.serve(true).expect("serves"));
    let all = [&first, &second, &third];
    tend(&all);
    assert!(shares(&all).iter().all(|share| (333..1333).contains(share)), "{:?}", shares(&all));
    // Parked it has no share, and is there. What asks for a connection meanwhile it leaves to the others.
    second.serve(false).expect("parks");
    let begins = |port| {
        let key = FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
        second.answers(&key, true)
    };
    assert!(!(1000..3000).any(begins));
    tend(&all);
    assert_eq!(shares(&all)[1], 0);
    // Strangers, and those who would overlap, are refused.
    let refused = |share, text| matches!(Member::join(1, place(text), share), Err(ClaimError::InUse));
    assert!(refused(SHARE + 1, "0.0.0.0") && refused(SHARE, "10.0.0.1") && refused(SHARE, "::"));
    assert!(!refused(SHARE, "fd00::1"));
    let path = first.path().to_owned();
    drop(third);
    tend(&[&first, &second]);
    assert_eq!(shares(&[&first, &second]), [2000, 0]);
    drop((first, second));
    assert!(!path.exists(), "the last one turns off the light");
}

#[test]
fn a_file_without_members_is_swept_unless_somebody_is_entering() {
    if !own_namespace() {
        return;
    }
    let found = GroupFile::open(1, &place("0.0.0.0")).expect("a file");
    sweep(None).expect("sweeps");
    assert!(found.file.path().exists(), "its opener is about to join");
    let path = found.file.path().to_owned();
    drop(found);
    sweep(None).expect("sweeps");
    assert!(!path.exists(), "nothing ever joined");
}

#[test]
fn a_group_of_another_version_is_not_begun_anew() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let first = join(&any);
    first.table.spoil();
    assert!(matches!(Member::join(1, any, SHARE), Err(ClaimError::InUse)));
    first.die();
    assert_eq!(join(&any).number, 0);
}

#[test]
fn a_death_is_noticed_and_a_grave_is_no_obstacle() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second) = (join(&any), join(&any));
    [&first, &second].iter().for_each(|member| member.serve(true).expect("serves"));
    tend(&[&first, &second]);
    let watcher = Watcher::new().expect("inotify");
    watcher.watch(first.path()).expect("a file");
    // As a process that is killed: its descriptors are closed, and nothing is said.
    second.die();
    let mut news = [sys::interest(watcher.fds()[0], libc::POLLIN)];
    assert_eq!(sys::poll(&mut news, Some(Duration::from_secs(1))).expect("poll"), 1);
    assert!(watcher.take() && !watcher.take());
    tend(&[&first]);
    assert_eq!(shares(&[&first]), [2000]);
    let path = first.path().to_owned();
    first.die();
    let (again, free) = Member::join(1, any, SHARE).expect("joins");
    assert!(!free, "the port may not be free in the kernel yet");
    again.core(true, false);
    again.settle_in().expect("unlocks");
    again.serve(true).expect("serves");
    assert_eq!(shares(&[&again]), [2000]);
    drop(again);
    assert!(!path.exists());
    assert!(Member::join(1, any, SHARE).is_ok_and(|(_, free)| free));
}

/// Looks as members do that run, until `until` is true or five seconds are over.
fn run(members: &[&Member], until: impl Fn() -> bool) {
    let end = sys::monotonic() + Duration::from_secs(5);
    while !until() {
        assert!(sys::monotonic() < end, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
        for member in members {
            member.look(false).expect("looks");
            member.obeys(member.view().1);
        }
    }
}

#[test]
fn a_member_that_does_not_run_has_no_share_until_it_runs() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let all = [join(&any), join(&any), join(&any)];
    let [first, second, third] = &all;
    [first, second].iter().for_each(|member| member.serve(true).expect("serves"));
    tend(&[first, second, third]);
    let key =
        |port| FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
    let held = key((500..1000).find(|port| first.answers(&key(*port), true)).expect("it has a share"));
    first.on_flow(&held, true);
    // The first is stopped. A third one that accepts nothing looks after the group all the same.
    run(&[second, third], || shares(&[first, second, third]) == [0, 2000, 0]);
    assert!(
        !second.answers(&held, true) && !second.answers(&held, false),
        "the connection is the first one's"
    );
    // The last that runs keeps what it has, should it stop too.
    let end = sys::monotonic() + Duration::from_millis(800);
    run(&[third], || sys::monotonic() > end);
    assert_eq!(shares(&[first, second, third]), [0, 2000, 0]);
    // It runs again.
    run(&[first, second, third], || shares(&[first, second, third]).iter().take(2).all(|share| *share > 600));
    assert!(!first.table.is_stalled(0) && !first.table.is_stalled(1));
}

/// Its flows are not in the table, so the one that comes is silent about what may be one.
#[test]
fn a_member_that_was_stopped_alone_has_no_share_and_keeps_its_flows() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let first = join(&any);
    first.serve(true).expect("serves");
    tend(&[&first]);
    let second = join(&any);
    second.on_told();
    second.serve(true).expect("serves");
    let key =
        |port| FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
    run(&[&second], || (500..1000).all(|port| second.answers(&key(port), true)));
    assert!(!(500..1000).any(|port| first.answers(&key(port), true)), "though it has not looked");
    assert!((500..1000).all(|port| second.answers(&key(port), true) && !second.answers(&key(port), false)));
    // It runs again, and tells its flows.
    run(&[&first, &second], || first.is_many() && !first.table.is_stalled(0));
    assert!(!(500..1000).any(|port| second.answers(&key(port), false)));
    first.on_told();
    run(&[&first, &second], || (500..1000).any(|port| second.answers(&key(port), false)));
    run(&[&first, &second], || shares(&[&first, &second]).iter().all(|share| *share > 600));
}

#[test]
fn members_that_run_are_not_taken_for_stalled() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second) = (join(&any), join(&any));
    [&first, &second].iter().for_each(|member| member.serve(true).expect("serves"));
    tend(&[&first, &second]);
    let (generation, end) = (first.deal(), sys::monotonic() + Duration::from_secs(2));
    run(&[&first, &second], || sys::monotonic() > end);
    assert_eq!(first.deal(), generation);
    // All were stopped, or the machine was busy: the first that comes judges nothing.
    first.look(false).expect("looks");
    std::thread::sleep(Duration::from_millis(900));
    first.look(false).expect("looks");
    assert_eq!(first.deal(), generation);
}

#[test]
fn a_stopped_holder_of_the_lock_stops_no_other_member() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second) = (join(&any), join(&any));
    [&first, &second].iter().for_each(|member| member.serve(true).expect("serves"));
    tend(&[&first, &second]);
    // The first is stopped while it changes the group.
    let held = first.file.lock(&first.table).expect("locks");
    second.serve(false).expect("parks");
    second.serve(true).expect("serves");
    let third = join(&any);
    third.serve(true).expect("serves");
    run(&[&second, &third], || shares(&[&first, &second, &third])[0] == 0);
    drop(third);
    // It goes on: it notices, and does what it was doing once more.
    assert!(!held.counts(&first.table));
    first.change(held, |table| table.serve(first.number, true)).expect("changes");
    run(&[&first, &second], || shares(&[&first, &second]).iter().all(|share| *share > 600));
    let path = first.path().to_owned();
    drop((first, second));
    assert!(!path.exists());
}

#[test]
fn a_stopped_holder_of_the_lock_of_an_empty_group_is_named() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let found = GroupFile::open(1, &any).expect("a file");
    let refused = match Member::join(1, any, SHARE) {
        Err(ClaimError::Os(error)) => error.to_string(),
        _ => panic!("it may not be begun by two"),
    };
    assert!(refused.contains("locked by a process that does not run"), "{refused}");
    drop(found);
    join(&any);
}

#[test]
fn a_connection_is_left_to_the_member_that_gets_new_ones() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second, third) = (join(&any), join(&any), join(&any));
    let flow =
        |port| FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
    let key = flow(1000);
    let beside = |other: &FlowKey| first.table.bucket(other) == first.table.bucket(&key);
    let other = (1001..=u16::MAX).map(flow).find(beside).expect("one of its bucket");
    let all = [&first, &second, &third];
    first.serve(true).expect("serves");
    tend(&all);
    assert!(!first.hand_over(&key, b"state"), "no other member wants it");
    second.serve(true).expect("serves");
    first.serve(false).expect("parks");
    assert!(first.hand_over(&key, b"a state of a few bytes") && !first.hand_over(&flow(999), &[0; 1 << 14]));
    tend(&all);
    let silent = || all.iter().all(|member| !member.answers(&key, false));
    assert!(silent(), "it is in no stack");
    let opens = |key: &FlowKey| all.iter().any(|member| member.answers(key, true));
    assert!(!opens(&key), "its SYN was answered before");
    assert!(opens(&other), "another connection of the bucket");
    let mut state = Vec::new();
    assert!(!first.take_over(&mut state) && !third.take_over(&mut state));
    assert!(second.take_over(&mut state) && state == b"a state of a few bytes");
    assert!(silent(), "its flow is not told yet");
    second.on_flow(&key, true);
    assert!(!second.take_over(&mut state));
    assert!(!first.answers(&key, false) && !third.answers(&key, false));
    // One that died before it told the flow.
    second.on_flow(&key, false);
    assert!(first.hand_over(&key, b"once more"));
    assert!(second.take_over(&mut state));
    third.serve(true).expect("serves");
    second.die();
    tend(&[&first, &third]);
    assert!(third.take_over(&mut state) && state == b"once more");
    third.on_flow(&key, true);
    // One whose heir wants none any more: it waits while a member has a listener, and is refused afterwards.
    let late = flow(1000 + 7);
    assert!(first.hand_over(&late, b"late"));
    third.serve(false).expect("parks");
    tend(&[&first, &third]);
    assert!(!first.take_over(&mut state) && !third.take_over(&mut state), "one may want it again");
    for member in [&first, &third] {
        member.listen(true).expect("listens");
        member.listen(false).expect("listens no more");
    }
    tend(&[&first, &third]);
    assert!(first.take_over(&mut state) || third.take_over(&mut state), "for its segments are to be refused");
    assert!(state == b"late");
}

#[test]
fn a_connection_goes_to_a_member_that_asks_for_it() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (master, one, two) = (join(&any), join(&any), join(&any));
    let flow =
        |port| FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
    let (key, later) = (flow(1000), flow(1001));
    let all = [&master, &one, &two];
    all.iter().for_each(|member| member.serve(true).expect("serves"));
    [&one, &two].iter().for_each(|member| member.set_role(Role::Servant).expect("serves"));
    tend(&all);
    assert_eq!(shares(&all), [2000, 0, 0]);
    assert!(!master.is_sole(), "segments of what it gives must reach the others");
    assert!(!master.hand_over(&key, b"state"), "none asks");
    one.set_role(Role::Asking).expect("asks");
    assert!(master.hand_over(&key, b"state") && !master.hand_over(&later, b"state"), "one is asked for");
    assert!(master.hand_over(&key, b"twice"), "it is on its way");
    let mut state = Vec::new();
    assert!(!master.take_over(&mut state) && !two.take_over(&mut state));
    assert!(one.take_over(&mut state) && state == b"state");
    one.on_flow(&key, true);
    assert!(!one.take_over(&mut state));
    // One that dies before it has taken what it asked for.
    two.set_role(Role::Asking).expect("asks");
    assert!(master.hand_over(&later, b"again"));
    let gone = two.number;
    two.die();
    tend(&[&master, &one]);
    assert!(master.take_over(&mut state) && state == b"again");
    // It was chosen before it was buried, and the state is there only afterwards.
    assert!(master.table.put_over(&key, Some(gone), b"late"));
    assert!(master.take_over(&mut state) && state == b"late");
}

#[test]
fn late_copies_are_not_refused_by_the_member_that_a_bucket_came_to() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second, third) = (join(&any), join(&any), join(&any));
    let key =
        |port| FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), port));
    let all = [&first, &second, &third];
    [&first, &second].iter().for_each(|member| member.serve(true).expect("serves"));
    tend(&all);
    first.table.age();
    let ended = key((500..1000).find(|port| first.answers(&key(*port), true)).expect("it has a share"));
    assert_eq!(first.answerer(&ended, false), Answerer::Ours, "of no flow, and nobody else's ever");
    // A connection that ends with its process, which ends in order.
    first.on_flow(&ended, true);
    first.serve(false).expect("parks");
    tend(&all);
    assert_eq!(second.answerer(&ended, false), Answerer::Another, "its member lives");
    first.on_flow(&ended, false);
    drop(first);
    assert_eq!(second.answerer(&ended, false), Answerer::OursLately, "a copy may be late");
    assert_eq!(second.answerer(&ended, true), Answerer::Ours);
    second.table.age();
    assert_eq!(second.answerer(&ended, false), Answerer::Ours);
    // The peers of one that is killed hear of it at once.
    third.serve(true).expect("serves");
    tend(&[&second, &third]);
    let killed = key((500..1000).find(|port| second.answers(&key(*port), true)).expect("it has a share"));
    second.die();
    tend(&[&third]);
    assert_eq!(third.answerer(&killed, false), Answerer::Ours);
}

#[test]
fn who_ends_while_none_listens_knows_that_the_next_one_may_come() {
    if !own_namespace() {
        return;
    }
    let any = place("0.0.0.0");
    let (first, second) = (join(&any), join(&any));
    let key = FlowKey::new(Endpoint::new(addr("10.0.0.1"), 4321), Endpoint::new(addr("10.0.0.2"), 1000));
    first.serve(true).expect("serves");
    tend(&[&first, &second]);
    first.serve(false).expect("parks");
    tend(&[&first, &second]);
    assert_eq!(first.answerer(&key, true), Answerer::NoneYet);
    assert_eq!(second.answerer(&key, true), Answerer::Another);
    second.serve(true).expect("serves");
    assert_eq!(first.answerer(&key, true), Answerer::Next);
}
