//! TLS 1.3 between two nodes, over TCP or QUIC: each proves the Ed25519 key that is its id.
//!
//! *The idea.* Raw public keys (RFC 7250) instead of certificates, as iroh uses over QUIC: the
//! presented key is compared directly, and the handshake's signature proves that the peer holds its
//! secret. The client expects one key; the server accepts any key, and the listener checks the
//! admission afterwards.
//!
//! *What it does not do.* No names, no certificate authorities, no resumption.
//!
//! *Sources.* RFC 7250; RFC 8446 §4.4; iroh 1.4 `tls/verifier.rs`, `tls/resolver.rs`.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime, alg_id};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, Signer, SigningKey, public_key_to_spki};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureAlgorithm, SignatureScheme, version,
};
use thalweg_base::id::NodeId;

use crate::identity::Identity;

/// The name of every server: nodes have no names, and SNI would disclose the id on the path.
pub(crate) const NO_NAME: &str = "node.invalid";

/// A node's key as TLS presents it, and the cryptography to check others.
#[derive(Clone)]
pub(crate) struct RawKey {
    provider: Arc<CryptoProvider>,
    key: Arc<OneKey>,
}

/// Presents the same key to every peer.
#[derive(Debug)]
struct OneKey(Arc<CertifiedKey>);

#[derive(Clone)]
struct NodeKey(Identity);

/// Accepts one key, or any.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    expected: Option<NodeId>,
}

impl RawKey {
    pub(crate) fn new(identity: &Identity) -> Self {
        // Passed explicitly rather than installed for the process, so that other crates' choices do
        // not matter.
        let provider = Arc::new(aws_lc_rs::default_provider());
        let secret = NodeKey(identity.clone());
        let presented = CertificateDer::from(spki(identity.id()).to_vec());
        let certified = CertifiedKey::new(vec![presented], Arc::new(secret));
        let key = Arc::new(OneKey(Arc::new(certified)));
        Self { provider, key }
    }

    pub(crate) const fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// Returns the configuration of a server that accepts any key, with these protocols.
    ///
    /// Fails   if the crypto library does not offer TLS 1.3
    pub(crate) fn server<'a>(
        &self,
        alpns: impl IntoIterator<Item = &'a str>,
    ) -> Result<ServerConfig, Error> {
        let anyone = Arc::new(Verifier {
            provider: self.provider.clone(),
            expected: None,
        });
        let mut server = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(anyone)
            .with_cert_resolver(self.key.clone());
        let alpns = alpns.into_iter();
        server.alpn_protocols = alpns.map(|alpn| alpn.as_bytes().to_vec()).collect();
        server.send_tls13_tickets = 0;
        Ok(server)
    }

    /// Returns the configuration of a client that accepts only this peer and this protocol.
    ///
    /// Fails   like [`RawKey::server`]
    pub(crate) fn client(&self, peer: NodeId, alpn: &str) -> Result<ClientConfig, Error> {
        let expected = Arc::new(Verifier {
            provider: self.provider.clone(),
            expected: Some(peer),
        });
        let mut client = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(expected)
            .with_client_cert_resolver(self.key.clone());
        client.alpn_protocols = vec![alpn.into()];
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        Ok(client)
    }
}

/// Returns the key that the peer has proved.
pub(crate) fn proved(presented: Option<&[CertificateDer<'_>]>) -> Option<NodeId> {
    let [one] = presented? else { return None };
    let bytes: &[u8] = one.as_ref();
    let key = NodeId(*bytes.last_chunk()?);
    (spki(key).as_ref() == bytes).then_some(key)
}

fn spki(key: NodeId) -> SubjectPublicKeyInfoDer<'static> {
    public_key_to_spki(&alg_id::ED25519, key.0)
}

impl Verifier {
    fn verify(&self, key: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        let proved = proved(Some(std::slice::from_ref(key))).filter(|_| others.is_empty());
        let Some(proved) = proved else {
            return Err(CertificateError::BadEncoding.into());
        };
        if self.expected.is_some_and(|expected| expected != proved) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(())
    }

    fn verify_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }
}

fn no_tls12() -> Error {
    PeerIncompatible::Tls12NotOffered.into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.verify(end_entity, intermediates)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.verify(end_entity, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl rustls::client::ResolvesClientCert for OneKey {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl rustls::server::ResolvesServerCert for OneKey {
    fn resolve(&self, _hello: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn only_raw_public_keys(&self) -> bool {
        true
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret must not be logged.
        f.debug_tuple("NodeKey").field(&self.0.id()).finish()
    }
}

impl SigningKey for NodeKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ED25519);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(spki(self.0.id()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for NodeKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign(message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}
