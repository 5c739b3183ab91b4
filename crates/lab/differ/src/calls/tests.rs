//! Goal: a call sleeps if it waits for an event, and not while it waits for the kernel itself.
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

#[test]
fn a_wait_for_the_kernel_is_not_sleep() {
    let dir = std::env::temp_dir().join(format!("differ-calls-{}", std::process::id()));
    let program = compiled(&dir, WAITS).expect("a program");
    let ended = std::process::Command::new(&program).status().expect("its end");
    std::fs::remove_dir_all(&dir).expect("a folder");
    assert_eq!(ended.code(), Some(0));
}
