//! Publishes messages of any format but MPEG-TS: lines, packets, records, sentences.
//!
//! *What it does not do.* It cuts no message: `ends` does.

use std::future::pending;

use anyhow::Context as _;
use thalweg_base::needs::Needs;
use thalweg_io::format::{Fields, Format};
use thalweg_io::url::Source;

use super::{Arguments, Playback};
use crate::ends::messages::Messages;
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::lasting::LastingPublisher;
use crate::pace::Speed;
use crate::progress::Progress;
use crate::shutdown::Shutdown;
use crate::terminal;

/// Publishes until the source ends or a request to stop.
pub async fn run(arguments: &Arguments, format: Format, needs: Needs) -> Outcome {
    let from = &arguments.from;
    from.check(format).or_code(Code::BadInput)?;
    if arguments.repeat {
        return fail(Code::BadInput, "--loop repeats MPEG-TS only");
    }
    let mut shutdown = Shutdown::listen()?;
    let source = tokio::select! {
        source = Source::open_pieces(from) => source.or_code(super::source_code(from))?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let fields = Fields {
        importance: arguments.importance_from.clone(),
        time: arguments.time_from.clone(),
        key: arguments.key_from.clone(),
    };
    let mut messages = Messages::new(source, format, arguments.importance, fields);
    let rate = tokio::select! {
        rate = messages.measure(&terminal::print_notice) => {
            rate.with_context(|| format!("cannot read {from}"))?
        }
        () = shutdown.requested() => return Ok(Code::Done),
    };
    if messages.is_empty() {
        return fail(
            Code::Failed,
            format!("{from} has no message of `--format {format}`"),
        );
    }
    let is_live = messages.is_live();
    let waits = super::waits(arguments, is_live);
    let rate = arguments.bitrate.unwrap_or(rate);
    let encoding = format.encoding(messages.sample());
    let mut publication = super::publication(arguments, needs, rate, encoding);
    // Unlike media, messages may compress; the ratio is unknown here.
    publication.pack_ratio = None;
    let mut publisher = tokio::select! {
        publisher = super::open(arguments, publication, waits) => publisher?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let progress = Progress::start("publishing", false);
    let mut is_stopped = false;
    let sent = tokio::select! {
        sent = async {
            super::wait(arguments, waits, pending(), &mut publisher).await?;
            send(arguments, &mut messages, &mut publisher, &progress).await
        } => sent,
        () = shutdown.requested() => { is_stopped = true; Ok(()) }
    };
    let ended = super::finish(arguments, publisher, progress, &mut shutdown, is_stopped).await?;
    let Some((passed, summary)) = ended else {
        return Ok(Code::Done);
    };
    super::report(arguments, &passed, summary, messages.report(format))?;
    messages.print_repeated(from);
    sent?;
    Ok(Code::Done)
}

async fn send(
    arguments: &Arguments,
    messages: &mut Messages,
    publisher: &mut LastingPublisher,
    progress: &Progress,
) -> Result<(), Failure> {
    // Only a field tells when a message of a file is due.
    let is_paced = arguments.time_from.is_some() && !messages.is_live();
    let mut playback = Playback::new(if is_paced {
        arguments.speed
    } else {
        Speed::Max
    });
    loop {
        let notify = |said: &str| progress.notify(said);
        let message = tokio::select! {
            biased;
            message = messages.next(&notify) => message,
            error = publisher.gone() => {
                publisher.reconnect_after(error).await?;
                continue;
            }
        };
        let message =
            message.with_context(|| format!("cannot read more from {}", arguments.from))?;
        let Some(message) = message else {
            return Ok(());
        };
        playback.send(message, publisher, progress).await?;
    }
}
