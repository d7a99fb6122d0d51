//! Every bound on memory that a peer, a file or a configuration can bind, in one place.
//!
//! *The idea.* A decoder checks a length against its limit before it allocates. The relations
//! between limits are proved at compile time below, so that raising one without the other does not
//! build.
//!
//! *Sources.* Each number states its reason.

use crate::time::Duration;
use crate::units::DataSize;

/// Payload bytes of one ADU: a 4K intra frame at high quality is about 4 MiB; twice that leaves room.
pub const ADU_PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// Bytes of an encoded ADU header: every field at its widest (docs/reference/protocol.md §3).
pub const ADU_HEADER_BYTES_MAX: usize = 64;

/// Stamps on an ADU: one for each node of the longest path except its sink, which adds its own on
/// arrival.
pub const TRACE_STAMPS_MAX: usize = PATH_NODES_MAX - 1;

/// Bytes of one stamp: four times of at most four bytes each.
pub const STAMP_BYTES_MAX: usize = 16;

/// Bytes of stamps behind a header: their count, and the stamps.
pub const TRACE_BYTES_MAX: usize = 1 + TRACE_STAMPS_MAX * STAMP_BYTES_MAX;

/// Nodes for which a stream is traced at a time: a few operators; each costs the source an envelope
/// per path.
pub const TRACERS_MAX: usize = 4;

/// Layers of a stream: a layer is a byte on the wire, and the planner's state grows with it.
pub const LAYERS_MAX: usize = 16;

/// Bytes of a stream's name: every control message about the stream repeats it.
pub const STREAM_NAME_BYTES_MAX: usize = 128;

/// Bytes of a node's name in a configuration, a world or a record.
pub const NODE_NAME_BYTES_MAX: usize = 64;

/// Bytes of an adapter's name: with its kind it fills three words, so a plan's adapters are plain
/// copies without counts.
pub const ADAPTER_NAME_BYTES_MAX: usize = 23;

/// Adapters that a world declares: no one reads a plan with two dozen kinds, and a node's set of
/// them is 64 bits.
pub const WORLD_ADAPTERS_MAX: usize = 32;

/// States of a stream: as many as [`LAYERS_MAX`] layers with six transforms have. The planner
/// stores values by node and state.
pub const PLAN_STATES_MAX: usize = 1024;

/// Nodes of a path, including source and sink; a longer hop list is a loop or an attack.
pub const PATH_NODES_MAX: usize = 32;

/// Neighbours in one node's record, which is sent to each of them. A node with more neighbours is
/// known to the others from their own records.
pub const NEIGHBOURS_MAX: usize = 256;

/// Links that a node has at most; further dials are refused. A relay with 2,000 receivers in the clear
/// has some left; over QUIC it uses all of its cores before.
pub const LINKS_MAX: usize = 8 * NEIGHBOURS_MAX;

/// Memory of a QUIC link at rest, with all that a relay keeps for a sink behind it: FAN-OUT measures 224
/// KiB, rounded up. With the most links, 512 MiB.
pub const LINK_REST_QUIC_BYTES: DataSize = DataSize::from_kib(256);

/// The same of a link over TCP: 86 KiB with TLS, 73 in the clear. With the most links, 192 MiB.
pub const LINK_REST_TCP_BYTES: DataSize = DataSize::from_kib(96);

/// ADUs that wait for a loop to send them: eight for each link. Each takes some 350 bytes beside its
/// payload, so 6 MiB. A task sends what is beyond.
pub const HANDED_ADUS_MAX: usize = 8 * LINKS_MAX;

/// Payload bytes of these; a payload for many links is counted once for each lot.
pub const HANDED_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Streams that a node announces.
pub const STREAMS_PER_NODE_MAX: usize = 256;

/// Bytes of the name of a stream's encoding: media types are shorter.
pub const ENCODING_BYTES_MAX: usize = 32;

/// Bytes of the name of a stream's schema: a path of packages and a type.
pub const SCHEMA_BYTES_MAX: usize = 256;

