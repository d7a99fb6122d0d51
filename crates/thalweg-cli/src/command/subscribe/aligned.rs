//! `thalweg subscribe NAME --with NAME`: streams of one clock, together.
//!
//! *The idea.* The node's library gives out their ADUs in the order of their times, with each gap in its
//! place. A picture and its data become one transport stream again; other streams become JSON lines, since
//! only an envelope can say of which stream a message is. What it will be is known with the first ADU.

use std::path::Path;

use serde_json::{Value, json};
use thalweg_base::adu::{Adu, MediaTime};
use thalweg_base::description::Description;
use thalweg_base::id::StreamName;
use thalweg_io::format::Format;
use thalweg_io::url::{End, Sink};
use thalweg_media::ts::{DataPid, Subscriber as Remux};
use thalweg_node::local::LocalSubscriber;
use thalweg_node::{Aligned, AlignedEvent, AlignedSubscriber, SubscribeOptions};

use super::Arguments;
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::lasting;
use crate::progress::Progress;
use crate::shutdown::Shutdown;
use crate::terminal;

/// What a lane is to the output.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    /// Nothing has come of it.
    Unknown,
    /// The transport stream.
    Picture,
    /// Data of the transport stream.
    Data(DataPid),
    /// Messages of this encoding.
    Messages(String),
}

/// Streams that are written together.
struct Output<'a> {
    names: &'a [StreamName],
    roles: Vec<Role>,
    remux: Remux,
    sink: Sink,
    /// Whether a transport stream is written, once that is known.
    is_ts: Option<bool>,
    adus: Vec<u64>,
    missing: Vec<u64>,
    late: u64,
    /// ADUs that have no place in the output.
    unreadable: u64,
}

/// Receives until all streams end or a request to stop.
pub(super) async fn receive(arguments: &Arguments, name: StreamName) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let names: Vec<StreamName> = [name].into_iter().chain(arguments.with.clone()).collect();
    let mut seen = names.clone();
    seen.sort();
    seen.dedup();
    if seen.len() < names.len() {
        return fail(
            Code::BadInput,
            "--with names a stream twice: once is enough",
        );
    }
    let sink = Sink::open(&arguments.to).await.or_code(Code::Failed)?;
    let lanes = subscribe(arguments, &names).await.or_code(Code::Failed)?;
    let mut aligned = AlignedSubscriber::new(lanes, arguments.with_wait);
    let progress = Progress::start("receiving", matches!(arguments.to, End::Standard));
    let mut output = Output::new(&names, sink);
    let outcome = tokio::select! {
        outcome = output.write_all(arguments, &mut aligned, &progress) => outcome,
        () = Sink::reader_gone(&arguments.to) => {
            fail::<()>(Code::Failed, "cannot write to standard output: its reader is gone")
        }
        () = shutdown.requested() => Ok(()),
    };
    let report = output.report();
    let sentence = output.sentence();
    let finished = output.sink.finish().await;
    let passed = progress.finish();
    terminal::print_notice(&format!("received {passed}; {sentence}"));
    if arguments.json {
        terminal::print(&format!("{report}\n"))?;
    }
    outcome?;
    finished?;
    Ok(Code::Done)
}

/// Subscribes to all of them; the first last, so that its source sees the others when it begins.
async fn subscribe(
    arguments: &Arguments,
    names: &[StreamName],
) -> anyhow::Result<Vec<LocalSubscriber>> {
    let mut lanes = Vec::new();
    for name in names.iter().rev() {
        let client = arguments
            .socket
            .connect()
            .await
            .map_err(|failure| failure.error)?;
        lanes.push(client.subscribe(options(arguments, name)).await?);
    }
    lanes.reverse();
    Ok(lanes)
}

fn options(arguments: &Arguments, name: &StreamName) -> SubscribeOptions {
    SubscribeOptions::new(name.clone(), true).with_mailbox(arguments.wishes.options())
}

impl<'a> Output<'a> {
    fn new(names: &'a [StreamName], sink: Sink) -> Self {
        Self {
            names,
            roles: vec![Role::Unknown; names.len()],
            remux: Remux::new(),
            sink,
            is_ts: None,
            adus: vec![0; names.len()],
            missing: vec![0; names.len()],
            late: 0,
            unreadable: 0,
        }
    }

