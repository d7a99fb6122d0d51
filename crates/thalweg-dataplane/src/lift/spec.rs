//! Builds modules from a plan's words: `keep:3`, `pack:zstd`, `seal` …
//!
//! *What it does not do.* It knows only this crate's modules. A node with others calls
//! [`module_from_spec`] last, and builds the lift with [`Lift::new`].

use thalweg_base::id::StreamId;
use thalweg_base::limits::LAYERS_MAX;

use super::{Lift, TooManyModules};
use crate::keys::{KeyRing, SealInstance};
use crate::module::Module;
use crate::modules::{Cipher, KeepLayers, Null, Open, Pack, Packer, Seal, Unpack};
use crate::packet::Pool;

/// The inputs of modules besides the plan's words.
#[derive(Debug)]
pub struct Materials {
    /// The lift's stream.
    pub stream: StreamId,
    /// The stream's keys; empty where nothing is sealed or opened.
    pub keys: KeyRing,
    /// Fresh random bits for each lift: see [`SealInstance`].
    pub instance: SealInstance,
}

/// Why a plan's words make no lift.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No module has this name.
    #[error(
        "no module is called `{0}`: null, keep:Q, pack[:lz4|zstd], unpack, seal[:aes256|chacha20] and open are known"
    )]
    Unknown(String),
    /// The module is known, but its argument is invalid.
    #[error("`{word}` is not a valid module: {why}")]
    BadArgument {
        /// The plan's word.
        word: String,
        /// The valid arguments.
        why: String,
    },
    /// The module needs a key, but the ring has none for it.
    #[error("`{word}` needs a key of stream {stream}, and this node holds none")]
    NoKey {
        /// The plan's word.
        word: String,
        /// The stream with the missing key.
        stream: StreamId,
    },
    /// The chain is too long.
    #[error(transparent)]
    TooManyModules(#[from] TooManyModules),
}

pub(super) fn lift_from_spec<'a>(
    words: impl IntoIterator<Item = &'a str>,
    materials: &mut Materials,
    pool: Pool,
) -> Result<Lift, SpecError> {
    let modules: Vec<_> = words
        .into_iter()
        .map(|word| module_from_spec(word, materials))
        .collect::<Result<_, _>>()?;
    Ok(Lift::new(modules, pool)?)
}

/// Returns the module for one word of a plan.
pub fn module_from_spec(
    word: &str,
    materials: &mut Materials,
) -> Result<Box<dyn Module>, SpecError> {
    let (name, argument) = match word.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (word, None),
    };
    let bad = |why: &str| SpecError::BadArgument {
        word: word.chars().take(80).collect(),
        why: why.to_owned(),
    };
    match (name, argument) {
        ("null", None) => Ok(Box::new(Null)),
        ("keep", Some(layers)) => {
            let range = || {
                bad(&format!(
                    "a number of layers from 1 to {LAYERS_MAX} follows `keep:`"
                ))
            };
            let layers = layers.parse().map_err(|_| range())?;
            Ok(Box::new(KeepLayers::new(layers).map_err(|_| range())?))
        }
        ("keep", None) => Err(bad("how many layers? write for example `keep:2`")),
        ("pack", None | Some("lz4")) => Ok(Box::new(Pack::new(Packer::Lz4))),
        ("pack", Some("zstd")) => Ok(Box::new(Pack::new(Packer::Zstd))),
        ("pack", Some(_)) => Err(bad("packers are lz4 and zstd")),
        ("unpack", None) => Ok(Box::new(Unpack::new())),
        ("seal", None | Some("aes256")) => seal(word, Cipher::Aes256Gcm, materials),
        ("seal", Some("chacha20")) => seal(word, Cipher::ChaCha20Poly1305, materials),
        ("seal", Some(_)) => Err(bad("ciphers are aes256 and chacha20")),
        ("open", None) if materials.keys.is_empty() => Err(no_key(word, materials)),
        ("open", None) => Ok(Box::new(Open::new(
            materials.stream,
            materials.keys.clone(),
        ))),
        ("null" | "unpack" | "open", Some(_)) => Err(bad("it takes no argument")),
        _ => Err(SpecError::Unknown(word.chars().take(80).collect())),
    }
}

fn seal(
    word: &str,
    cipher: Cipher,
    materials: &mut Materials,
) -> Result<Box<dyn Module>, SpecError> {
    let instance = materials.instance.fork();
    let seal = Seal::new(cipher, materials.stream, materials.keys.clone(), instance);
    match seal {
        Some(seal) => Ok(Box::new(seal)),
        None => Err(no_key(word, materials)),
    }
}

fn no_key(word: &str, materials: &Materials) -> SpecError {
    SpecError::NoKey {
        word: word.to_owned(),
        stream: materials.stream,
    }
}