/// Labels of a stream: what a person reads in a list.
pub const LABELS_MAX: usize = 16;

/// Bytes of a label's key.
pub const LABEL_KEY_BYTES_MAX: usize = 32;

/// Bytes of a label's value.
pub const LABEL_VALUE_BYTES_MAX: usize = 64;

/// Bytes of a signed description: twice what the fields of today take, for those of later versions.
pub const DESCRIPTION_BYTES_MAX: usize = 4096;

/// Fields of a description, unknown ones included.
pub const DESCRIPTION_FIELDS_MAX: usize = 64;

/// Descriptions that one node keeps: 32 MiB at their largest; further streams are listed without.
pub const DESCRIPTIONS_MAX: usize = 8_192;

/// Streams whose descriptions one message requests.
pub const UNDESCRIBED_MAX: usize = 4_096;

/// Node records that one node keeps.
pub const RECORDS_MAX: usize = 16_384;

/// Records in one summary message; a node with more sends several.
pub const SUMMARY_NODES_MAX: usize = 4_096;

/// Bytes of signed content, a grant or a revocation: three keys and four numbers, with room.
pub const GRANT_BYTES_MAX: usize = 160;

/// Revocations that one node keeps, one per node and issuer; delegates' take a quarter of the room
/// at most.
pub const WARRANTS_MAX: usize = RECORDS_MAX;

/// Addresses in a ticket: those of a machine with several interfaces; each makes the ticket longer
/// to copy.
pub const TICKET_ADDRESSES_MAX: usize = 8;

/// Relays in a ticket: one, and a spare.
pub const TICKET_RELAYS_MAX: usize = 2;

/// TCP addresses in a ticket: two networks in two families.
pub const TICKET_TCP_MAX: usize = 4;

/// Bytes of a relay's URL: a long name, a port and a short path; two of them keep a ticket below
/// 1,100 characters.
pub const RELAY_URL_BYTES_MAX: usize = 128;

/// Bytes of a message at a node's door: two grants with their delegations, or a sentence.
pub const DOOR_BYTES_MAX: usize = 4096;

/// Unexpired tickets that a node has issued.
pub const INVITATIONS_MAX: usize = 1024;

/// Nodes that one ticket may admit.
pub const INVITATION_USES_MAX: usize = 1024;

/// Adapters that a plan may place on one node.
pub const ADAPTERS_PER_NODE_MAX: usize = 16;

/// Bytes of one control message: a record with all its neighbours and streams fits.
pub const CONTROL_BYTES_MAX: usize = 256 << 10;

/// Bytes of free text (a reason, a shortfall) in a control message.
pub const TEXT_BYTES_MAX: usize = 1024;

/// ADUs of one stream arriving from one peer; flow control refuses more.
pub const ADUS_IN_FLIGHT_MAX: u32 = 4096;

/// Sinks of one stream at its source: as many as one relay has links. Further sinks are refused.
pub const SINKS_PER_STREAM_MAX: usize = LINKS_MAX;

/// Plans of one stream that a node keeps: the present one and the one before, for each sink that a
/// stream may have.
pub const EPOCHS_PER_STREAM_MAX: usize = 2 * SINKS_PER_STREAM_MAX;

/// Plans that one message renews; a stream with more needs several messages, for each sink has a plan.
pub const RENEWALS_MAX: usize = 256;

/// Counters in one node's statement about a plan's ADUs: one for each value of the byte that names them.
pub const LEDGER_ENTRIES_MAX: usize = 256;

/// Counters kept of one plan for all nodes behind this one: the longest path with three causes in
/// each band, and a third more; 48 KB.
pub const LEDGER_BEHIND_MAX: usize = 1024;

/// Nodes that a source tells apart in the accounts of a stream's former plans: two of the longest
/// paths. Losses at other nodes are summed.
pub const LEDGER_NODES_MAX: usize = 2 * PATH_NODES_MAX;

/// ADUs in the outbox of one link: half a second of 256,000 small ones; 30 MB with their lists.
pub const OUTBOX_ADUS_MAX: usize = 128 << 10;

