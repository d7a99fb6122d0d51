//! Ctrl-C and SIGTERM: asked to end, and how a run ends then.
//!
//! *The idea.* The first request ends the run in good order. The handlers stay, so that a second one does not kill a
//! run that is putting things away; it takes seconds at most.

use tokio::signal::unix::{SignalKind, signal};

/// Waits until somebody asks this process to end.
pub async fn asked() {
    let interrupt = signal(SignalKind::interrupt());
    let terminate = signal(SignalKind::terminate());
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        // No handler can be had, so the system's own applies: the process ends at once.
        _ => std::future::pending().await,
    }
}
