//! Convolutions: forward, and the gradients of the data and of the filter. All three add the same products.

use std::ops::Range;

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::super::tensor::Array;
use super::context::{Context, Operand, Pull, Results, float};

/// The products along a spatial dimension: the positions in the data, the filter and the output.
type Taps = Vec<[usize; 3]>;

/// Products with one element of the filter, and with elements of a line of the data and of the output.
#[derive(Clone)]
struct Run {
    /// The indices of the first product in the data, the filter and the output.
    start: [usize; 3],
    /// The distance of the elements in the data. Those in the output follow each other.
    step: usize,
    len: usize,
}

impl Run {
    /// Divides the taps along the last spatial dimension into runs.
    fn all(taps: &Taps) -> Vec<Run> {
        let mut taps = taps.clone();
        taps.sort_unstable_by_key(|[_, w, y]| (*w, *y));
        let mut runs = Vec::<Run>::new();
        for tap in taps {
            let [x, w, y] = tap;
            match runs.last_mut() {
                // The distance to the second element is the step.
                Some(run) if run.is_before(w, y) && run.len == 1 && run.start[0] < x => {
                    (run.step, run.len) = (x - run.start[0], 2);
                }
                Some(run) if run.is_before(w, y) && run.start[0] + run.len * run.step == x => run.len += 1,
                _ => runs.push(Run { start: tap, step: 1, len: 1 }),
            }
        }
        runs
    }

    /// Returns whether this position in the output follows the run, with the same element of the filter.
    fn is_before(&self, w: usize, y: usize) -> bool {
        self.start[1] == w && self.start[2] + self.len == y
    }

    /// Returns the indices of each product in the data, the filter and the output.
    fn products(&self) -> impl Iterator<Item = [usize; 3]> {
        let ([x, w, y], step) = (self.start, self.step);
        (0..self.len).map(move |at| [x + at * step, w, y + at])
    }

    /// Adds the products of two operands to the target.
    fn add(&self, target: Target, sums: &mut [f64], a: &[f64], b: &[f64]) {
        let ([x, w, y], step, len) = (self.start, self.step, self.len);
        let (data, output) = (x..x + (len - 1) * step + 1, y..y + len);
        match target {
            Target::Data => {
                let (Some(sums), Some(weight), Some(values)) = (sums.get_mut(data), a.get(w), b.get(output)) else {
                    return;
                };
                add_scaled(sums, step, values, 1, *weight);
            }
            Target::Filter => {
                let (Some(sum), Some(data), Some(values)) = (sums.get_mut(w), a.get(data), b.get(output)) else {
                    return;
                };
                *sum += data.iter().step_by(step).zip(values).map(|(data, value)| data * value).sum::<f64>();
            }
            Target::Output => {
                let (Some(sums), Some(data), Some(weight)) = (sums.get_mut(output), a.get(data), b.get(w)) else {
                    return;
                };
                add_scaled(sums, 1, data, step, *weight);
            }
        }
    }
}

/// Adds the values, multiplied by a factor, to the sums. The steps are the distances of the elements to use.
fn add_scaled(sums: &mut [f64], sum_step: usize, values: &[f64], value_step: usize, factor: f64) {
    let add = |(sum, value): (&mut f64, &f64)| *sum += factor * value;
    if (sum_step, value_step) == (1, 1) {
        // Iterators with steps are not vectorized.
        sums.iter_mut().zip(values).for_each(add);
    } else {
        sums.iter_mut().step_by(sum_step).zip(values.iter().step_by(value_step)).for_each(add);
    }
}

/// Maximum number of products to try along a spatial dimension.
const MAX_TAPS: usize = 1 << 24;

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let Convolution { geometry, target, operands, uid, dims, alpha, beta } =
        Convolution::new(context, operation, None)?;
    context.spend(geometry.products())?;
    let [a, b] = operands;
    let (a, b) = (context.input(operation, a)?, context.input(operation, b)?);
    let mut sums = Array::filled(&dims, 0.0);
    geometry.each(|run| run.add(target, &mut sums.values, &a.values, &b.values));
    sums.values.iter_mut().for_each(|sum| *sum *= alpha);
    if beta != 0.0 {
        let former = context.former(uid)?;
        sums.values.iter_mut().zip(&former.values).for_each(|(sum, former)| *sum += beta * former);
    }
    Ok(vec![(uid, sums)])
}

