//! The one mixing function of this crate: it turns 64 bits into 64 bits that look random.

/// Mixes `x` by the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
/// 2014) behind its increment. This is a bijection in which every input bit affects every output bit, and 0 is nothing
/// special.
///
/// It is written down here rather than taken from a library, because its values are stored and compared across machines
/// and versions.
#[inline]
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Scales `x`, evenly distributed over 64 bits, to a number below `bound`. Takes the high bits and divides nothing.
#[inline]
pub(crate) fn scale(x: u64, bound: u64) -> u64 {
    ((u128::from(x) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_splitmix64() {
        // The first outputs that the generator's authors published for the seed 1234567.
        let mut state = 1_234_567u64;
        let mut next = || {
            let value = mix(state);
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            value
        };
        assert_eq!(next(), 6_457_827_717_110_365_317);
        assert_eq!(next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn scaling_covers_the_range() {
        assert_eq!((scale(0, 7), scale(u64::MAX, 7)), (0, 6));
        assert_eq!(scale(1 << 63, 8), 4);
    }
}
