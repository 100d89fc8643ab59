//! The same computation on the CPU, as plainly as it can be written: to check the GPU's result against. Also the numbers to
//! compute with, and how they are written in each type.

use half::f16;

use super::Failure;
use super::graph::Convolution;
use super::tensor::Tensor;
use crate::cudnn::cudnnDataType_t as DataType;

/// Numbers between -1 and 1 for each element of a tensor, the same at each run, and such that its type can have.
pub(crate) fn noise(tensor: &Tensor) -> Vec<f32> {
    let mut state = (tensor.uid as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let next = |_| {
        // The generator is xorshift64.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        match tensor.of {
            DataType::CUDNN_DATA_HALF => f16::from_f32(value).to_f32(),
            _ => value,
        }
    };
    (0..tensor.len()).map(next).collect()
}

/// The numbers as the tensor's type has them in memory.
pub(crate) fn bytes(tensor: &Tensor, values: &[f32]) -> Vec<u8> {
    match tensor.of {
        DataType::CUDNN_DATA_HALF => values.iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    }
}

/// The numbers again.
pub(crate) fn values(tensor: &Tensor, bytes: &[u8]) -> Vec<f32> {
    match tensor.of {
        DataType::CUDNN_DATA_HALF => bytes.as_chunks().0.iter().map(|two| f16::from_le_bytes(*two).to_f32()).collect(),
        _ => bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect(),
    }
}

/// Each index of these extents, the last moving fastest.
fn indices(extents: &[i64]) -> impl Iterator<Item = Vec<i64>> + use<> {
    let extents = extents.to_vec();
    let mut next = Some(vec![0; extents.len()]);
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut following = current.clone();
        for (digit, extent) in following.iter_mut().zip(&extents).rev() {
            *digit += 1;
            if *digit < *extent {
                next = Some(following);
                break;
            }
            *digit = 0;
        }
        Some(current)
    })
}

fn offset(tensor: &Tensor, index: &[i64]) -> usize {
    tensor.strides.iter().zip(index).map(|(stride, index)| stride * index).sum::<i64>() as usize
}

/// alpha * conv(x, w) + beta * y, where y is what stood there before.
///
/// The tensors are in the grouped layout, [N, G, C, ...], [G, K, C, ...] and [N, G, K, ...], or in the usual one, without G: then
/// the filters have the channels of one group, and so there are as many groups as those go into x's channels.
pub(crate) fn convolve(
    convolution: &Convolution,
    tensors: [&Tensor; 3],
    [x_values, w_values, y_before]: [&[f32]; 3],
    (alpha, beta): (f32, f32),
) -> Vec<f32> {
    let [x, w, y] = tensors.map(Tensor::clone);
    let is_grouped = x.dims.len() == convolution.padding.len() + 3;
    let extent = |tensor: &Tensor, dimension: usize| tensor.dims.get(dimension).copied().unwrap_or(1);
    let groups = extent(&x, 1) / extent(&w, 1).max(1);
    let [x, w, y] = if is_grouped { [x, w, y] } else { [x.split(1, groups), w.split(0, groups), y.split(1, groups)] };
    // Of each tap: how far its channel is in x, its place, and how far it is in w.
    let [x_channel, x_place @ ..] = x.strides.get(2..).unwrap_or_default() else { return Vec::new() };
    let tap = |index: Vec<i64>| {
        let w_offset: i64 = w.strides.iter().skip(2).zip(&index).map(|(stride, index)| stride * index).sum();
        let (channel, place) =
            index.split_first().map(|(channel, place)| (*channel, place.to_vec())).unwrap_or_default();
        (channel * x_channel, place, w_offset)
    };
    let taps: Vec<(i64, Vec<i64>, i64)> = indices(w.dims.get(2..).unwrap_or_default()).map(tap).collect();
    let element = |index: &[i64]| {
        let [image, group, filter, place @ ..] = index else { return 0.0 };
        let (x_start, w_start) = (offset(&x, &[*image, *group]) as i64, offset(&w, &[*group, *filter]) as i64);
        let mut sum = 0f64;
        'taps: for (channel, tap, w_offset) in &taps {
            let mut from = x_start + channel;
            for (dimension, stride) in x_place.iter().enumerate() {
                let of = |numbers: &[i64]| numbers.get(dimension).copied().unwrap_or(0);
                let Convolution { padding, stride: step, dilation } = convolution;
                let at = of(place) * of(step) + of(tap) * of(dilation) - of(padding);
                // Padding: what lies outside is zero.
                if at < 0 || at >= x.dims.get(dimension + 3).copied().unwrap_or(0) {
                    continue 'taps;
                }
                from += at * stride;
            }
            let (x_value, w_value) = (x_values.get(from as usize), w_values.get((w_start + w_offset) as usize));
            sum += f64::from(*x_value.unwrap_or(&0.0)) * f64::from(*w_value.unwrap_or(&0.0));
        }
        sum as f32
    };
    let all: Vec<Vec<i64>> = indices(&y.dims).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let work = |part: &[Vec<i64>]| part.iter().map(|index| element(index)).collect::<Vec<f32>>();
        let parts = all.chunks(all.len().div_ceil(threads).max(1));
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let mut result = y_before.to_vec();
    for (index, sum) in all.iter().zip(sums) {
        if let Some(value) = result.get_mut(offset(&y, index)) {
            // What beta 0 does not read may be anything, also NaN.
            let before = if beta == 0.0 { 0.0 } else { beta * *value };
            *value = alpha * sum + before;
        }
    }
    result
}