/// Returns the number of multiplications.
pub(super) fn products(context: &Context<'_>, operation: &Node) -> Result<Option<u64>, String> {
    Ok(Convolution::new(context, operation, None)?.geometry.products())
}

/// Returns an element of the output. `pull` returns an element of the tensor of an attribute.
pub(super) fn element(context: &Context<'_>, operation: &Node, index: usize, pull: &Pull<'_>) -> Result<f64, String> {
    let Convolution { geometry, target, operands, uid, alpha, beta, .. } =
        Convolution::new(context, operation, Some(index))?;
    context.spend(geometry.products().and_then(|products| products.checked_add(geometry.tried)))?;
    let [a, b] = operands.map(|name| Operand::new(context, operation, name));
    let mut sum = Ok(0.0);
    geometry.each(|run| {
        for at in run.products() {
            let [_, at_a, at_b] = target.order(at);
            if let Ok(known) = &sum {
                sum = a.get(at_a, pull).and_then(|a| Ok(known + a * b.get(at_b, pull)?));
            }
        }
    });
    let former = if beta == 0.0 { 0.0 } else { context.former(uid)?.get(index) };
    Ok(alpha * sum? + beta * former)
}

/// The tensor that is computed.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Data,
    Filter,
    Output,
}

impl Target {
    /// Returns the value for the target, followed by the values for the two operands.
    fn order<T>(self, [x, w, y]: [T; 3]) -> [T; 3] {
        match self {
            Target::Data => [x, w, y],
            Target::Filter => [w, x, y],
            Target::Output => [y, x, w],
        }
    }
}

/// A convolution or a gradient of a convolution.
struct Convolution {
    geometry: Geometry,
    target: Target,
    operands: [Name; 2],
    /// The id and the extents of the result.
    uid: i64,
    dims: Vec<usize>,
    alpha: f64,
    beta: f64,
}

impl Convolution {
    /// Reads a convolution, or only the products of this element of the result.
    fn new(context: &Context<'_>, operation: &Node, element: Option<usize>) -> Result<Self, String> {
        use Name as N;
        let (target, names) = match operation.kind {
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => (
                Target::Output,
                [
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                ],
            ),
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => (
                Target::Data,
                [
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                ],
            ),
            _ => (
                Target::Filter,
                [
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                    N::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                ],
            ),
        };
        let [x, w, y, parameters, alpha, beta] = names;
        let parameters = context.graph.children(operation, parameters).first().copied().ok_or("no parameters")?;
        let dims = |name| context.output(operation, name).map(|(_, dims)| dims);
        let geometry =
            Geometry::new(parameters, [&dims(x)?, &dims(w)?, &dims(y)?], element.map(|index| (target, index)))?;
        let [result, a, b] = target.order([x, w, y]);
        let (uid, dims) = context.output(operation, result)?;
        let (alpha, beta) = (float(operation, alpha).unwrap_or(1.0), float(operation, beta).unwrap_or(0.0));
        Ok(Convolution { geometry, target, operands: [a, b], uid, dims, alpha, beta })
    }
}

/// The extents of a convolution with three spatial dimensions. Missing ones are the first, and have the extent 1.
struct Geometry {
    /// The number of images, filters, and channels of a filter.
    counts: [usize; 3],
    /// The images, filters, and channels of a filter to add products of.
    ranges: [Range<usize>; 3],
    channels: usize,
    x: [usize; 3],
    w: [usize; 3],
    y: [usize; 3],
    taps: [Taps; 3],
    /// The number of products that were tried to find the taps.
    tried: u64,
}

/// A spatial dimension.
struct Axis {
    x: usize,
    w: usize,
    y: usize,
    pad: i64,
    stride: i64,
    dilation: i64,
    is_flipped: bool,
}