/// Payload queued in the outbox of one link: half a second at 1 Gbit/s.
pub const OUTBOX_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Flows in the outbox of one link: every stream of a node under two plans, the present and the next.
pub const OUTBOX_FLOWS_MAX: usize = 2 * STREAMS_PER_NODE_MAX;

/// ADUs in the mailbox of one local subscriber.
pub const MAILBOX_ADUS_MAX: usize = 4096;

/// Payload in the mailbox of one local subscriber: the two largest ADUs, or two seconds at 67 Mbit/s.
pub const MAILBOX_BYTES_MAX: DataSize = DataSize::from_kib(16 << 10);

/// What a joiner of streams of one clock holds back: ADUs, each with 128 bytes beside its payload.
pub const ALIGNED_BYTES_MAX: DataSize = DataSize::from_kib(16 << 10);

/// Payload beyond [`MAILBOX_BYTES_MAX`] of ADUs that may not be dropped for want of room. Their
/// source slows down once this much is unacknowledged ([`KEEP_BYTES_MAX`], or a transfer's window).
/// ADUs of a source that does not are dropped.
pub const MAILBOX_EXCESS_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// ADUs beyond [`MAILBOX_ADUS_MAX`], likewise.
pub const MAILBOX_EXCESS_ADUS_MAX: usize = KEEP_ADUS_MAX;

/// Payload in all mailboxes of a node, each once however many hold it, and the entries for it; above it,
/// a mailbox with [`MAILBOX_SHARE_BYTES`] counts as full.
pub const MAILBOXES_BYTES_MAX: DataSize = DataSize::from_kib(256 << 10);

/// Payload and entries that a mailbox has room for, whatever the node's other mailboxes hold.
pub const MAILBOX_SHARE_BYTES: DataSize = DataSize::from_kib(1 << 10);

/// Payload of ADUs without a deadline that wait for room behind the outbox of one link; more is dropped.
pub const WAITING_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Payload gathered from one link of incomplete ADUs; beyond it one of them is dropped. An honest
/// sender has at most its window in flight, which is smaller.
pub const ARRIVING_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Files of one transfer: as many as a person names on a command line; a tree of files is sent as
/// one archive.
pub const TRANSFER_FILES_MAX: usize = 1024;

/// Bytes of a file's name: the limit of Linux's file systems.
pub const TRANSFER_NAME_BYTES_MAX: usize = 255;

/// Blocks of one transfer: their hashes take 8 MiB at both ends, and the set of received blocks 32 KiB.
pub const TRANSFER_BLOCKS_MAX: usize = 256 << 10;

/// Bytes of a block: half of an ADU's maximum, so that its frame always fits; with the most blocks,
/// a tebibyte.
pub const TRANSFER_BLOCK_BYTES_MAX: usize = 4 << 20;

/// Bytes of a manifest: the hashes of the most blocks, and the most files with the longest names.
pub const TRANSFER_MANIFEST_BYTES_MAX: usize =
    32 * TRANSFER_BLOCKS_MAX + (TRANSFER_NAME_BYTES_MAX + 48) * TRANSFER_FILES_MAX + 64;

/// Nodes that one transfer goes to: as many as the name of its stream has room for.
pub const TRANSFER_TARGETS_MAX: usize = 11;

/// Ranges of missing blocks that one receipt names; further ones follow when these have arrived.
pub const TRANSFER_RANGES_MAX: usize = 1024;

/// Parcels of a transfer in flight: the sender's state for them is 200 KB.
pub const TRANSFER_PARCELS_MAX: usize = 4096;

/// Bytes in flight of a transfer: half a second at 1 Gbit/s.
pub const TRANSFER_WINDOW_BYTES: u64 = 64 << 20;

/// Modules of one lift.
pub const MODULES_PER_LIFT_MAX: usize = 32;

/// Ranges of sequences in one receipt: beyond it, at worst, old ADUs are resent in vain; 520 bytes.
pub const RECEIPT_RANGES_MAX: usize = 32;

