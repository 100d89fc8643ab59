//! Computes the convolution on the CPU, as simply as possible.

use crate::graph::Convolution;
use crate::tensor::Tensor;

/// Returns alpha * conv(x, w) + beta * y, where `y_before` is the content of y.
///
/// The tensors are in the grouped layout, `[N, G, C, ..]`, `[G, K, C, ..]` and `[N, G, K, ..]`, or in the usual layout
/// without G. In the usual layout, the number of groups follows from the number of channels of the filters.
pub fn convolve(
    convolution: &Convolution,
    tensors: [&Tensor; 3],
    [x_values, w_values, y_before]: [&[f32]; 3],
    (alpha, beta): (f32, f32),
) -> Vec<f32> {
    let problem = Problem::new(convolution, tensors);
    let filters = problem.filters(w_values);
    let pixels = problem.pixels();
    let compute = |pixel: &[i64]| problem.pixel(pixel, x_values, &filters);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let sums: Vec<f32> = std::thread::scope(|scope| {
        let parts = pixels.chunks(pixels.len().div_ceil(threads).max(1));
        let work = |part: &[Vec<i64>]| part.iter().flat_map(|pixel| compute(pixel)).collect::<Vec<f32>>();
        let running: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let mut result = y_before.to_vec();
    for (offset, sum) in pixels.iter().flat_map(|pixel| problem.y_offsets(pixel)).zip(sums) {
        if let Some(value) = result.get_mut(offset) {
            // With beta 0, y is not read and may contain NaN.
            let before = if beta == 0.0 { 0.0 } else { beta * *value };
            *value = alpha * sum + before;
        }
    }
    result
}

/// A convolution in the grouped layout. A pixel is an element of y without the channel index: `[N, G, P, ..]`.
struct Problem<'a> {
    convolution: &'a Convolution,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    taps: Vec<Vec<i64>>,
}

impl<'a> Problem<'a> {
    fn new(convolution: &'a Convolution, tensors: [&Tensor; 3]) -> Self {
        let [x, w, y] = tensors.map(Tensor::clone);
        let is_grouped = x.dims.len() == convolution.padding.len() + 3;
        let groups = extent(&x, 1) / extent(&w, 1).max(1);
        let [x, w, y] =
            if is_grouped { [x, w, y] } else { [x.split(1, groups), w.split(0, groups), y.split(1, groups)] };
        let taps = indices(w.dims.get(3..).unwrap_or_default()).collect();
        Problem { convolution, x, w, y, taps }
    }

    fn channels(&self) -> i64 {
        extent(&self.w, 2)
    }

    /// Returns the filters in the order in which [`pixel`](Problem::pixel) gathers x.
    fn filters(&self, w_values: &[f32]) -> Vec<f32> {
        let filters = indices(self.w.dims.get(..2).unwrap_or_default());
        let values = filters.flat_map(|filter| {
            self.taps.iter().flat_map(move |tap| {
                let first = offset(&self.w, 0, &filter) + offset(&self.w, 3, tap);
                (0..self.channels()).map(move |channel| first + channel * stride(&self.w, 2))
            })
        });
        values.map(|offset| value(w_values, offset)).collect()
    }

    fn pixels(&self) -> Vec<Vec<i64>> {
        let dims = self.y.dims.iter().enumerate();
        let extents: Vec<i64> = dims.filter(|(dimension, _)| *dimension != 2).map(|(_, extent)| *extent).collect();
        indices(&extents).collect()
    }

    /// Returns the elements of y at a pixel, one per filter of the group.
    fn pixel(&self, pixel: &[i64], x_values: &[f32], filters: &[f32]) -> Vec<f32> {
        let [image, group, position @ ..] = pixel else { return Vec::new() };
        let start = offset(&self.x, 0, &[*image, *group]);
        let mut gathered = Vec::new();
        for tap in &self.taps {
            match self.x_offset(position, tap) {
                Some(at) => gathered.extend(
                    (0..self.channels()).map(|channel| value(x_values, start + at + channel * stride(&self.x, 2))),
                ),
                // Elements outside of x are zero.
                None => gathered.extend((0..self.channels()).map(|_| 0.0)),
            }
        }
        let count = extent(&self.w, 1) as usize;
        let group_filters = filters.chunks(gathered.len().max(1)).skip(*group as usize * count).take(count);
        group_filters.map(|filter| dot(&gathered, filter) as f32).collect()
    }

    /// Returns the spatial offset in x of a tap at a position of y, or `None` in the padding.
    fn x_offset(&self, position: &[i64], tap: &[i64]) -> Option<i64> {
        let Convolution { padding, stride: steps, dilation } = self.convolution;
        let parameters = padding.iter().zip(steps).zip(dilation);
        let mut total = 0;
        for (dimension, ((position, tap), ((padding, step), dilation))) in
            position.iter().zip(tap).zip(parameters).enumerate()
        {
            let index = position * step + tap * dilation - padding;
            if index < 0 || index >= extent(&self.x, dimension + 3) {
                return None;
            }
            total += index * stride(&self.x, dimension + 3);
        }
        Some(total)
    }

    fn y_offsets(&self, pixel: &[i64]) -> impl Iterator<Item = usize> + use<> {
        let (start, step) = match pixel {
            [image, group, position @ ..] => {
                (offset(&self.y, 0, &[*image, *group]) + offset(&self.y, 3, position), stride(&self.y, 2))
            }
            _ => (0, 0),
        };
        (0..extent(&self.w, 1)).map(move |filter| (start + filter * step) as usize)
    }
}

/// Returns all indices within these extents, where the last dimension varies fastest.
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

fn extent(tensor: &Tensor, dimension: usize) -> i64 {
    tensor.dims.get(dimension).copied().unwrap_or(1)
}

fn stride(tensor: &Tensor, dimension: usize) -> i64 {
    tensor.strides.get(dimension).copied().unwrap_or(0)
}

/// Returns the offset of an index that starts at a dimension.
fn offset(tensor: &Tensor, dimension: usize, index: &[i64]) -> i64 {
    tensor.strides.iter().skip(dimension).zip(index).map(|(stride, index)| stride * index).sum()
}

fn value(values: &[f32], offset: i64) -> f32 {
    usize::try_from(offset).ok().and_then(|offset| values.get(offset)).copied().unwrap_or(0.0)
}

/// Returns the sum of products in double precision. Uses eight partial sums so that the compiler can vectorize it.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0f64; 8];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use crate::cudnn::cudnnDataType_t as DataType;

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
    fn padding_stride_dilation_alpha_and_beta_match_manual_results() {
        let x: Vec<f32> = (1..=9).map(|value| value as f32).collect();
        let (diagonal, before) = ([1.0, 0.0, 0.0, 1.0], [f32::NAN; 4]);
        let four = tensors([&[1, 1, 3, 3], &[1, 1, 2, 2], &[1, 1, 2, 2]], Tensor::packed);
        let plain = convolved(&Convolution::padded(0, 2), &four, [&x, &diagonal, &before], (1.0, 0.0));
        assert_eq!(plain, [1.0 + 5.0, 2.0 + 6.0, 4.0 + 8.0, 5.0 + 9.0]);
        let strided = Convolution { stride: vec![2, 2], ..Convolution::padded(1, 2) };
        let strided = convolved(&strided, &four, [&x, &diagonal, &before], (1.0, 0.0));
        assert_eq!(strided, [1.0, 3.0, 7.0, 5.0 + 9.0]);
        let dilated = Convolution { dilation: vec![2, 2], ..Convolution::padded(0, 2) };
        let one = tensors([&[1, 1, 3, 3], &[1, 1, 2, 2], &[1, 1, 1, 1]], Tensor::packed);
        assert_eq!(convolved(&dilated, &one, [&x, &diagonal, &[1.0]], (2.0, 0.5)), [2.0 * (1.0 + 9.0) + 0.5]);
    }

    #[test]
    fn groups_have_the_same_result_in_both_layouts_and_channels_may_be_innermost() {
        let convolution = Convolution::padded(0, 2);
        // Two groups of two channels, with one filter per group.
        let (x, w) = ([1.0, 2.0, 3.0, 4.0], [1.0, 10.0, 100.0, 1000.0]);
        let expected = [1.0 + 20.0, 300.0 + 4000.0];
        let implied: [&[i64]; 3] = [&[1, 4, 1, 1], &[2, 2, 1, 1], &[1, 2, 1, 1]];
        let explicit: [&[i64]; 3] = [&[1, 2, 2, 1, 1], &[2, 1, 2, 1, 1], &[1, 2, 1, 1, 1]];
        for dims in [implied, explicit] {
            assert_eq!(
                convolved(&convolution, &tensors(dims, Tensor::packed), [&x, &w, &[0.0; 2]], (1.0, 0.0)),
                expected
            );
        }
        // Two pixels of two channels, and a filter that subtracts one channel from the other.
        let last = tensors([&[1, 2, 1, 2], &[1, 2, 1, 1], &[1, 1, 1, 2]], Tensor::channels_last);
        let differences = convolved(&convolution, &last, [&[5.0, 3.0, 9.0, 1.0], &[1.0, -1.0], &[0.0; 2]], (1.0, 0.0));
        assert_eq!(differences, [2.0, 8.0]);
    }

    #[test]
    fn every_filter_computes_a_separate_channel_of_the_result() {
        let x: Vec<f32> = (1..=6).map(|value| value as f32).collect();
        let mut w = vec![0.0; 18];
        for (index, value) in w.iter_mut().enumerate() {
            // A single tap in the middle copies x. In the second filter, the tap to its right shifts x to the left.
            *value = if index == 4 || index == 9 + 5 { 1.0 } else { 0.0 };
        }
        let tensors = tensors([&[1, 1, 2, 3], &[2, 1, 3, 3], &[1, 2, 2, 3]], Tensor::packed);
        let result = convolved(&Convolution::padded(1, 2), &tensors, [&x, &w, &[0.0; 12]], (1.0, 0.0));
        assert_eq!(result, [1., 2., 3., 4., 5., 6., 2., 3., 0., 5., 6., 0.]);
    }

    #[test]
    fn many_channels_are_summed_completely() {
        let tensors = tensors([&[1, 19, 1, 1], &[1, 19, 1, 1], &[1, 1, 1, 1]], Tensor::channels_last);
        let x: Vec<f32> = (1..=19).map(|value| value as f32).collect();
        assert_eq!(convolved(&Convolution::padded(0, 2), &tensors, [&x, &[1.0; 19], &[0.0]], (1.0, 0.0)), [190.0]);
    }
}
