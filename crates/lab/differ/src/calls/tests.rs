//! Goal: a call sleeps if it waits for an event, and not while it waits for the kernel itself; programs get free ports.
use super::*;

/// A thread that reads from a pipe, and then waits for a child in vfork, which no signal ends.
const WAITS: &str = r#"
static int both[2];

static void *waits(void *at)
{
    struct task *t = at;
    char c;
    t->tid = (int)RAW(gettid, 0);
    t->started = 1;
    RAW(read, both[0], &c, 1);
    if (vfork() == 0) {
        RAW(alarm, 20);
        RAW(read, both[0], &c, 1);
        RAW(exit_group, 0);
    }
    return NULL;
}

int main(void)
{
    static struct task t = { .call = -1, .state = -1 };
    char text[400] = "";
    alarm(20);
    if (pipe(both) || pthread_create(&t.thread, NULL, waits, &t))
        return 1;
    while (state_of(&t) != SLEEPS)
        sched_yield();
    RAW(write, both[1], "r", 1);
    while (atol(text) != SYS_vfork) {
        sched_yield();
        read_of(&t, &t.call, "syscall", text, sizeof text);
    }
    if (state_of(&t) != BUSY)
        return 2;
    RAW(write, both[1], "v", 1);
    return pthread_join(t.thread, NULL);
}
"#;

/// Ports are not free once one of them is bound. A listener, and a connection whose window is shut, put nothing off.
const PORTS: &str = r#"
int main(void)
{
    int first = 20000, one;
    alarm(20);
    for (int i = 0; i < SLOTS; i++)
        p[i] = -1;
    while (!are_free(first) && first < 60000)
        first += 8;
    struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_port = htons(first + 7) };
    at.sin6_addr = in6addr_loopback;
    p[0] = socket(AF_INET6, SOCK_STREAM, 0), p[1] = socket(AF_INET6, SOCK_STREAM, 0);
    if (first == 60000 || bind(p[0], (void *)&at, sizeof at) || listen(p[0], 8))
        return 1;
    if (are_free(first))
        return 2;
    if (is_put_off() || connect(p[1], (void *)&at, sizeof at) || (one = accept(p[0], NULL, NULL)) < 0)
        return 3;
    for (int quiet = 0; quiet < 5; quiet++, usleep(1000))
        while (send(p[1], zeros, sizeof zeros, MSG_DONTWAIT) > 0)
            quiet = 0;
    return is_put_off() ? 4 : 0;
}
"#;

/// Returns the exit code of a program of the runtime and `rest`.
fn code_of(name: &str, rest: &str) -> Option<i32> {
    let dir = std::env::temp_dir().join(format!("differ-{name}-{}", std::process::id()));
    let program = compiled(&dir, rest).expect("a program");
    let ended = std::process::Command::new(&program).status().expect("its end");
    std::fs::remove_dir_all(&dir).expect("a folder");
    ended.code()
}

#[test]
fn a_wait_for_the_kernel_is_not_sleep() {
    assert_eq!(code_of("sleep", WAITS), Some(0));
}

#[test]
fn ports_in_use_are_not_free() {
    assert_eq!(code_of("ports", PORTS), Some(0));
}
