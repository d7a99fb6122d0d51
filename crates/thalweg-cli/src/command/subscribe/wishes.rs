//! What a subscriber asks of its mailbox, as options, and how it asks for ADUs if it pulls.
//!
//! *The idea.* With `--pull` the node gives nothing that was not asked for. Either each ADU is asked for
//! when the one before it is written, or a program writes numbers to standard input: so many it will take.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thalweg_base::mailbox::{Depth, MailboxOptions, PRIORITY_USUAL, Policy};
use thalweg_node::local::Requests;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::watch;

use crate::exit::{Code, Failure, fail};
use crate::input::Offering;
use crate::terminal;

/// What the subscriber asks of its mailbox on the node.
#[derive(Debug, Args)]
#[command(next_help_heading = "When this program is slower than the stream")]
pub struct Wishes {
    /// What goes: wait (nothing: a stream that promises all its ADUs is slowed down), newest (all but the
    /// newest), drop-old, drop-new or by-importance (the least important) [default: wait if the stream
    /// promises all its ADUs, drop-new if they have a deadline, else drop-old].
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    policy: Option<Policy>,

    /// How much may wait on the node: ADUs, bytes or a time, such as 100, 4MiB or '2 s' [default: 4096
    /// ADUs and 16 MiB, which bound any other depth too].
    #[arg(long, value_name = "DEPTH")]
    depth: Option<Depth>,

    /// Take nothing that was not asked for: each ADU when the one before it is written, or, with
    /// --pull=stdin, as many as the numbers on standard input say, one a line; it ends with them.
    #[arg(long, value_name = "BY", num_args = 0..=1, require_equals = true, default_missing_value = "written")]
    pull: Option<By>,

    /// Write what was dropped of the stream in this program's mailbox, on its node or on the way, a JSON
    /// object a line.
    #[arg(long, value_name = "FILE")]
    pub(super) drops: Option<PathBuf>,

    /// Among the subscribers on its node, the higher is served first, and keeps more if memory is scarce.
    #[arg(long, value_name = "0-255", default_value_t = PRIORITY_USUAL)]
    priority: u8,
}

/// When an ADU is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// When the one before it is written.
    Written,
    /// As numbers on standard input say.
    Stdin,
}

fn policies() -> impl clap::builder::TypedValueParser<Value = Policy> {
    use clap::builder::TypedValueParser as _;
    let parser = clap::builder::StringValueParser::new().try_map(|text| text.parse::<Policy>());
    Offering::new(parser, Policy::ALL.into_iter().map(Policy::name))
}

impl Wishes {
    /// Returns the options of the mailbox.
    pub(super) fn options(&self) -> MailboxOptions {
        MailboxOptions {
            policy: self.policy,
            depth: self.depth,
            pull: self.pull.is_some(),
            priority: self.priority,
        }
    }

    /// Refuses options that do not go together; `is_one` tells whether one stream is received.
    pub(super) fn check(&self, is_one: bool) -> Result<(), Failure> {
        if let Some((key, why)) = self.options().fault() {
            return fail(Code::BadInput, format!("--{key}: {why}"));
        }
        if self.pull == Some(By::Stdin) && !is_one {
            let sentence = "numbers on standard input ask for ADUs of one stream: give its name, or `--pull` alone";
            return fail(Code::BadInput, sentence);
        }
        Ok(())
    }

    /// Returns what asks for the ADUs of a subscription.
    pub(super) fn pull(&self) -> Pull {
        let mode = match self.pull {
            None => Mode::Never,
            Some(By::Written) => Mode::Written,
            Some(By::Stdin) => {
                let (sender, granted) = watch::channel(Granted::default());
                tokio::spawn(read_grants(sender));
                Mode::Granted(granted)
            }
        };
        Pull {
            mode,
            asked: 0,
            came: 0,
        }
    }
}

/// Asks for ADUs, over several subscriptions if the node restarts meanwhile.
pub(super) struct Pull {
    mode: Mode,
    /// ADUs that were asked for, and that came.
    asked: u64,
    came: u64,
}

enum Mode {
    Never,
    Written,
    Granted(watch::Receiver<Granted>),
}

/// What standard input has asked for so far.
#[derive(Clone, Copy, Default)]
struct Granted {
    adus: u64,
    /// No more is asked for.
    is_all: bool,
}

impl Pull {
    /// Handles a new subscription: what was asked for before must be asked for again.
    pub(super) const fn handle_subscribed(&mut self) {
        self.asked = self.came;
    }

    /// Handles that an ADU has come, and is written if it is new.
    pub(super) const fn handle_adu(&mut self) {
        self.came += 1;
    }

    /// Asks for what is due, as often as it is; returns once all that was ever asked for has come.
    pub(super) async fn run(&mut self, requests: &Requests) {
        loop {
            let (wanted, is_all) = match &mut self.mode {
                Mode::Never => std::future::pending().await,
                Mode::Written => (self.came + 1, false),
                Mode::Granted(granted) => {
                    let granted = *granted.borrow_and_update();
                    (granted.adus, granted.is_all)
                }
            };
            if wanted > self.asked {
                let more = wanted - self.asked;
                self.asked = wanted;
                // The reader of the subscription learns why, after what the node wrote before it closed.
                let _ = requests.request(more).await;
                continue;
            }
            if is_all && self.came >= wanted {
                return;
            }
            let is_open = match &mut self.mode {
                Mode::Granted(granted) => granted.changed().await.is_ok(),
                Mode::Never | Mode::Written => false,
            };
            if !is_open {
                // What came is handled elsewhere, and this is called again.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Reads how many ADUs are asked for, a number a line.
async fn read_grants(granted: watch::Sender<Granted>) {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = line.trim();
        match line.parse::<u64>() {
            Ok(more) => granted.send_modify(|granted| {
                granted.adus = granted.adus.saturating_add(more);
            }),
            Err(_) if line.is_empty() => {}
            Err(_) => terminal::print_notice(&format!(
                "`{line}` on standard input is no number of ADUs to ask for"
            )),
        }
    }
    granted.send_modify(|granted| granted.is_all = true);
}
