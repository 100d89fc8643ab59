//! Generates the values of tensors from a seed.

use super::request::DataSet;

/// Returns the value of an element, which depends only on the arguments.
pub(super) fn value(data: DataSet, seed: u64, index: u64) -> f64 {
    let mut next = random(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bits = next();
    match data {
        // Three of four elements are zero.
        DataSet::Integers => [0.0, 1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, -2.0, 0.0, 0.0, 0.0, 0.0]
            .get((bits >> 60) as usize)
            .copied()
            .unwrap_or(0.0),
        DataSet::Normal => {
            // The sum of twelve numbers between 0 and 1 has the variance 1.
            (0..12).map(|_| (next() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
        }
        DataSet::Adversarial => {
            let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
            // Few mantissas, so that equal values are frequent.
            let mantissa = 1.0 + ((bits >> 1) % 4) as f64 / 4.0;
            let exponent = ((bits >> 8) % 13) as i32 - 6;
            sign * mantissa * power_of_two(exponent)
        }
        DataSet::Captured => 0.0,
    }
}

fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((1023 + exponent).unsigned_abs()) << 52)
}

/// Returns a generator of pseudo-random bits (splitmix64).
pub(super) fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

/// Returns a seed for a tensor of a graph.
pub(super) fn seed(graph: &str, uid: i64) -> u64 {
    // FNV-1a
    let bytes = graph.bytes().chain(uid.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_distribution_of_their_data_set() {
        let values = |data| (0..10_000).map(move |index| value(data, seed("g", 1), index));
        assert!(values(DataSet::Integers).all(|value| value.fract() == 0.0 && value.abs() <= 2.0));
        assert!((2000..3000).contains(&values(DataSet::Integers).filter(|value| *value != 0.0).count()));
        let mean = values(DataSet::Normal).sum::<f64>() / 1e4;
        let variance = values(DataSet::Normal).map(|value| value * value).sum::<f64>() / 1e4;
        assert!(mean.abs() < 0.05 && (variance - 1.0).abs() < 0.1, "{mean} {variance}");
        assert!(values(DataSet::Adversarial).all(|value| (1.0 / 64.0..=112.0).contains(&value.abs())));
        assert!((-6..=6).all(|exponent| power_of_two(exponent) == libm::exp2(f64::from(exponent))));
        assert!(values(DataSet::Normal).eq(values(DataSet::Normal)));
        assert_ne!(seed("g", 1), seed("g", 2));
    }
}
