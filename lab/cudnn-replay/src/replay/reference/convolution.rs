//! Computes convolutions and their gradients for data and filters, which are sums of the same products.

use std::collections::BTreeMap;
use std::ops::Range;

use cudnn_graph::operation::convolution_attributes;
use cudnn_graph::{Node, names};
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};
use rayon::prelude::*;

use super::super::tensor::Array;
use super::context::{Context, Operand, Pull, Results};
use super::contraction::{Offsets, Panels, Row, Sums, Terms, offsets};

/// The products along a spatial dimension: the positions in the data, the filter and the output.
type Taps = Vec<[usize; 3]>;

/// Maximum number of products to try along a spatial dimension.
const MAX_TAPS: usize = 1 << 24;

pub(super) fn evaluate(context: &Context<'_>, operation: &Node) -> Results {
    let Convolution { geometry, target, operands, uid, dims, alpha, beta } =
        Convolution::new(context, operation, None)?;
    context.spend(geometry.products())?;
    let [a, b] = operands;
    let (a, b) = (context.input(operation, a)?, context.input(operation, b)?);
    let mut sums = Array { values: geometry.sums(target, &a.values, &b.values), dims };
    sums.values.iter_mut().for_each(|sum| *sum *= alpha);
    if beta != 0.0 {
        let former = context.former(uid)?;
        sums.values.iter_mut().zip(&former.values).for_each(|(sum, former)| *sum += beta * former);
    }
    Ok(vec![(uid, sums)])
}

pub(super) fn products(context: &Context<'_>, operation: &Node) -> Result<Option<u64>, String> {
    Ok(Convolution::new(context, operation, None)?.geometry.products())
}

pub(super) fn element(context: &Context<'_>, operation: &Node, index: usize, pull: &Pull<'_>) -> Result<f64, String> {
    let Convolution { geometry, target, operands, uid, alpha, beta, .. } =
        Convolution::new(context, operation, Some(index))?;
    context.spend(geometry.products().and_then(|products| products.checked_add(geometry.tried)))?;
    let [a, b] = operands.map(|name| Operand::new(context, operation, name));
    let mut sum = Ok(0.0);
    geometry.each(|at| {
        let [_, at_a, at_b] = target.order(at);
        if let Ok(known) = &sum {
            sum = a.get(at_a, pull).and_then(|a| Ok(known + a * b.get(at_b, pull)?));
        }
    });
    let former = if beta == 0.0 { 0.0 } else { context.former(uid)?.get(index) };
    Ok(alpha * sum? + beta * former)
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Data,
    Filter,
    Output,
}

impl Target {
    /// Returns the target's value, followed by the values for the operands: the rows and the panels of the sums.
    fn order<T>(self, [x, w, y]: [T; 3]) -> [T; 3] {
        match self {
            Target::Data => [x, y, w],
            Target::Filter => [w, x, y],
            Target::Output => [y, x, w],
        }
    }
}

struct Convolution {
    geometry: Geometry,
    target: Target,
    operands: [Name; 2],
    uid: i64,
    dims: Vec<usize>,
    alpha: f64,
    beta: f64,
}

impl Convolution {
    /// Reads a convolution. If an element is given, includes only the products for it.
    fn new(context: &Context<'_>, operation: &Node, element: Option<usize>) -> Result<Self, String> {
        let target = match operation.kind {
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR => Target::Output,
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR => Target::Data,
            _ => Target::Filter,
        };
        let [x, w, y, parameters] = convolution_attributes(operation.kind).ok_or("no convolution")?;
        let parameters = context.graph.children(operation, parameters).first().copied().ok_or("no parameters")?;
        let dims = |name| context.output(operation, name).map(|(_, dims)| dims);
        let geometry =
            Geometry::new(parameters, [&dims(x)?, &dims(w)?, &dims(y)?], element.map(|index| (target, index)))?;
        let [result, a, b] = target.order([x, w, y]);
        let (uid, dims) = context.output(operation, result)?;
        let factor = |suffix| {
            let mut names = operation.attributes.iter().map(|attribute| attribute.name);
            operation.float(names.find(|name| names::attribute(*name).ends_with(suffix))?)
        };
        let (alpha, beta) = (factor("_ALPHA").unwrap_or(1.0), factor("_BETA").unwrap_or(0.0));
        Ok(Convolution { geometry, target, operands: [a, b], uid, dims, alpha, beta })
    }
}

