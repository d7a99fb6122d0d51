//! Proves that the end of a vital task is reported with its reason, and that a connection's task
//! ends alone.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Ended, Failure, Vital, alone, alone_or, is_alone};

fn failed(task: &'static str, how: Ended) -> Failure {
    Failure { task, how }
}

#[tokio::test]
async fn vital_panic_reports_message() {
    let (vital, mut failures) = Vital::new();
    let number = 7;
    vital.spawn("the test", async move { panic!("no {number}") });
    let failure = failures.next().await;
    assert_eq!(failure, failed("the test", Ended::Panicked("no 7".into())));
    assert!(failure.to_string().contains("has panicked (no 7)"));
}

#[tokio::test]
async fn vital_return_is_reported() {
    let (vital, mut failures) = Vital::new();
    vital.spawn("the test", async {});
    assert_eq!(failures.next().await, failed("the test", Ended::Returned));
}

#[tokio::test]
async fn ending_task_reports_only_panics() {
    let (vital, mut failures) = Vital::new();
    vital.spawn_finite("the first", async {});
    vital.spawn_finite("the second", async { panic!("why") });
    let failure = failures.next().await;
    assert_eq!(failure, failed("the second", Ended::Panicked("why".into())));
}

#[tokio::test]
async fn aborted_task_is_no_failure() {
    let (vital, mut failures) = Vital::new();
    vital.spawn("the first", std::future::pending()).abort();
    vital.spawn("the second", async {});
    assert_eq!(failures.next().await.task, "the second");
}

#[tokio::test]
async fn connection_panic_ends_connection() {
    assert!(!is_alone());
    assert!(alone(async { is_alone() }).await);
    let is_ended = AtomicBool::new(false);
    alone_or(async { panic!("this connection") }, || {
        is_ended.store(true, Ordering::Relaxed);
    })
    .await;
    assert!(is_ended.load(Ordering::Relaxed));
}
