//! Every bound on what a peer, a file or a configuration may make us hold, in one place.
//!
//! *The idea.* A decoder checks a length against its limit before it allocates; the relations between limits are
//! proved at compile time below, so that raising one without the other does not build.
//!
//! *Sources.* Each number states its reason.

use crate::time::Duration;
use crate::units::DataSize;

/// Payload bytes of one ADU: a 4K intra frame at high quality is about 4 MiB; twice that leaves room.
pub const ADU_PAYLOAD_BYTES_MAX: usize = 8 << 20;

/// Bytes of an encoded ADU header: every field at its widest (docs/protocol.md §3).
pub const ADU_HEADER_BYTES_MAX: usize = 64;

/// Stamps that an ADU bears: one of each node of the longest path but its sink, whose own stamp travels on no ADU.
pub const TRACE_STAMPS_MAX: usize = PATH_NODES_MAX - 1;

/// Bytes of one stamp: four times of at most four bytes each.
pub const STAMP_BYTES_MAX: usize = 16;

/// Bytes of stamps behind a header: how many they are, and they.
pub const TRACE_BYTES_MAX: usize = 1 + TRACE_STAMPS_MAX * STAMP_BYTES_MAX;

/// Nodes that a stream is traced for at a time: a few people who look, each costs the source an envelope for each way.
pub const TRACERS_MAX: usize = 4;

/// Layers of a stream: a layer is a byte on the wire, and the planner's state grows with it.
pub const LAYERS_MAX: usize = 16;

/// Bytes of a stream's name, for it is repeated in every control message about the stream.
pub const STREAM_NAME_BYTES_MAX: usize = 128;

/// Bytes of a node's name in a configuration, a world or a record.
pub const NODE_NAME_BYTES_MAX: usize = 64;

/// Bytes of an adapter's name: with its kind it fills three words, so a plan's adapters are copied and not counted.
pub const ADAPTER_NAME_BYTES_MAX: usize = 23;

/// Adapters that a world declares: a plan of two dozen kinds is read by nobody, and a node's set of them is 64 bits.
pub const WORLD_ADAPTERS_MAX: usize = 32;

/// States of a stream: as many as [`LAYERS_MAX`] layers with six transforms have. The planner keeps values by node and
/// state.
pub const PLAN_STATES_MAX: usize = 1024;

/// Nodes of a path, source and sink included; a hop list longer than this is a ring or an attack.
pub const PATH_NODES_MAX: usize = 32;

/// Neighbours in one node's record, which each of them is sent: those of a node with more than that name it, and are on the map
/// by their own word.
pub const NEIGHBOURS_MAX: usize = 256;

/// Links that a node is made for: a relay of so many receivers has each of its cores full.
pub const LINKS_MAX: usize = 4 * NEIGHBOURS_MAX;

/// Streams that a node announces as its own.
pub const STREAMS_PER_NODE_MAX: usize = 256;

/// Node records that one node keeps.
pub const RECORDS_MAX: usize = 16_384;

/// Records of which one message says that they are kept; who keeps more sends several.
pub const SUMMARY_NODES_MAX: usize = 4_096;

/// Bytes of what an owner or delegate signs, a grant or a revocation: three keys and four numbers, with room.
pub const GRANT_BYTES_MAX: usize = 160;

/// Revocations that one node keeps, one for each node and who revoked it; delegates have a quarter of the room.
pub const WARRANTS_MAX: usize = RECORDS_MAX;

/// Addresses in a ticket: those of a machine with several interfaces; each makes the ticket longer to copy.
pub const TICKET_ADDRESSES_MAX: usize = 8;

/// Relays in a ticket: one, and one for when that is down.
pub const TICKET_RELAYS_MAX: usize = 2;

/// Addresses of TCP in a ticket: two networks in two families.
pub const TICKET_TCP_MAX: usize = 4;

/// Bytes of a relay's URL: a long name, a port and a short path; two of them leave a ticket below 1,100 characters.
pub const RELAY_URL_BYTES_MAX: usize = 128;

/// Bytes of what is said or answered at a node's door: two grants with their delegations, or a sentence.
pub const DOOR_BYTES_MAX: usize = 4096;

/// Tickets that a node has given out and that have not expired.
pub const INVITATIONS_MAX: usize = 1024;

/// Nodes that one ticket may let in.
pub const INVITATION_USES_MAX: usize = 1024;

/// Adapters that a plan may place on one node.
pub const ADAPTERS_PER_NODE_MAX: usize = 16;

/// Bytes of one control message: a record with all its neighbours and streams fits.
pub const CONTROL_BYTES_MAX: usize = 256 << 10;