/// The extents of a convolution with three spatial dimensions. Missing dimensions come first, with the extent 1.
struct Geometry {
    counts: [usize; 3],
    /// The images, filters and channels of a filter to include.
    ranges: [Range<usize>; 3],
    channels: usize,
    x: [usize; 3],
    w: [usize; 3],
    y: [usize; 3],
    taps: [Taps; 3],
    /// The number of products that were tried to find the taps.
    tried: u64,
}

struct SpatialAxis {
    x: usize,
    w: usize,
    y: usize,
    pad: i64,
    stride: i64,
    dilation: i64,
    is_flipped: bool,
}

impl SpatialAxis {
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

    fn output(&self, x: usize, w: usize) -> Option<usize> {
        let y = (x as i128 - self.place(w, 0)).checked_div(i128::from(self.stride))?;
        let y = usize::try_from(y).ok().filter(|y| *y < self.y)?;
        Some(y).filter(|y| self.place(w, *y) == x as i128)
    }

    /// Returns the position in the filter in memory, and vice versa.
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
            let (found, tried) = SpatialAxis { x, w, y, pad, stride, dilation, is_flipped }.taps(only)?;
            *taps = found;
            geometry.tried += tried as u64;
        }
        Ok(geometry)
    }

    /// Restricts the images, filters and channels to one element. Returns the position in the spatial dimensions.
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

    fn filters_in_group(&self) -> usize {
        let [_, filters, depth] = self.counts;
        (filters / (self.channels / depth.max(1)).max(1)).max(1)
    }

    fn products(&self) -> Option<u64> {
        let factors = self.ranges.iter().map(Range::len).chain(self.taps.iter().map(Vec::len));
        factors.into_iter().try_fold(1_u64, |product, factor| product.checked_mul(factor as u64))
    }

    /// Calls a function with the indices of each product in the data, the filter and the output.
    fn each(&self, mut function: impl FnMut([usize; 3])) {
        let [images, filters, depths] = &self.ranges;
        let [_, all_filters, depth] = self.counts;
        let filters_in_group = self.filters_in_group();
        let [taps_d, taps_h, taps_w] = &self.taps;
        for image in images.clone() {
            for filter in filters.clone() {
                for channel in depths.clone() {
                    let x_plane = image * self.channels + filter / filters_in_group * depth + channel;
                    let (w_plane, y_plane) = (filter * depth + channel, image * all_filters + filter);
                    for [x_d, w_d, y_d] in taps_d {
                        for [x_h, w_h, y_h] in taps_h {
                            for [x_w, w_w, y_w] in taps_w {
                                function([
                                    index(x_plane, self.x, [*x_d, *x_h, *x_w]),
                                    index(w_plane, self.w, [*w_d, *w_h, *w_w]),
                                    index(y_plane, self.y, [*y_d, *y_h, *y_w]),
                                ]);
                            }
                        }
                    }
                }
            }
        }
    }

    fn sums(&self, target: Target, a: &[f64], b: &[f64]) -> Vec<f64> {
        let [images, filters, depth] = self.counts;
        let [x, w, y] = [self.x, self.w, self.y].map(|extents| extents.iter().product::<usize>());
        let filters_in_group = self.filters_in_group();
        let (planes, count) = match target {
            Target::Data => (images, images * self.channels * x),
            Target::Filter => (depth, filters * depth * w),
            Target::Output => (images, images * filters * y),
        };
        let sums = Sums::new(count);
        let classes = self.classes(target);
        (0..self.channels / depth.max(1)).into_par_iter().for_each(|group| {
            let (filter, channel) = (group * filters_in_group, group * depth);
            let weight = |filter, channel, at| (filter * depth + channel) * w + at;
            // Filters are the lanes, because there are many. For the data's gradient, the lanes are its channels.
            let (panels, outer, stride) = match target {
                Target::Data => {
                    let value = |term, lane| value(b, weight(filter + term / w, lane, term % w));
                    (Panels::new(filters_in_group * w, depth, value), offsets(filters_in_group, y, w), x)
                }
                Target::Filter => {
                    let value = |term, lane| value(b, (term / y * filters + filter + lane) * y + term % y);
                    (Panels::new(images * y, filters_in_group, value), offsets(images, self.channels * x, y), depth * w)
                }
                Target::Output => {
                    let value = |term, lane| value(b, weight(filter + lane, 0, term));
                    (Panels::new(depth * w, filters_in_group, value), offsets(depth, x, w), y)
                }
            };
            classes.par_iter().for_each(|Class { starts, inner }| {
                let row = |plane: usize, first: &Row| {
                    let (start, sum) = match target {
                        Target::Data => ((plane * filters + filter) * y, (plane * self.channels + channel) * x),
                        Target::Filter => ((channel + plane) * x, (filter * depth + plane) * w),
                        Target::Output => ((plane * self.channels + channel) * x, (plane * filters + filter) * y),
                    };
                    Row { start: start.wrapping_add(first.start), sum: sum + first.sum }
                };
                let rows: Vec<Row> =
                    (0..planes).flat_map(|plane| starts.iter().map(move |first| row(plane, first))).collect();
                sums.add(a, &rows, Terms { outer: &outer, inner }, &panels, stride);
            });
        });
        sums.into_values()
    }

    /// Divides the positions in a plane of the target into classes.
    fn classes(&self, target: Target) -> Vec<Class> {
        let mut classes = vec![Class { starts: vec![Row { start: 0, sum: 0 }], inner: offsets(1, 0, 0) }];
        for (taps, extents) in self.taps.iter().zip(transposed([self.x, self.w, self.y])) {
            let along = Class::all(target, taps);
            let [sum_extent, row_extent, panel_extent] = target.order(extents);
            let extended = |class: &Class, along: &Class| {
                let start = |outer: &Row, inner: &Row| Row {
                    start: outer.start.wrapping_mul(row_extent).wrapping_add(inner.start),
                    sum: outer.sum * sum_extent + inner.sum,
                };
                let offset = |outer: &Offsets, inner: &Offsets| Offsets {
                    row: outer.row.wrapping_mul(row_extent).wrapping_add(inner.row),
                    panel: outer.panel * panel_extent + inner.panel,
                };
                Class {
                    starts: pairs(&class.starts, &along.starts, start),
                    inner: pairs(&class.inner, &along.inner, offset),
                }
            };
            classes = pairs(&classes, &along, extended);
        }
        classes
    }
}

