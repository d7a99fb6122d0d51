//! The state file of a node of a fabric, beside its key.
//!
//! *The idea.* One JSON object, replaced as a whole: written beside, synced, renamed. It holds the
//! revocations, so that a node that starts alone does not admit a revoked node; and the remaining
//! uses of tickets, so that a restart does not make one redeemable twice. It holds only the digests
//! of ticket secrets.
//!
//! *What it does not do.* Loading checks no signatures; [`State::check`] and the membership at the
//! node's start do.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize, Serializer};
use thalweg_base::id::NodeId;
use thalweg_base::limits::FILE_BYTES_MAX;
use thalweg_base::time::Duration;
use thalweg_base::wire::admission::{
    Credential, Sign, Signed, Warrant, decode_credential, decode_warrant, encode_credential,
    encode_warrant,
};
use thalweg_control::admission::{Invitation, Invitations, Rights, Roll, Unfit, UnixTime};
use thalweg_net::{Addresses, Relay};

use crate::config::relays as read_relays;

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// It cannot be read or written.
    #[error("cannot {action} {path}, where this node keeps its grant: {source}")]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is a pipe, a device or a folder.
    #[error(
        "{path} is not a regular file, so the node cannot keep its grant there: name another `state_file` under [fabric]"
    )]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Its content is not a node's state.
    #[error("{path} is not a valid state file of a fabric: {reason}; move it away and join again")]
    Garbage {
        /// The file.
        path: PathBuf,
        /// The mistake.
        reason: String,
    },
    /// It holds another node's grant.
    #[error("{path} holds the grant of the node {}, and {}: name another `state_file` under [fabric], or the key file of that node", granted.short(), describe_own(*own))]
    OtherNode {
        /// The file.
        path: PathBuf,
        /// The node with this grant.
        granted: NodeId,
        /// This node, if it has a key yet.
        own: Option<NodeId>,
    },
    /// The configuration names another owner.
    #[error("{path} is of the fabric {}, and the configuration says `owner = \"{configured}\"`: one of the two is wrong", kept.short())]
    OtherFabric {
        /// The file.
        path: PathBuf,
        /// The owner by the file.
        kept: NodeId,
        /// The owner by the configuration.
        configured: NodeId,
    },
}

/// The addresses of another member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contact {
    pub(crate) key: NodeId,
    pub(crate) addresses: Vec<SocketAddr>,
    // Left out when empty, so that an older program can still read the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tcp_addresses: Vec<SocketAddr>,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "write_relays",
        deserialize_with = "read_relays"
    )]
    pub(crate) relays: Vec<Relay>,
}

impl Contact {
    /// Returns the addresses at which it can be dialled.
    pub(crate) fn reach(&self) -> Addresses {
        Addresses {
            udp: self.addresses.clone(),
            tcp: self.tcp_addresses.clone(),
            relays: self.relays.clone(),
            ..Addresses::default()
        }
    }
}