/// Ranges of sequences that a sink keeps of one stream to detect duplicates: after an outage a source
/// resends what it keeps by importance, so every other one may be missing for a while; 384 KB.
pub const SEEN_RANGES_MAX: usize = KEEP_ADUS_MAX / 2;

/// ADUs of one stream that its source keeps until its sinks have them: a second of 16,000.
pub const KEEP_ADUS_MAX: usize = 16 << 10;

/// Payload of those ADUs: a second at 134 Mbit/s, the longest that a sink may take to acknowledge.
pub const KEEP_BYTES_MAX: DataSize = DataSize::from_kib(16 << 10);

/// Longest time that a source keeps an ADU with a deadline for its sinks: as long as a subscription
/// lives without a renewal.
pub const KEEP_AGE_MAX: Duration = Duration::from_secs(30);

/// ADUs of one stream that its source holds for sinks without a path: an hour of 36 a second; 50 MB
/// with their lists.
pub const HOLD_ADUS_MAX: usize = 128 << 10;

/// Payload that a stream may request to be held: ten minutes at 3.5 Mbit/s.
pub const HOLD_BYTES_MAX: DataSize = DataSize::from_kib(256 << 10);

/// Payload that all streams of a node may request to be held together: four times the most of one
/// stream.
pub const HOLD_TOTAL_BYTES_MAX: DataSize = DataSize::from_kib(1 << 20);

/// How long a stream may request to be held: a ship's day out of reach.
pub const HOLD_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// ADUs that a node keeps of one plan for late joiners: a mailbox gets them at once, and half of it
/// stays free for live ADUs.
pub const REPLAY_ADUS_MAX: usize = MAILBOX_ADUS_MAX / 2;

/// Payload of those ADUs: the largest ADU, or two seconds at 33 Mbit/s.
pub const REPLAY_BYTES_MAX: DataSize = DataSize::from_kib(8 << 10);

/// Payload that a node keeps of all plans together: as much as the outbox of one link.
pub const REPLAY_TOTAL_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Plans of which a node keeps ADUs for late joiners: four for each stream that it may publish itself.
pub const REPLAY_GROUPS_MAX: usize = 4 * STREAMS_PER_NODE_MAX;

/// Room before a payload in a packet of the pool: framing and an ADU header fit in place.
pub const PACKET_HEADROOM_BYTES: usize = 128;

/// Room behind a payload in a packet of the pool: the trailer of an AEAD fits in place.
pub const PACKET_TAILROOM_BYTES: usize = 64;

/// Largest expansion of a compressed payload: a bound on decompression bombs, far above real media.
pub const UNPACK_FACTOR_MAX: usize = 256;

/// Bytes of a world or configuration file.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Nodes of a world.
pub const WORLD_NODES_MAX: usize = 100_000;

/// Links of a world, and events: ten a node, at which a file of [`FILE_BYTES_MAX`] is full anyway.
pub const WORLD_LINKS_MAX: usize = 1_000_000;

/// Labels that one search of the planner keeps before it stops: at 64 bytes each and 32 in the
/// heap, below 400 MB.
pub const PLAN_LABELS_MAX: u32 = 4_000_000;

/// Streams of a world.
pub const WORLD_STREAMS_MAX: usize = 100_000;

/// The maximum wait while one plan carries the stream: on links from 67 kbit/s, nothing is in
/// flight for longer.
pub const PATIENCE_MAX: Duration = Duration::from_secs(600);

/// Maximum payload in bytes that arrives on a link before what was in flight at the gap: four times
/// what a publisher has in flight, as a quarter of a stream may queue behind the rest.
pub const BACKLOG_BYTES: u64 = 5_000_000;

/// How long the opening is kept: a record, a subscription, a planning and a deployment over a path
/// with a round trip of 600 ms, each of which may be lost once.
pub const OPENING_MAX: Duration = Duration::from_secs(5);

