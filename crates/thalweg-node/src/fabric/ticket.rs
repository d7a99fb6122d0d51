//! Tickets as text: one word that survives copying, dictation and line breaks, and detects damage.
//!
//! ```text
//! text = "thalweg" ‖ base32(ticket ‖ signature ‖ first 4 bytes of BLAKE3 over both)
//!        base32: RFC 4648, lower case, no padding
//! ```
//!
//! The text distinguishes damage from tampering: a lost or changed character breaks the checksum, a
//! forged ticket the inviter's signature.

use data_encoding::BASE32_NOPAD;
use thalweg_base::id::NodeId;
use thalweg_base::wire::WireError;
use thalweg_base::wire::admission::{Sign as _, Signed, Ticket, decode_ticket, encode_ticket};
use thalweg_net::identity;

/// The prefix of every ticket.
const PREFIX: &str = "thalweg";

/// Bytes of the checksum: it misses one damaged ticket in 2³².
const CHECKSUM_BYTES: usize = 4;

/// Generous bound on the characters of a ticket; a longer text is cut.
const TEXT_CHARS_MAX: usize = 1280;

/// Why a ticket's text cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// It is something else.
    #[error(
        "this is not a ticket: a ticket begins with `{PREFIX}`, as `thalweg invite` prints it; give it alone"
    )]
    NoTicket,
    /// A character is wrong or missing.
    #[error(
        "the ticket is damaged: a character is missing or wrong, or there are too many; copy it again, whole and alone"
    )]
    Damaged,
    /// The checksum is right, but the content is not a ticket's.
    #[error("the ticket cannot be read: {0}")]
    Malformed(WireError),
    /// Its inviter has not signed it.
    #[error("the ticket was tampered with: it names the inviter {} and does not bear its signature", inviter.short())]
    Forged {
        /// The inviter that the ticket names.
        inviter: NodeId,
    },
}

/// Returns a ticket as text.
pub(crate) fn to_text(ticket: &Signed<Ticket>) -> String {
    let mut bytes = encode_ticket(ticket);
    bytes.extend_from_slice(&checksum(&bytes));
    format!("{PREFIX}{}", BASE32_NOPAD.encode(&bytes).to_lowercase())
}

/// Reads a ticket, and checks its inviter's signature. Ignores case, white space, and the marks
/// with which mail programs quote lines and enclose links; none of these is a character of a
/// ticket.
pub fn parse(text: &str) -> Result<Ticket, TicketError> {
    let text: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '<' | '>'))
        .take(TEXT_CHARS_MAX)
        .collect::<String>()
        .to_ascii_lowercase();
    let word = text.strip_prefix(PREFIX).ok_or(TicketError::NoTicket)?;
    let bytes = BASE32_NOPAD
        .decode(word.to_ascii_uppercase().as_bytes())
        .map_err(|_| TicketError::Damaged)?;
    let (ticket, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(TicketError::Damaged)?;
    if checksum(ticket) != *sum {
        return Err(TicketError::Damaged);
    }
    let Signed { content, signature } = decode_ticket(ticket).map_err(TicketError::Malformed)?;
    let inviter = content.inviter;
    if identity::verify(inviter, &content.signed_bytes(), &signature) {
        Ok(content)
    } else {
        Err(TicketError::Forged { inviter })
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let digest = blake3::hash(bytes);
    let mut sum = [0; CHECKSUM_BYTES];
    sum.copy_from_slice(&digest.as_bytes()[..CHECKSUM_BYTES]);
    sum
}
