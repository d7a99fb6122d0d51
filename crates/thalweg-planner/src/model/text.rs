//! Serialization of a world's values: durations as text, maps without duplicate keys.

use alloc::collections::BTreeMap;
use core::fmt;
use core::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serializer};
use thalweg_base::time::Duration;
use thalweg_base::units::{parse_duration, read_unit};

/// Reads a duration such as `"20 ms"`.
pub(super) fn read_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let expecting = "a length of time in quotes, such as \"20 ms\"";
    read_unit(from, expecting, parse_duration)
}

/// Writes a duration in a unit that keeps it whole, so that it reads back the same.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature is serde's"
)]
pub(super) fn write_duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Whole(*duration))
}

/// The same for an optional duration.
pub(super) mod optional {
    use super::{Deserializer, Duration, Serializer, Whole, read_duration};

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        read_duration(from).map(Some)
    }

    #[expect(clippy::ref_option, reason = "the signature is serde's")]
    pub(in super::super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => to.collect_str(&Whole(*duration)),
            None => to.serialize_none(),
        }
    }
}

/// Prints a duration in the largest unit that divides it.
struct Whole(Duration);

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let (per_unit, unit) = units
            .into_iter()
            .find(|(per_unit, _)| nanos.is_multiple_of(*per_unit))
            .unwrap_or((1, "ns"));
        write!(f, "{} {unit}", nanos / per_unit)
    }
}

/// Reads values by name and rejects duplicate names: some formats would silently drop the first.
pub(super) fn read_unique<'de, D, K, V>(
    from: D,
    what: &'static str,
) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    struct Named<K, V>(&'static str, PhantomData<(K, V)>);

    impl<'de, K, V> Visitor<'de> for Named<K, V>
    where
        K: Deserialize<'de> + Ord + fmt::Display,
        V: Deserialize<'de>,
    {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}s by name", self.0)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some(name) = map.next_key::<K>()? {
                if values.contains_key(&name) {
                    let what = self.0;
                    return Err(A::Error::custom(format_args!(
                        "two {what}s have the name `{name}`: rename one"
                    )));
                }
                values.insert(name, map.next_value()?);
            }
            Ok(values)
        }
    }

    from.deserialize_map(Named(what, PhantomData))
}
