//! Asks for ADUs on behalf of a program that reads them one by one.
//!
//! *The idea.* Between node and program lies the socket, with room for some hundred kilobytes. What is in it
//! is out of the mailbox, where the program's policy holds. So a program with a policy is given a few ADUs
//! ahead, and with `newest` none: the node chooses when the program is ready.
//!
//! *What it does not do.* It sends nothing.

use thalweg_base::mailbox::{MailboxOptions, Policy};

/// ADUs that are on their way to a program that has a policy: enough to keep both ends busy.
const AHEAD: u64 = 8;

/// What was asked for and has not come.
#[derive(Debug)]
pub(super) struct Credit {
    /// The most that is asked for at once.
    window: u64,
    asked: u64,
}

impl Credit {
    /// Returns a credit to keep up; `None` if the program pulls by itself, or takes what comes.
    pub(super) fn of(options: &MailboxOptions) -> Option<Self> {
        let has_wishes = options.policy.is_some() || options.depth.is_some();
        let window = match options.policy {
            Some(Policy::Newest) => 1,
            _ => AHEAD,
        };
        (has_wishes && !options.pull).then_some(Self { window, asked: 0 })
    }

    /// Returns how many to ask for now that the program waits for one, if any.
    pub(super) fn take_due(&mut self) -> Option<u64> {
        if self.asked > self.window / 2 {
            return None;
        }
        let due = self.window - self.asked;
        self.asked = self.window;
        Some(due)
    }

    /// Handles that an ADU has come.
    pub(super) const fn handle_adu(&mut self) {
        self.asked = self.asked.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(policy: Policy) -> Credit {
        let options = MailboxOptions {
            policy: Some(policy),
            ..MailboxOptions::default()
        };
        Credit::of(&options).expect("it has a policy")
    }

    #[test]
    fn newest_is_asked_for_one_by_one() {
        let mut credit = credit(Policy::Newest);
        for _ in 0..3 {
            assert_eq!(credit.take_due(), Some(1));
            assert_eq!(credit.take_due(), None);
            credit.handle_adu();
        }
    }

    #[test]
    fn others_are_asked_for_ahead() {
        let mut credit = credit(Policy::DropOld);
        assert_eq!(credit.take_due(), Some(AHEAD));
        for _ in 0..3 {
            credit.handle_adu();
            assert_eq!(credit.take_due(), None);
        }
        credit.handle_adu();
        assert_eq!(credit.take_due(), Some(4));
    }

    #[test]
    fn program_without_wishes_has_none() {
        assert!(Credit::of(&MailboxOptions::default()).is_none());
        let pulls = MailboxOptions {
            policy: Some(Policy::Newest),
            pull: true,
            ..MailboxOptions::default()
        };
        assert!(Credit::of(&pulls).is_none());
    }
}