/// A node's saved state of its fabric.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) fabric: Option<NodeId>,
    pub(crate) credential: Option<Credential>,
    pub(crate) contacts: Vec<Contact>,
    pub(crate) warrants: Vec<Warrant>,
    pub(crate) invitations: Invitations,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawState {
    fabric: NodeId,
    grant: Option<String>,
    contacts: Vec<Contact>,
    revocations: Vec<String>,
    tickets: Vec<RawTicket>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTicket {
    digest: String,
    rights: u8,
    expires: u64,
    uses: usize,
    lasts_seconds: Option<u64>,
    taken: Vec<(NodeId, u64)>,
}

impl State {
    /// Reads the file; a missing one stands for no fabric.
    pub(crate) fn load(path: &Path) -> Result<Self, StateError> {
        let failed = |source| StateError::Io {
            action: "read",
            path: path.to_path_buf(),
            source,
        };
        // Checked before the open, which would block on a pipe until a writer opens it.
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            return Err(StateError::NoFile {
                path: path.to_path_buf(),
            });
        }
        let mut text = String::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
            Ok(file) => file
                .take(FILE_BYTES_MAX as u64)
                .read_to_string(&mut text)
                .map_err(failed)?,
        };
        Self::parse(&text).map_err(|reason| StateError::Garbage {
            path: path.to_path_buf(),
            reason,
        })
    }

    /// Replaces the file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), StateError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(self.to_text().as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)?;
            // The rename is durable once the folder is synced: a redeemed ticket must not come
            // back. If a folder cannot be synced, nothing more can be done.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let _ =
                File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
            Ok(())
        };
        write().map_err(|source| {
            // On a full disk the partial file must not occupy room; no later run would overwrite
            // its name.
            let _ = fs::remove_file(&beside);
            StateError::Io {
                action: "write",
                path: path.to_path_buf(),
                source,
            }
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let raw: RawState = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let bytes = |hex: &String| {
            let bytes = HEXLOWER.decode(hex.as_bytes());
            bytes.map_err(|error| {
                format!("`{}…`: {error}", hex.chars().take(16).collect::<String>())
            })
        };
        let credential = raw.grant.as_ref().map(|hex| {
            decode_credential(&bytes(hex)?).map_err(|error| format!("the grant: {error}"))
        });
        let warrants = raw.revocations.iter().map(|hex| {
            decode_warrant(&bytes(hex)?).map_err(|error| format!("a revocation: {error}"))
        });
        let mut invitations = Invitations::default();
        for ticket in raw.tickets {
            let digest = bytes(&ticket.digest)?;
            let digest = digest
                .try_into()
                .map_err(|_| "a ticket's digest has 32 bytes")?;
            let rights = Rights::from_bits(ticket.rights).ok_or("a ticket's rights are unknown")?;
            let lasts = ticket.lasts_seconds;
            let invitation = Invitation {
                rights,
                expiry: UnixTime::from_seconds(ticket.expires),
                uses: ticket.uses,
                lasts: lasts.map_or(Duration::NEVER, Duration::from_secs),
                taken: ticket.taken,
            };
            let kept = invitations.insert(digest, invitation, UnixTime::ZERO);
            kept.map_err(|error| error.to_string())?;
        }
        Ok(Self {
            fabric: Some(raw.fabric),
            credential: credential.transpose()?,
            contacts: raw.contacts,
            warrants: warrants.collect::<Result<_, _>>()?,
            invitations,
        })
    }

    fn to_text(&self) -> String {
        let ticket = |(digest, invitation): (&[u8; 32], &Invitation)| RawTicket {
            digest: HEXLOWER.encode(digest),
            rights: invitation.rights.bits(),
            expires: invitation.expiry.seconds(),
            uses: invitation.uses,
            lasts_seconds: (!invitation.lasts.is_never())
                .then(|| invitation.lasts.as_nanos() / 1_000_000_000),
            taken: invitation.taken.clone(),
        };
        let raw = RawState {
            fabric: self.fabric.unwrap_or(NodeId([0; 32])),
            grant: self.credential.as_ref().map(|credential| {
                let mut bytes = Vec::new();
                encode_credential(credential, &mut bytes);
                HEXLOWER.encode(&bytes)
            }),
            contacts: self.contacts.clone(),
            revocations: self.warrants.iter().map(hex_of_warrant).collect(),
            tickets: self.invitations.iter().map(ticket).collect(),
        };
        serde_json::to_string_pretty(&raw).expect("keys are text and nothing fails") + "\n"
    }

    /// Checks that the state belongs to this node and that all its signatures are valid. An expired
    /// or not yet valid grant is no damage.
    pub(crate) fn check(&self, own: Option<NodeId>, path: &Path) -> Result<(), StateError> {
        let Some(owner) = self.fabric else {
            return Ok(());
        };
        let granted = self.credential.as_ref();
        let granted = granted.map(|credential| credential.grant.content.node);
        if let Some(granted) = granted.filter(|granted| Some(*granted) != own) {
            let path = path.to_path_buf();
            return Err(StateError::OtherNode { path, granted, own });
        }
        let credential = self.credential.as_ref();
        let grants = credential.into_iter().flat_map(|credential| {
            let own = ("this node's own grant", &credential.grant);
            let delegate = credential.delegation.as_ref();
            [
                Some(own),
                delegate.map(|grant| ("its issuer's grant", grant)),
            ]
        });
        let delegates = self.warrants.iter();
        let delegates = delegates.map(|warrant| {
            let delegate = warrant.delegation.as_ref();
            delegate.map(|grant| ("the grant behind a revocation", grant))
        });
        let grants = grants.chain(delegates).flatten().map(|(what, grant)| {
            let content = &grant.content;
            (
                what,
                check_signed(owner, content.fabric, content.issuer, grant),
            )
        });
        let revocations = self.warrants.iter().map(|warrant| {
            let content = &warrant.revocation.content;
            let sound = check_signed(owner, content.fabric, content.issuer, &warrant.revocation);
            ("a revocation", sound)
        });
        let mut all = grants.chain(revocations);
        match all.find_map(|(what, sound)| Some((what, sound.err()?))) {
            None => Ok(()),
            Some((what, error)) => Err(StateError::Garbage {
                path: path.to_path_buf(),
                reason: format!("{what}: {error}"),
            }),
        }
    }

    /// Returns the membership with which a node starts, and the reasons for everything left out of
    /// it.
    pub(crate) fn roll(&self, own: NodeId, at: UnixTime) -> (Roll, Vec<String>) {
        let Some(owner) = self.fabric else {
            return (Roll::open(), Vec::new());
        };
        let mut roll = Roll::of(owner);
        let mut faults = Vec::new();
        for warrant in &self.warrants {
            let taken = roll.handle_warrant(warrant.clone(), at, &thalweg_net::identity::verify);
            faults.extend(
                taken
                    .err()
                    .map(|error| format!("a kept revocation: {error}")),
            );
        }
        if let Some(credential) = &self.credential {
            let taken =
                roll.handle_credential(credential.clone(), at, &thalweg_net::identity::verify);
            faults.extend(
                taken
                    .err()
                    .map(|error| format!("this node's own grant: {error}")),
            );
        }
        if own != owner && self.credential.is_none() {
            faults.push(
                "this node has no grant of its fabric: run `thalweg join` with a ticket".into(),
            );
        }
        (roll, faults)
    }
}

/// Checks that a record is of this fabric, and signed by its issuer.
fn check_signed<T: Sign>(
    ours: NodeId,
    theirs: NodeId,
    issuer: NodeId,
    signed: &Signed<T>,
) -> Result<(), Unfit> {
    if theirs != ours {
        return Err(Unfit::OtherFabric { theirs, ours });
    }
    let bytes = signed.content.signed_bytes();
    if thalweg_net::identity::verify(issuer, &bytes, &signed.signature) {
        Ok(())
    } else {
        Err(Unfit::Forged { issuer })
    }
}

fn describe_own(own: Option<NodeId>) -> String {
    own.map_or_else(
        || "this node has no key yet".into(),
        |own| format!("this node is {}", own.short()),
    )
}

fn write_relays<S: Serializer>(relays: &[Relay], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(relays.iter().map(Relay::to_string))
}

fn hex_of_warrant(warrant: &Warrant) -> String {
    let mut bytes = Vec::new();
    encode_warrant(warrant, &mut bytes);
    HEXLOWER.encode(&bytes)
}
