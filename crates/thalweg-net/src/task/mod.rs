//! What becomes of a node when one of its tasks fails.
//!
//! *The idea.* A task of tokio's that panics is gone, and nothing says so: without its control task a node keeps its links, answers
//! its neighbours and does nothing. So each task is one of two kinds. A *vital* one serves the whole node: when it ends or panics,
//! [`Failures`] says so, and the node ends, for a supervisor to start it again. One that serves a single connection runs [`alone`]:
//! its panic costs that connection, and is counted. A panic anywhere else ends the process as well, by the hook of panics
//! (`thalweg_node::program`), which asks [`is_alone`].
//!
//! *What it does not do.* It restarts nothing: state that a panic has left half changed is not to be believed.

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
    /// Set while a task runs that serves one connection.
    static ALONE: ();
}

/// Marks a future as one that serves a single connection: its panic ends that connection and not the node.
pub fn alone<F: Future>(task: F) -> impl Future<Output = F::Output> {
    ALONE.scope((), task)
}

/// Returns whether what runs now serves a single connection.
pub fn is_alone() -> bool {
    ALONE.try_with(|()| ()).is_ok()
}

/// Starts the tasks that a node cannot be without; clones tell the same [`Failures`].
#[derive(Clone, Debug)]
pub struct Vital(mpsc::UnboundedSender<Failure>);

/// Hears of vital tasks that have ended.
#[derive(Debug)]
pub struct Failures(mpsc::UnboundedReceiver<Failure>);

/// A vital task has ended, and the node must.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {how}: the node cannot go on without it")]
pub struct Failure {
    /// Which task.
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
    /// Returns what tells nobody, for an endpoint that is used without a node.
    fn default() -> Self {
        Self(mpsc::unbounded_channel().0)
    }
}

impl Vital {
    /// Returns what starts tasks, and what hears of their failures.
    pub fn new() -> (Self, Failures) {
        let (tell, failures) = mpsc::unbounded_channel();
        (Self(tell), Failures(failures))
    }

    /// Starts a task that must not end; one that is aborted has not failed.
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        tokio::spawn(self.watched(name, task)).abort_handle()
    }

    /// Starts a task that may end, but must not panic.
    pub fn spawn_ending(
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

    /// Returns a task that tells when it ends, for one that is spawned elsewhere.
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
        // While the node stops, tasks end and nobody listens.
        let _ = self.0.send(Failure { task, how });
    }
}

impl Failures {
    /// Waits for the first failure; for ever if nothing can fail any more.
    pub async fn next(&mut self) -> Failure {
        match self.0.recv().await {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }
}

/// Runs a task that serves one connection; if it panics, `fail` is to end the connection.
pub(crate) async fn alone_or(task: impl Future<Output = ()>, fail: impl FnOnce()) {
    if alone(Caught(Box::pin(task))).await.is_err() {
        fail();
    }
}

/// A future whose panic is its result, as the panic's message.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // What the panic left half changed is not used again: the task is gone, and with it its connection or the node.
        let polled = catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context)));
        match polled {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(payload) => Poll::Ready(Err(message(&*payload))),
        }
    }
}

/// Returns what a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".into())
}