/// Positions of the target with products at the same distances in the operands.
struct Class {
    /// The first products in a plane of the rows, and the sums in a plane of the target.
    starts: Vec<Row>,
    inner: Vec<Offsets>,
}

impl Class {
    fn all(target: Target, taps: &Taps) -> Vec<Class> {
        let mut products = BTreeMap::<usize, Vec<[usize; 2]>>::new();
        for tap in taps {
            let [sum, row, panel] = target.order(*tap);
            products.entry(sum).or_default().push([row, panel]);
        }
        let mut classes = BTreeMap::<Vec<[usize; 2]>, Vec<Row>>::new();
        for (sum, mut products) in products {
            let first = products.first().map_or(0, |[row, _]| *row);
            products.iter_mut().for_each(|[row, _]| *row = row.wrapping_sub(first));
            classes.entry(products).or_default().push(Row { start: first, sum });
        }
        let class = |(products, starts): (Vec<[usize; 2]>, _)| {
            let inner = products.into_iter().map(|[row, panel]| Offsets { row, panel }).collect();
            Class { starts, inner }
        };
        classes.into_iter().map(class).collect()
    }
}

/// Returns a function of all pairs. The inner elements vary fastest.
fn pairs<A, B, C>(outer: &[A], inner: &[B], function: impl Fn(&A, &B) -> C) -> Vec<C> {
    let function = &function;
    outer.iter().flat_map(|outer| inner.iter().map(move |inner| function(outer, inner))).collect()
}

fn value(values: &[f64], index: usize) -> f64 {
    values.get(index).copied().unwrap_or(f64::NAN)
}

fn index(plane: usize, [depth, height, width]: [usize; 3], [d, h, w]: [usize; 3]) -> usize {
    ((plane * depth + d) * height + h) * width + w
}

fn transposed([a, b, c]: [[usize; 3]; 3]) -> [[usize; 3]; 3] {
    let ([a0, a1, a2], [b0, b1, b2], [c0, c1, c2]) = (a, b, c);
    [[a0, b0, c0], [a1, b1, c1], [a2, b2, c2]]
}