const _: () = assert!(
    PACKET_HEADROOM_BYTES >= ADU_HEADER_BYTES_MAX,
    "a header is written in place"
);
const _: () = assert!(
    CONTROL_BYTES_MAX
        >= NEIGHBOURS_MAX * 128 + STREAMS_PER_NODE_MAX * (STREAM_NAME_BYTES_MAX + 512),
    "the largest record fits in a control message"
);
const _: () = assert!(
    CONTROL_BYTES_MAX >= PATH_NODES_MAX * (12 + LEDGER_ENTRIES_MAX * 9),
    "the largest account fits in a control message"
);
const _: () = assert!(
    CONTROL_BYTES_MAX >= 16 + SUMMARY_NODES_MAX * 16,
    "the largest summary fits in a control message"
);
const _: () = assert!(
    DOOR_BYTES_MAX >= 4 * (GRANT_BYTES_MAX + 2 + 64) + TEXT_BYTES_MAX,
    "the largest answer at a door fits"
);
const _: () = assert!(
    KEEP_BYTES_MAX.as_bytes() >= ADU_PAYLOAD_BYTES_MAX as u64,
    "the largest ADU can be kept"
);
const _: () = assert!(
    MAILBOX_EXCESS_BYTES_MAX.as_bytes() >= KEEP_BYTES_MAX.as_bytes()
        && MAILBOX_EXCESS_BYTES_MAX.as_bytes() >= TRANSFER_WINDOW_BYTES,
    "what an honest source has in flight fits the mailbox of a stalled subscriber"
);
const _: () = assert!(
    REPLAY_BYTES_MAX.as_bytes() >= ADU_PAYLOAD_BYTES_MAX as u64
        && REPLAY_TOTAL_BYTES_MAX.as_bytes() >= REPLAY_BYTES_MAX.as_bytes(),
    "the largest key ADU can be kept for late joiners"
);
const _: () = assert!(
    LAYERS_MAX <= u8::MAX as usize,
    "a layer is a byte on the wire"
);
const _: () = assert!(
    PLAN_STATES_MAX <= u16::MAX as usize && PLAN_STATES_MAX == LAYERS_MAX << 6,
    "the planner numbers states with two bytes, and every stream without transcoders fits"
);
const _: () = assert!(
    WORLD_ADAPTERS_MAX + 5 <= 64,
    "a node's set of adapters is 64 bits"
);
const _: () = assert!(
    ADU_PAYLOAD_BYTES_MAX < (1 << 30),
    "a payload's length fits a four-byte varint"
);
const _: () = assert!(
    OUTBOX_BYTES_MAX.as_bytes() >= ADU_PAYLOAD_BYTES_MAX as u64
        && OUTBOX_BYTES_MAX.as_bytes() <= u32::MAX as u64,
    "the largest ADU fits an outbox, and its byte counts fit four bytes"
);
const _: () = assert!(
    TRANSFER_BLOCK_BYTES_MAX + 64 <= ADU_PAYLOAD_BYTES_MAX,
    "a block with its frame fits an ADU"
);
const _: () = assert!(
    6 + 32 + 1 + 8 * TRANSFER_TARGETS_MAX <= STREAM_NAME_BYTES_MAX,
    "a transfer with the most targets has a stream name"
);
const _: () = assert!(
    TRANSFER_BLOCKS_MAX <= u32::MAX as usize,
    "a block's number is four bytes"
);
const _: () = assert!(
    ADAPTERS_PER_NODE_MAX <= MODULES_PER_LIFT_MAX,
    "every planned chain fits a lift"
);
const _: () = assert!(
    48 + ENCODING_BYTES_MAX
        + SCHEMA_BYTES_MAX
        + LABELS_MAX * (LABEL_KEY_BYTES_MAX + LABEL_VALUE_BYTES_MAX + 4)
        + 8
        <= DESCRIPTION_BYTES_MAX / 2
        && LABELS_MAX + 2 <= DESCRIPTION_FIELDS_MAX,
    "the longest description leaves room for further fields"
);
const _: () = assert!(
    STREAMS_PER_NODE_MAX <= UNDESCRIBED_MAX && 8 * UNDESCRIBED_MAX + 8 <= CONTROL_BYTES_MAX,
    "the streams of a node are requested in one message"
);
