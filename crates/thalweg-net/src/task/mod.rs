//! What happens to a node when one of its tasks fails.
//!
//! *The idea.* A tokio task that panics is gone, and nothing reports it: a node without its control
//! task keeps its links, answers its neighbours and does nothing. So each task is one of two kinds.
//! A *vital* task serves the whole node: when it ends or panics, [`Failures`] reports it and the
//! node exits, for a supervisor to restart. A task that serves a single connection runs [`alone`]:
//! its panic costs that connection and is counted. A panic anywhere else ends the process too, by
//! the panic hook (`thalweg_node::program`), which asks [`is_alone`].
//!
//! *What it does not do.* It restarts nothing: state that a panic left half changed cannot be
//! trusted.

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

tokio::task_local! {
    /// Set while a task runs that serves a single connection.
    static ALONE: ();
}

/// Marks a future as one that serves a single connection: its panic ends that connection and not
/// the node.
pub fn alone<F: Future>(task: F) -> impl Future<Output = F::Output> {
    ALONE.scope((), task)
}

/// The same for code of a thread that is no task.
pub(crate) fn alone_now<T>(code: impl FnOnce() -> T) -> T {
    ALONE.sync_scope((), code)
}

/// Returns whether the running task serves a single connection.
pub fn is_alone() -> bool {
    ALONE.try_with(|()| ()).is_ok()
}

/// Starts the tasks that a node cannot run without; clones report to the same [`Failures`].
#[derive(Clone, Debug)]
pub struct Vital(mpsc::UnboundedSender<Failure>);

/// Receives the failures of vital tasks.
#[derive(Debug)]
pub struct Failures(mpsc::UnboundedReceiver<Failure>);

/// A vital task has ended, so the node must end too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {how}: the node cannot go on without it")]
pub struct Failure {
    /// The task's name.
    pub task: &'static str,
    /// How it ended.
    pub how: Ended,
}

/// How a vital task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It returned.
    Returned,
    /// It panicked, with this message.
    Panicked(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned => f.write_str("has ended"),
            Self::Panicked(message) => write!(f, "has panicked ({message})"),
        }
    }
}

impl Default for Vital {
    /// Returns one without a receiver of failures, for an endpoint that is used without a
    /// node.
    fn default() -> Self {
        Self(mpsc::unbounded_channel().0)
    }
}

impl Vital {
    /// Returns the starter of vital tasks and the receiver of their failures.
    pub fn new() -> (Self, Failures) {
        let (sender, failures) = mpsc::unbounded_channel();
        (Self(sender), Failures(failures))
    }

    /// Starts a task that must not end; aborting it is not a failure.
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        tokio::spawn(self.watched(name, task)).abort_handle()
    }

    /// Starts a task that may end, but must not panic.
    pub fn spawn_finite(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let task = Caught(Box::pin(task));
        let vital = self.clone();
        let watched = async move {
            if let Err(message) = task.await {
                vital.fail(name, Ended::Panicked(message));
            }
        };
        tokio::spawn(watched).abort_handle()
    }

    /// Wraps a task to report its end, for one that is spawned elsewhere.
    pub fn watched(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let task = Caught(Box::pin(task));
        let vital = self.clone();
        async move {
            let how = match task.await {
                Ok(()) => Ended::Returned,
                Err(message) => Ended::Panicked(message),
            };
            vital.fail(name, how);
        }
    }

    fn fail(&self, task: &'static str, how: Ended) {
        // While the node stops, tasks end and the receiver is gone.
        let _ = self.0.send(Failure { task, how });
    }
}

impl Failures {
    /// Waits for the first failure; for ever if no vital task is left.
    pub async fn next(&mut self) -> Failure {
        match self.0.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }
}

/// Runs a task that serves one connection; if it panics, `fail` must end the connection.
pub(crate) async fn alone_or(task: impl Future<Output = ()>, fail: impl FnOnce()) {
    if alone(Caught(Box::pin(task))).await.is_err() {
        fail();
    }
}

/// A future that returns its own panic as an error: the panic's message.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // State that the panic left half changed is not used again: the task ends, and with it its
        // connection or node.
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        match polled {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(payload) => Poll::Ready(Err(message(&*payload))),
        }
    }
}

/// Returns the message of a panic.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