impl Axis {
    /// Returns the taps, or only those at this position of a tensor, and the number of products that were tried.
    fn taps(&self, only: Option<(Target, usize)>) -> Result<(Taps, usize), String> {
        let tried = match only {
            None => self.w.saturating_mul(self.y),
            Some((Target::Filter, _)) => self.y,
            Some(_) => self.w,
        };
        if tried > MAX_TAPS {
            return Err("a convolution that is too large".to_owned());
        }
        let taps = match only {
            None => (0..self.y).flat_map(|y| (0..self.w).filter_map(move |w| self.tap(w, y))).collect(),
            Some((Target::Output, y)) => (0..self.w).filter_map(|w| self.tap(w, y)).collect(),
            Some((Target::Filter, w)) => (0..self.y).filter_map(|y| self.tap(self.turned(w), y)).collect(),
            Some((Target::Data, x)) => (0..self.w).filter_map(|w| self.tap(w, self.output(x, w)?)).collect(),
        };
        Ok((taps, tried))
    }

    fn tap(&self, w: usize, y: usize) -> Option<[usize; 3]> {
        let x = usize::try_from(self.place(w, y)).ok().filter(|x| *x < self.x)?;
        Some([x, self.turned(w), y])
    }

    /// Returns the position in the data, which may be in the padding.
    fn place(&self, w: usize, y: usize) -> i128 {
        i128::from(self.stride) * y as i128 - i128::from(self.pad) + i128::from(self.dilation) * w as i128
    }

    /// Returns the position in the output that reads this position of the data.
    fn output(&self, x: usize, w: usize) -> Option<usize> {
        let y = (x as i128 - self.place(w, 0)).checked_div(i128::from(self.stride))?;
        let y = usize::try_from(y).ok().filter(|y| *y < self.y)?;
        Some(y).filter(|y| self.place(w, *y) == x as i128)
    }

    /// Returns the position in the filter as it is in memory, and vice versa.
    fn turned(&self, w: usize) -> usize {
        if self.is_flipped { self.w.saturating_sub(w + 1) } else { w }
    }
}

impl Geometry {
    fn new(parameters: &Node, [x, w, y]: [&[usize]; 3], only: Option<(Target, usize)>) -> Result<Self, String> {
        let ([n, channels, x @ ..], [filters, depth, w @ ..], [y_n, y_channels, y @ ..]) = (x, w, y) else {
            return Err("a convolution with fewer than two dimensions".to_owned());
        };
        let numbers = |name| parameters.integers(name);
        let [pads, strides, dilations] = [
            Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
            Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
            Name::CUDNN_ATTR_CONVOLUTION_DILATIONS,
        ]
        .map(numbers);
        let is_grouped = *depth > 0 && channels.is_multiple_of(*depth) && filters.is_multiple_of(channels / depth);
        let ranks = [w.len(), y.len(), pads.len(), strides.len(), dilations.len()];
        if x.len() > 3 || ranks.iter().any(|rank| *rank != x.len()) || (n, filters) != (y_n, y_channels) || !is_grouped
        {
            return Err("a convolution in a grouped layout".to_owned());
        }
        // CUDNN_CONVOLUTION
        let is_flipped = parameters.integer(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE) == Some(0);
        let mut geometry = Geometry {
            counts: [*n, *filters, *depth],
            ranges: [0..*n, 0..*filters, 0..*depth],
            channels: *channels,
            x: [1; 3],
            w: [1; 3],
            y: [1; 3],
            taps: [const { Vec::new() }; 3],
            tried: 0,
        };
        geometry.taps.fill(vec![[0; 3]]);
        // The last dimension is the longest line in memory.
        let missing = 3 - x.len();
        for (all, given) in [(&mut geometry.x, x), (&mut geometry.w, w), (&mut geometry.y, y)] {
            all.iter_mut().skip(missing).zip(given).for_each(|(extent, given)| *extent = *given);
        }
        let positions = only.map(|(target, index)| geometry.restrict(target, index).map(|at| Some((target, at))));
        let extents = x.iter().zip(w).zip(y);
        let steps = pads.iter().zip(strides).zip(dilations);
        let taps = geometry.taps.iter_mut().zip(positions.unwrap_or_default()).skip(missing);
        for ((((x, w), y), ((pad, stride), dilation)), (taps, only)) in extents.zip(steps).zip(taps) {
            let (x, w, y, pad, stride, dilation) = (*x, *w, *y, *pad, *stride, *dilation);
            let (found, tried) = Axis { x, w, y, pad, stride, dilation, is_flipped }.taps(only)?;
            *taps = found;
            geometry.tried += tried as u64;
        }
        // With a filter of one element, all positions are one line.
        let positions = geometry.y.iter().product();
        if only.is_none() && geometry.w == [1; 3] && geometry.x == geometry.y && geometry.is_whole() {
            (geometry.x, geometry.y) = ([1, 1, positions], [1, 1, positions]);
            geometry.taps = [vec![[0; 3]], vec![[0; 3]], (0..positions).map(|at| [at, 0, at]).collect()];
        }
        Ok(geometry)
    }

