//! The same convolution on the CPU, as plainly as it can be written, in single precision.

use half::f16;

/// The shape of a convolution with padding 1, stride 1 and a 3x3 filter: images, channels, filters, height, width.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) n: usize,
    pub(crate) c: usize,
    pub(crate) k: usize,
    pub(crate) h: usize,
    pub(crate) w: usize,
}

/// `input` is [n, h, w, c], `filter` [k, 3, 3, c], the result [n, h, w, k], all with the last index moving fastest.
pub(crate) fn convolve(shape: Shape, input: &[f16], filter: &[f16]) -> Vec<f32> {
    let input: Vec<f32> = input.iter().map(|value| value.to_f32()).collect();
    let filter: Vec<f32> = filter.iter().map(|value| value.to_f32()).collect();
    let Shape { n, k, h, w, .. } = shape;
    let mut output = vec![0f32; n * h * w * k];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows_each = (n * h).div_ceil(threads);
    std::thread::scope(|scope| {
        for (chunk, rows) in output.chunks_mut(rows_each * w * k).enumerate() {
            let (input, filter) = (&input, &filter);
            scope.spawn(move || {
                for (row, out) in rows.chunks_mut(w * k).enumerate() {
                    let row = chunk * rows_each + row;
                    convolve_row(shape, row / h, row % h, input, filter, out);
                }
            });
        }
    });
    output
}

fn convolve_row(shape: Shape, image: usize, y: usize, input: &[f32], filter: &[f32], out: &mut [f32]) {
    let Shape { c, k, h, w, .. } = shape;
    for (x, out) in out.chunks_mut(k).enumerate() {
        for (dy, dx) in (0..3).flat_map(|dy| (0..3).map(move |dx| (dy, dx))) {
            // Padding: what lies outside of the image is zero.
            let (Some(in_y), Some(in_x)) = ((y + dy).checked_sub(1), (x + dx).checked_sub(1)) else { continue };
            if in_y >= h || in_x >= w {
                continue;
            }
            let start = ((image * h + in_y) * w + in_x) * c;
            let pixel = input.get(start..start + c).unwrap_or_default();
            for (index, out) in out.iter_mut().enumerate() {
                let start = ((index * 3 + dy) * 3 + dx) * c;
                let taps = filter.get(start..start + c).unwrap_or_default();
                *out += pixel.iter().zip(taps).map(|(a, b)| a * b).sum::<f32>();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_with_one_tap_in_the_middle_copies_and_a_neighbouring_tap_shifts() {
        let shape = Shape { n: 1, c: 1, k: 2, h: 2, w: 3 };
        let input: Vec<f16> = (1..=6).map(|value| f16::from_f32(value as f32)).collect();
        let mut filter = vec![f16::ZERO; 18];
        filter[4] = f16::ONE;
        filter[9 + 5] = f16::ONE;
        let output = convolve(shape, &input, &filter);
        let of_filter = |index: usize| output.iter().skip(index).step_by(2).copied().collect::<Vec<_>>();
        assert_eq!(of_filter(0), [1., 2., 3., 4., 5., 6.]);
        assert_eq!(of_filter(1), [2., 3., 0., 5., 6., 0.]);
    }
}