    async fn write_all(
        &mut self,
        arguments: &Arguments,
        aligned: &mut AlignedSubscriber<LocalSubscriber>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        loop {
            match aligned.recv().await {
                Ok(None) => return Ok(()),
                Ok(Some(event)) => self.handle(event, &arguments.to, progress).await?,
                Err(error) if lasting::is_gone(&error) && !arguments.lasting.no_reconnect => {
                    let again = async |socket: &Path| {
                        let mut lanes = Vec::new();
                        for name in self.names {
                            lanes.push(super::subscribe(socket, &options(arguments, name)).await?);
                        }
                        Ok(lanes)
                    };
                    aligned.resume(super::reconnect(arguments, progress, again).await?);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn handle(
        &mut self,
        event: AlignedEvent,
        to: &End,
        progress: &Progress,
    ) -> Result<(), Failure> {
        match event {
            AlignedEvent::Notice { lane, text } => {
                progress.notify(&format!("{}: {text}", self.names[lane]));
            }
            AlignedEvent::Described { lane, description } => {
                self.roles[lane] = role(lane, &description);
            }
            AlignedEvent::Aligned(Aligned::Adu { lane, adu, is_late }) => {
                if self.roles[lane] == Role::Unknown {
                    // Its source has not described it.
                    self.roles[lane] = role(lane, &Description::default());
                }
                self.adus[lane] += 1;
                self.late += u64::from(is_late);
                progress.count(adu.payload.len());
                self.write(lane, &adu, is_late, to).await?;
            }
            AlignedEvent::Aligned(Aligned::Gap {
                lane,
                adus,
                after,
                before,
            }) => {
                self.missing[lane] += adus;
                progress.notify(&format!(
                    "{}: {adus} ADUs are missing between {} and {}",
                    self.names[lane],
                    seconds(after),
                    seconds(before)
                ));
                let gap = json!({
                    "stream": self.names[lane], "gap": adus,
                    "after_us": after.as_micros(), "before_us": before.as_micros(),
                });
                self.write_line(&gap).await?;
            }
            AlignedEvent::Aligned(Aligned::Silent { lane, since }) => {
                let name = &self.names[lane];
                let (past, waited) = match since {
                    Some(since) => (
                        format!(" after {}", seconds(since)),
                        since.as_micros().into(),
                    ),
                    None => (String::new(), Value::Null),
                };
                progress.notify(&format!(
                    "{name}: nothing comes{past}; the other streams go on without it"
                ));
                let silent = json!({ "stream": name, "silent": true, "after_us": waited });
                self.write_line(&silent).await?;
            }
        }
        Ok(())
    }

    /// Writes an ADU as what the output is; the first one decides.
    async fn write(
        &mut self,
        lane: usize,
        adu: &Adu,
        is_late: bool,
        to: &End,
    ) -> Result<(), Failure> {
        let is_ts = match self.is_ts {
            Some(is_ts) => is_ts,
            None => self.decide(to)?,
        };
        if !is_ts {
            let line = self.line(lane, adu, is_late);
            return self.write_line(&line).await;
        }
        let time = adu.header.media_time;
        let packets = match &self.roles[lane] {
            Role::Picture => self.remux.handle_payload(&adu.payload).ok(),
            Role::Data(data) => Some(self.remux.handle_message(*data, time, &adu.payload)),
            Role::Unknown | Role::Messages(_) => None,
        };
        match packets {
            Some(packets) if packets.is_empty() => {}
            Some(packets) => self.sink.write(&packets, time.as_90khz()).await?,
            None => self.unreadable += 1,
        }
        Ok(())
    }

    /// Decides what the output is: a transport stream if a picture is among what has come, or only its data
    /// has, which is then withheld until the picture comes.
    fn decide(&mut self, to: &End) -> Result<bool, Failure> {
        let has_messages = self
            .roles
            .iter()
            .any(|role| matches!(role, Role::Messages(_)));
        let has_picture = self.roles.contains(&Role::Picture);
        if has_picture && has_messages {
            let at = self
                .roles
                .iter()
                .position(|role| matches!(role, Role::Messages(_)));
            let name = &self.names[at.unwrap_or(0)];
            let sentence = format!(
                "`{name}` is no data of a transport stream, which `{}` is: they cannot be written together",
                self.names[0]
            );
            return fail(Code::BadInput, sentence);
        }
        let is_ts = !has_messages;
        let format = if is_ts { Format::Ts } else { Format::Lines };
        to.check_out(format).or_code(Code::BadInput)?;
        self.is_ts = Some(is_ts);
        Ok(is_ts)
    }

    /// Returns an ADU as a line: a JSON payload as it is, text as text, anything else in base64.
    fn line(&self, lane: usize, adu: &Adu, is_late: bool) -> Value {
        let header = &adu.header;
        let mut line = json!({
            "stream": self.names[lane],
            "sequence": header.sequence.0,
            "time_us": header.media_time.as_micros(),
            "importance": header.importance.0,
        });
        if is_late {
            line["late"] = true.into();
        }
        let is_json = self.roles[lane] == Role::Messages("json".into());
        let text = std::str::from_utf8(&adu.payload).ok();
        let value = text
            .filter(|_| is_json)
            .and_then(|text| serde_json::from_str(text).ok());
        match (value, text) {
            (Some(value), _) => line["json"] = value,
            (None, Some(text)) => line["text"] = text.into(),
            (None, None) => line["base64"] = data_encoding::BASE64.encode(&adu.payload).into(),
        }
        line
    }

    /// Writes a line, unless a transport stream is written.
    async fn write_line(&mut self, line: &Value) -> Result<(), Failure> {
        if self.is_ts == Some(false) {
            self.sink
                .write_message(format!("{line}\n").as_bytes())
                .await?;
        }
        Ok(())
    }

    fn report(&self) -> Value {
        let streams = self.names.iter().enumerate().map(|(lane, name)| {
            json!({ "name": name, "adus": self.adus[lane], "missing": self.missing[lane] })
        });
        json!({
            "streams": streams.collect::<Vec<_>>(),
            "late": self.late,
            "unreadable": self.unreadable,
        })
    }

    fn sentence(&self) -> String {
        let each = self.names.iter().enumerate().map(|(lane, name)| {
            format!(
                "{name} {} (missing {})",
                self.adus[lane], self.missing[lane]
            )
        });
        let each: Vec<String> = each.collect();
        let late = match self.late {
            0 => String::new(),
            late => format!(", late {late}"),
        };
        format!("{}{late}, unreadable {}", each.join(", "), self.unreadable)
    }
}

/// Returns what a stream is to the output; only the first can be the picture.
fn role(lane: usize, description: &Description) -> Role {
    let is_ts = description.encoding.is_empty() || description.encoding == "mpegts";
    match DataPid::described(description) {
        Some(data) => Role::Data(data),
        None if lane == 0 && is_ts => Role::Picture,
        None => Role::Messages(description.encoding.clone()),
    }
}

/// Returns `12.340 s`.
fn seconds(time: MediaTime) -> String {
    let millis = time.as_micros() / 1_000;
    format!("{}.{:03} s", millis / 1_000, millis % 1_000)
}
