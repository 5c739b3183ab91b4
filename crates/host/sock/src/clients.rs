//! Threads for clients of the control socket and of the metrics.

use std::sync::{Arc, Mutex, PoisonError};

/// Serves a client from a thread of its own, or from the caller's where no thread can be made (RLIMIT_NPROC).
pub(crate) fn in_thread<C, S>(name: &str, client: C, serve: S)
where
    C: Send + 'static,
    S: Fn(C) + Send + Sync + 'static,
{
    let job = Arc::new((Mutex::new(Some(client)), serve));
    let other = job.clone();
    let run = |(client, serve): &(Mutex<Option<C>>, S)| {
        let client = client.lock().unwrap_or_else(PoisonError::into_inner).take();
        client.into_iter().for_each(serve);
    };
    if std::thread::Builder::new().name(name.into()).spawn(move || run(&other)).is_err() {
        run(&job);
    }
}