/// Bytes of free text (a reason, a shortfall) in a control message.
pub const TEXT_BYTES_MAX: usize = 1024;

/// ADUs of one stream on their way in from one peer; more are refused by flow control, not queued.
pub const ADUS_IN_FLIGHT_MAX: u32 = 4096;

/// Sinks of one stream at its source: as many as one relay has links. Who comes after them is refused.
pub const SINKS_PER_STREAM_MAX: usize = LINKS_MAX;

/// Plans of one stream that a node keeps: for each sink that a stream may have the present one and the one before it.
pub const EPOCHS_PER_STREAM_MAX: usize = 2 * SINKS_PER_STREAM_MAX;

/// Plans that one message renews; of more there are several, for each sink of a stream has one.
pub const RENEWALS_MAX: usize = 256;

/// Counters in one node's statement of what became of a plan's ADUs: one for each value of the byte that names them.
pub const LEDGER_ENTRIES_MAX: usize = 256;

/// Counters of all nodes behind this one that are kept of one plan: a path of the longest with three causes in each band,
/// and a third more; 48 KB.
pub const LEDGER_BEHIND_MAX: usize = 1024;

/// Nodes that a source tells apart in the accounts of a stream's former plans: two of the longest paths. What is lost at
/// others is summed.
pub const LEDGER_NODES_MAX: usize = 2 * PATH_NODES_MAX;

/// ADUs in the outbox of one link: half a second of 256,000 small ones; with the lists about them 30 MB.
pub const OUTBOX_ADUS_MAX: usize = 128 << 10;

/// Payload that waits in the outbox of one link: half a second at 1 Gbit/s.
pub const OUTBOX_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Flows in the outbox of one link: every stream of a node under two plans, the present and the next.
pub const OUTBOX_FLOWS_MAX: usize = 2 * STREAMS_PER_NODE_MAX;

/// ADUs in the mailbox of one local subscriber.
pub const MAILBOX_ADUS_MAX: usize = 4096;

/// Payload in the mailbox of one local subscriber: the two largest ADUs, or two seconds at 67 Mbit/s.
pub const MAILBOX_BYTES_MAX: DataSize = DataSize::from_kib(16 << 10);

/// Payload beyond [`MAILBOX_BYTES_MAX`] of ADUs that may not be dropped for want of room. Their source slows down when so much is
/// not acknowledged: [`KEEP_BYTES_MAX`], or a transfer's window. Only a source that does not is dropped from.
pub const MAILBOX_EXCESS_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// ADUs beyond [`MAILBOX_ADUS_MAX`], likewise.
pub const MAILBOX_EXCESS_ADUS_MAX: usize = KEEP_ADUS_MAX;

/// Payload in all mailboxes of a node; while they have more, each is full that has [`MAILBOX_SHARE_BYTES`].
pub const MAILBOXES_BYTES_MAX: DataSize = DataSize::from_kib(256 << 10);

/// Payload that a mailbox has room for whatever the others of the node have.
pub const MAILBOX_SHARE_BYTES: DataSize = DataSize::from_kib(1 << 10);

/// Payload of ADUs without a deadline that wait for room behind the outbox of one link: what comes beyond is dropped.
pub const WAITING_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Payload that is gathered from one link of ADUs that are not whole yet; who sends more has one of them given up. An honest
/// sender has no more on its way than its window is, and that is smaller.
pub const ARRIVING_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Files of one transfer: what a person names on a command line; a tree of files is sent as one archive.
pub const TRANSFER_FILES_MAX: usize = 1024;

/// Bytes of a file's name: what Linux's file systems take.
pub const TRANSFER_NAME_BYTES_MAX: usize = 255;

/// Blocks of one transfer: their hashes take 8 MiB at both ends, and what has arrived of them 32 KiB.
pub const TRANSFER_BLOCKS_MAX: usize = 256 << 10;

/// Bytes of a block: half of what an ADU may have, so that its frame always fits; of the most blocks, a tebibyte.
pub const TRANSFER_BLOCK_BYTES_MAX: usize = 4 << 20;

/// Bytes of a manifest: the hashes of the most blocks, and the most files with the longest names.
pub const TRANSFER_MANIFEST_BYTES_MAX: usize =
    32 * TRANSFER_BLOCKS_MAX + (TRANSFER_NAME_BYTES_MAX + 48) * TRANSFER_FILES_MAX + 64;

/// Nodes that one transfer goes to: as many as the name of its stream has room for.
pub const TRANSFER_TARGETS_MAX: usize = 11;

/// Ranges of missing blocks that one receipt names; further ones are named when these have come.
pub const TRANSFER_RANGES_MAX: usize = 1024;

