//! Sample values of any deserializable type, built field by field so that no variant needs to be
//! listed.

use std::collections::BTreeSet;

use serde::de::value::{Error, U32Deserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess,
    SeqAccess, VariantAccess, Visitor,
};

/// Number of values of each variant.
const SEEDS: u64 = 64;

/// A type or a variant, with its field names.
pub(super) type Names = BTreeSet<(String, &'static [&'static str])>;

/// Calls `check` with values of every variant of the enum `T`. Returns the names that occurred.
pub(super) fn every<T: DeserializeOwned>(mut check: impl FnMut(T)) -> Names {
    let mut sample = Sample::default();
    let mut variant = 0;
    while variant == 0 || variant < sample.variants {
        for seed in 0..SEEDS {
            (sample.outermost, sample.seed) = (Some(variant), seed);
            check(sample.make());
        }
        variant += 1;
    }
    sample.names
}

/// Calls `check` with values of any type `T`.
pub(super) fn some<T: DeserializeOwned>(mut check: impl FnMut(T)) -> Names {
    let mut sample = Sample::default();
    for seed in 0..SEEDS {
        sample.seed = seed;
        check(sample.make());
    }
    sample.names
}

#[derive(Default)]
struct Sample {
    /// The variant to choose for the outermost enum.
    outermost: Option<usize>,
    /// Number of variants of the outermost enum.
    variants: usize,
    seed: u64,
    names: Names,
}

impl Sample {
    fn make<T: DeserializeOwned>(&mut self) -> T {
        T::deserialize(self).expect("a sample provides every value that is requested")
    }

    fn dice(&mut self) -> u64 {
        // SplitMix64.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of random bit length.
    fn number(&mut self) -> u64 {
        let bits = self.dice() % 64;
        self.dice() >> bits
    }

    fn below(&mut self, most: usize) -> usize {
        self.dice() as usize % most
    }
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident $type:ty,)*) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.number() as $type)
        })*
    };
}

impl<'de> Deserializer<'de> for &mut Sample {
    type Error = Error;

    numbers! {
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.below(2) == 1)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // Names of settings are the only strings that are not arbitrary.
        visitor.visit_str("lease_ms")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let length = self.below(300);
        visitor.visit_byte_buf((0..length).map(|_| self.dice() as u8).collect())
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_byte_buf(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.below(2) == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.below(4);
        visitor.visit_seq(Several { sample: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Several { sample: self, left })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let left = self.below(2);
        visitor.visit_map(Several { sample: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.names.insert((name.to_owned(), fields));
        visitor.visit_seq(Several { sample: self, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.names.insert((name.to_owned(), variants));
        let chosen = match self.outermost.take() {
            Some(variant) => {
                self.variants = variants.len();
                variant
            }
            None => self.below(variants.len()),
        };
        let path = format!("{name}::{}", variants[chosen]);
        visitor.visit_enum(Chosen { sample: self, chosen: chosen as u32, path })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        unreachable!("no type calls deserialize_any")
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char unit unit_struct tuple_struct identifier ignored_any
    }
}

struct Several<'a> {
    sample: &'a mut Sample,
    left: usize,
}

impl<'de> SeqAccess<'de> for Several<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.sample).map(Some)
    }
}

impl<'de> MapAccess<'de> for Several<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.sample)
    }
}

struct Chosen<'a> {
    sample: &'a mut Sample,
    chosen: u32,
    path: String,
}

impl<'de> EnumAccess<'de> for Chosen<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let chosen: U32Deserializer<Error> = self.chosen.into_deserializer();
        Ok((seed.deserialize(chosen)?, self))
    }
}

impl<'de> VariantAccess<'de> for Chosen<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.sample)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        self.sample.deserialize_tuple(left, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.sample.names.insert((self.path, fields));
        visitor.visit_seq(Several { sample: self.sample, left: fields.len() })
    }
}