    /// Restricts the images, filters and channels to those of an element. Returns the position in the spatial dimensions.
    fn restrict(&mut self, target: Target, index: usize) -> [usize; 3] {
        let [_, filters, depth] = self.counts;
        let filters_in_group = self.filters_in_group();
        let (second, extents) = match target {
            Target::Data => (self.channels, self.x),
            Target::Filter => (depth, self.w),
            Target::Output => (filters, self.y),
        };
        let mut rest = index;
        let mut digit = |extent: usize| {
            let position = rest % extent.max(1);
            rest /= extent.max(1);
            position
        };
        let mut positions = [0; 3];
        for (position, extent) in positions.iter_mut().zip(extents).rev() {
            *position = digit(extent);
        }
        let second = digit(second);
        let [images, filters, channels] = &mut self.ranges;
        match target {
            Target::Data => {
                let group = second / depth.max(1);
                *images = rest..rest + 1;
                *filters = group * filters_in_group..(group + 1) * filters_in_group;
                *channels = second % depth.max(1)..second % depth.max(1) + 1;
            }
            Target::Filter => (*filters, *channels) = (rest..rest + 1, second..second + 1),
            Target::Output => (*images, *filters) = (rest..rest + 1, second..second + 1),
        }
        positions
    }

    /// Returns whether every position in the output reads the same position in the data.
    fn is_whole(&self) -> bool {
        self.taps.iter().zip(self.y).all(|(taps, y)| taps.len() == y && taps.iter().all(|[x, _, y]| x == y))
    }

    fn filters_in_group(&self) -> usize {
        let [_, filters, depth] = self.counts;
        (filters / (self.channels / depth.max(1)).max(1)).max(1)
    }

    fn products(&self) -> Option<u64> {
        let factors = self.ranges.iter().map(Range::len).chain(self.taps.iter().map(Vec::len));
        factors.into_iter().try_fold(1_u64, |product, factor| product.checked_mul(factor as u64))
    }

    /// Calls a function with each run of products.
    fn each(&self, mut function: impl FnMut(Run)) {
        let Geometry { ranges: [images, filters, depths], channels, x, w, y, taps: [taps_d, taps_h, taps_w], .. } =
            self;
        let [_, all_filters, depth] = self.counts;
        let filters_in_group = self.filters_in_group();
        let line = |base: usize, [_, height, _]: &[usize; 3], d: usize, h: usize| base + d * height + h;
        let runs = Run::all(taps_w);
        for image in images.clone() {
            for filter in filters.clone() {
                for channel in depths.clone() {
                    let x_plane = image * channels + filter / filters_in_group * depth + channel;
                    let (w_plane, y_plane) = (filter * depth + channel, image * all_filters + filter);
                    let base = |plane: usize, [d, h, _]: &[usize; 3]| plane * d * h;
                    for [x_d, w_d, y_d] in taps_d {
                        for [x_h, w_h, y_h] in taps_h {
                            let x_line = line(base(x_plane, x), x, *x_d, *x_h) * x[2];
                            let w_line = line(base(w_plane, w), w, *w_d, *w_h) * w[2];
                            let y_line = line(base(y_plane, y), y, *y_d, *y_h) * y[2];
                            for run in &runs {
                                let [x_w, w_w, y_w] = run.start;
                                function(Run { start: [x_line + x_w, w_line + w_w, y_line + y_w], ..*run });
                            }
                        }
                    }
                }
            }
        }
    }
}