/// Parcels of a transfer under way: what its sender remembers of them is 200 KB.
pub const TRANSFER_PARCELS_MAX: usize = 4096;

/// Bytes of them: half a second at 1 Gbit/s.
pub const TRANSFER_WINDOW_BYTES: u64 = 64 << 20;

/// Modules of one lift.
pub const MODULES_PER_LIFT_MAX: usize = 32;

/// Ranges of sequences in one receipt: beyond, what is old is sent again in vain at worst; 520 bytes.
pub const RECEIPT_RANGES_MAX: usize = 32;

/// Ranges of sequences that a sink keeps of one stream to know what came twice: a kilo-ADU of separate losses; 48 KB.
pub const SEEN_RANGES_MAX: usize = 1024;

/// ADUs of one stream that its source keeps until its sinks have them: a second of 16,000.
pub const KEEP_ADUS_MAX: usize = 16 << 10;

/// Payload of them: a second at 134 Mbit/s, which is as long as a sink may take to acknowledge.
pub const KEEP_BYTES_MAX: DataSize = DataSize::from_kib(16 << 10);

/// ADUs of one stream that its source holds for sinks to which there is no way: an hour of 36 a second; with the lists about
/// them 50 MB.
pub const HOLD_ADUS_MAX: usize = 128 << 10;

/// Payload of them that a stream may ask for: ten minutes at 3.5 Mbit/s.
pub const HOLD_BYTES_MAX: DataSize = DataSize::from_kib(256 << 10);

/// Payload that all streams of a node may ask for together: four of those that ask for the most.
pub const HOLD_TOTAL_BYTES_MAX: DataSize = DataSize::from_kib(1 << 20);

/// How long a stream may ask for: a ship's day out of reach.
pub const HOLD_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// ADUs that a node keeps of one plan for who joins late: they come to a mailbox at once, and leave half of it to what is live.
pub const REPLAY_ADUS_MAX: usize = MAILBOX_ADUS_MAX / 2;

/// Payload of them: the largest ADU, or two seconds at 33 Mbit/s.
pub const REPLAY_BYTES_MAX: DataSize = DataSize::from_kib(8 << 10);

/// Payload that a node keeps of all plans together: as much as the outbox of one link.
pub const REPLAY_TOTAL_BYTES_MAX: DataSize = DataSize::from_kib(64 << 10);

/// Plans of which a node keeps something for who joins late: four of each stream that it may publish itself.
pub const REPLAY_GROUPS_MAX: usize = 4 * STREAMS_PER_NODE_MAX;

/// Room before a payload in a packet of the pool: framing and an ADU header fit in place.
pub const PACKET_HEADROOM_BYTES: usize = 128;

/// Room behind a payload in a packet of the pool: a seal's trailer fits in place.
pub const PACKET_TAILROOM_BYTES: usize = 64;

/// How much a decompressed payload may be larger than the packed one: a bound on bombs, far above real media.
pub const UNPACK_FACTOR_MAX: usize = 256;

/// Bytes of a world or configuration file.
pub const FILE_BYTES_MAX: usize = 16 << 20;

/// Nodes of a world.
pub const WORLD_NODES_MAX: usize = 100_000;

/// Links of a world, and events: ten a node, beyond which a file of [`FILE_BYTES_MAX`] is full anyway.
pub const WORLD_LINKS_MAX: usize = 1_000_000;

/// Labels that one search of the planner keeps before it gives up: at 64 bytes each and 32 in the heap, below 400 MB.
pub const PLAN_LABELS_MAX: u32 = 4_000_000;

/// Streams of a world.
pub const WORLD_STREAMS_MAX: usize = 100_000;

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
    "what an honest source has under way fits the mailbox of a subscriber that reads nothing"
);
const _: () = assert!(
    REPLAY_BYTES_MAX.as_bytes() >= ADU_PAYLOAD_BYTES_MAX as u64
        && REPLAY_TOTAL_BYTES_MAX.as_bytes() >= REPLAY_BYTES_MAX.as_bytes(),
    "the largest key ADU can be kept for who joins late"
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
    "what a node holds is a set of 64 bits"
);
const _: () = assert!(
    ADU_PAYLOAD_BYTES_MAX < (1 << 30),
    "a payload's length fits a four-byte varint"
);
const _: () = assert!(
    OUTBOX_BYTES_MAX.as_bytes() >= ADU_PAYLOAD_BYTES_MAX as u64
        && OUTBOX_BYTES_MAX.as_bytes() <= u32::MAX as u64,
    "the largest ADU fits an outbox, and whatever fits one is counted in four bytes"
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
