//! Null cryptography with the sizes of QUIC's.
//!
//! Packets stay in the clear and get a tag of 16 bytes, like AES-GCM's. The tag holds the packet
//! number, so that other bytes (a stateless reset) are not mistaken for a packet. The handshake takes
//! the flights of TLS 1.3 and carries the transport parameters in the clear:
//!
//! ```text
//! client ─ Initial: parameters ─────────────────────► server
//! client ◄─ Initial: hello · Handshake: parameters ── server
//! client ─ Handshake: finished ─────────────────────► server
//! ```
//!
//! It protects nothing and must never be used on a socket. A real handshake's certificates and
//! signatures, some hundred bytes each way, are missing.
//!
//! *Sources.* RFC 9001 §4, §5; noq-proto 1.4 `crypto.rs`; the crate `quinn-plaintext`, which does this
//! for quinn.

use std::any::Any;

use bytes::BytesMut;
use noq_proto::crypto::{
    ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey,
    KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, PathId, Side, TransportError};
use thalweg_base::random::SplitMix;

/// Bytes of an AEAD tag, and of the header protection sample.
const TAG_BYTES: usize = 16;

/// The bytes after the packet number in a tag.
const TAG_MARK: [u8; 8] = *b"virtual!";

/// Keys and configuration in one: both are empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

/// A key for tokens that only distinguishes ports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyed(u64);

/// One end of a handshake.
struct Handshake {
    side: Side,
    ours: Vec<u8>,
    theirs: Option<TransportParameters>,
    /// Received bytes of the next message.
    inbox: Vec<u8>,
    /// Number of messages received.
    read_messages: u8,
    /// Number of messages written.
    written_messages: u8,
}

fn keys() -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(Plain),
            remote: Box::new(Plain),
        },
        packet: packet_keys(),
    }
}

fn packet_keys() -> KeyPair<Box<dyn PacketKey>> {
    KeyPair {
        local: Box::new(Plain),
        remote: Box::new(Plain),
    }
}

impl ClientConfig for Plain {
    fn start_session(
        &self,
        _version: u32,
        _server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(Handshake::new(Side::Client, params)))
    }
}

impl ServerConfig for Plain {
    fn initial_keys(
        &self,
        _version: u32,
        _dst_cid: ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _orig_dst_cid: ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; TAG_BYTES]
    }

    fn start_session(&self, _version: u32, params: &TransportParameters) -> Box<dyn Session> {
        Box::new(Handshake::new(Side::Server, params))
    }
}

impl Handshake {
    fn new(side: Side, params: &TransportParameters) -> Self {
        let mut ours = Vec::new();
        params.write(&mut ours);
        Self {
            side,
            ours,
            theirs: None,
            inbox: Vec::new(),
            read_messages: 0,
            written_messages: 0,
        }
    }

    /// Removes a whole message from the inbox.
    fn message(&mut self) -> Option<Vec<u8>> {
        let (length, rest) = self.inbox.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let message = rest.get(..length)?.to_vec();
        self.inbox.drain(..2 + length);
        Some(message)
    }
}

fn write_message(message: &[u8], out: &mut Vec<u8>) {
    let length =
        u16::try_from(message.len()).expect("transport parameters are a few hundred bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
}

impl Session for Handshake {
    fn initial_keys(&self, _dst_cid: ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        // The client is done when it has sent `finished`, the server when it has received it.
        match self.side {
            Side::Client => self.written_messages < 3,
            Side::Server => self.read_messages < 2,
        }
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inbox.extend_from_slice(buf);
        while let Some(message) = self.message() {
            self.read_messages += 1;
            let has_parameters = match self.side {
                Side::Client => self.read_messages == 2,
                Side::Server => self.read_messages == 1,
            };
            if has_parameters {
                let theirs = TransportParameters::read(self.side, &mut message.as_slice());
                self.theirs = Some(theirs?);
            }
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.theirs)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = match (self.side, self.written_messages, self.read_messages) {
            (Side::Client, 0, _) => {
                write_message(&self.ours, buf);
                None
            }
            // After the server's hello the client has handshake keys and nothing to send with them yet.
            (Side::Client, 1, 1..) => Some(keys()),
            (Side::Client, 2, 2..) => {
                write_message(b"finished", buf);
                Some(keys())
            }
            (Side::Server, 0, 1..) => {
                write_message(b"hello", buf);
                Some(keys())
            }
            (Side::Server, 1, _) => {
                write_message(&self.ours, buf);
                Some(keys())
            }
            _ => return None,
        };
        self.written_messages += 1;
        keys
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(packet_keys())
    }

    fn is_valid_retry(&self, _orig_dst_cid: ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn tag(packet: u64) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    tag[..8].copy_from_slice(&packet.to_be_bytes());
    tag[8..].copy_from_slice(&TAG_MARK);
    tag
}

impl PacketKey for Plain {
    fn encrypt(&self, _path_id: PathId, packet: u64, buf: &mut [u8], _header_len: usize) {
        let at = buf.len() - TAG_BYTES;
        buf[at..].copy_from_slice(&tag(packet));
    }

    fn decrypt(
        &self,
        _path_id: PathId,
        packet: u64,
        _header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        if !payload.ends_with(&tag(packet)) {
            return Err(CryptoError);
        }
        payload.truncate(payload.len() - TAG_BYTES);
        Ok(())
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

impl HeaderKey for Plain {
    fn decrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _pn_offset: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        TAG_BYTES
    }
}

impl Keyed {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }
}

impl HmacKey for Keyed {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        let mut state = SplitMix::new(self.0);
        for byte in data {
            state = SplitMix::new(state.next_u64() ^ u64::from(*byte));
        }
        for eight in signature_out.chunks_mut(8) {
            eight.copy_from_slice(&state.next_u64().to_be_bytes()[..eight.len()]);
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut expected = vec![0; signature.len()];
        self.sign(data, &mut expected);
        if expected == signature {
            Ok(())
        } else {
            Err(CryptoError)
        }
    }
}

impl HandshakeTokenKey for Keyed {
    /// Tokens are never sent; this would leave one in the clear.
    fn seal(&self, _token_nonce: u128, data: &mut Vec<u8>) -> Result<(), CryptoError> {
        data.extend_from_slice(&[0; TAG_BYTES]);
        Ok(())
    }

    fn open<'a>(&self, _token_nonce: u128, data: &'a mut [u8]) -> Result<&'a [u8], CryptoError> {
        let length = data.len().checked_sub(TAG_BYTES).ok_or(CryptoError)?;
        Ok(&data[..length])
    }
}
