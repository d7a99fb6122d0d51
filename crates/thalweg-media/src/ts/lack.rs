//! What a transport stream lacks before anything of it can be used.
//!
//! The idea: packets, then the PAT, then a PMT, then a unit of a stream that it lists; the first of
//! these that is missing is the one to report.

use std::fmt;

/// The missing part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// Transport packets.
    Packets,
    /// Packets that are not null packets.
    Content,
    /// A valid PAT.
    Association {
        /// PATs that were broken.
        broken: u64,
    },
    /// A programme in the PAT.
    Programmes,
    /// A valid PMT.
    Maps {
        /// The PIDs on which they are expected.
        pids: Vec<u16>,
        /// PMTs that were broken.
        broken: u64,
    },
    /// A unit of a stream that a PMT lists.
    Units {
        /// The PIDs on which they are expected.
        pids: Vec<u16>,
    },
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets => f.write_str("no MPEG-TS packets"),
            Self::Content => f.write_str("null packets only"),
            Self::Association { broken: 0 } => f.write_str(
                "no programme table (PAT, PID 0), so it is not known what the packets carry",
            ),
            Self::Association { broken } => write!(
                f,
                "no valid programme table: {broken} PATs (PID 0) have a wrong CRC or format"
            ),
            Self::Programmes => f.write_str("a programme table (PAT) that lists no programme"),
            Self::Maps { pids, broken: 0 } => write!(
                f,
                "no stream table (PMT, PID {}), so it is not known what the packets carry",
                list(pids)
            ),
            Self::Maps { pids, broken } => write!(
                f,
                "no valid stream table: {broken} PMTs (PID {}) have a wrong CRC or format",
                list(pids)
            ),
            Self::Units { pids } => write!(
                f,
                "programme and stream tables (PAT, PMT), but nothing yet of the streams that they list (PID {})",
                list(pids)
            ),
        }
    }
}

fn list(pids: &[u16]) -> String {
    let pids: Vec<String> = pids.iter().map(|pid| format!("{pid:#x}")).collect();
    pids.join(", ")
}