/// How far a result is from the reference, as a part of the reference's size; an error where that is too far, or where one
/// element is far away alone.
pub(crate) fn compare(result: &[f32], reference: &[f32], allowed: f64) -> Result<f64, Failure> {
    let (mut difference, mut size, mut largest) = (0f64, 0f64, 0f64);
    for (value, expected) in result.iter().zip(reference) {
        difference += f64::from(value - expected).powi(2);
        size += f64::from(*expected).powi(2);
        largest = largest.max(f64::from(value - expected).abs());
    }
    let error = (difference / size).sqrt();
    let typical = (size / reference.len() as f64).sqrt();
    if largest > typical * allowed * 20.0 {
        return Err(
            format!("the result is wrong: one element is {largest:.1e} away, of {typical:.1e} on average").into()
        );
    }
    // Not `error > allowed`: NaN is wrong too.
    if error <= allowed && result.len() == reference.len() {
        return Ok(error);
    }
    Err(format!("the result is wrong: {error:.1e} of its size away from the CPU's, and {allowed:.0e} is allowed")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(dims: [&[i64]; 3], tensor: fn(i64, DataType, &[i64]) -> Tensor) -> [Tensor; 3] {
        let mut uid = 0;
        dims.map(|dims| {
            uid += 1;
            tensor(uid, DataType::CUDNN_DATA_FLOAT, dims)
        })
    }

    fn convolved(
        convolution: &Convolution,
        tensors: &[Tensor; 3],
        values: [&[f32]; 3],
        factors: (f32, f32),
    ) -> Vec<f32> {
        let [x, w, y] = tensors;
        convolve(convolution, [x, w, y], values, factors)
    }

    #[test]
    fn by_hand_with_and_without_padding_and_steps() {
        let x: Vec<f32> = (1..=9).map(|value| value as f32).collect();
        let (diagonal, before) = ([1.0, 0.0, 0.0, 1.0], [f32::NAN; 4]);
        let tensors = tensors([&[1, 1, 3, 3], &[1, 1, 2, 2], &[1, 1, 2, 2]], Tensor::packed);
        let plain = convolved(&Convolution::padded(0, 2), &tensors, [&x, &diagonal, &before], (1.0, 0.0));
        assert_eq!(plain, [1.0 + 5.0, 2.0 + 6.0, 4.0 + 8.0, 5.0 + 9.0]);
        let stepping = Convolution { stride: vec![2, 2], ..Convolution::padded(1, 2) };
        let stepped = convolved(&stepping, &tensors, [&x, &diagonal, &before], (1.0, 0.0));
        assert_eq!(stepped, [1.0, 3.0, 7.0, 5.0 + 9.0]);
        let dilated = Convolution { dilation: vec![2, 2], ..Convolution::padded(0, 2) };
        let one = tensors_of_one();
        assert_eq!(convolved(&dilated, &one, [&x, &diagonal, &[1.0]], (2.0, 0.5)), [2.0 * (1.0 + 9.0) + 0.5]);
    }

    fn tensors_of_one() -> [Tensor; 3] {
        tensors([&[1, 1, 3, 3], &[1, 1, 2, 2], &[1, 1, 1, 1]], Tensor::packed)
    }

    #[test]
    fn groups_are_the_same_in_both_layouts_and_channels_may_lie_last() {
        let convolution = Convolution::padded(0, 2);
        // Two groups of two channels; each has one filter.
        let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]);
        let expected = [1.0 + 20.0, 300.0 + 4000.0];
        let implied: [&[i64]; 3] = [&[1, 4, 1, 1], &[2, 2, 1, 1], &[1, 2, 1, 1]];
        let written: [&[i64]; 3] = [&[1, 2, 2, 1, 1], &[2, 1, 2, 1, 1], &[1, 2, 1, 1, 1]];
        for dims in [implied, written] {
            assert_eq!(
                convolved(&convolution, &tensors(dims, Tensor::packed), [&x, &w, &[0.0; 2]], (1.0, 0.0)),
                expected
            );
        }
        // Two places of two channels, and a filter that takes their difference.
        let last = tensors([&[1, 2, 1, 2], &[1, 2, 1, 1], &[1, 1, 1, 2]], Tensor::channels_last);
        let differences = convolved(&convolution, &last, [&[5.0, 3.0, 9.0, 1.0], &[1.0, -1.0], &[0.0; 2]], (1.0, 0.0));
        assert_eq!(differences, [2.0, 8.0]);
    }

    #[test]
    fn one_wrong_element_and_one_that_nobody_wrote_are_seen() {
        let right = vec![1.0; 100_000];
        assert!(compare(&right, &right, 1e-3).is_ok());
        for wrong in [f32::NAN, 2.0] {
            let mut result = right.clone();
            *result.last_mut().unwrap_or(&mut 0.0) = wrong;
            assert!(compare(&result, &right, 1e-1).is_err() || wrong == 2.0 && compare(&result, &right, 1e-2).is_err());
        }
    }
}
